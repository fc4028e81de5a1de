"""Errors name the function that the user called, as he wrote it, whichever part of it raised."""

from __future__ import annotations

import inspect
import random
import zlib

import numpy as np
import pytest

import lamella as lm
from lamella.errors import CheckError, DTypeError, LamellaError, OptionError, ShapeError

A, B = lm.ones((2, 3)), lm.ones((4, 5))
SPACES = [
    lm, lm.linalg, lm.fft, lm.special, lm.signal, lm.random, lm.nn.functional, lm.nn.init,
    lm.nn.utils, lm.sparse, lm.tree,
]  # fmt: skip
NOT_CALLED = {"manual_seed", "seed", "save", "load", "set_num_threads", "eval", "debug_print"}
BAD = [
    A, B, lm.ones((0, 2)), lm.ones(3, dtype="complex64"), lm.ones((2, 3), dtype="bool"), object(),
    "text", None, (99,), [A, B], -7,
]  # fmt: skip


def call(name, function, args, options):
    """A call that is written with the function's own name."""
    space = type("space", (), {name: staticmethod(function)})
    return eval(f"space.{name}(*args, **options)", {"space": space}, locals())


def misprefixed(name, function):
    """The messages of bad calls that begin with another name."""
    parameters = list(inspect.signature(function).parameters.values())
    by_place = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = max(1, sum(p.default is p.empty for p in by_place))
    chance = random.Random(zlib.crc32(name.encode()))
    for kind in range(3):
        args = [chance.choice(BAD) for _ in range(needed)]
        options = {"axis": 99} if kind == 1 and "axis" in [p.name for p in parameters] else {}
        try:
            call(name, function, args, options)
        except LamellaError as error:
            if not str(error).startswith(f"[{name}]"):
                yield str(error)
        except Exception:  # Python's own, of arguments that are no tensors
            continue


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.__name__)
def test_every_public_function_is_named_as_it_is_called(space):
    wrong = {}
    for name in space.__all__:
        function = getattr(space, name)
        if inspect.isfunction(function) and name not in NOT_CALLED:
            wrong.update({(name, message): "" for message in misprefixed(name, function)})
    assert not wrong


def test_every_method_is_named_as_it_is_called():
    wrong = {}
    for name in dir(lm.Tensor):
        method = getattr(lm.Tensor, name)
        if inspect.isfunction(method) and not name.startswith("_"):
            for odd in (object(), B):
                try:
                    call(name, method, [A.clone(), odd], {})
                except LamellaError as error:
                    if not str(error).startswith(f"[{name}]"):
                        wrong[name] = str(error)
                except Exception:  # Python's own
                    continue
    assert not wrong


def half_of(x):
    return lm.take(x, A)


CALLS = [
    ("take", lambda: lm.take(A, A)),
    ("take", lambda: A.take(A)),
    ("multinomial", lambda: lm.multinomial(A, 7)),
    ("mul", lambda: lm.mul(A, B)),  # a second name of multiply
    ("igamma", lambda: A.igamma(B)),
    ("add", lambda: A + B),
    ("add_", lambda: A.clone().add_(B)),
    ("zeros", lambda: lm.zeros(3, dtype="flot32")),
    ("take", lambda: lm.grad(half_of)(A)),  # not the function that calls the user's
    ("take", lambda: lm.jit(half_of)(A)),
    ("take", lambda: np.take(lm.take(A, A), 0)),
    ("trunc_normal_", lambda: lm.nn.init.trunc_normal_(A, B)),  # through the standard library
    ("linear", lambda: lm.nn.Linear(4, 5)(A)),
    ("Adam", lambda: lm.optim.Adam([])),
    ("convolve", lambda: lm.signal.convolve(lm.ones(3), lm.ones(3), object())),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_the_call_is_the_users(number):
    name, function = CALLS[number]
    with pytest.raises(LamellaError, match=rf"^\[{name}\] "):
        function()


def test_an_error_found_when_a_value_is_computed_names_what_was_recorded():
    x = A[lm.asarray([7])]
    with pytest.raises(IndexError, match=r"^\[gather\] .*index"):
        lm.sum(x).tolist()


def test_what_a_user_raises_keeps_its_message():
    def check(x):
        raise OptionError("[mine] no; use another")

    with pytest.raises(OptionError, match=r"^\[mine\]"):
        lm.grad(check)(A)
    with pytest.raises(CheckError):
        lm.check(False, "[mine] no")
    assert str(ShapeError()) == ""


def test_errors_in_models_note_the_module():
    nn = lm.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(4, 3)])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    place = "in module 1.layers.1 of Sequential: Linear(in_features=4, out_features=3, bias=True)"
    model = nn.Sequential(nn.ReLU(), Block())
    for run in (model, lm.jit(model)):
        with pytest.raises(ShapeError) as found:
            run(A)
        assert found.value.__notes__ == [place]
    with pytest.raises(ShapeError) as found:
        model[1].layers[1](A)
    assert found.value.__notes__ == [place.replace("module 1.layers.1 of Sequential: ", "")]


def test_an_option_of_another_type_than_text_is_an_error_of_its_own():
    with pytest.raises((DTypeError, OptionError), match=r"^\[convolve\] mode"):
        lm.signal.convolve(lm.ones(3), lm.ones(3), 3)
