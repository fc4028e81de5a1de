"""Effects inside loops, branches and checkpointed functions, under every transformation: they are
had as plain Python would have them, once and in order. The reference is the same function in
Python, example by example.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella.errors import CheckError, GradientError, NaNError, TraceError

Function = Callable[..., Any]
X = np.array([1.0, 2.0, 3.0])


@pytest.fixture(params=["plain", "jit", "interpret"])
def run(request: pytest.FixtureRequest) -> Any:
    """How a function is run."""
    with lm.config(backend="interpret" if request.param == "interpret" else "llvm"):
        yield lm.jit if request.param == "jit" else lambda f: f


class Log:
    """What effects were had: names with the values they were given."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []

    def note(self, name: str, *values: Any) -> None:
        host = lambda *a: self.seen.append((name, *map(np.ndarray.tolist, a)))  # noqa: E731
        lm.io_callback(host, None, *values)

    def same(self, name: str, value: lm.Tensor) -> lm.Tensor:
        """``value``, which has been in Python."""

        def host(a: np.ndarray) -> np.ndarray:
            self.seen.append((name, a.tolist()))
            return a

        return lm.io_callback(host, value, lm.stop_gradient(value))

    def of(self, f: Callable[[], Any]) -> list[tuple[str, Any]]:
        """The effects of a call whose results are looked at."""
        self.seen.clear()
        for leaf in lm.tree.leaves(f()):
            leaf.numpy()
        return list(self.seen)


def derivatives(f: Function, x: Any) -> dict[str, Callable[[Function], Any]]:
    """Transformed calls of a function of a vector that returns a number; ``run`` compiles."""
    tangent = lm.ones_like(x)

    def backward(run: Function) -> Any:
        leaf = lm.tensor(x.numpy(), requires_grad=True)
        run(f)(leaf).backward()
        return leaf.grad

    return {
        "value": lambda run: run(f)(x),
        "grad": lambda run: run(lm.grad(f))(x),
        "second": lambda run: run(lm.grad(lambda x: (lm.grad(f)(x) * x).sum()))(x),
        "jvp": lambda run: run(lambda x: lm.jvp(f, (x,), (tangent,)))(x),
        "hvp": lambda run: run(lambda x: lm.jvp(lm.grad(f), (x,), (tangent,)))(x),
        "linearize": lambda run: run(lambda x: lm.linearize(f, x)[1](tangent))(x),
        "backward": backward,
    }


KINDS = list(derivatives(lm.sum, lm.asarray(X)))


# -- loops -----------------------------------------------------------------------------------------
def chain(log: Log) -> Function:
    """A loop whose steps have two effects, one of which gives a value."""

    def body(c: lm.Tensor, x: lm.Tensor) -> tuple[lm.Tensor, lm.Tensor]:
        log.note("first", c)
        return log.same("second", c) * x + lm.sin(c), c

    return lambda x: lm.scan(body, x[0], x)[0]


@pytest.mark.parametrize("kind", KINDS)
def test_steps_of_a_loop_have_effects_once_and_in_order(run: Function, kind: str) -> None:
    log, x, wanted, c = Log(), lm.asarray(X), [], X[0]
    for entry in X:
        wanted += [("first", c), ("second", c)]
        c = c * entry + np.sin(c)
    found = log.of(lambda: derivatives(chain(log), x)[kind](run))
    assert [name for name, _ in found] == [name for name, _ in wanted]
    np.testing.assert_allclose([v for _, v in found], [v for _, v in wanted], rtol=1e-6)


def test_derivatives_read_what_effects_returned(run: Function) -> None:
    """The callback's result is a constant to derivatives, whose value was kept."""
    log, x = Log(), lm.asarray(X)
    plain = lambda x: lm.scan(  # noqa: E731
        lambda c, x: (lm.stop_gradient(c) * x + lm.sin(c), c), x[0], x
    )[0]
    for kind in KINDS:
        found = derivatives(chain(log), x)[kind](run)
        wanted = derivatives(plain, x)[kind](lambda f: f)
        for a, b in zip(lm.tree.leaves(found), lm.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)


