"""Forked children of processes in whose other threads programs are recorded, compiled and run."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import lamella as lm

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@contextmanager
def elsewhere(action: Callable[[int], object]) -> Iterator[None]:
    """``action(0)``, ``action(1)``, … in another thread meanwhile."""
    done = threading.Event()

    def run() -> None:
        number = 0
        while not done.is_set():
            action(number)
            number += 1

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def in_child(check: Callable[[], bool]) -> int:
    """The exit code of a child that checks: 0 if it holds, -9 if it did not end in time."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if check() else 2
        finally:
            os._exit(code)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return -9


def adds_up() -> bool:
    x = lm.asarray(np.arange(5000, dtype=np.float32))
    return bool(lm.sum(lm.tanh(x) * 0 + 1).item() == 5000 and lm.jit(lambda x: x + 1)(x)[3] == 4)


def test_children_evaluate_while_another_thread_did() -> None:
    ones = lm.ones((300, 300))
    assert adds_up()
    with elsewhere(lambda number: lm.sum(lm.exp(ones) @ ones).item()):
        assert [in_child(adds_up) for _ in range(5)] == [0] * 5


def test_children_compile_while_another_thread_did() -> None:
    def anew(number: int) -> object:
        return lm.sum(lm.sin(lm.ones(number + 3)) ** 2, axis=0, keepdims=True).item()

    with elsewhere(anew), lm.config(cache=0):
        assert [in_child(adds_up) for _ in range(3)] == [0] * 3


def test_a_child_has_back_what_a_trace_of_another_thread_had_taken() -> None:
    weight, inside, go = lm.asarray([1.0, 2.0]), threading.Event(), threading.Event()

    @lm.jit
    def slow(x: lm.Tensor) -> lm.Tensor:
        weight.mul_(2.0)
        inside.set()
        go.wait(60)
        return x * weight

    thread = threading.Thread(target=slow, args=(lm.ones(2),))
    thread.start()
    assert inside.wait(60)
    try:
        code = in_child(lambda: weight.tolist() == [1, 2] and adds_up())
    finally:
        go.set()
        thread.join()
    assert code == 0
    assert weight.tolist() == [2, 4]
