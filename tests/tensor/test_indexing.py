"""Reading and assigning x[...] against NumPy, for drawn shapes and subscripts of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import lamella as lm
from lamella.errors import DTypeError

Subscript = tuple[Any, ...]


@st.composite
def shapes(draw: st.DrawFn, least: int = 0, most: int = 4) -> tuple[int, ...]:
    return tuple(draw(st.lists(st.integers(0, 4), min_size=least, max_size=most)))


@st.composite
def slices(draw: st.DrawFn, size: int) -> slice:
    bound = st.none() | st.integers(-size - 2, size + 2)
    step = draw(st.none() | st.integers(1, 3) | st.integers(-3, -1))
    return slice(draw(bound), draw(bound), step)


@st.composite
def basic(draw: st.DrawFn, shape: tuple[int, ...]) -> Subscript:
    """Integers, slices, new axes and at most one ellipsis."""
    entries: list[Any] = []
    count = draw(st.integers(0, len(shape)))
    dots = draw(st.booleans())
    place = draw(st.integers(0, count)) if dots else count
    for position in range(count):
        size = shape[position] if position < place else shape[len(shape) - count + position]
        if size and draw(st.booleans()):
            entries.append(draw(st.integers(-size, size - 1)))
        else:
            entries.append(draw(slices(size)))
    if dots:
        entries.insert(place, ...)
    for _ in range(draw(st.integers(0, 2))):
        entries.insert(draw(st.integers(0, len(entries))), None)
    return tuple(entries)


@st.composite
def advanced(draw: st.DrawFn, shape: tuple[int, ...]) -> Subscript:
    """Integer arrays that broadcast, masks, integers, slices and new axes in any mixture."""
    inner = draw(st.sampled_from([(), (1,), (3,), (2, 1), (2, 3), (0,)]))
    entries: list[Any] = []
    axis = 0
    arrays = 0
    mask_used = False
    while axis < len(shape):
        size = shape[axis]
        kind = draw(st.sampled_from("asinm"))
        if kind == "m" and not mask_used and inner in ((), (1,)):
            span = draw(st.integers(1, min(2, len(shape) - axis)))
            mask = np.array(
                draw(
                    st.lists(
                        st.booleans(),
                        min_size=int(np.prod(shape[axis : axis + span])),
                        max_size=int(np.prod(shape[axis : axis + span])),
                    )
                ),
                bool,
            )
            entries.append(mask.reshape(shape[axis : axis + span]))
            mask_used, axis, arrays = True, axis + span, arrays + 1
            continue
        if kind == "a" and (size or 0 in inner):
            offset = draw(st.integers(0, len(inner)))
            each = inner[offset:]
            values = st.integers(-size, size - 1) if size else st.just(0)
            flat = draw(st.lists(values, min_size=int(np.prod(each)), max_size=int(np.prod(each))))
            entries.append(np.array(flat, np.int64).reshape(each))
            arrays += 1
        elif kind == "i" and size:
            entries.append(draw(st.integers(-size, size - 1)))
        else:
            entries.append(draw(slices(size)))
        axis += 1
        if draw(st.integers(0, 5)) == 0:
            entries.append(None)
    assume(arrays)
    return tuple(entries)


def array(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)


def as_tensors(subscript: Subscript) -> Subscript:
    return tuple(lm.asarray(e) if isinstance(e, np.ndarray) else e for e in subscript)


@given(st.data())
def test_basic_read(data: st.DataObject) -> None:
    shape = data.draw(shapes())
    subscript = data.draw(basic(shape))
    x = array(shape)
    found = lm.asarray(x)[subscript]
    np.testing.assert_array_equal(found.numpy(), x[subscript])
    assert found.shape == x[subscript].shape


@given(st.data())
def test_basic_assign(data: st.DataObject) -> None:
    shape = data.draw(shapes())
    subscript = data.draw(basic(shape))
    x = array(shape)
    y = lm.tensor(x)
    before = y[...]
    value = -1 - array(x[subscript].shape)
    if data.draw(st.booleans()) and value.ndim:
        value = value[:1]  # broadcasts along the first axis
    y[subscript] = value
    want = x.copy()
    want[subscript] = value
    np.testing.assert_array_equal(y.numpy(), want)
    np.testing.assert_array_equal(before.numpy(), x)  # no aliasing


@given(st.data(), st.booleans())
def test_advanced_read(data: st.DataObject, tensors: bool) -> None:
    shape = data.draw(shapes(least=1))
    subscript = data.draw(advanced(shape))
    x = array(shape)
    try:
        want = x[subscript]
    except IndexError:
        with pytest.raises((IndexError, ValueError)):
            lm.asarray(x)[subscript].numpy()
        return
    found = lm.asarray(x)[as_tensors(subscript) if tensors else subscript]
    np.testing.assert_array_equal(found.numpy(), want)
    assert found.shape == want.shape


@given(st.data(), st.booleans())
def test_advanced_assign(data: st.DataObject, tensors: bool) -> None:
    shape = data.draw(shapes(least=1))
    subscript = data.draw(advanced(shape))
    x = array(shape)
    try:
        picked = x[subscript]
    except IndexError:
        return
    value: Any = -1 - array(picked.shape) if data.draw(st.booleans()) else -7.5
    want = x.copy()
    want[subscript] = value
    y = lm.tensor(x)
    y[as_tensors(subscript) if tensors else subscript] = value
    np.testing.assert_array_equal(y.numpy(), want)  # repeated indices: the last wins, as in NumPy


@given(st.data())
def test_at_add_accumulates(data: st.DataObject) -> None:
    shape = data.draw(shapes(least=1))
    subscript = data.draw(advanced(shape))
    x = array(shape)
    try:
        picked = x[subscript]
    except IndexError:
        return
    value = 1 + array(picked.shape)
    want = x.astype(np.float64)
    np.add.at(want, subscript, value)
    found = lm.asarray(x).at[subscript].add(value)
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-6)
    want = x.copy()
    np.maximum.at(want, subscript, value)
    np.testing.assert_array_equal(lm.asarray(x).at[subscript].max(value).numpy(), want)


@given(st.data())
def test_gradient_of_reading_is_counting(data: st.DataObject) -> None:
    """d sum(w * x[s]) / dx[i] is the sum of w where s reads i."""
    shape = data.draw(shapes(least=1))
    subscript = data.draw(advanced(shape) | basic(shape))
    x = array(shape)
    try:
        picked = x[subscript]
    except IndexError:
        return
    weight = 1 + array(picked.shape)
    t = lm.tensor(x, requires_grad=True)
    (t[subscript] * weight).sum().backward()
    want = np.zeros(shape)
    np.add.at(want, subscript, weight)
    assert t.grad is not None
    np.testing.assert_allclose(t.grad.numpy(), want, rtol=1e-6)


@pytest.mark.parametrize(
    "subscript",
    [
        (np.array([True, False, True]),),
        ([0, 2],),
        (np.array([[0, 1], [2, 0]]), slice(None)),
        (0, slice(None), np.array([0, 1])),
        (np.array([0, 1]), None, np.array([1, 2])),
        (True,),
        (False,),
        (slice(None), np.int64(1)),
        (np.array(1),),
        ([],),
        ([True, False, True], [0, 1]),
        (..., [0, 1]),
        (np.array([0], np.uint8),),
        (slice(None), None, [1, 0], 2),
        (0, [1, 1], slice(None, None, -1)),
        # an ellipsis stands between index arrays and integers even where it covers no axis
        (slice(None), [0], ..., [2, 0, 1]),
        (slice(None), -1, ..., [[1], [0]]),
        ([0, 1], ..., np.array([True, False, False]), slice(None)),
    ],
)
def test_corner_cases(subscript: Subscript) -> None:
    x = array((3, 3, 4))
    np.testing.assert_array_equal(lm.asarray(x)[subscript].numpy(), x[subscript])
    y, want = lm.tensor(x), x.copy()
    y[subscript] = 5.0
    want[subscript] = 5.0
    np.testing.assert_array_equal(y.numpy(), want)


def test_a_mask_of_a_tensor_assigns_without_being_looked_at() -> None:
    x = lm.tensor([1.0, -2.0, 3.0])
    mask = x < 0
    x[mask] = 0.0
    assert mask.node.value is None
    assert x.tolist() == [1.0, 0.0, 3.0]


def test_compound_assignment_counts_repeats_once() -> None:
    x = lm.zeros(3)
    x[[0, 0, 2]] += 1.0
    assert x.tolist() == [1.0, 0.0, 1.0]


def test_integers_and_starts_are_arguments_of_one_structure() -> None:
    x = lm.asarray(array((5, 4)))
    for read in (lambda i: x[i], lambda i: x[:, i], lambda i: x[i : i + 2]):
        first, second = read(0).node, read(2).node
        while first.inputs:
            assert first.op == second.op and first.shape == second.shape
            for a, b in zip(first.inputs[1:], second.inputs[1:], strict=True):
                assert a.op == b.op
            first, second = first.inputs[0], second.inputs[0]


def test_values_are_cast_to_the_type_assigned_to() -> None:
    x = lm.zeros(3, dtype="int32")
    x[0] = 1.7
    x[1:] = lm.tensor([2.9, -2.9])
    assert x.dtype == lm.int32 and x.tolist() == [1, 2, -2]


@pytest.mark.parametrize(
    ("subscript", "kind"),
    [
        ((3,), IndexError),
        ((-4,), IndexError),
        ((0, 0, 0), IndexError),
        ((..., ...), IndexError),
        ((np.array([3]),), IndexError),
        ((np.array([True, False]),), IndexError),
        ((1.5,), TypeError),
        (("a",), TypeError),
        ((slice(None, None, 0),), (IndexError, ValueError)),
        ((np.array([0, 1, 2]), np.array([0, 1])), ValueError),
        ((slice(1.5, None),), TypeError),
    ],
)
def test_wrong_subscripts_raise_at_the_call(subscript: Subscript, kind: Any) -> None:
    x = lm.asarray(array((3, 4)))
    with pytest.raises(kind, match=r"^\[index\]"):
        x[subscript]


def test_a_value_that_does_not_fit_raises_at_the_call() -> None:
    x = lm.zeros(3, 4)
    with pytest.raises(ValueError, match=r"\[assign\].*\(3,\).*\(4,\)"):
        x[0] = lm.ones(3)


def test_a_tensor_of_indices_out_of_range_raises_when_computed() -> None:
    x = lm.zeros(3)
    found = x[lm.tensor([0, 5])]
    with pytest.raises(IndexError):
        found.numpy()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32"])
@pytest.mark.parametrize(
    "subscript", [[0, 0, 2], ([0, 1, 0, 0], [1, 1, 1, -1]), (slice(None), [1, 1]), 1, (..., 0)]
)
def test_each_repeated_index_counts(subscript: Any, dtype: str) -> None:
    rng = np.random.default_rng(0)
    place = tuple(map(np.asarray, subscript)) if isinstance(subscript, tuple) and isinstance(
        subscript[0], list) else subscript  # fmt: skip
    x = rng.integers(1, 5, (3, 4)).astype(dtype)
    value = rng.integers(1, 4, x[place].shape).astype(dtype)
    at = lm.asarray(x).at[subscript]
    for name, ufunc in (
        ("add", np.add), ("subtract", np.subtract), ("multiply", np.multiply),
        ("mul", np.multiply), ("max", np.maximum), ("min", np.minimum),
    ):  # fmt: skip
        want = x.copy()
        ufunc.at(want, place, value)
        np.testing.assert_array_equal(getattr(at, name)(lm.asarray(value)).numpy(), want, name)
    product = np.ones_like(x)
    np.multiply.at(product, place, value)
    found = at.divide(lm.asarray(value)).numpy()
    np.testing.assert_allclose(found, x / product, rtol=2e-3 if dtype == "float16" else 1e-6)
    want = x.astype(np.float64) ** product
    if dtype == "float64":
        np.testing.assert_allclose(at.power(lm.asarray(value)).numpy(), want, rtol=1e-12)


def test_derivatives_of_repeated_factors() -> None:
    i, weight = [0, 2, 0, 1, 1], np.array([1.0, 2.0, 3.0])
    for x, u in (
        ([1.5, 2.0, 3.0], [2.0, 3.0, 4.0, 5.0, 6.0]),
        ([0.0, 2.0, 3.0], [2.0, 3.0, 4.0, 0.0, 6.0]),
        ([0.0, 2.0, 3.0], [2.0, 0.0, 0.0, 0.0, 0.0]),
    ):
        factors = [[(x[p], ("x", p))] for p in range(3)]
        for k, p in enumerate(i):
            factors[p].append((u[k], ("u", k)))
        want = {
            which: weight[p] * np.prod([other for other, who in factors[p] if who != which])
            for p in range(3) for _, which in factors[p]
        }  # fmt: skip
        of_x, of_u = lm.grad(
            lambda x, u: (x.at[i].multiply(u) * lm.asarray(weight)).sum(), argnums=(0, 1)
        )(lm.asarray(np.array(x)), lm.asarray(np.array(u)))
        assert of_x.tolist() == [want["x", p] for p in range(3)]
        assert of_u.tolist() == [want["u", k] for k in range(5)]


def test_products_of_complex_numbers_at_indices_are_refused() -> None:
    z = lm.asarray([1j, 2.0])
    with pytest.raises(DTypeError, match=r"\[multiply\] products of complex64"):
        z.at[[0, 0]].multiply(2.0)