def test_effects_that_depend_on_nothing(run: Function) -> None:
    log = Log()
    step = lambda c, x: (log.note("step"), (c + x, None))[1]  # noqa: E731
    found = log.of(lambda: run(lambda x: lm.scan(step, x[0], x)[0])(lm.asarray(X)))
    assert found == [("step",)] * 3
    f = lambda p: lm.cond(p, lambda: log.note("yes"), lambda: None)  # noqa: E731
    assert log.of(lambda: run(f)(lm.asarray(False))) == []
    assert log.of(lambda: run(f)(lm.asarray(True))) == [("yes",)]


def test_products_of_what_effects_return_stay_in_the_loop(run: Function) -> None:
    log, xs = Log(), np.arange(6.0).reshape(3, 2)
    unit = lm.asarray(np.eye(2))
    step = lambda c, x: (c + log.same("row", x) @ unit, log.same("again", x) @ unit)  # noqa: E731
    f = run(lambda xs: lm.scan(step, xs[0] * 0, xs))
    found = log.of(lambda: f(lm.asarray(xs)))
    assert found == [(name, row) for row in xs.tolist() for name in ("row", "again")]


@pytest.mark.parametrize("bound", [None, 20])
def test_loops_with_a_condition(run: Function, bound: int | None) -> None:
    log, x = Log(), lm.asarray(3.0)

    def f(x: lm.Tensor) -> lm.Tensor:
        step = lambda c: (log.note("step", c), c / 2 * lm.cos(c * 0))[1]  # noqa: E731
        return lm.while_loop(lambda c: c > 0.5, step, x, max_steps=bound)

    wanted = [("step", 3.0), ("step", 1.5), ("step", 0.75)]
    assert log.of(lambda: run(f)(x)) == wanted
    assert log.of(lambda: run(lambda x: lm.jvp(f, (x,), (x,)))(x)) == wanted
    if bound is not None:
        assert log.of(lambda: run(lm.grad(f))(x)) == wanted


def test_what_cannot_be_kept_is_refused() -> None:
    log, x = Log(), lm.asarray(3.0)
    f = lambda x: lm.while_loop(lambda c: c > 0.5, lambda c: log.same("c", c) * c / 8, x)  # noqa: E731
    with pytest.raises(GradientError, match="max_steps"):
        lm.jvp(f, (x,), (x,))
    with pytest.raises(TraceError, match="rule or a condition"):
        lm.while_loop(lambda c: (log.note("test"), c > 0.5)[1], lambda c: c / 2, x)


# -- branches --------------------------------------------------------------------------------------
def branch(log: Log) -> Function:
    """A choice whose sides have effects."""

    def low(x: lm.Tensor) -> lm.Tensor:
        log.note("low", x)
        return log.same("value", x) * x * x

    def high(x: lm.Tensor) -> lm.Tensor:
        log.note("high", x * 10)
        return lm.sin(x)

    return lambda x: lm.cond(x < 2.5, low, high, x)


def had(x: float) -> list[tuple[str, float]]:
    return [("low", x), ("value", x)] if x < 2.5 else [("high", 10 * x)]


