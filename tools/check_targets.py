"""Run the tests of generated code on instruction sets that this machine has not, or has more than.

Usage: ``python -m tools.check_targets [--prepare] [--aarch64 FOLDER] [TARGET ...] [-- ARGS]``, with
pytest's arguments as ARGS.
Targets: ``x86-64-v2`` (SSE4.2), ``avx2`` (with FMA), ``aarch64`` (NEON); all by default. Two ways:

- natively, where this processor executes the target's instructions: everything is compiled for the
  target (``LAMELLA_TARGET``);
- with the whole Python process under QEMU, so that features are found as on such a machine and an
  instruction that it lacks is a fault. Compiling takes 10 to 30 times as long, so fewer tests run.

A target that cannot run here is skipped with the reason. ``--prepare`` downloads Python for AArch64
(Debian's packages) and the wheels into FOLDER; it installs nothing. Output: pytest's; the exit
status is 1 if a test failed.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lamella.compiler.emit.target import host, named

NATIVE = ("-n2", "tests/compiler", "tests/ops", "tests/nn", "tests/linalg", "tests/fft",
          "tests/special", "tests/sparse", "tests/transforms")  # fmt: skip
EMULATED = (
    "tests/tiny/test_tiny.py", "tests/compiler/test_bytes.py", "tests/compiler/test_math.py",
    "tests/compiler/test_contractions.py", "tests/compiler/test_convolution_schedules.py",
    "tests/compiler/test_emit_llvm.py", "tests/compiler/test_masked_loads.py",
    "tests/nn/test_attention.py", "tests/ops/test_sorting.py", "tests/runtime/test_threads.py",
)  # fmt: skip
PROCESSORS = {"x86-64-v2": "Nehalem", "avx2": "Haswell"}
DEBIAN = (
    "libc6", "libgcc-s1", "libstdc++6", "libcrypt1", "libbz2-1.0", "libexpat1", "libffi8",
    "liblzma5", "libsqlite3-0", "libssl3", "libuuid1", "zlib1g", "libpython3.11-minimal",
    "libpython3.11-stdlib", "python3.11-minimal",
)  # fmt: skip
WHEELS = ("numpy", "llvmlite", "ml_dtypes", "pytest", "hypothesis", "mpmath", "scipy")
ROOT = Path(__file__).parents[1]


def prepare(folder: Path) -> None:
    """Python for AArch64 into ``folder``, its packages into ``folder``/site."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as downloads:
        names = [f"{name}:arm64" for name in DEBIAN]
        subprocess.run(["apt-get", "download", *names], cwd=downloads, check=True)
        for package in Path(downloads).glob("*.deb"):
            subprocess.run(["dpkg", "-x", str(package), str(folder)], check=True)
    platforms = [f"--platform=manylinux_2_{minor}_aarch64" for minor in (17, 27, 28)]
    options = ["--python-version=3.11", "--only-binary=:all:", "--upgrade", *platforms]
    command = [sys.executable, "-m", "pip", "install", f"--target={folder / 'site'}"]
    subprocess.run([*command, *options, *WHEELS], check=True)


def emulated_x86(cpu: str) -> list[str] | str:
    """The command of this Python on another x86-64 processor, or why there is none."""
    if platform.machine() != "x86_64":
        return "this machine is not x86-64, whose Python it would emulate"
    qemu = shutil.which("qemu-x86_64") or shutil.which("qemu-x86_64-static")
    return [qemu, "-cpu", cpu, sys.executable] if qemu else "qemu-x86_64 is not installed"


def emulated_aarch64(folder: Path) -> list[str] | str:
    """The command of a Python on AArch64, or why there is none; it can start itself again."""
    qemu = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    if qemu is None:
        return "qemu-aarch64 is not installed"
    python = folder / "usr/bin/python3.11"
    if not python.exists():
        return f"{folder} has no Python for AArch64; run this with --prepare first"
    start = folder / "python"
    start.write_text(f'#!/bin/sh\nexec {qemu} -cpu max -L {folder} -0 "$0" {python} "$@"\n')
    start.chmod(0o755)
    return [str(start)]


def emulated(target: str, folder: Path) -> list[str] | str:
    """The command of a Python under QEMU, or why there is none."""
    if target == "aarch64":
        return emulated_aarch64(folder)
    return emulated_x86(PROCESSORS[target])


def check(target: str, folder: Path, arguments: list[str]) -> bool:
    """Whether the tests pass on ``target``, or cannot run."""
    paths = [str(ROOT)]
    passed, why = True, named(target).lacks(host())
    if why:
        print(f"{target}, natively: skipped: this machine does not run it: {why}")
    else:
        passed = _pytest([sys.executable], paths, arguments or NATIVE, {"LAMELLA_TARGET": target})
    found = emulated(target, folder)
    if isinstance(found, str):
        print(f"{target}, emulated: skipped: {found}")
        return passed
    if target == "aarch64":
        paths.append(str(folder / "site"))
    few = {"HYPOTHESIS_PROFILE": "emulated"}
    return _pytest(found, paths, arguments or EMULATED, few) and passed


def _pytest(
    python: list[str], paths: list[str], arguments: Sequence[str], variables: dict[str, str]
) -> bool:
    """Whether tests pass with a Python; what it runs is printed."""
    print(" ".join(f"{k}={v}" for k, v in variables.items()), *python, flush=True)
    environment = {**os.environ, **variables, "PYTHONPATH": os.pathsep.join(paths)}
    command = [*python, "-m", "pytest", "-q", "--quick", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0


def main() -> int:
    """0 if every target that can run passes."""
    given = sys.argv[1:]
    cut = given.index("--") if "--" in given else len(given)
    parser = argparse.ArgumentParser(prog="check_targets", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", default=[*PROCESSORS, "aarch64"],
                        choices=[*PROCESSORS, "aarch64"])  # fmt: skip
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--aarch64", type=Path, default=ROOT / ".venv-aarch64", metavar="FOLDER")
    options = parser.parse_args(given[:cut])
    folder = options.aarch64.resolve()
    if options.prepare:
        prepare(folder)
    passed = [check(target, folder, given[cut + 1 :]) for target in options.targets]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
