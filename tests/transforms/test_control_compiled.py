"""How loops compile: what is shared between programs, kept on disk, moved out of the body."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella.config import config
from lamella.ir.node import topological
from tests.transforms.test_control import ARGS, Function, draw, loss_of, same, scanned


def test_number_of_kernels_does_not_depend_on_length() -> None:
    def steps(xs: Any) -> Any:
        return lm.scan(lambda c, x: (lm.sin(c) + x, c), 0.0, xs)

    exact, opened = lm.jit(steps, dynamic=False), lm.jit(steps, dynamic={"xs": {0: "length"}})
    for f in (exact, opened):
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
    from tests.support.programs import nodes_of, run_program

    def f(w: lm.Tensor, xs: lm.Tensor, h: lm.Tensor) -> list[lm.Tensor]:
        last, rows = scanned(w, xs, h)
        total = lm.while_loop(lambda c: lm.sum(c) < 9.0, lambda c: c + 1.0, last)
        gradient = lm.grad(lambda w: lm.sum(scanned(w, xs, h)[1]))(w)
        return [total, rows, gradient]

    found = run_program(nodes_of(f(*(lm.asarray(x.numpy()) for x in ARGS))), run_kernel)
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


@pytest.mark.parametrize("jit", [False, True])
def test_effects_inside_loops(jit: bool, capsys: pytest.CaptureFixture[str]) -> None:
    compiled = lm.jit if jit else lambda f: f

    def body(c: lm.Tensor, x: lm.Tensor) -> tuple[lm.Tensor, lm.Tensor]:
        lm.debug_print("{} then {}", c, x)
        return c * x, c

    f = lambda x: lm.scan(body, x[0], x)[0]  # noqa: E731
    x = lm.asarray([2.0, 3.0, 5.0])
    assert compiled(f)(x).item() == 60.0
    assert capsys.readouterr().out == "2.0 then 2.0\n4.0 then 3.0\n12.0 then 5.0\n"
    assert compiled(lm.grad(f))(x).tolist() == [60.0, 20.0, 12.0]
    assert capsys.readouterr().out.count("then") == 3
    compiled(lambda x: lm.map(lambda x: lm.debug_print("{}", x), x))(x)
    assert capsys.readouterr().out == "2.0\n3.0\n5.0\n"

    def halve(c: lm.Tensor) -> lm.Tensor:
        lm.check(c > 1.5, "too small: {}", c)
        return c / 2

    g = compiled(lambda x: lm.while_loop(lambda c: c > 0.1, halve, x))
    with pytest.raises(lm.errors.CheckError, match=r"too small: 1\.0"):
        g(x[0] * 2).item()


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


def test_profiles_count_iterations() -> None:
    w = draw(16, 16)
    f = lm.jit(lambda x: lm.fori_loop(0, 50, lambda i, c: lm.tanh(c @ w), x))
    f(w).numpy()
    with lm.profile() as profile:
        f(w).numpy()
    assert any(row.count == 50 and row.flops >= 50 * 2 * 16**3 for row in profile.rows())
