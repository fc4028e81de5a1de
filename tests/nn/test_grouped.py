"""``grouped_mm`` against NumPy, group by group, in float64."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella.errors import DTypeError, OptionError, ShapeError
from lamella.nn import functional as F

FORMS = ["rows", "columns", "inner", "whole"]
OFFS = [[2, 5, 8], [0, 5, 5], [8, 8, 8], [1, 2, 6], [0, 0, 0]]


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + len(shape)).normal(size=shape)


def operands(form: str) -> tuple[np.ndarray, np.ndarray]:
    shapes = {
        "rows": ((8, 4), (3, 4, 5)), "columns": ((3, 5, 4), (4, 8)), "inner": ((5, 8), (8, 4)),
        "whole": ((3, 5, 4), (3, 4, 6)),
    }[form]  # fmt: skip
    return draw(*shapes[0]), draw(*shapes[1], seed=9)


def wanted(form: str, a: np.ndarray, b: np.ndarray, offs: list[int]) -> np.ndarray:
    if form == "whole":
        return a @ b
    spans = [slice(x, y) for x, y in zip([0, *offs], offs, strict=False)]
    if form == "inner":
        return np.stack([a[:, span] @ b[span] for span in spans])
    found = np.zeros((8, 5) if form == "rows" else (5, 8))
    for g, span in enumerate(spans):
        if form == "rows":
            found[span] = a[span] @ b[g]
        else:
            found[:, span] = a[g] @ b[:, span]
    return found


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("offs", OFFS, ids=str)
def test_products_and_derivatives(form: str, offs: list[int]) -> None:
    a, b = operands(form)
    given = None if form == "whole" else offs
    reference = wanted(form, a, b, offs)
    weight = draw(*reference.shape, seed=3)
    loss = lambda a, b, o: (F.grouped_mm(a, b, offs=o) * weight).sum()  # noqa: E731
    forms: list[Any] = [
        lambda g: g(lm.asarray(a), lm.asarray(b), given),
        lambda g: lm.jit(lambda a, b: g(a, b, given))(lm.asarray(a), lm.asarray(b)),
    ]
    if given is not None:
        ends = lm.asarray(given, dtype=lm.int32)
        forms.append(lambda g: lm.jit(g)(lm.asarray(a), lm.asarray(b), ends))
    step = 1e-6
    for run in forms:
        found = run(lambda a, b, o: F.grouped_mm(a, b, offs=o))
        np.testing.assert_allclose(found.numpy(), reference, rtol=1e-10, atol=1e-12)
        for i, gradient in enumerate(run(lm.grad(loss, (0, 1)))):
            direction = draw(*(a, b)[i].shape, seed=5)
            moved = [
                (wanted(form, *((a + s, b) if i == 0 else (a, b + s)), offs) * weight).sum()
                for s in (step * direction, -step * direction)
            ]
            slope = (moved[0] - moved[1]) / (2 * step)
            np.testing.assert_allclose((gradient.numpy() * direction).sum(), slope, rtol=1e-6)


def test_bias_and_types() -> None:
    a, b = (lm.asarray(v, dtype=lm.bfloat16) for v in operands("rows"))
    found = F.grouped_mm(a, b, offs=[2, 5, 8], bias=lm.ones(5), out_dtype=lm.float32)
    assert found.dtype is lm.float32
    exact = wanted("rows", *(np.asarray(v.numpy(), np.float64) for v in (a, b)), [2, 5, 8])
    np.testing.assert_allclose(found.numpy(), exact + 1, rtol=1e-5, atol=1e-5)
    assert F.grouped_mm(a, b, offs=[2, 5, 8]).dtype is lm.bfloat16


def test_mistakes_are_named() -> None:
    a, b = map(lm.asarray, operands("rows"))
    for offs in ([2, 1, 8], [-1, 2, 3], [2, 5, 9]):
        with pytest.raises(OptionError, match="do not decrease"):
            F.grouped_mm(a, b, offs=offs)
    for wrong in ([2, 5], [[2, 5, 8]], [1.0, 2.0, 3.0]):
        with pytest.raises(ShapeError, match="offs"):
            F.grouped_mm(a, b, offs=wrong)
    with pytest.raises(OptionError, match="needs offs"):
        F.grouped_mm(a, b)
    whole = tuple(map(lm.asarray, operands("whole")))
    with pytest.raises(OptionError, match="leave offs out"):
        F.grouped_mm(*whole, offs=[1, 2, 3])
    with pytest.raises(ShapeError, match="grouped_mm"):
        F.grouped_mm(a, b[:, :3], offs=[2, 5, 8])
    with pytest.raises(DTypeError, match="floating-point"):
        F.grouped_mm(a, lm.astype(b, lm.float32), offs=[2, 5, 8])
