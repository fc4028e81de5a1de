"""``lm.jit``: results, arguments and outputs of every kind, methods, nesting, dynamic sizes."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella import nn
from lamella.config import config
from lamella.errors import LamellaIndexError, OptionError, ShapeError, TraceError

RNG = np.random.default_rng(7)


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


@lm.jit
def doubled(x: Any) -> Any:
    return x * 2


# -- results ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("f", [
    lambda x: lm.tanh(x) * 2 + x, lambda x: (x @ x.T).sum(0), lambda x: lm.sort(x, 1)[:, ::-1],
    lambda x: x.reshape(2, 6)[:, 1:4].exp(), lambda x: lm.cumsum(x, 0), lambda x: x.argmax(1),
    lambda x: nn.functional.softmax(x, -1), lambda x: x.astype("bfloat16") + 1,
])  # fmt: skip
def test_bits_are_those_of_eager(f: Any) -> None:
    x = draw(3, 4)
    compiled = lm.jit(f)
    for _ in range(2):
        want, got = f(lm.asarray(x)).numpy(), compiled(x).numpy()
        assert want.dtype == got.dtype and want.tobytes() == got.tobytes()
    assert compiled.programs == 1


def test_outputs_of_earlier_calls_stay() -> None:
    f = lm.jit(lambda x: (x + 1, x * x))
    first = f(np.arange(4.0))
    view = first[0].numpy()
    for i in range(5):
        f(np.full(4, float(i)))
    assert view.tolist() == [1, 2, 3, 4] and first[1].tolist() == [0, 1, 4, 9]


def test_arrays_of_the_caller_may_change_after_the_call() -> None:
    f = lm.jit(lambda x: (x, x.reshape(2, 2), x[None], {"sum": x.sum()}))
    x = np.arange(4.0)
    found = f(x)
    x[:] = -1
    assert found[0].tolist() == [0, 1, 2, 3] and found[1].tolist() == [[0, 1], [2, 3]]
    assert found[2].tolist() == [[0, 1, 2, 3]] and found[3]["sum"].item() == 6
    assert f(x)[0].tolist() == [-1] * 4 and f.programs == 1


def test_an_input_that_is_an_output_is_itself() -> None:
    captured = lm.ones(2)
    f = lm.jit(lambda x: (x, captured, x, x + captured))
    x = lm.asarray([1.0, 2.0])
    for _ in range(2):
        a, b, c, d = f(x)
        assert a is x and c is x and b is captured and d.tolist() == [2, 3]


def test_trees_in_and_out() -> None:
    def f(batch: dict[str, Any], *rest: Any, scale: Any) -> Any:
        return {"out": [batch["a"] * scale, (batch["b"]["c"] - rest[0],)], "none": None}

    compiled = lm.jit(f)
    for i in range(3):
        batch = {"a": draw(2), "b": {"c": draw(3)}}
        found = compiled(batch, lm.asarray(float(i)), scale=np.float32(3))
        np.testing.assert_allclose(found["out"][0].numpy(), batch["a"] * 3)
        np.testing.assert_allclose(found["out"][1][0].numpy(), batch["b"]["c"] - i, rtol=1e-6)
        assert found["none"] is None and isinstance(found["out"][1], tuple)
    assert compiled.programs == 1


def test_outputs_that_are_no_tensors() -> None:
    table = np.arange(3)

    def f(x: Any) -> Any:
        return x + 1, "text", 3, None, x.shape, table

    compiled = lm.jit(f)
    for _ in range(2):
        y, text, three, none, shape, array = compiled(np.zeros((2, 5)))
        assert (text, three, none, shape) == ("text", 3, None, (2, 5)) and y.shape == (2, 5)
        array[:] = 9  # the caller's own from now on
    assert table.tolist() == [0, 1, 2]


def test_no_tensors_at_all() -> None:
    f = lm.jit(lambda n: n + 1)
    assert f(1) == 2 and f(2) == 3 and f(1) == 2 and f.programs == 2
    assert lm.jit(lambda: lm.ones(2))().tolist() == [1, 1]


def test_numpy_scalars_and_strided_arrays() -> None:
    f = lm.jit(lambda x, s: x * s)
    x = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(f(x[:, ::2], np.float64(2)).numpy(), x[:, ::2] * 2)
    np.testing.assert_array_equal(f(x[:, 1::2], np.float64(3)).numpy(), x[:, 1::2] * 3)
    np.testing.assert_array_equal(f(x.T[:3, :2], np.float64(4)).numpy(), x.T[:3, :2] * 4)
    assert f.programs == 2  # the second has the number as an argument


def test_shapes_dtypes_and_structures_have_programs_of_their_own() -> None:
    f = lm.jit(lambda x: lm.tanh(x) if not isinstance(x, (list, tuple)) else sum(x))
    for value in (draw(3), draw(4), draw(3).astype(np.float64), [draw(3)] * 2, (draw(3), draw(3))):
        got = f(value)
        want = np.tanh(value) if isinstance(value, np.ndarray) else value[0] + value[1]
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)
    assert f.programs == 5


# -- arguments -------------------------------------------------------------------------------------
def test_one_tensor_passed_twice() -> None:
    def f(x: Any, y: Any) -> Any:
        x += 1
        return x * 10 + y

    compiled = lm.jit(f)
    a, b = lm.asarray([1.0]), lm.asarray([5.0])
    assert compiled(a, b).tolist() == [25] and a.tolist() == [2] and b.tolist() == [5]
    assert compiled(a, a).tolist() == [33] and a.tolist() == [3]
    assert compiled(b, a).tolist() == [63] and b.tolist() == [6] and a.tolist() == [3]
    assert compiled.programs == 2


def test_keywords_and_positions() -> None:
    f = lm.jit(lambda x, y=1.0, *, flag=False: x - y if flag else x * y)
    x = lm.asarray([4.0])
    assert f(x).tolist() == [4] and f(x, 2.0).tolist() == [8] and f(x, y=2.0).tolist() == [8]
    assert f(x, y=3.0).tolist() == [12] and f(x, flag=True, y=3.0).tolist() == [1]
    assert f(x, lm.asarray([7.0]), flag=True).tolist() == [-3]
    assert f(y=x, x=lm.asarray([2.0])).tolist() == [8]


def test_python_arguments_count_by_value() -> None:
    f = lm.jit(lambda x, n: x * n if n is not True else x)
    x = lm.asarray([3.0])
    for n, want in ((2, 6), (2.5, 7.5), (True, 3), (1, 3), (0.0, 0), (-0.0, 0), (2, 6)):
        found = f(x, n)
        assert found.tolist() == [want]
        assert np.signbit(found.numpy())[0] == np.signbit(np.float32(3) * np.float32(n))


def test_arguments_changed_in_place() -> None:
    @lm.jit
    def f(x: Any, values: list[Any]) -> Any:
        x += 1
        x[0] = 9
        values[0].mul_(2)
        return x.sum()

    x, v = lm.zeros(3), lm.ones(2)
    alias = x.clone()
    assert f(x, [v]).item() == 11 and x.tolist() == [9, 1, 1] and v.tolist() == [2, 2]
    assert f(x, [v]).item() == 13 and x.tolist() == [9, 2, 2] and v.tolist() == [4, 4]
    assert alias.tolist() == [0, 0, 0] and f.programs == 1


def test_lists_of_the_caller_may_be_changed_only_when_traced() -> None:
    """The caller's own containers reach the function, and are not copied."""
    seen: list[Any] = []

    @lm.jit
    def f(parts: list[Any], x: Any) -> Any:
        seen.append(parts)
        return parts[0] + x

    parts = [lm.ones(1)]
    f(parts, np.ones(1, np.float32))
    assert seen[0] is parts


