"""What ``lm.jit`` bakes in of Python is watched: a change makes another program."""

from __future__ import annotations

import dataclasses
import enum
import functools
import sys
import types
import warnings
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

import lamella as lm
from lamella import nn
from lamella.config import config

SCALE = 2.0
TABLE = {"a": {"b": [1.0, 2.0]}}
ARRAY = np.arange(3, dtype=np.float32)
X = np.ones(3, np.float32)


class Plain:
    kind: ClassVar[float] = 1.0

    def __init__(self) -> None:
        self.scale = 1.0
        self.unrelated = 0
        self.deep = types.SimpleNamespace(values=[1.0, {"k": 1.0}])

    def apply(self, x: Any) -> Any:
        return x * self.scale


class Slotted:
    __slots__ = ("scale",)

    def __init__(self) -> None:
        self.scale = 1.0


@dataclasses.dataclass
class Data:
    scale: float = 1.0


class Mode(enum.Enum):
    ADD = 1
    MULTIPLY = 2


def helper(x: Any) -> Any:
    return x * SCALE


@pytest.fixture
def restored() -> Iterator[None]:
    global SCALE
    kept = SCALE
    yield
    SCALE = kept
    TABLE["a"]["b"][0] = 1.0
    ARRAY[0] = 0.0
    Plain.kind = 1.0


def check(f: Callable[..., Any], change: Callable[[], object], *args: Any) -> None:
    """Before and after ``change`` the compiled function does what the function does."""
    compiled = lm.jit(f)
    arguments = args or (X,)

    def want() -> np.ndarray:
        return np.asarray(f(*[lm.asarray(a) if a is X else a for a in arguments]).numpy())

    def got() -> np.ndarray:
        return compiled(*arguments).numpy()

    before = want()
    np.testing.assert_array_equal(got(), before)
    np.testing.assert_array_equal(got(), before)
    assert compiled.programs == 1, "nothing has changed"
    change()
    assert not np.array_equal(want(), before), "the change must matter"
    np.testing.assert_array_equal(got(), want())
    np.testing.assert_array_equal(got(), want())
    assert compiled.programs == 2


# -- globals, closures, defaults -------------------------------------------------------------------
def test_globals(restored: None) -> None:
    def change() -> None:
        global SCALE
        SCALE = 3.0

    check(lambda x: x * SCALE, change)
    SCALE_BACK = 2.0
    globals()["SCALE"] = SCALE_BACK
    check(lambda x: helper(x) + 1, change)
    globals()["SCALE"] = SCALE_BACK
    check(lambda x: (lambda y: y * SCALE)(x), change)


def test_nested_containers(restored: None) -> None:
    check(lambda x: x * TABLE["a"]["b"][0], lambda: TABLE["a"]["b"].__setitem__(0, 5.0))


def test_arrays(restored: None) -> None:
    check(lambda x: x * np.cos(ARRAY), lambda: ARRAY.__setitem__(0, 5.0))


def test_large_arrays() -> None:
    large = np.ones((300, 1000), np.float32)
    check(lambda x: x * (large * 2).sum(), lambda: large.__setitem__(slice(None), 3.0))
    f = lm.jit(lambda x: x * lm.asarray(large)[7, 7])
    f(X)
    large[7, 7] = 5.0  # one element: read at each run, since its memory is shared
    assert f(X).tolist() == [5, 5, 5]


def test_closures() -> None:
    factor, flags, names = 2.0, {"on": True}, ["relu"]

    def change() -> None:
        nonlocal factor
        factor = 4.0

    check(lambda x: x * factor, change)
    check(lambda x: x if flags["on"] else -x, lambda: flags.update(on=False))
    check(lambda x: getattr(nn.functional, names[-1])(x - 2), lambda: names.append("tanh"))


def test_functions_in_closures() -> None:
    act: Any = lm.tanh

    def change() -> None:
        nonlocal act
        act = lm.exp

    check(lambda x: act(x), change)


