"""The single functions that the workload ``ops`` measures, for each framework.

A :class:`Case` has an expression for NumPy (``np``, ``sp`` is SciPy's special functions), Lamella
(``lm``) and PyTorch (``th``), each with ``F``, functions of networks, of the arrays ``x`` and
``y``, of ``index``, a permutation along their first axis, and ``n``, the number of elements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.harness import Array

SIZES: Final = {"1k": 1_000, "100k": 100_000, "10M": 10_000_000}
ROW: Final = 1000  # elements of a row in the form "rows"
SIDE: Final = 16  # rows and columns of each matrix in the form "batch"


@dataclass(frozen=True)
class Case:
    """A function of ``inputs`` arrays of a ``kind`` (of ``KINDS``) and a ``form``: "flat", "rows"
    of a thousand, "square" (one matrix), "batch" (matrices of 16 x 16). ``rtol``: how much results
    may differ, of the largest.
    """

    numpy: str
    lamella: str
    torch: str
    inputs: int = 1
    form: str = "flat"
    kind: str = "normal"
    sizes: tuple[str, ...] = tuple(SIZES)
    rtol: float = 1e-4


def same(
    text: str, inputs: int = 1, form: str = "flat", kind: str = "normal",
    sizes: tuple[str, ...] = tuple(SIZES),
) -> Case:  # fmt: skip
    """A case whose text all three share but for the module's name, written ``m``."""
    numpy, lamella, torch = (text.replace("m.", f"{module}.") for module in ("np", "lm", "th"))
    return Case(numpy, lamella, torch, inputs, form, kind, sizes)


def _definite(draw: np.random.Generator, size: int) -> Array:
    side = int(size**0.5)
    x = draw.normal(size=(side, side)) / side**0.5
    return (x @ x.T + np.eye(side)).astype(np.float32)


def _complex(draw: np.random.Generator, size: int) -> Array:
    return (draw.normal(size=size) + 1j * draw.normal(size=size)).astype(np.complex64)


KINDS: Final[dict[str, Callable[[np.random.Generator, int], Array]]] = {
    "normal": lambda draw, size: draw.normal(size=size).astype(np.float32),
    "positive": lambda draw, size: (np.abs(draw.normal(size=size)) + 0.1).astype(np.float32),
    "unit": lambda draw, size: (draw.normal(size=size) / size).astype(np.float32),
    "whole": lambda draw, size: draw.integers(-1000, 1000, size).astype(np.int32),
    "count": lambda draw, size: draw.integers(0, 256, size),
    "bool": lambda draw, size: np.zeros(size, bool),
    "mixed": lambda draw, size: draw.random(size) < 0.5,
    "double": lambda draw, size: draw.normal(size=size),
    "half": lambda draw, size: draw.normal(size=size).astype(np.float16),
    "byte": lambda draw, size: draw.integers(-9, 9, size).astype(np.int8),
    "complex": _complex,
    "definite": _definite,
}