def test_unhashable_arguments_are_refused() -> None:
    with pytest.raises(OptionError, match=r"neither traced nor"):
        lm.jit(lambda x: x)({1, 2})
    with pytest.raises(OptionError, match="cannot be called"):
        lm.jit(3)


# -- methods, modules, nesting ---------------------------------------------------------------------
class Scaler:
    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.count = lm.zeros(())

    @lm.jit
    def __call__(self, x: Any) -> Any:
        self.count += 1
        return x * self.factor

    @lm.jit
    def other(self, x: Any) -> Any:
        return x + self.factor


def test_instances_share_no_state() -> None:
    a, b = Scaler(2.0), Scaler(3.0)
    x = lm.ones(2)
    assert a(x).tolist() == [2, 2] and b(x).tolist() == [3, 3] and a(x).tolist() == [2, 2]
    assert a.other(x).tolist() == [3, 3] and b.other(x).tolist() == [4, 4]
    assert a.count.item() == 2 and b.count.item() == 1
    a.factor = 5.0
    assert a(x).tolist() == [5, 5] and b(x).tolist() == [3, 3]


def test_copies_of_an_object_have_compiled_methods_of_their_own() -> None:
    a, x = Scaler(2.0), lm.ones(1)
    a(x)
    for duplicate in (copy.copy(a), copy.deepcopy(a), pickle.loads(pickle.dumps(a))):
        duplicate.factor = 7.0
        assert duplicate(x).tolist() == [7] and a(x).tolist() == [2]
    assert pickle.loads(pickle.dumps(doubled)) is doubled and copy.deepcopy(doubled) is doubled


