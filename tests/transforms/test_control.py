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
from lamella.config import config
from lamella.errors import DTypeError, OptionError, ShapeError, TraceError
from lamella.ir.node import topological

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


def test_number_of_kernels_does_not_depend_on_length() -> None:
    f = lm.jit(lambda xs: lm.scan(lambda c, x: (lm.sin(c) + x, c), 0.0, xs))
    counts = {len(f.lower(draw(n)).kernels) for n in (3, 30, 3000)}
    assert len(counts) == 1


def test_changing_lengths_share_programs() -> None:
    from lamella.runtime.evaluate import compiled_count

    def total(n: int) -> float:
        return lm.scan(lambda c, x: (c * 0.5 + x, c), 0.0, draw(n) * 1.0)[0].item()

    for n in (3, 5):
        total(n)
    before = compiled_count()
    for n in (7, 9, 23):
        carry = 0.0
        for x in draw(n).numpy():
            carry = carry * 0.5 + x
        assert total(n) == pytest.approx(carry, rel=1e-12)
    assert not config.optimize or compiled_count() == before


def test_dynamic_axes() -> None:
    @lambda f: lm.jit(f, dynamic={"xs": {0: "steps", 1: "batch"}})
    def f(xs: lm.Tensor) -> Any:
        return lm.scan(lambda c, x: (lm.sin(c) + x, c * x), xs[0] * 0, xs)

    for steps, batch in ((3, 2), (6, 5), (4, 3)):
        xs = draw(steps, batch)
        carry, rows = np.zeros(batch), []
        for x in xs.numpy():
            rows.append(carry * x)
            carry = np.sin(carry) + x
        last, found = f(xs)
        np.testing.assert_allclose(last.numpy(), carry)
        np.testing.assert_allclose(found.numpy(), rows)
    assert f.programs == 1


def test_large_carries_are_shared_by_threads_with_equal_bits() -> None:
    x = lm.asarray(np.random.default_rng(0).normal(size=(300, 300)).astype(np.float32))

    def f() -> np.ndarray:
        return lm.fori_loop(0, 3, lambda i, c: lm.tanh(c @ x) + c, x).numpy()

    before = lm.num_threads()
    lm.set_num_threads(1)
    one = f()
    lm.set_num_threads(before)
    assert np.array_equal(one, f())
    carry = x.numpy().astype(np.float64)
    for _ in range(3):
        carry = np.tanh(carry @ x.numpy()) + carry
    np.testing.assert_allclose(one, carry, rtol=1e-3, atol=1e-3)


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


def test_loops_are_text_both_ways() -> None:
    from lamella.ir.text import graph_text, parse_graph
    from lamella.ops.base import PRIMITIVES

    def f(x: lm.Tensor) -> lm.Tensor:
        inner = lambda c, x: (lm.sum(lm.map(lm.sin, c * x)) + c, c)  # noqa: E731
        return lm.scan(inner, lm.ones(3), x)[1]

    (node,) = lm.jit(f).lower(lm.ones((4, 3))).outputs
    text = graph_text([node])
    assert "loop(" in text and graph_text(parse_graph(text, PRIMITIVES)) == text


def test_programs_with_loops_are_kept_on_disk(tmp_path: Any) -> None:
    from lamella.runtime.evaluate import forget_programs

    def run() -> np.ndarray:
        forget_programs()
        return lm.grad(loss_of(scanned))(*ARGS).numpy()

    with lm.config(cache_dir=str(tmp_path), cache=1):
        first = run()
        assert np.array_equal(first, run())


def test_complex_numbers() -> None:
    z = lm.asarray(np.exp(1j * np.arange(4)))
    last, rows = lm.jit(lambda z: lm.scan(lambda c, x: (c * x, c + x), z[0], z))(z)
    wanted = np.concatenate([z.numpy()[:1], z.numpy()[0] * np.cumprod(z.numpy())])
    np.testing.assert_allclose(last.numpy(), wanted[-1])
    np.testing.assert_allclose(rows.numpy(), wanted[:-1] + z.numpy())


def test_loops_by_the_interpreter_of_kernels() -> None:
    """Kernels and control steps run in Python too, which checks the native loop."""
    from lamella.ir.loop_interp import run_kernel
    from tests.support.programs import run_program

    def f(w: lm.Tensor, xs: lm.Tensor, h: lm.Tensor) -> list[lm.Tensor]:
        last, rows = scanned(w, xs, h)
        total = lm.while_loop(lambda c: lm.sum(c) < 9.0, lambda c: c + 1.0, last)
        gradient = lm.grad(lambda w: lm.sum(scanned(w, xs, h)[1]))(w)
        return [total, rows, gradient]

    outputs = [t.node for t in f(*(lm.asarray(x.numpy().copy()) for x in ARGS))]
    for node in topological(outputs):
        if node.value is not None and not isinstance(node.value, (bool, int, float)):
            node.value = node.value.numpy(node.shape, node.dtype.numpy)
    found = run_program(outputs, run_kernel)
    for array, wanted in zip(found, f(*ARGS), strict=True):
        np.testing.assert_allclose(array, wanted.numpy(), rtol=1e-12)


