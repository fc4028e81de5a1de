"""Parameters that products of a compiled function read are laid out once: same values as NumPy's,
also after a parameter changes, and no copy where it is not worth its memory.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella import nn
from lamella.config import config
from lamella.transforms.prepared import Prepared, room_for_panels

pytestmark = pytest.mark.usefixtures("optimized")
Function = Callable[[Any], Any]
MIB = 1 << 20


@pytest.fixture(autouse=True)
def room() -> None:
    """What other tests' functions keep is gone where they are."""
    gc.collect()


def draw(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    return (rng.normal(size=shape) / np.sqrt(shape[-1])).astype(dtype)


def kept(function: Function, *args: Any) -> int:
    """Bytes of panels that a compiled function keeps from its first call on."""
    with lm.no_grad():
        before = room_for_panels()
        lm.eval(function(*args))
        return before - room_for_panels()


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The room for panels is what the setting says, whatever memory the machine has left."""
    from lamella.transforms import prepared

    monkeypatch.setattr(prepared, "memory_available", lambda: 1 << 50)


FORMS: dict[str, Function] = {
    "x wT": lambda p: lambda x: x @ p[0].T,
    "x w": lambda p: lambda x: x @ p[1],
    "linear": lambda p: lambda x: lm.nn.functional.linear(x, p[0], p[2]),
    "tail": lambda p: lambda x: lm.maximum(x @ p[0].T + p[2], 0.1) + x[:, :1],
    "twice": lambda p: lambda x: (x @ p[1]) @ p[0] + x,
    "left expression": lambda p: lambda x: (x * 2 + 1) @ p[0].T,
    "sliced": lambda p: lambda x: x @ p[0][:96].T,
}
MEANING: dict[str, Function] = {
    **FORMS,
    "linear": lambda p: lambda x: x @ p[0].T + p[2],
    "tail": lambda p: lambda x: np.maximum(x @ p[0].T + p[2], 0.1) + x[:, :1],
}


@pytest.mark.parametrize(("rows", "dtype"), [(9, "float32"), (131, "float32"), (41, "float64")])
@pytest.mark.parametrize("size", [(96, 80), (480, 1100), (100, 72)])
@pytest.mark.parametrize("form", FORMS)
def test_values(form: str, size: tuple[int, int], rows: int, dtype: str) -> None:
    n, k = size
    x, w, bias = draw(rows, k, dtype=dtype), draw(n, k, dtype=dtype), draw(n, dtype=dtype)
    given = [lm.tensor(a) for a in (w, np.ascontiguousarray(w.T), bias)]
    function = lm.jit(FORMS[form](given))
    with config(verify=1), lm.no_grad():
        found = [function(lm.tensor(x)).numpy() for _ in range(2)]
    wide = [a.astype(np.float64) for a in (w, w.T, bias)]
    expected = MEANING[form](wide)(x.astype(np.float64))
    tolerance = 2e-5 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(found[0], expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(found[0], found[1])


def test_heads_and_batches() -> None:
    x, w = draw(2, 6, 40, 32), draw(192, 192)
    weight = lm.tensor(w)
    function = lm.jit(lambda x: x.permute(0, 2, 1, 3).reshape(2, 40, 192) @ weight.T)
    assert kept(function, lm.tensor(x)) == w.nbytes
    with lm.no_grad():
        found = function(lm.tensor(x)).numpy()
    expected = x.astype(np.float64).transpose(0, 2, 1, 3).reshape(2, 40, 192) @ w.T
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    "change",
    [
        lambda p, w: p.copy_(lm.tensor(w)),
        lambda p, w: p.mul_(-2.0),
        lambda p, w: p.__setitem__(3, 7.0),
        lambda p, w: setattr(p, "data", lm.tensor(w)),
    ],
)
def test_a_changed_parameter_is_laid_out_again(change: Callable[[Any, Any], Any]) -> None:
    layer = nn.Linear(96, 120).eval()
    x = draw(33, 96)
    function = lm.jit(lambda x: layer(x))
    with lm.no_grad():
        assert kept(function, lm.tensor(x)) == 4 * 96 * 120
        for _ in range(2):
            change(layer.weight, draw(120, 96) + 1)
            weight, bias = (p.numpy().astype(np.float64) for p in (layer.weight, layer.bias))
            found = [function(lm.tensor(x)).numpy() for _ in range(2)]
            expected = x.astype(np.float64) @ weight.T + bias
            np.testing.assert_allclose(found[0], expected, rtol=1e-5, atol=1e-4)
            np.testing.assert_array_equal(found[0], found[1])


def test_another_tensor_that_changes_does_not_lay_out_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    w, buffer = draw(96, 96), lm.tensor(draw(33, 96))
    weight, given = lm.tensor(w), draw(33, 96)
    function = lm.jit(lambda x: (x + buffer) @ weight)
    runs: list[int] = []
    run = Prepared._run
    monkeypatch.setattr(Prepared, "_run", lambda self, given: runs.append(1) or run(self, given))
    with lm.no_grad():
        for step in range(4):
            x = draw(33, 96) + step
            buffer.copy_(lm.tensor(x))
            found = function(lm.tensor(given)).numpy()
            expected = (given.astype(np.float64) + x) @ w
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
        assert len(runs) == 1
        weight.mul_(3.0)
        found = function(lm.tensor(given)).numpy()
    assert len(runs) == 2
    np.testing.assert_allclose(found, 3 * expected, rtol=1e-5, atol=1e-4)


def test_memory_that_others_write_to_is_read_as_it_is() -> None:
    x, w = draw(33, 96), draw(96, 96)
    shared = lm.from_dlpack(w)
    function = lm.jit(lambda x: x @ shared)
    assert kept(function, lm.tensor(x)) == 0
    for _ in range(2):
        w *= 3
        np.testing.assert_allclose(
            function(lm.tensor(x)).numpy(), x.astype(np.float64) @ w, rtol=1e-5, atol=1e-4
        )


@pytest.mark.parametrize(("rows", "some"), [(8, False), (9, True), (224, True), (225, False)])
def test_the_rows_decide(rows: int, some: bool) -> None:
    w = lm.tensor(draw(96, 96))
    function = lm.jit(lambda x: x @ w)
    assert kept(function, lm.tensor(draw(rows, 96))) == (4 * 96 * 96 if some else 0)


def test_a_step_of_training_keeps_nothing() -> None:
    layer = nn.Linear(96, 96)
    optimizer = lm.optim.SGD(layer.parameters(), lr=0.1)

    @lm.jit
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (layer(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    before = room_for_panels()
    lm.eval(step(lm.tensor(draw(33, 96))))
    assert room_for_panels() == before


@pytest.mark.usefixtures("counted")
def test_room_is_bounded_and_comes_back() -> None:
    first, second = lm.tensor(draw(512, 512)), lm.tensor(draw(512, 1024))

    def function(x: Any) -> Any:
        return x @ first @ second

    x = lm.tensor(draw(33, 512))
    with config(panels=0):
        plain = lm.jit(function)
        assert kept(plain, x) == 0
    before = room_for_panels()
    with config(panels=config.panels - before // MIB + 1):
        part = lm.jit(function)
        assert kept(part, x) == MIB, "the second matrix takes two MiB, and one was left"
    whole = lm.jit(function)
    assert kept(whole, x) == 3 * MIB
    with lm.no_grad():
        results = [f(x).numpy() for f in (plain, part, whole)]
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=0, atol=1e-5)
    del part, whole
    gc.collect()
    assert room_for_panels() == before


def test_tail_and_panels_are_one_kernel_that_packs_nothing() -> None:
    layer = nn.Sequential(nn.Linear(96, 192), nn.GELU()).eval()
    function, x = lm.jit(lambda x: layer(x)), lm.tensor(draw(2, 40, 96))
    with lm.no_grad():
        lowered = function.lower(x)
        assert len(lowered.kernels) == 1
        assert "local right" not in lowered.text(2)
        with config(panels=0):
            other = lm.jit(lambda x: layer(x)).lower(x)
    assert "local right" in other.text(2)


def test_threads_do_not_change_bits() -> None:
    layer = nn.Sequential(nn.Linear(600, 1536), nn.GELU(), nn.Linear(1536, 600)).eval()
    x = lm.tensor(draw(41, 600))
    results = []
    for threads in (1, 2, 3):
        with config(threads=threads), lm.no_grad():
            results.append(lm.jit(lambda x: layer(x))(x).numpy())
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