SMALL = ("1k", "100k")
CASES: Final = {
    # elementwise
    "add": same("x + y", 2),
    "multiply": same("x * y", 2),
    "divide": same("x / y", 2, kind="positive"),
    "maximum": same("m.maximum(x, y)", 2),
    "pow": Case("np.power(x, y)", "lm.pow(x, y)", "th.pow(x, y)", 2, kind="positive"),
    "exp": same("m.exp(x)"),
    "log": same("m.log(x)", kind="positive"),
    "tanh": same("m.tanh(x)"),
    "sin": same("m.sin(x)"),
    "sqrt": same("m.sqrt(x)", kind="positive"),
    "floor": same("m.floor(x)"),
    "erf": Case("sp.erf(x)", "lm.special.erf(x)", "th.special.erf(x)"),
    "gelu": Case("x * sp.ndtr(x)", "F.gelu(x)", "F.gelu(x)"),
    "less": same("x < y", 2),
    "where": same("m.where(x > 0, x, y)", 2),
    "clip": Case("np.clip(x, -1, 1)", "lm.clip(x, -1, 1)", "th.clamp(x, -1, 1)"),
    "masked_fill": Case("np.where(x > 0, np.float32(0), x)", "x.masked_fill(x > 0, 0.0)",
                        "x.masked_fill(x > 0, 0.0)"),
    "cast": Case("x.astype(np.int32)", "x.astype(lm.int32)", "x.to(th.int32)"),
    "cast_int8": Case("x.astype(np.int8)", "x.astype(lm.int8)", "x.to(th.int8)"),
    # other dtypes
    "add_int32": same("x + y", 2, kind="whole"),
    "multiply_int8": same("x * y", 2, kind="byte"),
    "multiply_half": Case("x * y", "x * y", "x * y", 2, kind="half", rtol=1e-3),
    "add_bfloat16": Case("(x + y)", "(x.astype(lm.bfloat16) + y.astype(lm.bfloat16)).float()",
                         "(x.bfloat16() + y.bfloat16()).float()", 2, rtol=1e-2),
    "remainder": same("m.remainder(x, y)", 2, kind="positive"),
    "exp_double": same("m.exp(x)", kind="double"),
    "sin_double": same("m.sin(x)", kind="double"),
    "and": same("x & y", 2, kind="mixed"),
    "not": Case("~x", "lm.logical_not(x)", "~x", kind="mixed"),
    "multiply_complex": same("x * y", 2, kind="complex"),
    "abs_complex": same("m.abs(x)", kind="complex"),
    "exp_complex": same("m.exp(x)", kind="complex"),
    # reductions
    "sum": same("m.sum(x)"),
    "sum_int64": same("m.sum(x)", kind="count"),
    "max_half": same("m.max(x)", kind="half"),
    "sum_rows": Case("x.sum(1)", "lm.sum(x, axis=1)", "th.sum(x, 1)", form="rows"),
    "sum_columns": Case("x.sum(0)", "lm.sum(x, axis=0)", "th.sum(x, 0)", form="rows"),
    "max": same("m.max(x)"),
    "max_rows": Case("x.max(1)", "lm.max(x, axis=1)", "th.amax(x, 1)", form="rows"),
    "max_columns": Case("x.max(0)", "lm.max(x, axis=0)", "th.amax(x, 0)", form="rows"),
    "argmax": same("m.argmax(x)"),
    "argmax_rows": Case("x.argmax(1)", "lm.argmax(x, axis=1)", "th.argmax(x, 1)", form="rows"),
    "mean_rows": Case("x.mean(1)", "lm.mean(x, axis=1)", "th.mean(x, 1)", form="rows"),
    "var_rows": Case("x.var(1)", "lm.var(x, axis=1)", "th.var(x, 1, correction=0)", form="rows"),
    "norm": same("m.linalg.norm(x)"),
    "logsumexp": Case("np.log(np.exp(x).sum(1))", "lm.logsumexp(x, axis=1)", "th.logsumexp(x, 1)",
                      form="rows"),
    "softmax": Case("(e := np.exp(x - x.max(1, keepdims=True))) / e.sum(1, keepdims=True)",
                    "F.softmax(x, 1)", "F.softmax(x, 1)", form="rows"),
    "layer_norm": Case("(x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)",
                       "F.layer_norm(x, (1000,))", "F.layer_norm(x, (1000,))", form="rows"),
    "any": same("m.any(x)", kind="bool"),
    "median": Case("np.sort(x)[(n - 1) // 2]", "lm.sort(x)[(n - 1) // 2]", "th.median(x)"),
    # along an axis
    "cumsum": Case("np.cumsum(x)", "lm.cumsum(x, axis=0)", "th.cumsum(x, 0)", kind="unit"),
    "cumsum_rows": Case("x.cumsum(1)", "lm.cumsum(x, axis=1)", "th.cumsum(x, 1)", form="rows"),
    "sort": Case("np.sort(x)", "lm.sort(x)", "th.sort(x)[0]"),
    "sort_rows": Case("np.sort(x, 1)", "lm.sort(x, axis=1)", "th.sort(x, 1)[0]", form="rows"),
    "argsort": Case("np.argsort(x, kind='stable')", "lm.argsort(x)", "th.argsort(x, stable=True)"),
    "topk_rows": Case("-np.sort(-x, 1)[:, :10]", "lm.topk(x, 10)[0]", "th.topk(x, 10)[0]",
                      form="rows"),
    "unique": Case("np.unique(x)", "lm.unique(x)", "th.unique(x)", kind="count"),
    "histogram": Case("np.histogram(x, 100, (-3, 3))[0]",
                      "lm.histogram(x, bins=100, range=(-3, 3))[0]",
                      "th.histc(x, 100, -3, 3)"),
    "bincount": Case("np.bincount(x, minlength=256)", "lm.bincount(x, length=256)",
                     "th.bincount(x, minlength=256)", kind="count"),
    # movement
    "transpose": Case("x.T.copy()", "lm.matrix_transpose(x)", "x.T.contiguous()", form="rows"),
    "flip": Case("np.flip(x, 0).copy()", "lm.flip(x, 0)", "th.flip(x, (0,))"),
    "roll": Case("np.roll(x, 7)", "lm.roll(x, 7)", "th.roll(x, 7)"),
    "repeat": Case("np.repeat(x, 2)", "lm.repeat(x, 2)", "th.repeat_interleave(x, 2)"),
    "concat": Case("np.concatenate([x, y])", "lm.concat([x, y])", "th.cat([x, y])", 2),
    "stack_many": Case("np.stack([x, y] * 4)", "lm.stack([x, y] * 4)", "th.stack([x, y] * 4)", 2),
    "stack": Case("np.stack([x, y], -1)", "lm.stack([x, y], -1)", "th.stack([x, y], -1)", 2),
    "strided": Case("x[::2].copy()", "x[::2]", "x[::2].contiguous()"),
    "columns": Case("x[:, ::2].copy()", "x[:, ::2]", "x[:, ::2].contiguous()", form="rows"),
    "tile": Case("np.tile(x, 2)", "lm.tile(x, 2)", "th.tile(x, (2,))"),
    "pad": Case("np.pad(x, 3)", "lm.pad(x, 3)", "F.pad(x, (3, 3))"),
    "outer": Case("np.outer(x[0], x[1])", "lm.outer(x[0], x[1])", "th.outer(x[0], x[1])",
                  form="square", kind="definite"),
    # indices
    "gather": Case("x[index]", "lm.take(x, index)", "x[index]"),
    "scatter_add": Case("np.bincount(index, x, n).astype(np.float32)",
                        "lm.scatter_add(lm.zeros_like(x), 0, index, x)",
                        "th.zeros_like(x).scatter_add_(0, index, x)"),
    "add_rows": Case("(c := x.copy(), np.add.at(c, index, x))[0]", "x.at[index].add(x)",
                     "x.index_add(0, index, x)", form="rows"),
    "index_put": Case("(c := x.copy(), c.__setitem__(index, y))[0]", "x.at[index].set(y)",
                      "x.index_put((index,), y)", 2),
    "select": same("x[x > 0]"),
    "take_rows": Case("x[index]", "lm.take(x, index, axis=0)", "x[index]", form="rows"),
    # products and linear algebra
    "matmul_batch": Case("x @ y", "x @ y", "x @ y", 2, form="batch"),
    "einsum": same("m.einsum('bij,bkj->bik', x, y)", 2, form="batch"),
    "solve": same("m.linalg.solve(x, y)", 2, form="square", kind="definite", sizes=SMALL),
    "cholesky": same("m.linalg.cholesky(x)", form="square", kind="definite", sizes=SMALL),
    "svd": Case("np.linalg.svd(x)[1]", "lm.linalg.svdvals(x)", "th.linalg.svdvals(x)",
                form="square", kind="definite", sizes=SMALL),
    "inv": same("m.linalg.inv(x)", form="square", kind="definite", sizes=SMALL),
    "fft": same("m.fft.fft(x)", kind="complex"),
    "rfft_rows": Case("np.fft.rfft(x)", "lm.fft.rfft(x)", "th.fft.rfft(x)", form="rows"),
}  # fmt: skip


def data(case: Case, size: int) -> list[Array]:
    """The inputs."""
    draw = np.random.default_rng(size)
    made = [KINDS[case.kind](draw, size) for _ in range(case.inputs)]
    if case.form == "rows":
        return [x.reshape(-1, ROW) for x in made]
    if case.form == "batch":
        count = size // SIDE**2
        return [x[: count * SIDE**2].reshape(count, SIDE, SIDE) for x in made]
    return made