def test_objects_with_compiled_methods_are_freed() -> None:
    a = Scaler(2.0)
    a(lm.ones(1))
    gone = weakref.ref(a)
    del a
    gc.collect()
    assert gone() is None


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)
        self.power = 1.0

    @lm.jit
    def forward(self, x: Any) -> Any:
        return self.fc(x) ** self.power


def test_compiled_forward_of_modules() -> None:
    net, x = Net(), draw(4, 3)
    want = net.fc(lm.asarray(x)).numpy()
    assert net(x).numpy().tobytes() == want.tobytes()
    other = copy.deepcopy(net)
    other.power = 2.0
    np.testing.assert_allclose(other(x).numpy(), want**2, rtol=1e-6)
    assert net(x).numpy().tobytes() == want.tobytes()
    leaves, structure = lm.tree.flatten(net)
    doubled_net = lm.tree.unflatten(structure, [leaf * 2 for leaf in leaves])
    np.testing.assert_allclose(doubled_net(x).numpy(), want * 2, rtol=1e-5)


def test_modules_as_functions_and_as_arguments() -> None:
    net, x = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2)).eval(), draw(5, 3)
    compiled, applied = lm.jit(net), lm.jit(lambda m, x: m(x))
    want = net(lm.asarray(x)).numpy()
    for f in (compiled, lambda v: applied(net, v)):
        assert f(x).numpy().tobytes() == want.tobytes()
    other = copy.deepcopy(net)
    with lm.no_grad():
        other[0].weight.mul_(2)
    got = applied(other, x).numpy()
    assert applied.programs == 1
    np.testing.assert_array_equal(got, other(lm.asarray(x)).numpy())
    net.train()
    assert not np.array_equal(compiled(x).numpy(), want) and compiled.programs == 2


def test_nested_compiled_functions() -> None:
    inner_state = lm.zeros(())

    @lm.jit
    def inner(x: Any) -> Any:
        inner_state.add_(1)
        return x * 2

    @lm.jit
    def outer(x: Any) -> Any:
        return inner(inner(x)) + inner(np.ones(2, np.float32)).sum()

    for _ in range(3):
        assert outer(lm.ones(2)).tolist() == [8, 8]
    assert inner_state.item() == 9 and inner.programs == 0 and outer.programs == 1
    assert inner(lm.ones(2)).tolist() == [2, 2] and inner_state.item() == 10


def test_compiled_in_threads() -> None:
    f = lm.jit(lambda x, n: lm.tanh(x * n).sum())
    wrong: list[Any] = []

    def work(seed: int) -> None:
        for i in range(20):
            x = np.full(5, seed + i / 10, np.float32)
            got, want = f(x, 1 + i % 3).item(), np.tanh(x * (1 + i % 3)).sum()
            if abs(got - want) > 1e-4:
                wrong.append((got, want))

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and f.programs <= 12


