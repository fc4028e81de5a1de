"""A contestant's process: ``python -m benchmarks.worker WORKLOAD CONTESTANT``, driven by lines on
standard input.

``result PATH`` saves the contestant's value, ``time N`` answers the mean seconds of N runs, ``task
NAME`` goes on with another contestant of the workload; answers begin with ``ok``, or ``skipped
REASON`` when the contestant's framework is missing. What frameworks print goes to standard error.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import time

import numpy as np

from benchmarks.contestant import Task


def _seconds(task: Task, repeats: int) -> float:
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        for _ in range(repeats):
            task.run()
        return (time.perf_counter() - start) / repeats
    finally:
        gc.enable()


def main(workload: str, contestant: str) -> None:
    """Serve one contestant until standard input ends."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    module = importlib.import_module(f"benchmarks.workloads.{workload}")
    try:
        task: Task = getattr(module, contestant)()
    except ImportError as error:
        if contestant == "lamella":
            raise
        print(f"skipped {error.name or error} is not installed", file=answers)
        return
    task.run()
    print("ok", file=answers)
    for line in sys.stdin:
        word, _, argument = line.strip().partition(" ")
        if word == "task":
            task = getattr(module, argument)()
            task.run()
            print("ok", file=answers)
        elif word == "result":
            task.run()
            np.save(argument, np.asarray(task.result()))
            print("ok", file=answers)
        else:
            print(f"ok {_seconds(task, int(argument))!r}", file=answers)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
