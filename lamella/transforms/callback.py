"""People's Python functions inside programs: callbacks, printing, and checks that raise.

Input: a function, what it returns (shapes and types), and tensors. Output: its results as tensors.
Everything works the same in plain code, under ``jit``, ``grad`` and ``vmap``, in loops, branches
and checkpointed functions; an exception of the function reaches whoever runs the program, whose
state then stays as it was.
"""
from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lamella import tree
from lamella.dtypes import DType, as_dtype, bool_, uint8
from lamella.errors import CheckError, DTypeError, OptionError, ShapeError
from lamella.ir.dim import Dim
from lamella.ir.node import Node
from lamella.ops.base import Array
from lamella.ops.callback import IoCallback, PureCallback, callback
from lamella.ops.calls import Result
from lamella.ops.site import user_site
from lamella.tensor.core import TensorCore, wrap
from lamella.tensor.gradient import detached_node
from lamella.tensor.operands import TensorLike, as_node, cast
from lamella.tensor.pending import perform

__all__ = ["ShapeDtypeStruct", "check", "debug_print", "io_callback", "pure_callback"]

_DONE: Result = ((), uint8)  # the first result of every effect


@dataclass(frozen=True, slots=True)
class ShapeDtypeStruct:
    """The shape and element type of an array that does not exist yet.

    >>> import lamella as lm
    >>> ShapeDtypeStruct((2, 3), "float32").dtype
    lamella.float32
    """

    shape: tuple[int, ...]
    dtype: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))
        object.__setattr__(self, "dtype", as_dtype(self.dtype))


class Signature:
    """What goes into a function and comes out of it, as trees."""

    def __init__(self, name: str, args: tuple[Any, ...], results: Any) -> None:
        self._name = name
        leaves, self._given = tree.flatten(args)
        self._places = [i for i, leaf in enumerate(leaves) if _is_value(leaf)]
        self._others = leaves
        self.nodes = [as_node(leaves[i]) for i in self._places]
        for i in self._places:
            self._others[i] = None
        promised, self.structure = tree.flatten(results)
        self.results = [_promised(name, leaf) for leaf in promised]

    def host(self, function: Callable[..., Any]) -> Callable[[Sequence[Array]], list[Any]]:
        """``function`` from arrays to the leaves of its result."""
        if not callable(function):
            raise OptionError(f"[{self._name}] {function!r:.40} is no function; give one")

        def run(arrays: Sequence[Array]) -> list[Any]:
            leaves = list(self._others)
            for place, array in zip(self._places, arrays, strict=True):
                leaves[place] = array
            found, structure = tree.flatten(function(*tree.unflatten(self._given, leaves)))
            if structure != self.structure:
                raise OptionError(
                    f"[{self._name}] the function returned {structure}, but {self.structure} was "
                    "promised; return that, or correct result_shape_dtypes"
                )
            return [leaf.numpy() if isinstance(leaf, TensorCore) else leaf for leaf in found]  # type: ignore[attr-defined]

        return run

    def wrapped(self, nodes: Sequence[Node]) -> Any:
        """The results as tensors."""
        return tree.unflatten(self.structure, [wrap(node) for node in nodes])


def _is_value(leaf: object) -> bool:
    return isinstance(leaf, (TensorCore, np.ndarray, np.generic))


def _promised(name: str, leaf: Any) -> Result:
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if shape is None or dtype is None:
        raise OptionError(
            f"[{name}] result_shape_dtypes holds a {type(leaf).__name__}, which has no shape and "
            "element type; give tensors, arrays or lm.ShapeDtypeStruct(shape, dtype)"
        )
    if not all(isinstance(size, Dim) or (isinstance(size, int) and size >= 0) for size in shape):
        raise ShapeError(f"[{name}] a result of shape {shape}; sizes are whole numbers >= 0")
    return tuple(shape), dtype if isinstance(dtype, DType) else as_dtype(dtype)


def pure_callback(
    f: Callable[..., Any], result_shape_dtypes: Any, *args: Any, vectorized: bool = False
) -> Any:
    """``f(*args)``, a Python function of NumPy arrays, as a step of the program.

    Args:
        f: takes ``args`` with NumPy arrays in place of tensors, returns arrays. It must depend on
            nothing else and change nothing: it may run any number of times, or never.
        result_shape_dtypes: what it returns: a tree of tensors, arrays or
            :class:`ShapeDtypeStruct`, of which only shape and element type matter.
        args: trees of tensors and other values; what is no tensor or array is passed as it is.
        vectorized: ``f`` takes many examples at once, along leading axes (of size 1 where all
            examples share an argument); otherwise ``vmap`` calls it for each example.

    Raises:
        OptionError, ShapeError, DTypeError: when the value is computed, for a result that is not
            as promised; and whatever ``f`` raises.
        GradientError: when a derivative by ``args`` is asked for.

    >>> import lamella as lm
    >>> x = lm.asarray([1.0, 2.0])
    >>> lm.jit(lambda x: pure_callback(np.cumsum, x, x) + 1)(x).tolist()
    [2.0, 4.0]
    """
    signature = Signature("pure_callback", args, result_shape_dtypes)
    host, results = signature.host(f), signature.results
    return signature.wrapped(callback(PureCallback, host, results, signature.nodes, vectorized))


