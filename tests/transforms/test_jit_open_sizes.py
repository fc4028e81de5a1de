"""Sizes of a compiled function's arguments that change: one program for many, with the results of
one for each.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella.errors import OptionError

F = lm.nn.functional
W = lm.asarray(np.random.default_rng(1).standard_normal((6, 5), np.float32))
LAYERS = {3: "three"}


def draw(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


def attention(x: Any) -> Any:
    t = x.shape[0]
    scores = x @ x.T / t**0.5
    return lm.softmax(lm.where(lm.tril(lm.ones((t, t))) == 0, -1e9, scores), -1) @ x


def positions(x: Any) -> Any:
    t = x.shape[0]
    table = lm.arange(4096, dtype="float32")
    return x + table[:t, None] + lm.arange(1, t + 1)[:, None] + x[t - 1] + x[: t // 2].sum(0)


OPEN: dict[str, Callable[[Any], Any]] = {
    "layers": lambda x: lm.softmax(lm.tanh(x @ W), -1).sum(0),
    "statistics": lambda x: [x.mean(), x.std(0), x.var(1), lm.logsumexp(x, 0), lm.cumsum(x, 0)],
    "gradient": lambda x: lm.grad(lambda w: (lm.tanh(x @ w) ** 2).mean())(W),
    "gradient of x": lambda x: lm.grad(lambda y: (lm.tanh(y @ W) ** 2).sum() + y.std())(x),
    "attention": attention,
    "positions": positions,
    "number": lambda x: x.sum(0) / x.shape[0] + x.size * 0.5 + x.numel() - 1 / x.shape[0],
    "returned": lambda x: (x.shape, x.shape[0] / 2, {"n": x.shape[0] // 2 + 1}),
    "parity": lambda x: x * 2 if x.shape[0] % 2 else x,
    "limit": lambda x: x.sum() if x.shape[0] > 6 else x.max(),
    "scan": lambda x: lm.scan(lambda c, row: (c + row, (c * row).sum()), lm.zeros(6), x),
    "vmap": lambda x: lm.vmap(lambda row: row[1:] * row.sum())(x),
    "joined": lambda x: lm.concat([x, x[:-1]]).reshape(-1),
    "rolled": lambda x: [lm.roll(x, 1, 0), lm.roll(x, -1), lm.roll(x, (1, -1), (0, 1))],
    "squeezed": lambda x: x[2:].squeeze() * 2,
    "equal": lambda x: x * 3 if x.shape[0] == 7 else x,
    "listed": lambda x: x * 3 if x.shape[0] in (7, 12) else x,
    "kind": lambda x: x if isinstance(x.shape[0], int) else x * 0,
}
EXACT: dict[str, Callable[[Any], Any]] = {
    "loop": lambda x: sum(x[i] for i in range(x.shape[0])),
    "length": lambda x: x * len(x),
    "key": lambda x: x if x.shape[0] in LAYERS else x + 1,
    "text": lambda x: x * len(f"{x.shape[0]}"),
    "list": lambda x: lm.stack([x] * x.shape[0]),
    "part": lambda x: x[: int(x.shape[0] * 0.7)],
    "sorted": lambda x: lm.sort(x, axis=0),
    "split": lambda x: lm.split(x, x.shape[0])[-1],
    "images": lambda x: F.conv1d(x.reshape(-1, 2, 3), lm.ones((2, 2, 2))),
    "numpy": lambda x: x + np.arange(x.shape[0])[:, None],
}  # fmt: skip
ORDERED: dict[str, Callable[[Any], Any]] = {
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x[..., :4]),
    "its gradient": lambda x: lm.grad(
        lambda y: (F.scaled_dot_product_attention(y, y, y, is_causal=True) ** 2).sum()
    )(x[None]),
    "three operands": lambda x: lm.einsum("ni,mi,mj->nj", x, x, x),
    "transforms": lambda x: lm.abs(lm.fft.fft(lm.concat([x] * 6, 1))),
}
SIZES = [5, 9, 3, 12, 7, 2, 1, 33, 9, 70, 12]


def same(found: Any, wanted: Any) -> None:
    """Equal to the bit, in trees of equal structure."""
    assert lm.tree.flatten(found)[1] == lm.tree.flatten(wanted)[1]
    for a, b in zip(lm.tree.leaves(found), lm.tree.leaves(wanted), strict=True):
        assert type(a) is type(b)
        x, y = np.asarray(a), np.asarray(b)
        assert x.shape == y.shape and x.dtype == y.dtype and x.tobytes() == y.tobytes()


def compare(f: Callable[[Any], Any], sizes: Sequence[int]) -> int:
    """The programs that a function took for these sizes, with the results of exact ones."""
    compiled, exact = lm.jit(f), lm.jit(f, dynamic=False)
    for n in sizes:
        x = draw(n, 6)
        same(compiled(x), exact(x))
    assert exact.programs == len(set(sizes))
    return compiled.programs


@pytest.mark.parametrize("name", OPEN)
def test_one_program_serves_many_sizes(name: str) -> None:
    assert compare(OPEN[name], SIZES) < len(set(SIZES)) - 2


@pytest.mark.parametrize("name", EXACT)
def test_what_needs_a_size_gets_a_program_for_it(name: str) -> None:
    compare(EXACT[name], SIZES)


@pytest.mark.parametrize("name", ORDERED)
def test_what_is_chosen_by_sizes_is_chosen_alike(name: str) -> None:
    assert compare(ORDERED[name], [30, 50, 2, 3, 4, 6, 7, 8, 9, 17, 64, 65, 70, 200, 1]) < 13


@pytest.mark.parametrize("dynamic", [None, False])
def test_an_index_beyond_a_changed_axis_is_an_error_of_the_call(dynamic: Any) -> None:
    f = lm.jit(lambda x: x[lm.asarray([0, 3])] * 2, dynamic=dynamic)
    for n in (4, 6, 8, 5):
        assert f(lm.ones(n)).tolist() == [2, 2]
    with pytest.raises(lm.errors.LamellaIndexError, match=r"recorded at .*test_jit_open_sizes"):
        f(lm.ones(3))


def test_open_sizes_that_come_often_have_shortcuts() -> None:
    held = lm.asarray(np.ones(5, np.float32))
    f = lm.jit(lambda x: (lm.tanh(x @ W) * held, x.sum(0) / x.shape[0]))
    exact = lm.jit(lambda x: (lm.tanh(x @ W) * held, x.sum(0) / x.shape[0]), dynamic=False)
    for n in [5, 9, 7, 9, 12] * 20:
        x = lm.asarray(draw(n, 6))
        same(f(x), exact(x))
    assert f.programs == 2 and 1 < len(f._shortcuts) <= 4
    held[0] = 3.0
    for n in (9, 7, 9, 12, 5):
        x = lm.asarray(draw(n, 6))
        same(f(x), exact(x))


def test_results_are_those_of_numpy() -> None:
    f = lm.jit(lambda x: (lm.tanh(x) / x.shape[0]).sum(0))
    for n in (4, 6, 11, 1, 0):
        x = draw(n, 3)
        wanted = (np.tanh(x.astype(np.float64)) / max(n, 1)).sum(0)
        np.testing.assert_allclose(f(x).numpy(), wanted, rtol=1e-5, atol=1e-6)
    assert f.programs == 4  # 4, all others, and 1 and 0


def test_sizes_that_were_the_same_may_differ() -> None:
    f = lm.jit(lambda x, y: x.sum() * 2 + y.sum() if x.shape == y.shape else x.sum())
    for n, m in ((3, 3), (5, 5), (8, 8), (8, 4), (4, 8), (6, 6), (2, 9)):
        wanted = 2 * n + m if n == m else n
        assert f(lm.ones(n), lm.ones(m)).item() == wanted
    assert f.programs <= 5


def test_axes_that_cannot_be_opened_leave_the_others() -> None:
    f = lm.jit(lambda x: sum(x[:, i] for i in range(x.shape[1])))
    for n, m in ((3, 2), (5, 4), (6, 4), (7, 4), (9, 4), (4, 2), (5, 2), (8, 2)):
        np.testing.assert_allclose(f(draw(n, m)).numpy(), draw(n, m).sum(1), rtol=1e-5)
    assert f.programs == 4  # rows are open for each number of columns


def test_a_training_step_with_a_short_last_batch() -> None:
    def trained(dynamic: Any) -> tuple[Any, int]:
        lm.manual_seed(3)
        model = lm.nn.Sequential(lm.nn.Linear(4, 8), lm.nn.ReLU(), lm.nn.Dropout(0.5),
                                 lm.nn.BatchNorm1d(8), lm.nn.Linear(8, 3))  # fmt: skip
        opt = lm.optim.AdamW(model.parameters(), lr=1e-2)

        def step(x: Any, y: Any) -> Any:
            opt.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            return loss

        compiled = lm.jit(step, dynamic=dynamic)
        losses = [compiled(draw(n, 4), np.arange(n) % 3) for n in (16, 16, 7, 16, 7, 5, 11, 16)]
        return [*losses, *model.state_dict().values()], compiled.programs

    (found, few), (wanted, many) = trained(None), trained(False)
    same(found, wanted)
    assert few < many == 4


def test_gradients_through_a_call() -> None:
    f, g = lm.jit(lambda x: lm.tanh(x @ W).sum(0)), lambda x: lm.tanh(x @ W).sum(0)
    for n in (30, 50, 40):
        found, wanted = (lm.grad(lambda x, h=h: (h(x) ** 2).sum())(lm.asarray(draw(n, 6)))
                         for h in (f, g))  # fmt: skip
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-5, atol=1e-6)
    assert f.programs == 2
    assert f.lower(draw(45, 6)).memory > 0


def test_no_size_of_a_trace_stays_outside() -> None:
    class Model:
        def __init__(self) -> None:
            self.count, self.log = 0, [0]

        def __call__(self, x: Any) -> Any:
            self.count = x.shape[0]
            return x + self.count

        def kept(self, x: Any) -> Any:
            self.last = x.shape
            self.log.append(x.shape[0])
            return x * 2

    model = Model()
    call, kept = lm.jit(model.__call__), lm.jit(model.kept)
    for n in (4, 6, 9, 4, 7):
        call(lm.ones(n))
        assert model.count == n and type(model.count) is int
        kept(lm.ones(n))
        assert model.last == (n,) and {*map(type, model.log)} == {int}


def test_errors_are_the_functions_own() -> None:
    f = lm.jit(lambda x: x @ W)
    for n in (30, 50, 40):
        f(draw(n, 6))
    with pytest.raises(lm.errors.ShapeError, match="matmul"):
        f(draw(40, 7))
    f(draw(45, 6))
    assert f.programs == 2


def test_none_is_opened_where_that_is_not_wanted() -> None:
    f = lm.jit(lambda x: x + 1, dynamic=False)
    for n in (2, 3, 4):
        f(lm.ones(n))
    assert f.programs == 3
    with pytest.raises(OptionError, match=r"dynamic=True maps no arguments"):
        lm.jit(lambda x: x, dynamic=True)  # type: ignore[call-overload]


def test_a_named_size_is_compared_as_a_number() -> None:
    """Another program where the comparison has another outcome; it was False for every size."""
    f = lm.jit(lambda x: x * 2 if x.shape[0] == 5 else x, dynamic={"x": {0: "n"}})
    for n in (5, 9, 5, 7):
        assert f(lm.ones(n)).sum().item() == (10 if n == 5 else n)
    assert f.programs == 2


def test_many_programs_warn_as_before() -> None:
    f = lm.jit(lambda x: x * len(x))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for n in range(2, 22):
            f(lm.ones(n))
    assert [str(w.message) for w in found if "compiled 17 times" in str(w.message)]
