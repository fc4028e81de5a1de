"""Expressions of kernels written in Python, as loop IR.

Input: an expression's syntax tree and what names stand for. Output: a Python value where it is
known while compiling (sizes, numbers, functions, arrays), else an expression.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from lamella.dtypes import DType, bool_, float32, int64, promote, promote_scalar
from lamella.errors import OptionError
from lamella.ir import index as ix
from lamella.ir.dim import Dim, Shape, Size
from lamella.ir.loops import Apply, Const, Expr, Read, Stmt, Var, cast
from lamella.transforms import kernel_language as words

__all__ = ["BINARY", "Array", "Expressions", "Memory", "Scratch", "Variable", "natural"]

BINARY: Final[dict[type[ast.operator], tuple[str, Callable[..., Any]]]] = {
    ast.Add: ("add", operator.add), ast.Sub: ("sub", operator.sub),
    ast.Mult: ("mul", operator.mul), ast.Div: ("div", operator.truediv),
    ast.FloorDiv: ("floordiv", operator.floordiv), ast.Mod: ("mod", operator.mod),
    ast.Pow: ("pow", operator.pow), ast.BitAnd: ("and", operator.and_),
    ast.BitOr: ("or", operator.or_), ast.BitXor: ("xor", operator.xor),
    ast.LShift: ("shl", operator.lshift), ast.RShift: ("shr", operator.rshift),
}  # fmt: skip
_COMPARE: Final[dict[type[ast.cmpop], tuple[str, bool, Callable[..., Any]]]] = {
    ast.Lt: ("lt", False, operator.lt), ast.LtE: ("le", False, operator.le),
    ast.Gt: ("lt", True, operator.gt), ast.GtE: ("le", True, operator.ge),
    ast.Eq: ("eq", False, operator.eq), ast.NotEq: ("ne", False, operator.ne),
}  # fmt: skip
_UNARY: Final = frozenset({
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "sqrt", "rsqrt",
    "floor", "ceil", "trunc", "round", "abs", "sign", "isnan", "isinf", "isfinite",
})  # fmt: skip
_RESULT_BOOL: Final = frozenset({"isnan", "isinf", "isfinite"})
_EXACT: Final = frozenset({"abs", "sign"})  # defined for integers as well
_NAMES: Final = {"maximum": "max", "minimum": "min", "fabs": "abs", "arctan2": "atan2"}


class Memory(Protocol):
    """How the arrays of a kernel are read and written."""

    def load(self, array: Array, index: tuple[Expr, ...]) -> Expr:
        """One element."""

    def store(self, array: Array, index: tuple[Expr, ...], value: Expr) -> Stmt:
        """Write one element."""

    def atomic(self, array: Array, index: tuple[Expr, ...], op: str, value: Expr) -> Stmt:
        """Change one element in one step."""

    def name(self, name: str) -> str:
        """A name nothing else has."""

    def var(self, name: str, extent: Size | Expr) -> Var:
        """A new loop variable."""


@dataclass(frozen=True)
class Array:
    """A parameter or scratch memory; ``number`` counts parameters, results after inputs."""

    name: str
    shape: Shape
    dtype: DType
    number: int = -1
    written: bool = True

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)


@dataclass(frozen=True)
class Variable:
    """A name that is assigned more than once."""

    name: str
    dtype: DType


def _is_constant(value: object) -> bool:
    return isinstance(value, (bool, int, float, Dim))


class Expressions:
    """Translates expressions; ``names`` gives globals, closure, parameters and local names."""

    memory: Memory

    def __init__(self, names: Mapping[str, Any], where: str) -> None:
        self.names = dict(names)
        self.where = where

    def fail(self, node: ast.AST, why: str) -> OptionError:
        """The error that refuses the kernel, naming the line."""
        line = getattr(node, "lineno", 1)
        return OptionError(f"[kernel] {self.where}, line {line}: {why}")

    # -- expressions -------------------------------------------------------------------------------
    def value(self, node: ast.expr) -> Any:
        """A constant, array, function or expression."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.Attribute):
            return getattr(self.value(node.value), node.attr)
        if isinstance(node, ast.Tuple):
            return tuple(self.value(e) for e in node.elts)
        if isinstance(node, ast.Subscript):
            return self._subscript(node)
        if isinstance(node, ast.BinOp) and type(node.op) in BINARY:
            op, plain = BINARY[type(node.op)]
            return self.binary(node, op, plain, self.value(node.left), self.value(node.right))
        if isinstance(node, ast.UnaryOp):
            return self._unary(node)
        if isinstance(node, ast.Compare):
            return self._compare(node)
        if isinstance(node, ast.BoolOp):
            return self._logic(node)
        if isinstance(node, ast.IfExp):
            parts = (self.value(e) for e in (node.test, node.body, node.orelse))
            return self._select(node, *parts)
        if isinstance(node, ast.Call):
            return self._call(node)
        raise self.fail(node, f"{type(node).__name__} has no meaning in a kernel")

    def _name(self, node: ast.Name) -> Any:
        if node.id not in self.names:
            raise self.fail(node, f"{node.id!r} is not defined")
        found = self.names[node.id]
        return Read(found.name, found.dtype) if isinstance(found, Variable) else found

    def _subscript(self, node: ast.Subscript) -> Any:
        array = self.value(node.value)
        if isinstance(array, Array):
            return self.memory.load(array, self.index(array, node, node.slice))
        try:
            return array[self.value(node.slice)]
        except (IndexError, KeyError, TypeError) as error:
            raise self.fail(node, f"{ast.unparse(node)}: {error}") from error

    def index(self, array: Array, node: ast.AST, subscript: ast.expr) -> tuple[Expr, ...]:
        """The index of an element, checked where it may lie outside."""
        given = self.value(subscript)
        given = given if isinstance(given, tuple) else (given,)
        if len(given) != array.ndim:
            raise self.fail(node, f"{len(given)} indices for an array of {array.ndim} axes")
        found = []
        for value, size in zip(given, array.shape, strict=True):
            position = self.typed(value, int64)
            inside = ix._within(position, size)
            found.append(
                position if inside
                else Apply("checked_index", (position, ix.constant(size)), int64)
            )  # fmt: skip
        return tuple(found)

    def binary(
        self, node: ast.AST, op: str, plain: Callable[..., Any], a: Any, b: Any
    ) -> Any:
        """Arithmetic of two values."""
        if _is_constant(a) and _is_constant(b):
            return plain(a, b)
        a, b = self.together(node, a, b)
        if op == "div" and a.dtype.kind != "f":
            a, b = cast(a, float32), cast(b, float32)
        if a.dtype is int64:
            if op in ("add", "sub"):
                return ix.add(a, b) if op == "add" else ix.sub(a, b)
            if op == "mul" and (_constant_part(a) or _constant_part(b)):
                return ix.mul(a, b)
            size = _constant_part(b)
            if op in ("floordiv", "mod") and isinstance(size, int) and size > 0:
                return ix.floordiv(a, size) if op == "floordiv" else ix.mod(a, size)
        return Apply(op, (a, b), a.dtype)

    def together(self, node: ast.AST, a: Any, b: Any) -> tuple[Expr, Expr]:
        """Two values as expressions of one dtype; Python numbers take that of the other."""
        if not isinstance(a, Expr) and not isinstance(b, Expr):
            raise self.fail(node, "numbers or elements of arrays are wanted here")
        if not isinstance(a, Expr):
            dtype = promote_scalar(b.dtype, a) if _is_number(a) else b.dtype
        elif not isinstance(b, Expr):
            dtype = promote_scalar(a.dtype, b) if _is_number(b) else a.dtype
        else:
            dtype = promote(a.dtype, b.dtype)
        return self.typed(a, dtype), self.typed(b, dtype)

    def typed(self, value: Any, dtype: DType) -> Expr:
        """A value as an expression of ``dtype``."""
        if isinstance(value, Expr):
            return cast(value, dtype)
        if isinstance(value, Dim):
            return cast(ix.constant(value), dtype)
        if not _is_number(value):
            raise OptionError(f"[kernel] {self.where}: {value!r} is no number")
        kind = float if dtype.kind == "f" else bool if dtype is bool_ else int
        return Const(kind(value), dtype)

    def _unary(self, node: ast.UnaryOp) -> Any:
        value = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            known = not isinstance(value, Expr)
            return not value if known else Apply("not", (self.typed(value, bool_),), bool_)
        if isinstance(node.op, ast.UAdd):
            return value
        if not isinstance(value, Expr):
            return -value if isinstance(node.op, ast.USub) else ~value
        if isinstance(node.op, ast.Invert):
            return Apply("not", (value,), value.dtype)
        return ix.mul(value, -1) if value.dtype is int64 else Apply("neg", (value,), value.dtype)

    def _compare(self, node: ast.Compare) -> Any:
        values = [self.value(e) for e in (node.left, *node.comparators)]
        parts = []
        for op, a, b in zip(node.ops, values, values[1:], strict=False):
            if type(op) not in _COMPARE:
                raise self.fail(node, f"{type(op).__name__} has no meaning in a kernel")
            name, swapped, plain = _COMPARE[type(op)]
            if _is_constant(a) and _is_constant(b):
                parts.append(plain(a, b))
                continue
            a, b = self.together(node, a, b)
            parts.append(Apply(name, (b, a) if swapped else (a, b), bool_))
        return self._all(parts, "and")

    def _logic(self, node: ast.BoolOp) -> Any:
        op = "and" if isinstance(node.op, ast.And) else "or"
        return self._all([self.value(e) for e in node.values], op)

    def _all(self, parts: Sequence[Any], op: str) -> Any:
        total = parts[0]
        for part in parts[1:]:
            if not isinstance(total, Expr) and not isinstance(part, Expr):
                total = (total and part) if op == "and" else (total or part)
            else:
                total = Apply(op, (self.typed(total, bool_), self.typed(part, bool_)), bool_)
        return total

    def _select(self, node: ast.AST, test: Any, a: Any, b: Any) -> Any:
        if not isinstance(test, Expr):
            return a if test else b
        if not isinstance(a, Expr) and not isinstance(b, Expr):
            a = self.typed(a, promote_scalar(natural(a), b))
        a, b = self.together(node, a, b)
        return Apply("select", (self.typed(test, bool_), a, b), a.dtype)

    def arguments(self, node: ast.Call) -> list[Any]:
        """The values of a call's arguments."""
        found: list[Any] = []
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                found.extend(self.value(argument.value))
            else:
                found.append(self.value(argument))
        return found

    # -- calls -------------------------------------------------------------------------------------
    def _call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "astype":
            return self.typed(self.value(node.func.value), self.value(node.args[0]))
        function = self.value(node.func)
        args = self.arguments(node)
        if node.keywords:
            raise self.fail(node, "functions in kernels take no keywords")
        if isinstance(function, DType):
            return self.typed(args[0], function)
        if function in words.SPACES:
            return self._scratch(node, words.SPACES[function], args)
        if function is words.where:
            return self._select(node, *args)
        if function is len:
            return args[0].shape[0] if isinstance(args[0], Array) else len(args[0])
        name = getattr(function, "__name__", str(function))
        return self._function(node, function, _NAMES.get(name, name), args)

    def _scratch(self, node: ast.Call, space: str, args: Sequence[Any]) -> Scratch:
        if len(args) != 2 or not isinstance(args[0], int) or not isinstance(args[1], DType):
            raise self.fail(node, "scratch memory has a constant size and a dtype")
        return Scratch(space, args[0], args[1])

    def _function(
        self, node: ast.Call, function: Callable[..., Any], name: str, args: Sequence[Any]
    ) -> Any:
        if not any(isinstance(a, Expr) for a in args):
            return function(*args)
        if name in _UNARY and len(args) == 1:
            value = args[0]
            if name not in _EXACT and value.dtype.kind != "f":
                value = cast(value, float32)
            return Apply(name, (value,), bool_ if name in _RESULT_BOOL else value.dtype)
        if name in ("max", "min", "pow", "atan2") and len(args) == 2:
            return Apply(name, self.together(node, *args), self.together(node, *args)[0].dtype)
        if name == "fma" and len(args) == 3:
            a, b = self.together(node, args[0], args[1])
            return Apply("fma", (a, b, self.typed(args[2], a.dtype)), a.dtype)
        if name in ("int", "float", "bool"):
            return self.typed(args[0], {"int": int64, "float": float32, "bool": bool_}[name])
        raise self.fail(node, f"{name} has no meaning in a kernel")


@dataclass(frozen=True)
class Scratch:
    """Scratch memory that is about to get a name."""

    space: str
    size: int
    dtype: DType


def _is_number(value: object) -> bool:
    return isinstance(value, (bool, int, float))


def natural(value: Any) -> DType:
    """The dtype of a variable that starts with ``value``."""
    if isinstance(value, Expr):
        return value.dtype
    return bool_ if isinstance(value, bool) else int64 if isinstance(value, (int, Dim)) else float32


def _constant_part(value: Expr) -> Size | None:
    const, terms = ix.parts(value)
    return None if terms else const