def test_python_functions_inside_loops() -> None:
    calls = []

    def host(x: np.ndarray) -> np.ndarray:
        calls.append(float(x))
        if x > 40:
            raise ZeroDivisionError("on purpose")
        return x * 2

    @lm.jit
    def f(n: lm.Tensor) -> lm.Tensor:
        return lm.fori_loop(0, n, lambda i, c: lm.pure_callback(host, c, c) + 1, lm.asarray(0.0))

    assert f(lm.asarray(4)).item() == 15.0 and calls == [0.0, 1.0, 3.0, 7.0]
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        f(lm.asarray(9)).item()
    assert f(lm.asarray(1)).item() == 1.0
    with pytest.raises(TraceError, match="effect"):
        lm.map(lambda x: lm.debug_print("{}", x), lm.ones(3))


# -- what is computed before and after the loop ----------------------------------------------------
def dense(w: lm.Tensor, v: lm.Tensor, b: lm.Tensor) -> Function:
    """A cell whose first product waits for no carry, and whose last no carry waits for."""

    def body(h: lm.Tensor, x: lm.Tensor) -> tuple[lm.Tensor, lm.Tensor]:
        h = lm.tanh(x @ w + h @ v.T + b)
        return h, lm.sin(h @ w)

    return body


def test_products_leave_the_loop() -> None:
    w, v, b, xs = draw(4, 4), draw(4, 4, seed=1), draw(4), draw(6, 3, 4)

    def looped(w: lm.Tensor, v: lm.Tensor, b: lm.Tensor, xs: lm.Tensor) -> Any:
        h, rows = xs[0], []
        for t in range(6):
            h, y = dense(w, v, b)(h, xs[t])
            rows.append(y)
        return h, lm.stack(rows)

    def scanned(w: lm.Tensor, v: lm.Tensor, b: lm.Tensor, xs: lm.Tensor) -> Any:
        return lm.scan(dense(w, v, b), xs[0], xs)

    def loops(node: Any) -> list[Any]:
        return [n.op for n in topological(node) if n.op.name == "loop"]

    outputs = lm.jit(scanned).lower(w, v, b, xs).outputs
    (op,) = loops(outputs)
    inner = topological(op.body.outputs, stop=op.body.inputs)
    assert sum(n.op.kind == "contraction" for n in inner) == 1
    for wrap in (lambda f: f, lambda f: lm.grad(loss_of(f), argnums=(0, 1, 2, 3))):
        same(wrap(scanned)(w, v, b, xs), wrap(looped)(w, v, b, xs))
    gradient = lm.jit(lm.grad(loss_of(scanned), argnums=(0, 1, 2, 3))).lower(w, v, b, xs)
    for op in loops(gradient.outputs):
        inner = topological(op.body.outputs, stop=op.body.inputs)
        assert sum(n.op.kind == "contraction" for n in inner) == 1
        assert not any(n.op.kind == "reduction" for n in inner)


def test_sums_of_constants_that_enter_in_several_ways() -> None:
    w, b, xs = draw(3, 3), draw(3), draw(5, 2, 3)

    def body(w: lm.Tensor, b: lm.Tensor) -> Function:
        def step(h: lm.Tensor, x: lm.Tensor) -> tuple[lm.Tensor, lm.Tensor]:
            h = lm.tanh(h @ w + (x * h) @ w.T + b)
            return h, h * b + lm.sum(w)

        return step

    def looped(w: lm.Tensor, b: lm.Tensor, xs: lm.Tensor) -> Any:
        h, rows = xs[0] * 0, []
        for t in range(5):
            h, y = body(w, b)(h, xs[t])
            rows.append(y)
        return h, lm.stack(rows)

    scanned = lambda w, b, xs: lm.scan(body(w, b), xs[0] * 0, xs)  # noqa: E731
    gradient = lambda f: lm.grad(loss_of(f), argnums=(0, 1, 2))  # noqa: E731
    same(gradient(scanned)(w, b, xs), gradient(looped)(w, b, xs))
    many = lm.stack([b, b * 2])
    for axes in ((None, 0, None), (None, None, 2)):
        args = (w, many if axes[1] == 0 else b, xs if axes[2] is None else lm.stack([xs, -xs], 2))
        found, wanted = (lm.vmap(gradient(f), in_axes=axes)(*args) for f in (scanned, looped))
        same(found, wanted)
