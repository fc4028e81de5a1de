"""What a compiled function takes from the world would be the same for ever: it is refused."""

from __future__ import annotations

import builtins
import datetime
import itertools
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

import lamella as lm
from lamella.errors import TraceError

X = lm.ones(3)


def counting() -> Iterator[int]:
    while True:
        yield 1


ITERATORS: dict[str, Callable[[], Iterator[Any]]] = {
    "list": lambda: iter([1, 2, 3]),
    "range": lambda: iter(range(5)),
    "generator": counting,
    "zip": lambda: zip([1, 2], [3, 4], strict=True),
    "enumerate": lambda: enumerate([1, 2]),
    "map": lambda: map(float, [1, 2]),
    "chain": lambda: itertools.chain([1, 2], [3]),
    "dict": lambda: iter({1: 2, 3: 4}),
}


@pytest.mark.parametrize("name", ITERATORS)
def test_items_of_an_iterator(name: str) -> None:
    items = ITERATORS[name]()
    with pytest.raises(TraceError, match=r"items of the iterator items.*pass each as an argument"):
        lm.jit(lambda x: x * float(next(items) != 0))(X)
    with pytest.raises(TraceError, match="items of the iterator argument"):
        lm.jit(lambda x, it: x * float(next(it) != 0))(X, ITERATORS[name]())
    held = ITERATORS[name]()
    assert lm.jit(lambda x: x if held is not None else -x)(X).sum().item() == 3  # it is not asked


def test_items_of_what_the_function_makes_are_its_own() -> None:
    f = lm.jit(lambda x: sum(x * i for i, _ in zip(itertools.count(1), range(3), strict=False)))
    assert f(X).sum().item() == 18


def test_lines_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_text("1\n2\n")
    with path.open() as file, pytest.raises(TraceError, match="iterator file"):
        lm.jit(lambda x: x * float(file.readline()))(X)


def test_input(monkeypatch: pytest.MonkeyPatch) -> None:
    f = lm.jit(lambda x: x * float(input()))
    with pytest.raises(TraceError, match=r"calls input\(\).*pass the result as an argument"):
        f(X)
    assert builtins.input is input


@pytest.mark.parametrize(
    "clock", [lambda: time.time(), lambda: perf_counter(), lambda: datetime.datetime.now().second]
)
def test_clocks_warn_once(clock: Callable[[], float]) -> None:
    f = lm.jit(lambda x: x * (clock() * 0 + 1))
    with pytest.warns(RuntimeWarning, match=r"later calls see the value of the trace"):
        f(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert f(X).sum().item() == 3


def test_a_tally_of_traces_warns() -> None:
    traces = itertools.count()
    with pytest.warns(RuntimeWarning, match=r"calls next\(traces\)"):
        lm.jit(lambda x: x + 0 * next(traces))(X)


def test_a_profile_that_the_function_begins_goes_on() -> None:
    def hook(frame: types.FrameType, event: str, call: object) -> None:
        return None

    def f(x: lm.Tensor) -> lm.Tensor:
        sys.setprofile(hook)
        return x * (time.time() * 0 + 1)

    try:
        lm.jit(f)(X)
        found = sys.getprofile()
    finally:
        sys.setprofile(None)
    assert found is hook
