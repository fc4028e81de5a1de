"""A contestant's process: ``python -m benchmarks.worker WORKLOAD CONTESTANT``, driven by lines on
standard input.

``result PATH`` saves the contestant's value, ``time N`` answers the mean seconds of N runs, ``task
NAME`` goes on with another contestant of the workload; answers begin with ``ok``, or ``skipped
REASON`` when the contestant's framework is missing.
"""

from __future__ import annotations

import gc
import importlib
import sys
import time

import numpy as np

from benchmarks.harness import Task


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
    module = importlib.import_module(f"benchmarks.workloads.{workload}")
    try:
        task: Task = getattr(module, contestant)()
    except ImportError as error:
        if contestant == "lamella":
            raise
        print(f"skipped {error.name or error} is not installed", flush=True)
        return
    task.run()
    print("ok", flush=True)
    for line in sys.stdin:
        word, _, argument = line.strip().partition(" ")
        if word == "task":
            task = getattr(module, argument)()
            task.run()
            print("ok", flush=True)
        elif word == "result":
            task.run()
            np.save(argument, np.asarray(task.result()))
            print("ok", flush=True)
        else:
            print(f"ok {_seconds(task, int(argument))!r}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