@pytest.mark.parametrize("container", [
    lambda: [1.0], lambda: deque([1.0]), lambda: {"k": 1.0}, lambda: defaultdict(float, k=1.0),
    lambda: OrderedDict(k=1.0), lambda: {1.0},
])  # fmt: skip
def test_containers_that_change(container: Callable[[], Any]) -> None:
    held = container()

    def change() -> None:
        if isinstance(held, dict):
            held["other"] = 6.0
        elif isinstance(held, set):
            held.add(6.0)
        else:
            held.append(6.0)

    check(lambda x: x * sum(held.values() if isinstance(held, dict) else held), change)


def test_order_of_keys() -> None:
    held = {"a": 1.0, "b": 1.0}

    def change() -> None:
        held["a"] = held.pop("a")

    check(lambda x: x * (1 if next(iter(held)) == "a" else 2), change)


def test_defaults() -> None:
    def f(x: Any, by: float = 2.0, *, plus: list[float] = [1.0]) -> Any:  # noqa: B006
        return x * by + plus[0]

    check(f, lambda: setattr(f, "__defaults__", (3.0,)))
    check(f, lambda: f.__kwdefaults__["plus"].__setitem__(0, 9.0))


def test_partial_functions() -> None:
    def f(factors: list[float], x: Any, bias: float = 0.0) -> Any:
        return x * factors[0] * SCALE + bias

    factors = [1.0]
    check(functools.partial(f, factors), lambda: factors.__setitem__(0, 2.0))
    bound = functools.partial(f, factors, bias=1.0)
    check(bound, lambda: bound.keywords.update(bias=5.0))


def test_equal_values_make_no_program() -> None:
    settings: Any = {"sizes": [1.0, 2.0], "name": "n" * 50}

    def f(x: Any) -> Any:
        return x * settings["sizes"][1]

    compiled = lm.jit(f)
    compiled(X)
    settings = {"sizes": [float("1"), float("2")], "name": "n" * 49 + "n"}
    compiled(X)
    assert compiled.programs == 1


# -- objects ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", [Plain, Slotted, Data, types.SimpleNamespace])
def test_attributes_of_objects(kind: Any) -> None:
    config_ = kind(scale=1.0) if kind is types.SimpleNamespace else kind()
    check(lambda x: x * config_.scale, lambda: setattr(config_, "scale", 2.0))
    check(lambda x, c: x * c.scale, lambda: setattr(config_, "scale", 3.0), X, config_) \
        if kind not in (Data, types.SimpleNamespace) else None  # fmt: skip
    check(lambda x: x * getattr(config_, "sca" + "le"), lambda: setattr(config_, "scale", 4.0))


def test_attributes_of_objects_deep_inside(restored: None) -> None:
    plain = Plain()
    check(lambda x: x * plain.deep.values[1]["k"],
          lambda: plain.deep.values[1].update(k=3.0))  # fmt: skip
    check(lambda x: x * plain.kind, lambda: setattr(Plain, "kind", 4.0))
    check(lambda x: x * Plain.kind, lambda: setattr(Plain, "kind", 5.0))
    check(lambda x: plain.apply(x), lambda: setattr(plain, "scale", 3.0))
    check(plain.apply, lambda: setattr(plain, "scale", 4.0))


def test_methods_that_are_exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Plain()
    check(lambda x: plain.apply(x),
          lambda: monkeypatch.setattr(Plain, "apply", lambda self, x: x - 7))  # fmt: skip


def test_attributes_that_code_does_not_mention_do_not_matter() -> None:
    plain = Plain()
    f = lm.jit(lambda x: plain.apply(x))
    for i in range(3):
        plain.unrelated = i
        f(X)
    assert f.programs == 1


def test_attributes_that_appear_later() -> None:
    plain = Plain()
    check(lambda x: x * getattr(plain, "extra", 1.0), lambda: setattr(plain, "extra", 2.0))


def test_enumerations_and_strings() -> None:
    state = {"mode": Mode.ADD}
    check(lambda x: x + 2 if state["mode"] is Mode.ADD else x * 2,
          lambda: state.update(mode=Mode.MULTIPLY))  # fmt: skip
    f = lm.jit(lambda x, mode, how: x + 2 if mode is Mode.ADD and how == "a" else x * 4)
    got = [f(X, m, h).tolist()[0] for m, h in
           ((Mode.ADD, "a"), (Mode.MULTIPLY, "a"), (Mode.ADD, "b"), (Mode.ADD, "a"))]  # fmt: skip
    assert got == [3, 4, 4, 3]