def io_callback(
    f: Callable[..., Any], result_shape_dtypes: Any, *args: Any, ordered: bool = True
) -> Any:
    """``f(*args)``, as :func:`pure_callback`, of a function with effects: it runs exactly once.

    In plain code it runs at once; in a compiled program whenever the program runs, even if nothing
    uses its result, after the effects recorded before it (``ordered=False`` allows any order;
    at present it is kept as well). In the body of a loop it runs at each step, in a branch if that
    is taken. Under ``vmap`` it runs for each example in turn if an argument differs between
    examples, else once; and for those examples alone that take a branch or have not ended a loop.
    Differentiation does not repeat it, neither does ``checkpoint``: what it returned is kept.

    >>> seen = []
    >>> import lamella as lm
    >>> lm.jit(lambda x: io_callback(lambda a: seen.append(float(a)), None, x.sum()))(lm.ones(3))
    >>> seen
    [3.0]
    """
    signature = Signature("io_callback", args, result_shape_dtypes)
    return signature.wrapped(_effect(f, signature.host(f), signature.results, signature.nodes))


def _effect(
    function: Callable[..., Any], host: Callable[[Sequence[Array]], Sequence[Any]],
    results: Sequence[Result], nodes: Sequence[Node],
) -> Sequence[Node]:  # fmt: skip
    """Record a call that runs exactly once."""
    done, *found = callback(
        IoCallback, lambda arrays: [0, *host(arrays)], [_DONE, *results], nodes
    )
    perform(done, function)
    return found


def debug_print(text: str, *args: Any, **options: Any) -> None:
    """Print ``text.format(*args, **options)`` with the values of tensors, whenever they are
    computed.

    It is an effect, as :func:`io_callback`: under ``vmap`` it prints for each example, under
    ``grad`` once, in a branch if that is taken.

    Raises:
        OptionError: for a ``text`` that names an argument which was not given.

    >>> import lamella as lm
    >>> lm.jit(lambda x: debug_print("x is {x}", x=x))(lm.asarray([1, 2]))
    x is [1 2]
    """
    _check_fields("debug_print", text, len(args), options)

    def show(values: tuple[Any, ...], named: dict[str, Any]) -> None:
        print(text.format(*values, **named))  # noqa: T201 - its purpose

    _formatted(show, args, options)


def _formatted(show: Callable[..., None], args: Any, options: Any, *first: TensorLike) -> None:
    signature = Signature("debug_print", (*first, args, options), None)
    host = signature.host(lambda *given: show(*map(_scalars, given)))
    _effect(show, host, (), [detached_node(node) for node in signature.nodes])


def _scalars(value: Any) -> Any:
    """Arrays of no axes as numbers, which formats like ``{x:.3f}`` take."""
    return tree.map(lambda a: a.item() if isinstance(a, np.ndarray) and a.ndim == 0 else a, value)


def _check_fields(name: str, text: str, count: int, options: dict[str, Any]) -> None:
    """Raise unless every field of ``text`` has an argument."""
    try:
        fields = [field for _, field, _, _ in string.Formatter().parse(text) if field is not None]
    except ValueError as error:
        raise OptionError(f"[{name}] {text!r} is no format ({error}); see str.format") from None
    automatic = 0
    for field in fields:
        base = field.split(".")[0].split("[")[0]
        if not base:
            base, automatic = str(automatic), automatic + 1
        if (int(base) >= count) if base.isdigit() else (base not in options):
            raise OptionError(
                f"[{name}] {text!r} names {{{base}}}, but there are {count} positional arguments "
                f"and the names {sorted(options)}; pass it"
            )


def check(condition: TensorLike, message: str = "a check failed", *args: Any, **o: Any) -> None:
    """Raise unless all of ``condition`` is true when it is computed.

    In a compiled program the exception comes when the program has run, and its state stays as it
    was. Under ``vmap`` every example is checked that gets there: that takes the branch, or has not
    ended the loop.

    ``message`` is a text with fields for ``args`` and named options ``o``, as
    :func:`debug_print` takes.

    Raises:
        CheckError: with the message and the line of this call.
        DTypeError: if ``condition`` is no bool.

    >>> import lamella as lm
    >>> lm.jit(lambda x: check((x > 0).all(), "x must be positive: {}", x))(lm.asarray([1.0]))
    """
    _check_fields("check", message, len(args), o)
    node = cast(as_node(condition), bool_) if isinstance(condition, bool) else as_node(condition)
    if node.dtype is not bool_:
        raise DTypeError(
            f"[check] the condition is {node.dtype.name}, not bool; compare, as in check(x > 0)"
        )
    site = user_site()

    def test(holds: Any, values: tuple[Any, ...], named: dict[str, Any]) -> None:
        if not np.all(holds):
            where = f" (checked at {site})" if site else ""
            raise CheckError(f"[check] {message.format(*values, **named)}{where}")

    _formatted(test, args, o, wrap(node))
