"""Ctrl-C while native code runs: a program ends early, and says what that has cost."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import lamella as lm

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals to oneself")

START = """
import os, signal, threading, time
import numpy as np
import lamella as lm

def soon(seconds=0.3):
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()

def call(f, *args):
    try:
        lm.eval(f(*args))
    except BaseException as error:
        print(type(error).__name__)
    else:
        print("ended")

"""
ENDLESS = """
@lm.jit
def endless(x):
    return lm.while_loop(lambda c: c[1] > 0, lambda c: (lm.sin(c[0]), c[1] + 1), (x, lm.asarray(1)))

@lm.jit
def warm(x):
    return lm.while_loop(lambda c: c[1] < 9, lambda c: (lm.sin(c[0]), c[1] + 1), (x, lm.asarray(1)))

"""


def run(text: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", START + text], capture_output=True, text=True, timeout=200,
        check=False, env={**os.environ, **environment},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize("size", [1, 1_000_000])
def test_an_endless_loop_can_be_interrupted_and_the_next_program_runs(size: int) -> None:
    found = run(
        f"{ENDLESS}x = lm.ones({size})\n"
        "endless.lower(x); soon(); call(endless, x)\n"
        "print(float(x[0]), float(warm(x)[0][0]) > 0)\n"
    )
    assert found == ["KeyboardInterrupt", "1.0 True"]


def test_handlers_run_meanwhile_and_decide_whether_a_program_ends() -> None:
    found = run(
        f"{ENDLESS}calls = []\n"
        "def handler(*_):\n"
        "    calls.append(time.monotonic())\n"
        "    if len(calls) == 2:\n"
        "        raise ValueError('enough')\n"
        "signal.signal(signal.SIGINT, handler)\n"
        "x = lm.ones(3); endless.lower(x); soon(); soon(0.6); call(endless, x)\n"
        "print(len(calls), calls[1] - calls[0] > 0.1)\n"
    )
    assert found == ["ValueError", "2 True"]


def test_other_threads_run_while_a_loop_of_small_launches_does() -> None:
    found = run(
        f"{ENDLESS}seen = []\n"
        "x = lm.ones(1); endless.lower(x)\n"
        "threading.Timer(0.1, seen.append, (1,)).start()\n"
        "soon(); call(endless, x); print(seen)\n"
    )
    assert found == ["KeyboardInterrupt", "[1]"]


def test_state_of_an_endless_program_is_lost_and_can_be_given_again() -> None:
    found = run(
        "from lamella.transforms import entry\n"
        "entry.PATIENCE = 0.2\n"
        "count, limit = lm.zeros(1000), lm.asarray(5)\n"
        "@lm.jit\n"
        "def step():\n"
        "    count.add_(1)\n"
        "    def body(c):\n"
        "        return lm.sin(c[0]), c[1] + 1\n"
        "    return lm.while_loop(lambda c: c[1] < limit, body, (lm.ones(1), lm.asarray(0)))\n"
        "for _ in range(3):\n"
        "    lm.eval(step())\n"
        "print(float(count[0]) > 0)\n"
        "limit.copy_(lm.asarray(10**18))\nlm.eval(limit)\n"
        "soon()\ncall(step)\n"
        "try:\n"
        "    count.numpy()\n"
        "except lm.errors.LostValueError as error:\n"
        "    print('Ctrl-C' in str(error))\n"
        "call(lambda: count + 1)\ncall(step)\n"
        "count.copy_(lm.ones(1000))\nlimit.copy_(lm.asarray(5))\n"
        "call(step)\nprint(float(count[0]) == 2)\n",
        LAMELLA_OPTIMIZE="1",  # without it nothing is written over
    )
    lost = ["KeyboardInterrupt", "True", "LostValueError", "LostValueError"]
    assert found == ["True", *lost, "ended", "True"]


def test_an_update_that_can_end_in_time_is_whole() -> None:
    found = run(
        "from lamella.transforms import entry\n"
        "entry.PATIENCE = 100.0\n"
        "count = lm.zeros(300_000)\n"
        "@lm.jit\n"
        "def step(x):\n"
        "    count.add_(1)\n"
        "    return lm.fori_loop(0, 3000, lambda i, c: lm.sin(c) + count, x)\n"
        "x = lm.ones(300_000)\n"
        "with lm.config(threads=1):\n"
        "    for _ in range(2):\n"
        "        step(x[:])\n"
        "    lm.eval(count); before = float(count[0])\n"
        "    soon(0.1); call(step, x)\n"
        "    print(before, float(count[0]), len(set(count.tolist())))\n",
        LAMELLA_OPTIMIZE="1",
    )
    assert found[1] == "2.0 3.0 1", found


def test_a_failing_callback_ends_a_loop() -> None:
    seen = []

    def host(x):
        seen.append(float(x))
        if len(seen) == 3:
            raise ValueError("no more")
        return x + 1

    @lm.jit
    def loop(x):
        def body(c):
            return lm.pure_callback(host, c, c)

        return lm.while_loop(lambda c: c < 1e9, body, x)

    with pytest.raises(ValueError, match="no more"):
        lm.eval(loop(lm.asarray(0.0)))
    assert seen == [0.0, 1.0, 2.0]


def test_a_program_of_another_thread_goes_on_until_a_callback_ends_it() -> None:
    """The main thread is interrupted at once; the other asks in a callback whether to go on."""
    found = run(
        "stop, done, seen = threading.Event(), threading.Event(), []\n"
        "def step(c):\n"
        "    seen.append(1)\n"
        "    if stop.is_set():\n"
        "        raise InterruptedError\n"
        "def body(c):\n"
        "    lm.io_callback(step, None, c)\n"
        "    return c + 1\n"
        "endless = lm.jit(lambda x: lm.while_loop(lambda c: c > 0, body, x))\n"
        "endless.lower(lm.asarray(1))\n"
        "def work():\n"
        "    call(endless, lm.asarray(1))\n"
        "    done.set()  # a join that was interrupted may take the thread for ended\n"
        "worker = threading.Thread(target=work)\n"
        "soon(); worker.start()\n"
        "try:\n"
        "    worker.join()\n"
        "except KeyboardInterrupt:\n"
        "    print('main')\n"
        "before = len(seen); time.sleep(0.1)\n"
        "print(len(seen) > before)\n"
        "stop.set(); done.wait()\n"
    )
    assert found == ["main", "True", "InterruptedError"]
