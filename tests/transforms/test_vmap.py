"""vmap against a Python loop: axes in and out, trees, nesting, state, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella import nn
from lamella.errors import DTypeError, OptionError, ShapeError, TraceError

RNG = np.random.default_rng(6)

FUNCTIONS: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x @ y, lambda x, y: lm.tanh(x).sum(0) + y[:, 0], lambda x, y: lm.sort(x, 1) * 2,
    lambda x, y: x.argmax(0), lambda x, y: lm.concat([x, y.T], 0), lambda x, y: x[[1, 0]] - x[1],
    lambda x, y: lm.cumsum(y, 0), lambda x, y: lm.einsum("ij,jk->ki", x, y),
    lambda x, y: x.at[0].set(y[:, 0]), lambda x, y: nn.functional.softmax(x * y.sum(), -1),
    lambda x, y: lm.where(x > y.mean(), x, 0.0), lambda x, y: lm.full((2,), 3.0),
    lambda x, y: lm.take_along_axis(x, lm.argsort(x, 1), 1), lambda x, y: lm.var(y, 0),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(FUNCTIONS)))
@pytest.mark.parametrize("in_axes", [0, (0, None), (None, 0), (1, 0), (-1, 2)])
def test_is_a_loop(number: int, in_axes: Any) -> None:
    f = FUNCTIONS[number]
    axes = (in_axes, in_axes) if isinstance(in_axes, int) else in_axes
    x, y = RNG.normal(size=(2, 3)), RNG.normal(size=(3, 2))

    def spread(a: np.ndarray, axis: int | None) -> np.ndarray:
        return a if axis is None else np.moveaxis(RNG.normal(size=(4, *a.shape)), 0, axis)

    def example(a: np.ndarray, axis: int | None, i: int) -> Any:
        return lm.asarray(np.ascontiguousarray(a if axis is None else np.take(a, i, axis)))

    xs, ys = spread(x, axes[0]), spread(y, axes[1])
    want = np.stack([f(example(xs, axes[0], i), example(ys, axes[1], i)).numpy() for i in range(4)])
    got = lm.vmap(f, in_axes)(xs, ys)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-10, atol=1e-12)
    last = lm.vmap(f, in_axes, out_axes=-1)(xs, ys)
    np.testing.assert_allclose(last.numpy(), np.moveaxis(want, 0, -1), rtol=1e-10, atol=1e-12)


def test_trees_of_axes() -> None:
    def f(p: Any, x: Any) -> Any:
        return {"y": p["w"] * x + p["b"]["c"], "z": (x, p["n"])}

    p = {"w": np.arange(3.0), "b": {"c": np.arange(2.0)}, "n": 7.0}
    x = np.arange(6.0).reshape(2, 3)
    axes = ({"w": 0, "b": None, "n": None}, 1)
    found = lm.vmap(f, axes, {"y": 1, "z": (0, None)})(p, x)
    want = np.stack([p["w"][i] * x[:, i] + p["b"]["c"] for i in range(3)], 1)
    np.testing.assert_allclose(found["y"].numpy(), want)
    assert found["z"][0].shape == (3, 2) and found["z"][1].item() == 7
    found = lm.vmap(f, axes, {"y": 1, "z": 0})(p, x)
    assert found["z"][1].tolist() == [7, 7, 7]


def test_keywords_are_mapped_by_the_first_axis() -> None:
    got = lm.vmap(lambda x, *, y: x * y, in_axes=(None,))(lm.asarray(2.0), y=lm.arange(3.0))
    assert got.tolist() == [0, 2, 4]


def test_nested() -> None:
    x, y = RNG.normal(size=(3, 2)), RNG.normal(size=(4, 2))
    outer = lm.vmap(lm.vmap(lambda a, b: (a * b).sum(), (None, 0)), (0, None))
    np.testing.assert_allclose(outer(x, y).numpy(), x @ y.T, rtol=1e-12)
    thrice = lm.vmap(lm.vmap(lm.vmap(lambda a: a * 2)))
    np.testing.assert_allclose(thrice(RNG.normal(size=(2, 3, 4)) * 0 + 1).numpy(), 2.0)


def test_batches_of_one_and_of_none() -> None:
    f = lm.vmap(lambda x: (x * 2).sum())
    assert f(np.ones((1, 3))).tolist() == [6] and f(np.ones((0, 3))).shape == (0,)


def test_gradients_of_examples() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    xs, ys = RNG.normal(size=(5, 3)).astype(np.float32), RNG.normal(size=5).astype(np.float32)

    def loss(model: Any, x: Any, y: Any) -> Any:
        return (model(x)[0] - y) ** 2

    many = lm.vmap(lm.grad(loss), in_axes=(None, 0, 0))(model, xs, ys)
    for i in range(5):
        one = lm.grad(loss)(model, lm.asarray(xs[i]), lm.asarray(ys[i]))
        for a, b in zip(many.parameters(), one.parameters(), strict=True):
            np.testing.assert_allclose(a.numpy()[i], b.numpy(), rtol=1e-5, atol=1e-6)


def test_batched_modules() -> None:
    models = [nn.Linear(2, 3) for _ in range(4)]
    stacked = lm.tree.map(lambda *leaves: lm.stack(list(leaves)), *models)
    x = RNG.normal(size=2).astype(np.float32)
    got = lm.vmap(lambda m, x: m(x), in_axes=(0, None))(stacked, x)
    want = np.stack([m(lm.asarray(x)).numpy() for m in models])
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-6)


def test_backward_through() -> None:
    w = lm.asarray(RNG.normal(size=3)).requires_grad_()
    x = RNG.normal(size=(4, 3))
    lm.vmap(lambda x: lm.tanh(x * w).sum())(x).sum().backward()
    np.testing.assert_allclose(
        w.grad.numpy(), ((1 - np.tanh(x * w.numpy()) ** 2) * x).sum(0), rtol=1e-10
    )


def test_keys_give_each_example_its_own_numbers() -> None:
    keys = lm.random.split(lm.random.key(1), 3)
    got = lm.vmap(lambda k: lm.random.normal((2,), key=k))(keys)
    want = [lm.random.normal((2,), key=keys[i]).tolist() for i in range(3)]
    assert got.tolist() == want


def test_state_from_outside_may_change_if_no_example_decides_it() -> None:
    count, total = lm.zeros(()), lm.zeros(2)

    def f(x: Any) -> Any:
        count.add_(1)
        return x * count

    assert lm.vmap(f)(np.ones(3, np.float32)).tolist() == [1, 1, 1] and count.item() == 1

    def g(x: Any) -> Any:
        count.add_(1)
        total.copy_(total + x)
        return x

    with pytest.raises(TraceError, match="one example"):
        lm.vmap(g)(np.ones((3, 2), np.float32))
    assert total.tolist() == [0, 0]


def test_gradients_of_one_example_do_not_stay() -> None:
    w = lm.ones(2).requires_grad_()
    with pytest.raises(TraceError, match="one example"):
        lm.vmap(lambda x: (x * w).sum().backward() or x)(np.ones((3, 2), np.float32))
    assert w.grad is None


def test_batch_norm_needs_the_whole_batch() -> None:
    norm = nn.BatchNorm1d(2)
    x = RNG.normal(size=(5, 1, 2)).astype(np.float32)
    with pytest.raises(TraceError, match="BatchNorm"):
        lm.vmap(lambda x: norm(x.reshape(1, 2) + lm.zeros((2, 2))))(x)
    norm.eval()
    assert lm.vmap(norm)(x).shape == (5, 1, 2)


def test_an_exception_inside() -> None:
    total = lm.zeros(2)

    def f(x: Any) -> Any:
        total.copy_(x)
        raise KeyError

    with pytest.raises(KeyError):
        lm.vmap(f)(np.ones((3, 2), np.float32))
    assert total.tolist() == [0, 0] and (lm.ones(2) * 2).tolist() == [2, 2]


ONES = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(("act", "kind", "match"), [
    (lambda: lm.vmap(lambda x: x, 2)(ONES), ShapeError, "axis 2"),
    (lambda: lm.vmap(lambda x, y: x)(ONES, ONES.T), ShapeError, r"\[2, 3\]"),
    (lambda: lm.vmap(lambda x: x, None)(ONES), OptionError, "no argument is mapped"),
    (lambda: lm.vmap(lambda x: x)(3), OptionError, "no argument is mapped"),
    (lambda: lm.vmap(lambda x: x, (0, 0))(ONES), OptionError, "2 entries for 1"),
    (lambda: lm.vmap(lambda x: x, ([0, 0],))(ONES), OptionError, "does not fit"),
    (lambda: lm.vmap(lambda x: x, ({"b": 0},))({"a": ONES}), OptionError, "does not fit"),
    (lambda: lm.vmap(lambda x: x, 0, None)(ONES), OptionError, "differs between"),
    (lambda: lm.vmap(lambda x: x, 0, 5)(ONES), ShapeError, "out_axes 5"),
    (lambda: lm.vmap(lambda x: "a")(ONES), DTypeError, "returned str"),
    (lambda: lm.vmap(lambda x: x if x.sum() > 0 else -x)(ONES), TraceError, r"lm\.where"),
])  # fmt: skip
def test_errors(act: Callable[[], Any], kind: Any, match: str) -> None:
    with pytest.raises(kind, match=match):
        act()


SAME: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...], tuple[Any, ...]]] = {
    "products": (lambda x, a, b: lm.tanh(x @ a) @ b, ((6, 8), (8, 9), (9, 3)), (0, None, None)),
    "of matrices": (lambda x, y: x @ y, ((6, 4, 5), (6, 5, 3)), (0, 0)),
    "softmax": (lambda x: nn.functional.softmax(x, -1), ((6, 40),), (0,)),
    "norm": (lambda x: nn.functional.layer_norm(x, (8,)), ((6, 4, 8),), (0,)),
}


@pytest.mark.parametrize("name", SAME)
def test_costs_what_batching_by_hand_costs(name: str) -> None:
    """The graphs are the same, so the programs are."""
    function, shapes, axes = SAME[name]
    arguments = [lm.random.normal(shape) for shape in shapes]
    batched = lm.jit(lm.vmap(function, axes)).lower(*arguments)
    assert batched.text(1) == lm.jit(function).lower(*arguments).text(1)


def test_a_gradient_of_what_all_share_is_computed_once() -> None:
    """The cotangent of a sum is the same for all examples: its product is with a vector."""
    x, a, b = (lm.random.normal(s) for s in ((64, 8), (8, 9), (9, 3)))

    def slope(x: Any, a: Any, b: Any) -> Any:
        return lm.grad(lambda x: lm.sum(lm.tanh(x @ a) @ b))(x)

    text = lm.jit(lm.vmap(slope, (0, None, None))).lower(x, a, b).text(1)
    assert "float32[9]" in text.replace("float32[9, ", "")
    assert lm.vmap(slope, (0, None, None))(x, a, b).shape == (64, 8)


def test_examples_that_draw_in_a_branch() -> None:
    """Who takes the branch has numbers of its own; who does not draws none."""
    f = lambda v: lm.cond(v > 1, lm.random.normal, lambda: lm.zeros(()))  # noqa: E731
    for run in (lm.vmap(f, randomness="different"), lm.jit(lm.vmap(f, randomness="different"))):
        first, second = (run(lm.asarray([1.0, 2.0, 3.0, 0.0])).tolist() for _ in range(2))
        for found in (first, second):
            assert found[0] == found[3] == 0.0 and found[1] != found[2] != 0.0
        assert first != second