# -- sizes -----------------------------------------------------------------------------------------
def test_dynamic_sizes() -> None:
    w = draw(3, 2)

    def f(x: Any, y: Any) -> Any:
        h = lm.tanh(x @ w) + y
        return h, h.sum(0), h.mean(), h.reshape(x.shape[0], 1, 2), x.shape[0]

    compiled = lm.jit(f, dynamic={"x": {0: "n"}, "y": {0: "n"}})
    for n in (5, 1, 2, 64, 0, 7):
        x, y = draw(n, 3), draw(n, 2)
        found = compiled(x, y=y) if n == 2 else compiled(x, y)
        want = np.tanh(x @ w) + y
        np.testing.assert_allclose(found[0].numpy(), want, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found[1].numpy(), want.sum(0), rtol=1e-5, atol=1e-5)
        if n:
            np.testing.assert_allclose(found[2].item(), want.mean(), rtol=1e-4, atol=1e-6)
        assert found[3].shape == (n, 1, 2) and found[4] == n and type(found[4]) is int
    assert compiled.programs == 2  # the keyword is another structure


def test_gradients_with_dynamic_sizes() -> None:
    w = lm.asarray(draw(3, 2)).requires_grad_()
    f = lm.jit(lambda x: ((x @ w) ** 2).sum(), dynamic={"x": {0: "n"}})
    for n in (4, 1, 9):
        x = draw(n, 3)
        w.grad = None
        f(x).backward()
        np.testing.assert_allclose(w.grad.numpy(), 2 * x.T @ (x @ w.numpy()), rtol=1e-4, atol=1e-5)
    assert f.programs == 1


def test_dynamic_errors() -> None:
    with pytest.raises(OptionError, match="did you mean 'x'"):
        lm.jit(lambda x: x, dynamic={"xx": {0: "n"}})
    f = lm.jit(lambda x, y: x.sum() + y.sum(), dynamic={"x": {0: "n"}, "y": {0: "n"}})
    with pytest.raises(OptionError, match="different names"):
        f(draw(2), draw(3))
    with pytest.raises(OptionError, match="axis 3 is not one"):
        lm.jit(lambda x: x, dynamic={"x": {3: "n"}})(draw(2))


