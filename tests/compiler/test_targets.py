"""Object files of the systems that tests do not run on: they are made, in the system's format, and
call nothing that the system lacks. ``make targets`` runs what other processors execute.
"""

from __future__ import annotations

import ast
import io
import re
from dataclasses import replace
from pathlib import Path

import llvmlite.binding as llvm
import pytest

import lamella
from lamella import ops
from lamella.compiler.codegen import assembly, compile_objects
from lamella.compiler.emit.target import Target, host, named
from lamella.compiler.pipeline import compile_graph
from lamella.dtypes import float16, float32, float64
from lamella.ir.loops import Kernel
from lamella.runtime import os_host
from lamella.runtime.native_ir import runtime_ir

# What begins an object file, and what its kernels may call: on Windows the stack grows by a page
# at a time, which the system's ``__chkstk`` sees to.
SYSTEMS = {
    "x86_64-pc-windows-msvc": (b"\x64\x86", {"__chkstk"}),
    "aarch64-pc-windows-msvc": (b"\x64\xaa", {"__chkstk"}),
    "x86_64-apple-macosx": (b"\xcf\xfa\xed\xfe", set()),
    "arm64-apple-macosx": (b"\xcf\xfa\xed\xfe", set()),
}
CALL = re.compile(r"^\s+(?:callq?|bl|b|jmp)\s+(?!LBB)([A-Za-z_][\w$]*)\s*$", re.MULTILINE)


def target_on(triple: str) -> Target:
    return replace(named("aarch64" if triple.startswith("a") else "avx2"), triple=triple)


def kernels(target: Target) -> list[Kernel]:
    """A product with scratch memory, elementary functions, conversions, a sort."""
    a, b = ops.placeholder((160, 130), float32), ops.placeholder((130, 90), float32)
    x, y = ops.placeholder((100, 77), float32), ops.placeholder((500,), float64)
    outputs = [
        ops.contract(a, b, (0, 1), (1, 2), (0, 2)), ops.exp(x), ops.sin(y), ops.cast(y, float16),
        ops.sort(x, 1),
    ]  # fmt: skip
    return compile_graph(outputs, [a, b, x, y], [], target.unit).kernels


@pytest.mark.parametrize("triple", SYSTEMS)
def test_kernels_for_other_systems(triple: str) -> None:
    target = target_on(triple)
    magic, known = SYSTEMS[triple]
    for number, kernel in enumerate(kernels(target)):
        named_ = replace(kernel, name=f"kernel{number}")
        _, data = compile_objects([named_], target).split(b"\n\n", 1)
        assert data.startswith(magic)
        assert set(CALL.findall(assembly([named_], target))) - known == set()


def test_linux_says_what_an_arm_processor_can(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "processor\t: 0\nFeatures\t: fp asimd atomics asimddp\nprocessor\t: 1\n"
    monkeypatch.setattr("builtins.open", lambda *_: io.StringIO(text))
    monkeypatch.setattr(llvm, "get_process_triple", lambda: "aarch64-unknown-linux-gnu")
    monkeypatch.setattr(llvm, "get_host_cpu_features", dict)
    found = host.__wrapped__()
    assert (found.dot, found.features, found.unit.unsigned_bytes) == ("signed", "+dotprod", False)


@pytest.mark.parametrize("system", ["macos", "windows"])
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_runtime_for_other_systems(
    system: str, machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its text, which only that system's module can give: it is taken from the source."""
    source = (Path(lamella.__file__).parent / "runtime" / f"os_{system}.py").read_text()
    (text,) = (
        node.value for node in ast.parse(source).body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        and node.target.id == "NATIVE_IR" and node.value is not None
    )  # fmt: skip
    monkeypatch.setattr(os_host, "NATIVE_IR", ast.literal_eval(text))
    host()  # LLVM is ready
    module = llvm.parse_assembly(runtime_ir(machine))
    module.verify()
    assert {f.name for f in module.functions} >= {"worker", "stop", "spin", "run_program"}
