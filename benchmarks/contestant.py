"""One contestant in a process of its own, so that thread pools and allocators do not meet.

Input: a workload, a contestant's name, a number of threads. Output: its results and its times,
asked for over a pipe (the other end is ``worker.py``). Invariants: between questions the process is
stopped, because idle threads of some frameworks spin on the cores of whoever runs next; whatever
goes wrong with another framework is a reason to leave it out, never an end of the run; no answer
takes longer than ``PATIENCE``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt

__all__ = ["ROOT", "Array", "Contestant", "SkippedError", "Task", "is_peer", "wanted_peers"]

Array = npt.NDArray[np.generic]
ROOT = Path(__file__).resolve().parent.parent
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "LAMELLA_THREADS")
PATIENCE = 300.0  # seconds to compile, or for a round
FRAMEWORKS = (
    "numpy", "scipy", "torch", "jax", "onnxruntime", "ort", "openvino", "tinygrad", "mlx",
)  # fmt: skip


@dataclass(frozen=True)
class Task:
    """What a contestant repeats (``run``, complete when it returns) and its last result."""

    run: Callable[[], object]
    result: Callable[[], Array]


class SkippedError(Exception):
    """A contestant that cannot run here, with the reason."""


def is_peer(name: str) -> bool:
    """Whether a contestant is another framework, as torch, torch_compile or jax_sq256 are."""
    return any(name == peer or name.startswith(f"{peer}_") for peer in FRAMEWORKS)


def wanted_peers(names: list[str] | tuple[str, ...]) -> list[str]:
    """The contestants to start: Lamella, and of the other frameworks those that the environment
    variable BENCHMARKS_PEERS lists, separated by commas (all where it is not set): ``torch`` stands
    for torch_compile too. NumPy, to which some figures are ratios, stays unless the list is empty.
    """
    chosen = os.environ.get("BENCHMARKS_PEERS")
    if chosen is None:
        return list(names)
    wanted = ("numpy", *chosen.split(",")) if chosen else ()
    return [
        name for name in names
        if not is_peer(name) or any(name == w or name.startswith(f"{w}_") for w in wanted)
    ]  # fmt: skip


class Contestant:
    """A contestant's process; ``case`` is a part of what the worker calls it, not of its name."""

    def __init__(self, workload: str, name: str, threads: int, case: str = "") -> None:
        environment = {**os.environ, **dict.fromkeys(THREADS, str(threads))}
        full = f"{name}_{case}" if case else name
        command = [sys.executable, "-m", "benchmarks.worker", workload, full]
        self.name = name
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - see __exit__
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment, text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
        )  # fmt: skip
        self._ready = False

    def __enter__(self) -> Contestant:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def ask(self, question: str) -> str:
        """Send a line and return the answer.

        Raises:
            SkippedError: when the framework is not there, or another one than Lamella failed.
            RuntimeError: when Lamella failed.
        """
        if not self._ready:
            self._ready = True
            self._answer()
        else:
            self._signal("SIGCONT")
        try:
            self._process.stdin.write(question + "\n")  # type: ignore[union-attr]
        except BrokenPipeError:
            return self._failed()
        answer = self._answer()
        self._signal("SIGSTOP")
        return answer

    def _signal(self, name: str) -> None:
        """Stop or continue every thread of the process, where the system can."""
        number = getattr(signal, name, None)
        if number is not None:
            self._process.send_signal(number)

    def _answer(self) -> str:
        late = threading.Event()

        def end() -> None:
            late.set()
            self._process.kill()

        timer = threading.Timer(PATIENCE, end)
        timer.start()
        try:
            line = self._process.stdout.readline()  # type: ignore[union-attr]
        finally:
            timer.cancel()
        if late.is_set():
            raise SkippedError(f"too slow: no answer in {PATIENCE:.0f} s")
        word, _, rest = line.strip().partition(" ")
        if word == "skipped":
            raise SkippedError(rest)
        return rest if word == "ok" else self._failed()

    def _failed(self) -> str:
        self._errors.seek(0)
        message = self._errors.read().strip()
        if is_peer(self.name):
            lines = [line for line in message.splitlines() if line[:1].isalpha()]
            raise SkippedError(f"failed: {lines[-1][:200] if lines else 'no message'}")
        raise RuntimeError(f"{self.name} failed:\n{message[-3000:]}")

    def result(self) -> Array:
        """The value that the contestant computes."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "value.npy"
            self.ask(f"result {path}")
            value: Array = np.load(path)
            return value

    def seconds(self, repeats: int) -> float:
        """The mean time of one run over ``repeats`` runs."""
        return float(self.ask(f"time {repeats}"))