@pytest.mark.parametrize("value", X.tolist())
@pytest.mark.parametrize("kind", KINDS)
def test_only_the_branch_taken_has_effects(run: Function, kind: str, value: float) -> None:
    log = Log()
    f = lambda x: branch(log)(x[0]) * x[0]  # noqa: E731
    found = derivatives(f, lm.asarray([value]))
    assert log.of(lambda: found[kind](run)) == had(value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrap", [lambda f: f, lm.checkpoint])
def test_branches_in_loops(run: Function, kind: str, wrap: Function) -> None:
    log, x = Log(), lm.asarray(X)
    f = wrap(lambda x: lm.scan(lambda c, x: (c + branch(log)(x), c), 0.0, x)[0])
    wanted = [effect for value in X for effect in had(value)]
    assert log.of(lambda: derivatives(f, x)[kind](run)) == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_loops_in_branches(run: Function, kind: str) -> None:
    log, x = Log(), lm.asarray(X)
    f = lambda x: lm.cond(x[0] > 0, chain(log), lambda x: x[0] * 2, x)  # noqa: E731
    names = ["first", "second"] * 3
    assert [name for name, _ in log.of(lambda: derivatives(f, x)[kind](run))] == names
    assert log.of(lambda: derivatives(f, -x)[kind](run)) == []
    np.testing.assert_allclose(
        run(lm.grad(f))(x).numpy(), run(lm.grad(chain(Log())))(x).numpy(), rtol=1e-6
    )


def test_no_silent_zero_through_a_branch(run: Function) -> None:
    given = lambda x: lm.io_callback(np.exp, x, x) * x  # noqa: E731
    for f in (lambda x: lm.cond(x > 0, given, lm.sin, x), lm.checkpoint(given)):
        with pytest.raises(GradientError, match="custom_vjp"):
            run(lm.grad(f))(lm.asarray(1.0)).numpy()


def test_checks_in_branches(run: Function) -> None:
    def positive(x: lm.Tensor) -> lm.Tensor:
        lm.check(x < 5, "{} is large", x)
        return x

    f = lambda x: lm.cond(x > 0, positive, lambda x: -x, x)  # noqa: E731
    assert run(f)(lm.asarray(-7.0)).item() == 7
    assert run(f)(lm.asarray(4.0)).item() == 4
    with pytest.raises(CheckError, match=r"7\.0 is large"):
        run(f)(lm.asarray(7.0)).item()
    many = run(lm.vmap(f))
    assert many(lm.asarray([-7.0, 4.0, -9.0])).tolist() == [7, 4, 9]
    with pytest.raises(CheckError, match=r"8\.0 is large"):
        many(lm.asarray([-7.0, 8.0])).numpy()


# -- many examples ---------------------------------------------------------------------------------
def test_each_example_has_the_effects_of_its_branch(run: Function) -> None:
    log, x = Log(), lm.asarray(X)
    by_branch = [("high", 30.0), ("low", 1.0), ("low", 2.0), ("value", 1.0), ("value", 2.0)]
    for f in (branch(log), lm.grad(branch(log)), lm.grad(lm.checkpoint(branch(log)))):
        assert log.of(lambda f=f: run(lm.vmap(f))(x)) == by_branch
    both = log.of(lambda: run(lm.vmap(lm.vmap(branch(log))))(lm.stack([x, x[::-1]])))
    assert sorted(both) == sorted(by_branch * 2)
    pick = lambda i, x: lm.switch(i, [lambda x, n=n: log.same(n, x) for n in "abc"], x)  # noqa: E731
    found = log.of(lambda: run(lm.vmap(pick))(lm.asarray([9, 1, -4, 0]), lm.arange(4.0)))
    assert found == [("a", 2.0), ("a", 3.0), ("b", 1.0), ("c", 0.0)]


def test_an_index_for_all_examples(run: Function) -> None:
    log, x = Log(), lm.asarray(X)
    f = lambda p, x: lm.cond(p, lambda x: log.same("yes", x) + 1, lambda x: x, x)  # noqa: E731
    many = run(lm.vmap(f, in_axes=(None, 0)))
    assert log.of(lambda: many(lm.asarray(False), x)) == []
    assert log.of(lambda: many(lm.asarray(True), x)) == [("yes", v) for v in X]


def test_steps_for_many_examples(run: Function) -> None:
    log, x = Log(), lm.asarray(np.stack([X, X + 1]))
    step = lambda c, x: (log.note("step", x), log.note("once"), (c * x, c))[2]  # noqa: E731
    f = lambda x: lm.scan(step, 1.0, x)[0]  # noqa: E731
    wanted = [e for v in X for e in (("step", v), ("step", v + 1), ("once",))]
    for g in (f, lm.grad(f)):
        assert log.of(lambda g=g: run(lm.vmap(g))(x)) == wanted


def test_examples_that_have_ended_have_no_effects(run: Function) -> None:
    log = Log()

    def f(x: lm.Tensor) -> lm.Tensor:
        def step(c: lm.Tensor) -> lm.Tensor:
            log.note("step", c)
            log.note("any")
            lm.check(c > 0.5, "{} had ended", c)
            return c / 2

        return lm.while_loop(lambda c: c > 0.5, step, x, max_steps=9)

    wanted, alive = [], X
    while len(alive):
        wanted += [*(("step", v) for v in alive), *[("any",)] * len(alive)]
        alive = alive[alive / 2 > 0.5] / 2
    x = lm.asarray(X)
    for g in (f, lm.grad(f)):
        assert log.of(lambda g=g: run(lm.vmap(g))(x)) == wanted
    assert run(lm.vmap(f))(x).tolist() == [0.5, 0.5, 0.375]
    nested = log.of(lambda: run(lm.vmap(lm.vmap(f)))(lm.stack([x, x / 4])))
    one_by_one = [e for v in (*X, *X / 4) for e in log.of(lambda v=v: f(lm.asarray(v)))]
    assert sorted(nested) == sorted(one_by_one)


def test_loops_in_branches_for_many_examples(run: Function) -> None:
    log, x = Log(), lm.asarray(np.stack([X, -X, X * 2]))
    loop = lambda x: lm.scan(lambda c, x: (c + log.same("x", x), None), 0.0, x)[0]  # noqa: E731
    f = lambda x: lm.cond(x[0] > 0, loop, lambda x: x[0], x)  # noqa: E731
    found = run(lm.vmap(f))
    assert log.of(lambda: found(x)) == [("x", s * v) for v in X for s in (1, 2)]
    assert found(x).tolist() == [6, -1, 12]


# -- functions whose values are computed again -----------------------------------------------------
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("policy", [None, lm.checkpoint_policies.everything_saveable])
def test_checkpoint_has_effects_once(run: Function, kind: str, policy: Any) -> None:
    log, x = Log(), lm.asarray(X)

    def f(x: lm.Tensor) -> lm.Tensor:
        log.note("before", lm.sum(x))
        return lm.sum(lm.sin(log.same("value", lm.sin(x)) * x))

    plain = lambda x: lm.sum(lm.sin(lm.stop_gradient(lm.sin(x)) * x))  # noqa: E731
    g = lm.checkpoint(f, policy=policy)
    found = log.of(lambda: derivatives(g, x)[kind](run))
    assert [name for name, _ in found] == ["before", "value"]
    results = derivatives(g, x)[kind](run), derivatives(plain, x)[kind](run)
    for a, b in zip(*map(lm.tree.leaves, results), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("wrap", [lm.checkpoint, None])
def test_callbacks_in_functions_with_rules_for_many_examples(run: Function, wrap: Any) -> None:
    """The number that names the function is the same for all examples."""
    f = lambda x: lm.sin(x) * lm.pure_callback(np.cos, x, lm.stop_gradient(x))  # noqa: E731
    if wrap is None:
        wrap = lm.custom_vjp
        g = wrap(f)
        g.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * lm.pure_callback(np.cos, x, x) ** 2,))
    else:
        g = wrap(f)
    found = run(lm.vmap(lm.grad(g)))(lm.asarray(X))
    np.testing.assert_allclose(found.numpy(), np.cos(X) ** 2, rtol=1e-6)


# -- what else runs a graph ------------------------------------------------------------------------
def test_looking_for_nans_has_no_effects_again(run: Function) -> None:
    log = Log()

    def f(x: lm.Tensor) -> lm.Tensor:
        y = lm.cond(x > 0, lambda x: log.same("yes", x), lambda x: x, x)
        y = lm.scan(lambda c, _: (log.same("step", c), c), y, None, length=2)[0]
        return lm.log(-y)

    with lm.config(debug_nans=True), pytest.raises(NaNError, match="log"):
        log.of(lambda: run(f)(lm.asarray(1.0)))
    assert log.seen == [("yes", 1.0), ("step", 1.0), ("step", 1.0)]