TAKEN: dict[str, tuple[Callable[[Any], Any], int]] = {  # and the least size
    "index": (lambda x: x[5], 6),
    "from behind": (lambda x: x[-5], 5),
    "slice": (lambda x: x[2:5], 5),
    "strided": (lambda x: x[1:6:2], 6),
    "the last": (lambda x: x[-4:], 4),
    "rest": (lambda x: x[3:], 3),
    "all but the last": (lambda x: x[:-3], 3),
    "written": (lambda x: x.at[2:5].add(7.0), 5),
    "gathered": (lambda x: x[lm.asarray([0, 0])], 1),
    "scattered": (lambda x: x.at[lm.asarray([0, 0])].add(1.0), 1),
    "of a sum": (lambda x: lm.concat([x, x])[5], 3),
    "gradient": (lambda x: lm.grad(lambda y: (y[2:5] ** 2).sum())(x), 5),
    "in a loop": (lambda x: lm.scan(lambda c, a: (c + x[3, 0], a), lm.asarray(0.0), x)[0], 4),
    "in a branch": (lambda x: lm.cond(x.sum() > -1e9, lambda: x[4], lambda: x[0]), 5),
    "in vmap": (lambda x: lm.vmap(lambda column: column[5])(x.T), 6),
    "in a checkpoint": (lm.grad(lambda x: lm.checkpoint(lambda y: y[2] * y[3])(x).sum()), 4),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_dynamic_axes_that_are_too_short(name: str) -> None:
    """No memory beyond an array is read or written; with the least size the results are right."""
    f, least = TAKEN[name]
    compiled = lm.jit(f, dynamic={"x": {0: "n"}})
    for n in (8, least):
        x = lm.asarray(draw(n, 2))
        np.testing.assert_allclose(compiled(x).numpy(), f(x).numpy(), rtol=1e-5)
    with pytest.raises((LamellaIndexError, ShapeError), match=r"in this call.*pass more"):
        compiled(lm.asarray(draw(least - 1, 2)))
    assert compiled.programs == 1


def test_dynamic_methods() -> None:
    class Holder:
        def f(self, x: Any) -> Any:
            return x.sum()

    Holder.f = lm.jit(Holder.f, dynamic={"x": {0: "n"}})  # type: ignore[method-assign]
    holder: Any = Holder()
    for n in (1, 2, 3):
        assert holder.f(np.ones(n)).item() == n
    assert holder.f.programs == 1


# -- what cannot be compiled -----------------------------------------------------------------------
@pytest.mark.parametrize("look", [
    lambda x: float(x.sum()), lambda x: x.numpy(), lambda x: bool(x.sum() > 0),
    lambda x: x.tolist(), lambda x: np.asarray(x), lambda x: f"{x.sum():.2f}", lambda x: x.item(),
    lambda x: lm.eval(x), lambda x: [1, 2][x.sum().astype("int64")],
])  # fmt: skip
def test_values_cannot_be_looked_at(look: Any) -> None:
    def f(x: Any) -> Any:
        look(x)
        return x * 2

    x = lm.asarray([1.5])
    with pytest.raises(TraceError):
        lm.jit(f)(x)
    assert x.tolist() == [1.5]


def test_values_of_captured_tensors_cannot_be_looked_at() -> None:
    w = lm.asarray(2.0)
    f = lm.jit(lambda x: x * w.item())
    with pytest.raises(TraceError, match=r"lm\.where"):
        f(lm.ones(2))
    assert w.item() == 2.0


def test_printing_happens_when_traced(capsys: pytest.CaptureFixture[str]) -> None:
    @lm.jit
    def f(x: Any) -> Any:
        print("tracing", x.shape, x * 2)  # noqa: T201
        return x

    for _ in range(3):
        f(lm.ones(2))
    assert capsys.readouterr().out == "tracing (2,) Tensor(float32[2], traced)\n"


def test_values_that_no_input_decides_can_be_looked_at() -> None:
    f = lm.jit(lambda x: x * lm.arange(4).sum().item())
    assert f(lm.ones(2)).tolist() == [6, 6] and f(lm.ones(2)).tolist() == [6, 6]


def test_indices_out_of_range_when_run() -> None:
    f = lm.jit(lambda x, i: x[i])
    assert f(lm.arange(3), lm.asarray([2, 0])).tolist() == [2, 0]
    with pytest.raises(LamellaIndexError):
        f(lm.arange(3), lm.asarray([2, 3])).tolist()
    assert f(lm.arange(3), lm.asarray([1, 1])).tolist() == [1, 1]


# -- looking at programs ---------------------------------------------------------------------------
def test_lower_prints_every_level() -> None:
    f = lm.jit(lambda x: lm.tanh(x).sum())
    lowered = f.lower(lm.ones((3, 4)))
    texts = [lowered.text(level) for level in (1, 2, 3, 4)]
    assert "tanh" in texts[0] and "float32" in texts[0]
    assert all(longer.startswith(text) for text, longer in pairwise(texts))
    assert "define" in texts[2] and len(texts[3]) > len(texts[2])
    assert f.programs == 1 and f(lm.ones((3, 4))).shape == () and f.programs == 1


def test_the_interpreter_runs_the_function_itself() -> None:
    f = lm.jit(lambda x: x.sum() * 2)
    with config(backend="interpret"):
        assert f(np.ones(3)).item() == 6 and f.programs == 0


def test_wraps_the_function() -> None:
    assert doubled.__name__ == "doubled" and "doubled" in repr(doubled)


@pytest.mark.usefixtures("optimized")
def test_what_equal_numbers_make_is_made_once() -> None:
    w = lm.ones((64, 64))

    def layer(x: lm.Tensor) -> lm.Tensor:
        return ((x - x.mean()) / 3.0) @ w

    step = lm.jit(lambda x: [layer(x) * k for k in (1.0, 2.0, -0.0)])
    found = [y.numpy() for y in step(lm.arange(128.0).reshape(2, 64))]
    np.testing.assert_array_equal(found[1], 2 * found[0])
    (entry,) = next(iter(step._entries.values()))
    labels = "+".join(s.label for s in entry._program.blueprint.steps)
    assert labels.count("contract") == 1
