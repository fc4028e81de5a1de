"""Values kept between calls of a compiled function: computed once, and again when what they are
made of has changed in any way.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import lamella as lm
from lamella import nn
from lamella.config import config
from lamella.transforms.prepared import Prepared


@pytest.fixture(autouse=True)
def with_passes() -> Iterator[None]:
    with config(optimize=1, skip_passes="", backend="llvm"):
        yield


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one whenever kept values are computed."""
    seen: list[int] = []
    run = Prepared._run
    monkeypatch.setattr(Prepared, "_run", lambda self, given: seen.append(1) or run(self, given))
    return seen


def network() -> nn.Module:
    lm.manual_seed(0)
    body = nn.Sequential(
        nn.Conv2d(8, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.Conv2d(24, 16, 1)
    )
    return body.eval()


def image() -> lm.Tensor:
    return lm.asarray(np.random.default_rng(0).standard_normal((2, 8, 9, 9)).astype(np.float32))


def test_computed_once(runs: list[int]) -> None:
    model, x = network(), image()
    with lm.no_grad():
        wanted = model(x).numpy()
        forward = lm.jit(lambda v: model(v))
        for _ in range(3):
            np.testing.assert_allclose(forward(x).numpy(), wanted, rtol=1e-5, atol=1e-5)
    assert len(runs) == 1


def test_weights_of_recurrent_layers_are_laid_out_once(runs: list[int]) -> None:
    lm.manual_seed(0)
    model, x = nn.GRU(64, 96), lm.random.normal((5, 4, 64))
    with lm.no_grad():
        wanted = model(x)[0].numpy()
        forward = lm.jit(lambda v: model(v)[0])
        for _ in range(3):
            np.testing.assert_allclose(forward(x).numpy(), wanted, rtol=1e-5, atol=1e-5)
        assert len(runs) == 1
        model.weight_hh_l0 *= 0
        assert np.abs(forward(x).numpy() - wanted).max() > 0.01
    assert len(runs) == 2


@pytest.mark.parametrize("way", ["copy", "in place", "load", "data"])
def test_a_change_of_a_parameter_is_seen(way: str, runs: list[int]) -> None:
    model, x = network(), image()
    layer = model[0]
    with lm.no_grad():
        forward = lm.jit(lambda v: model(v))
        before = forward(x).numpy()
        new = layer.weight.numpy() * 2 + 1
        if way == "copy":
            layer.weight.copy_(lm.asarray(new))
        elif way == "in place":
            layer.weight *= 2
            layer.weight += 1
        elif way == "load":
            state = {name: value.numpy() for name, value in model.state_dict().items()}
            model.load_state_dict(state | {"0.weight": new})
        else:
            layer.weight.data = lm.asarray(new)
        found = forward(x).numpy()
        wanted = model(x).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    assert np.abs(found - before).max() > 0.1


def test_memory_of_others_is_read_every_time() -> None:
    array = np.ones((16, 8, 3, 3), np.float32)
    weight, x = lm.asarray(array, copy=False), image()
    forward = lm.jit(lambda v: nn.functional.conv2d(v, weight))
    first = forward(x).numpy()
    array *= 3
    np.testing.assert_allclose(forward(x).numpy(), 3 * first, rtol=1e-5, atol=1e-4)


def test_a_mapped_file_is_relied_on(tmp_path: Path, runs: list[int]) -> None:
    model, x = network(), image()
    lm.save(model.state_dict(), tmp_path / "network.safetensors")
    model.load_state_dict(lm.load(tmp_path / "network.safetensors"))
    with lm.no_grad():
        forward = lm.jit(lambda v: model(v))
        found = [forward(x).numpy() for _ in range(3)]
    np.testing.assert_array_equal(found[0], found[2])
    assert len(runs) == 1


def test_what_was_looked_at_is_still_relied_on(runs: list[int]) -> None:
    model, x = network(), image()
    seen = [parameter.numpy() for parameter in model.parameters()]
    with lm.no_grad():
        forward = lm.jit(lambda v: model(v))
        forward(x), forward(x)
    assert len(seen) == 6
    assert len(runs) == 1


def test_a_training_step_keeps_nothing(runs: list[int]) -> None:
    model, x = network().train(), image()
    optimizer = lm.optim.SGD(model.parameters(), lr=0.1)

    @lm.jit
    def step(v: lm.Tensor) -> lm.Tensor:
        loss = (model(v) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    losses = [float(step(x)) for _ in range(4)]
    assert losses[-1] < losses[0]
    assert not runs


def test_calls_from_several_threads() -> None:
    model, x = network(), image()
    forward = lm.jit(lambda v: model(v))
    with lm.no_grad():
        wanted = model(x).numpy()
    wrong: list[float] = []

    def work() -> None:
        with lm.no_grad():
            wrong.extend(float(np.abs(forward(x).numpy() - wanted).max()) for _ in range(20))

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert max(wrong) < 1e-4
    assert len(wrong) == 60
