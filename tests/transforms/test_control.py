"""``scan``, ``fori_loop``, ``while_loop``, ``map``: against Python loops, through every
transformation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lamella as lm
from lamella.errors import DTypeError, OptionError, ShapeError, TraceError

Function = Callable[..., Any]


def draw(*shape: int, seed: int = 0) -> lm.Tensor:
    return lm.asarray(np.random.default_rng(seed + sum(shape)).normal(size=shape))


def rnn(w: lm.Tensor) -> Function:
    def body(h: lm.Tensor, x: lm.Tensor) -> tuple[lm.Tensor, lm.Tensor]:
        h = lm.tanh(h @ w + x)
        return h, h * h + x

    return body


def looped(w: lm.Tensor, xs: lm.Tensor, h: lm.Tensor) -> tuple[lm.Tensor, lm.Tensor]:
    rows = []
    for t in range(xs.shape[0]):
        h, y = rnn(w)(h, xs[t])
        rows.append(y)
    return h, lm.stack(rows)


def scanned(w: lm.Tensor, xs: lm.Tensor, h: lm.Tensor) -> tuple[lm.Tensor, lm.Tensor]:
    return lm.scan(rnn(w), h, xs)


def loss_of(f: Function) -> Function:
    def loss(*args: lm.Tensor) -> lm.Tensor:
        last, rows = f(*args)
        return lm.sum(last * 2) + lm.sum(lm.sin(rows))

    return loss


def same(found: Any, wanted: Any, rtol: float = 1e-9) -> None:
    pairs = zip(lm.tree.leaves(found), lm.tree.leaves(wanted), strict=True)
    for a, b in pairs:
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=rtol, atol=1e-12)


ARGS = (draw(3, 3), draw(5, 3), draw(3))
TWICE = lambda g: lambda *a: lm.sum(lm.stack([lm.sum(p * p) for p in g(*a)]))  # noqa: E731
WRAPPED: dict[str, Function] = {
    "value": lambda f: f,
    "gradient": lambda f: lm.grad(loss_of(f), argnums=(0, 1, 2)),
    "second gradient": lambda f: lm.grad(
        TWICE(lm.grad(loss_of(f), argnums=(0, 1, 2))), argnums=(0, 1, 2)
    ),
    "tangent": lambda f: lambda *a: lm.jvp(f, a, tuple(lm.cos(x) for x in a)),
    "tangent of gradient": lambda f: (
        lambda *a: lm.jvp(lm.grad(loss_of(f), argnums=(0, 1)), a, tuple(lm.cos(x) for x in a))
    ),
    "gradient of tangent": lambda f: lm.grad(
        lambda *a: lm.jvp(loss_of(f), a, tuple(lm.cos(x) for x in a))[1], argnums=(0, 1, 2)
    ),
    "jacobian": lambda f: lm.jacrev(lambda w, xs, h: f(w, xs, h)[0]),
    "forward jacobian": lambda f: lm.jacfwd(lambda w, xs, h: f(w, xs, h)[0]),
}


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("name", WRAPPED)
def test_scan_agrees_with_a_python_loop(name: str, jit: bool) -> None:
    wrapped = WRAPPED[name]
    compiled = lm.jit if jit else lambda f: f
    same(compiled(wrapped(scanned))(*ARGS), wrapped(looped)(*ARGS))


@pytest.mark.parametrize("axes", [(0, None, None), (None, 0, None), (None, 1, 0), (0, 0, 0)])
def test_vmap_of_scan(axes: tuple[int | None, ...]) -> None:
    args = []
    for value, axis in zip(ARGS, axes, strict=True):
        many = draw(4, *value.shape, seed=7)
        args.append(value if axis is None else lm.moveaxis(many, 0, axis))
    for wrap in (lambda f: f, lambda f: lm.grad(loss_of(f), argnums=(0, 1, 2))):
        found, wanted = (lm.vmap(wrap(f), in_axes=axes)(*args) for f in (scanned, looped))
        same(found, wanted)


def test_backward_on_parameters_that_the_body_closes_over() -> None:
    w = lm.tensor(ARGS[0].numpy(), requires_grad=True)
    last, rows = lm.scan(rnn(w), ARGS[2], ARGS[1])
    last.numpy()  # the forward pass runs by itself
    (lm.sum(last * 2) + lm.sum(lm.sin(rows))).backward()
    same(w.grad, lm.grad(loss_of(looped))(*ARGS))


def test_reverse_keeps_the_places_of_rows() -> None:
    xs = draw(6, 2)
    last, rows = lm.scan(lambda c, x: (c * 0.5 + x, c), lm.zeros(2, dtype=lm.float64), xs,
                         reverse=True)  # fmt: skip
    carry, wanted = np.zeros(2), np.zeros((6, 2))
    for t in reversed(range(6)):
        wanted[t] = carry
        carry = carry * 0.5 + xs.numpy()[t]
    np.testing.assert_allclose(last.numpy(), carry)
    np.testing.assert_allclose(rows.numpy(), wanted)
    f = lambda xs: lm.sum(lm.scan(lambda c, x: (c * x, c), 1.0, xs, reverse=True)[1])  # noqa: E731
    x = draw(4)
    step = 1e-6 * np.eye(4)
    wanted = [(f(x + e).item() - f(x - e).item()) / 2e-6 for e in step]
    np.testing.assert_allclose(lm.grad(f)(x).numpy(), wanted, rtol=1e-6)


def test_trees_of_any_kind() -> None:
    init = {"a": lm.asarray(1.0), "b": (lm.zeros((2, 0)), lm.asarray([True, False]))}
    xs = {"x": lm.arange(4), "y": [lm.ones((4, 3))]}

    def body(carry: Any, x: Any) -> Any:
        a, (empty, flags) = carry["a"], carry["b"]
        after = {"a": a + x["x"], "b": (empty * 2, ~flags)}
        return after, {"sum": lm.sum(x["y"][0]) + a, "flags": flags, "none": None}

    last, rows = lm.scan(body, init, xs)
    assert last["a"].item() == 7.0 and last["b"][1].tolist() == [True, False]
    assert rows["sum"].tolist() == [4.0, 4.0, 5.0, 7.0]
    assert rows["flags"].shape == (4, 2) and rows["none"] is None
    assert last["b"][0].shape == (2, 0)


@pytest.mark.parametrize("steps", [0, 1, 2, 7])
def test_every_number_of_steps(steps: int) -> None:
    carry, rows = lm.scan(lambda c, _: (c * 2 + 1, c), 1, None, length=steps)
    value, wanted = 1, []
    for _ in range(steps):
        wanted.append(value)
        value = value * 2 + 1
    assert carry.item() == value and rows.tolist() == wanted
    xs = draw(steps, 3)
    f = lambda c, xs: lm.sum(lm.scan(lambda c, x: (c * lm.sin(x), c), c, xs)[0])  # noqa: E731
    gradient = lm.grad(f)(lm.ones(3, dtype=lm.float64), xs)
    np.testing.assert_allclose(gradient.numpy(), np.prod(np.sin(xs.numpy()), 0), rtol=1e-12)


def test_a_carry_that_stays_and_rows_that_repeat() -> None:
    fixed, x = draw(3), draw(4, 3)
    (carry, total), (again, entry, double) = lm.scan(
        lambda c, x: ((c[0], c[1] + x), (c[0], x, (x * 2, x * 2))), (fixed, fixed * 0), x
    )
    same(carry, fixed)
    np.testing.assert_allclose(total.numpy(), x.numpy().sum(0))
    np.testing.assert_allclose(again.numpy(), np.tile(fixed.numpy(), (4, 1)))
    same(entry, x)
    same(double, (x * 2, x * 2))


def test_carries_that_change_places() -> None:
    a, b = draw(3), draw(3, seed=1)
    for steps in (3, 4):
        found = lm.fori_loop(0, steps, lambda i, c: (c[1], c[0] + c[1]), (a, b))
        x, y = a.numpy(), b.numpy()
        for _ in range(steps):
            x, y = y, x + y
        np.testing.assert_allclose(found[0].numpy(), x)
        np.testing.assert_allclose(found[1].numpy(), y)


def test_nested_loops() -> None:
    def outer(f: Function, w: lm.Tensor) -> lm.Tensor:
        return f(lambda c, row: f(lambda d, x: lm.sin(d * x + w), c, row), ROWS[0, 0], ROWS)

    def by_scan(body: Function, init: Any, xs: Any) -> Any:
        return lm.scan(lambda c, x: (body(c, x), None), init, xs)[0]

    def by_python(body: Function, init: Any, xs: Any) -> Any:
        for i in range(xs.shape[0]):
            init = body(init, xs[i])
        return init

    w = lm.asarray(0.7, dtype=lm.float64)
    for wrap in (lambda f: f, lm.grad, lambda f: lm.grad(lm.grad(f))):
        found = wrap(lambda w: outer(by_scan, w))(w)
        wanted = wrap(lambda w: outer(by_python, w))(w)
        np.testing.assert_allclose(found.item(), wanted.item(), rtol=1e-5)


ROWS = draw(3, 4)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 5), st.lists(st.integers(0, 4), max_size=3), st.booleans())
def test_any_shape(steps: int, shape: list[int], reverse: bool) -> None:
    rng = np.random.default_rng(len(shape))
    xs = rng.normal(size=(steps, *shape))
    carry, rows = lm.scan(
        lambda c, x: (c - x, c * x), lm.ones(shape, dtype=lm.float64), lm.asarray(xs),
        reverse=reverse,
    )  # fmt: skip
    value, wanted = np.ones(shape), np.zeros((steps, *shape))
    for t in reversed(range(steps)) if reverse else range(steps):
        wanted[t] = value * xs[t]
        value = value - xs[t]
    np.testing.assert_allclose(carry.numpy(), value, rtol=1e-12)
    np.testing.assert_allclose(rows.numpy(), wanted, rtol=1e-12)


# -- fori_loop, while_loop, map --------------------------------------------------------------------
def test_fori_loop() -> None:
    assert lm.fori_loop(2, 6, lambda i, x: x + i * i, 0.0).item() == 54.0
    assert lm.fori_loop(5, 2, lambda i, x: x + i, 1).item() == 1
    many = 200_003  # more than are put into an array
    assert lm.fori_loop(2, many, lambda i, x: x + i, 0).item() == many * (many - 1) // 2 - 1
    assert lm.fori_loop(-3, 1, lambda i, x: x + i, 0).item() == -6
    bound = lm.asarray(6)
    assert lm.fori_loop(2, bound, lambda i, x: x + i * i, 0.0).item() == 54.0
    f = lm.jit(lambda n: lm.fori_loop(0, n, lambda i, x: x * 2, 1))
    assert [f(lm.asarray(n)).item() for n in (0, 3, 10)] == [1, 8, 1024]
    assert f.programs == 1


def newton(a: lm.Tensor) -> Any:
    """The square root of ``a``, and how many steps it took."""
    return lm.while_loop(
        lambda c: lm.abs(c[0] * c[0] - a) > 1e-12 * a,
        lambda c: ((c[0] + a / c[0]) * 0.5, c[1] + 1),
        (a, 0), max_steps=60,
    )  # fmt: skip


def test_while_loop() -> None:
    root, steps = newton(lm.asarray(2.0, dtype=lm.float64))
    assert root.item() == pytest.approx(2**0.5, rel=1e-14) and 3 < steps.item() < 10
    assert lm.while_loop(lambda x: x < 0, lambda x: x * 3, 5).item() == 5
    assert lm.while_loop(lambda x: x < 100, lambda x: x * 3, 1, max_steps=2).item() == 9
    assert lm.while_loop(lambda x: x < 100, lambda x: x * 3, 1, max_steps=0).item() == 1


@pytest.mark.parametrize("jit", [False, True])
def test_while_loop_under_transformations(jit: bool) -> None:
    compiled = lm.jit if jit else lambda f: f
    a = lm.asarray([1e-3, 3.0, 2.0, 1e6], dtype=lm.float64)
    root, steps = compiled(lm.vmap(newton))(a)
    np.testing.assert_allclose(root.numpy(), np.sqrt(a.numpy()), rtol=1e-12)
    assert steps.tolist() == [newton(x)[1].item() for x in a]
    f = lambda x: newton(x)[0]  # noqa: E731
    want = 0.5 / np.sqrt(a.numpy())
    np.testing.assert_allclose(compiled(lm.vmap(lm.grad(f)))(a).numpy(), want, rtol=1e-9)
    found = compiled(lm.vmap(lambda x: lm.jvp(f, (x,), (x,))[1]))(a)
    np.testing.assert_allclose(found.numpy(), want * a.numpy(), rtol=1e-9)
    second = compiled(lm.vmap(lm.grad(lm.grad(f))))(a)
    np.testing.assert_allclose(second.numpy(), -0.25 * a.numpy() ** -1.5, rtol=1e-6)


def test_forward_mode_needs_no_bound_but_reverse_mode_does() -> None:
    def f(x: lm.Tensor) -> lm.Tensor:
        return lm.while_loop(lambda c: c < 50.0, lambda c: c * x, x)

    x = lm.asarray(1.5, dtype=lm.float64)
    value, tangent = lm.jvp(f, (x,), (x * 0 + 1,))
    np.testing.assert_allclose([value.item(), tangent.item()], [1.5**10, 10 * 1.5**9])
    with pytest.raises(OptionError, match="max_steps"):
        lm.grad(f)(x)


def test_map() -> None:
    x = draw(5, 3)
    found = lm.map(lambda row: {"a": lm.sum(row), "b": row * 2}, x)
    np.testing.assert_allclose(found["a"].numpy(), x.numpy().sum(1))
    same(found["b"], x * 2)


def test_random_numbers_and_statistics_go_on_from_step_to_step() -> None:
    lm.manual_seed(3)
    _, drawn = lm.scan(lambda c, _: (c, lm.random.normal((4,))), 0.0, None, length=3)
    after = lm.random.normal((4,))
    lm.manual_seed(3)
    wanted = [lm.random.normal((4,)) for _ in range(4)]
    same([*drawn, after], wanted)
    counter = lm.asarray(0)

    def body(carry: lm.Tensor, x: lm.Tensor) -> Any:
        nonlocal counter
        counter += 1
        return carry + counter, None

    total, _ = lm.scan(body, 0, lm.arange(4))
    assert total.item() == 10 and counter.item() == 4


# -- errors ----------------------------------------------------------------------------------------
def test_errors_name_the_place() -> None:
    x = lm.ones((3, 2))
    with pytest.raises(OptionError, match=r"carry goes in as dict\(\['a'\]: \*\) and comes out"):
        lm.scan(lambda c, x: ({"b": c["a"]}, None), {"a": 1.0}, x)
    with pytest.raises(ShapeError, match=r"at \['a'\]\[1\] goes in as float32\[\] and comes out"):
        lm.scan(lambda c, x: ({"a": [c["a"][0], x]}, None), {"a": [1.0, 1.0]}, x)
    with pytest.raises(DTypeError, match="goes in as float32 and comes out as float64"):
        lm.scan(lambda c, x: (c.astype(lm.float64), None), lm.ones(()), x)
    with pytest.raises(OptionError, match=r"no pair; return \(carry, y\)"):
        lm.scan(lambda c, x: c, 1.0, x)
    with pytest.raises(ShapeError, match=r"xs at \['b'\] has 4 entries"):
        lm.scan(lambda c, x: (c, None), 1.0, {"a": x, "b": lm.ones(4)})
    with pytest.raises(ShapeError, match="0-d"):
        lm.scan(lambda c, x: (c, None), 1.0, lm.asarray(1.0))
    with pytest.raises(OptionError, match="pass xs or length="):
        lm.scan(lambda c, x: (c, None), 1.0)
    with pytest.raises(OptionError, match="below 0"):
        lm.scan(lambda c, x: (c, None), 1.0, length=-1)
    with pytest.raises(ShapeError, match="expected"):
        lm.scan(lambda c, x: (c, None), 1.0, x, length=4)
    with pytest.raises(DTypeError, match="str is neither a tensor nor a number"):
        lm.scan(lambda c, x: (c, "y"), 1.0, x)
    with pytest.raises(DTypeError, match="compare it"):
        lm.while_loop(lambda c: c, lambda c: c, 1.0)
    with pytest.raises(ShapeError, match="return one boolean"):
        lm.while_loop(lambda c: c < 1, lambda c: c, lm.ones(2))
    with pytest.raises(DTypeError, match="0-d integer"):
        lm.fori_loop(0, lm.asarray(1.5), lambda i, c: c, 1.0)


def test_values_cannot_be_looked_at_inside() -> None:
    with pytest.raises(TraceError, match="looked at"):
        lm.scan(lambda c, x: (c if x > 0 else -c, None), 1.0, lm.ones(3))
    x = lm.ones(3)
    assert lm.sum(x).item() == 3.0


def test_an_index_out_of_range_inside_a_loop_is_an_error() -> None:
    table = draw(4)
    f = lambda n: lm.fori_loop(0, n, lambda i, c: c + table[i], 0.0).item()  # noqa: E731
    assert f(4) == pytest.approx(table.numpy().sum(), rel=1e-6)
    with pytest.raises(lm.errors.LamellaIndexError, match=r"test_control\.py"):
        f(5)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("unroll", [1, 2, 3, 5, 6, 100, True])
def test_unrolled(unroll: int, reverse: bool) -> None:
    w, xs, h = draw(3, 3), draw(6, 3), draw(3)

    def f(unroll: int) -> Function:
        return lambda w, xs, h: lm.scan(rnn(w), h, xs, reverse=reverse, unroll=unroll)

    same(f(unroll)(w, xs, h), f(1)(w, xs, h))
    if unroll in (2, True):
        found, wanted = (lm.grad(loss_of(f(u)), argnums=(0, 1, 2))(w, xs, h) for u in (unroll, 1))
        same(found, wanted)
    if unroll == 1:
        assert lm.scan(lambda c, _: (c + 1, c), 0, length=4, unroll=4)[0].item() == 4
        with pytest.raises(OptionError, match="unroll"):
            f(0)(w, xs, h)