def test_user_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("lamella_user_settings")
    exec("FACTOR = 2.0\ndef scale(x):\n    return x * FACTOR\n", module.__dict__)
    monkeypatch.setitem(sys.modules, "lamella_user_settings", module)
    settings: Any = module
    check(lambda x: x * settings.FACTOR, lambda: setattr(module, "FACTOR", 3.0))
    check(lambda x: settings.scale(x), lambda: setattr(module, "FACTOR", 4.0))


# -- modules ---------------------------------------------------------------------------------------
class Block(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.power = 1.0
        self.settings = {"nested": {"shift": [0.0]}}
        self.plain = Plain()
        self.child = Block(depth - 1) if depth else nn.Dropout(0.0)

    def forward(self, x: Any) -> Any:
        y = (x * 2) ** self.power + self.settings["nested"]["shift"][0]
        return self.child(y * self.plain.scale)


def deepest(block: Any) -> Any:
    while isinstance(block.child, Block):
        block = block.child
    return block


@pytest.mark.parametrize("argument", [False, True])
@pytest.mark.parametrize("change", [
    lambda b: setattr(b, "power", 2.0), lambda b: b.settings["nested"]["shift"].__setitem__(0, 5.0),
    lambda b: b.settings["nested"].update(shift=[7.0]), lambda b: setattr(b.plain, "scale", 3.0),
    lambda b: setattr(b, "child", nn.ReLU().register_forward_hook and nn.Sequential(nn.Tanh())),
    lambda b: b.register_forward_hook(lambda module, args, result: result + 1),
    lambda b: b.child.register_forward_pre_hook(lambda module, args: (args[0] + 1,)),
])  # fmt: skip
def test_attributes_of_modules(change: Callable[[Any], Any], argument: bool) -> None:
    block = Block(6)
    if argument:
        check(lambda m, x: m(x), lambda: change(deepest(block)), block, X)
    else:
        check(lambda x: block(x), lambda: change(deepest(block)))


def test_modes_of_modules() -> None:
    block = Block(5)
    deepest(block).child.p = 0.9
    block.eval()
    f = lm.jit(block)
    want = f(X).tolist()
    block.train()
    assert f(X).tolist() != want
    block.eval()
    assert f(X).tolist() == want and f.programs == 2
    block.train()
    f(X)
    assert f.programs == 2
    deepest(block).child.p = 0.0
    assert f(X).tolist() == want and f.programs == 3


def test_frozen_parameters() -> None:
    layer = nn.Linear(3, 2)

    @lm.jit
    def f(x: Any) -> Any:
        layer.zero_grad()
        layer(x).sum().backward()

    f(X)
    layer.weight.requires_grad = False
    f(X)
    assert layer.weight.grad is None and layer.bias.grad is not None
    layer.requires_grad_(True)
    f(X)
    assert layer.weight.grad is not None


def test_exchanged_parameters_and_other_shapes() -> None:
    layer = nn.Linear(3, 2)
    f = lm.jit(lambda x: layer(x))
    f(X)
    layer.weight = nn.Parameter(lm.ones((2, 3)))
    layer.bias = None
    assert f(X).tolist() == [3, 3]
    w = lm.ones(3)
    g = lm.jit(lambda x: (x * w).sum())
    assert g(X).item() == 3
    w.data = lm.full((2, 3), 2.0)
    assert g(X).item() == 12
    w.data = lm.full((2, 3), 2.0, dtype=lm.float64)
    assert g(X).dtype is lm.float64


def test_shapes_of_captured_tensors_are_watched() -> None:
    w = lm.ones(3)
    f = lm.jit(lambda x: x * w.shape[0] + w.ndim)
    assert f(X).tolist() == [4, 4, 4]
    w.data = lm.ones((5, 1))
    assert f(X).tolist() == [7, 7, 7]


def test_gradient_mode() -> None:
    w = lm.ones(3).requires_grad_()
    f = lm.jit(lambda x: x * w)
    assert f(X).requires_grad
    with lm.no_grad():
        assert not f(X).requires_grad
    assert f(X).requires_grad and f.programs == 2
    assert not lm.jit(lambda x: x * w.detach())(X).requires_grad


# -- arguments that are captured too ---------------------------------------------------------------
def test_an_argument_that_is_also_captured() -> None:
    w = lm.asarray([2.0])
    f = lm.jit(lambda x: x + w)
    other = lm.asarray([10.0])
    for _ in range(2):
        assert f(w).tolist() == [4] and f(other).tolist() == [12] and f(w).tolist() == [4]
    g = lm.jit(lambda x: x + w)
    assert g(other).tolist() == [12] and g(w).tolist() == [4] and g(other).tolist() == [12]


def test_recreated_tensors_in_a_closure() -> None:
    held = [lm.ones(2)]
    f = lm.jit(lambda x: x * held[0])
    assert f(lm.ones(2)).tolist() == [1, 1]
    held[0] = lm.full(2, 5.0)
    assert f(lm.ones(2)).tolist() == [5, 5]


# -- what is said ----------------------------------------------------------------------------------
def test_many_programs_warn_with_the_reason() -> None:
    f = lm.jit(lambda x, text: x * len(text))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(20):
            f(X, str(n))
    assert len(caught) == 1 and caught[0].category is RuntimeWarning
    text = str(caught[0].message)
    assert "17 times" in text and "argument [1] was '15' and is '16'" in text
    assert caught[0].filename == __file__


def test_debug_says_what_changed(capsys: pytest.CaptureFixture[str], restored: None) -> None:
    global SCALE
    plain = Plain()

    def f(x: Any, *, flag: bool = False) -> Any:
        return x * SCALE * plain.scale

    compiled = lm.jit(f)

    def said(*args: Any, **options: Any) -> str:
        capsys.readouterr()
        compiled(*args, **options)
        return capsys.readouterr().err

    with config(debug=1):
        assert "first call" in said(X)
        assert said(X) == ""
        SCALE = 5.0
        assert "SCALE was 2.0 and is 5.0" in said(X)
        plain.scale = 3.0
        assert "plain.scale was 1.0 and is 3.0" in said(X)
        assert "argument [0] was float32[3] and is float32[4]" in said(np.ones(4, np.float32))
        assert "argument flag was absent and is True" in said(X, flag=True)


def test_walks_are_short_when_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A warm call looks no deeper than identities, however large the model is."""
    from lamella.transforms import guards

    model = nn.Sequential(*[nn.Linear(2, 2) for _ in range(40)])
    f = lm.jit(lambda x: model(x))
    x = np.ones((1, 2), np.float32)
    f(x)
    walks = []
    monkeypatch.setattr(guards.Environment, "_walk", lambda self: walks.append(1))
    f(x)
    (entry,) = next(iter(f._entries.values()))
    walked = entry._environment._walked
    checks = len(walked.items) + len(walked.contents) + len(walked.lookups) + len(walked.cells)
    assert not walks and checks < 12


def countdown(x: lm.Tensor, steps: int) -> lm.Tensor:
    """Mentions itself, and so does what it calls."""
    return x if steps == 0 else countup(x + 1, steps - 1)


def countup(x: lm.Tensor, steps: int) -> lm.Tensor:
    return x if steps == 0 else countdown(x * 2, steps - 1)


def test_functions_that_call_each_other() -> None:
    f = lm.jit(countdown)
    assert f(lm.asarray(1.0), 3).item() == 5.0
    assert f(lm.asarray(2.0), 3).item() == 7.0
    assert f.programs == 1


def test_an_attribute_that_goes_uncovers_that_of_the_class() -> None:
    class Rate:
        value = 2.0

        def scaled(self, x: lm.Tensor) -> lm.Tensor:
            return x * self.value

    rate = Rate()
    rate.value = 3.0
    f, x = lm.jit(lambda x: rate.scaled(x)), lm.ones(2)
    for _ in range(4):
        assert f(x).tolist() == [3, 3]
    del rate.value
    for _ in range(4):
        assert f(x).tolist() == [2, 2]
    del Rate.value
    Rate.value = 4.0
    assert f(x).tolist() == [4, 4]
    Rate.scaled = lambda self, x: x + self.value  # type: ignore[method-assign]
    assert f(x).tolist() == [5, 5]
