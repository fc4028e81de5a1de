"""Computing again what would be kept: the same values in less memory, within a budget or not."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

import lamella as lm
from lamella import nn, optim
from lamella.compiler.cut import FOREVER, Network
from lamella.errors import OptionError

F = nn.functional
DRAW = np.random.default_rng(0)
WIDTH, ROWS, LAYERS = 64, 512, 6


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: lm.Tensor) -> lm.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


def training(budget: int | None = None) -> tuple[Callable[[lm.Tensor], lm.Tensor], nn.Module]:
    """An imperative step of training, jitted whole."""
    lm.manual_seed(0)
    model = nn.Sequential(*[Block() for _ in range(LAYERS)])
    opt = optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)

    @lm.jit(memory_budget=budget)
    def step(x: lm.Tensor) -> lm.Tensor:
        loss = (model(x) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    return step, model


X = lm.asarray(DRAW.standard_normal((ROWS, WIDTH)).astype(np.float32))


@pytest.mark.usefixtures("optimized")
def test_memory_falls_with_the_budget_and_results_stay() -> None:
    plain, model = training()
    losses = [plain(X).item() for _ in range(3)]
    expected = [p.detach().numpy().copy() for p in model.parameters()]
    needs = [plain.lower(X).memory]
    for share in (0.9, 0.7, 0.55):
        budget = int(share * needs[0])
        step, other = training(budget)
        np.testing.assert_allclose([step(X).item() for _ in range(3)], losses, rtol=1e-6)
        for p, q in zip(expected, other.parameters(), strict=True):
            np.testing.assert_allclose(q.detach().numpy(), p, rtol=1e-4, atol=1e-6)
        needs.append(step.lower(X).memory)
        assert needs[-1] <= budget
    assert all(after <= before for before, after in pairwise(needs))


@pytest.mark.usefixtures("optimized")
def test_a_budget_that_cannot_be_kept_says_what_is_needed() -> None:
    step, _ = training(1000)
    with pytest.raises(OptionError, match=r"memory_budget=1,000, .* take [\d,]+ bytes"):
        step(X)


@pytest.mark.parametrize("budget", [-1, 1.5, "500MiB", True])
def test_a_budget_is_a_number_of_bytes(budget: object) -> None:
    with pytest.raises(OptionError, match=r"\[jit\] memory_budget"):
        lm.jit(lambda x: x, memory_budget=budget)


@pytest.mark.usefixtures("optimized")
def test_double_precision_gradients_within_a_budget() -> None:
    w = [lm.asarray(DRAW.standard_normal((32, 32)) / 6) for _ in range(6)]
    x = lm.asarray(DRAW.standard_normal((256, 32)))

    def loss(w: list[lm.Tensor]) -> lm.Tensor:
        y = x
        for each in w:
            h = y @ each
            y = lm.tanh(h) * lm.exp(-(h**2))
        return y.sum()

    plain = lm.jit(lm.grad(loss))
    need = plain.lower(w).memory
    tight = lm.jit(lm.grad(loss), memory_budget=int(0.8 * need))
    for a, b in zip(plain(w), tight(w), strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-12, atol=1e-14)
    assert tight.lower(w).memory <= 0.8 * need


@pytest.mark.usefixtures("optimized")
def test_random_numbers_and_running_statistics_are_made_once() -> None:
    def make(budget: int | None) -> list[np.ndarray]:
        lm.manual_seed(1)
        model = nn.Sequential(
            nn.Linear(64, 256), nn.BatchNorm1d(256), nn.GELU(), nn.Dropout(0.5),
            nn.Linear(256, 256), nn.BatchNorm1d(256), nn.GELU(), nn.Dropout(0.5),
            nn.Linear(256, 64),
        )  # fmt: skip
        opt = optim.SGD(model.parameters(), lr=0.1)

        def step(x: lm.Tensor) -> lm.Tensor:
            loss = (model(x) ** 2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss

        jitted = lm.jit(step, memory_budget=budget)
        for _ in range(2):
            jitted(X)
        needs.append(jitted.lower(X).memory)
        return [value.numpy().copy() for value in model.state_dict().values()]

    needs: list[int] = []
    expected = make(None)
    for a, b in zip(make(int(0.8 * needs[0])), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("optimized")
def test_what_lives_at_the_peak_is_told() -> None:
    step, _ = training()
    text = step.lower(X).peak(3)
    assert len(text.splitlines()) == 4 and "MiB planned" in text and ".." in text


def test_the_cut_is_the_cheapest() -> None:
    # source -> a (9) -> b (2) -> sink; source -> c (4) -> sink (forever); b is behind the cut
    network = Network()
    a, b, c = network.place(), network.place(), network.place()
    for tail, head, room in ((0, a, 9), (a, b, 2), (b, 1, FOREVER), (0, c, 4), (c, 1, FOREVER)):
        network.connect(tail, head, room)
    assert network.behind_the_cut() == {1, b, c}


def test_cuts_of_random_graphs_are_minimal() -> None:
    draw = np.random.default_rng(3)
    for _ in range(30):
        count = 5
        edges = [
            (i, j, int(draw.integers(1, 9)))
            for i in range(count) for j in range(count)
            if i != j and draw.random() < 0.5
        ]  # fmt: skip
        network = Network()
        for _ in range(count - 2):
            network.place()
        for edge in edges:
            network.connect(*edge)
        behind = network.behind_the_cut()

        def cost(sink_side: set[int], edges: list[tuple[int, int, int]] = edges) -> int:
            return sum(c for i, j, c in edges if i not in sink_side and j in sink_side)

        sides = [{1} | {2 + k for k in range(count - 2) if bits >> k & 1} for bits in range(8)]
        assert 0 not in behind and cost(behind) == min(map(cost, sides))
