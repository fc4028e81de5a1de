"""The loader of object files: right addresses, and refusal of what it does not know."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from lamella.config import config
from lamella.runtime import native, os_host
from lamella.runtime.elf import load_elf
from lamella.runtime.native import compile_ir_text, load_object

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or not hasattr(os_host, "protect_code")
    or __import__("platform").machine() != "x86_64",
    reason="loads x86-64 ELF files only",
)  # fmt: skip

_TABLES = """
@table = private constant [5 x double] [double 1.5, double 2.5, double 3.5, double 4.5, double 5.5]
@names = private constant [2 x ptr] [ptr @first, ptr @second]
define internal double @first(double %x) noinline {
  %y = fadd double %x, 0.1
  ret double %y
}
define double @second(double %x) noinline {
  %y = fmul double %x, 3.25
  ret double %y
}
define double @pick(i64 %i, i64 %j) {
  %p = getelementptr double, ptr @table, i64 %i
  %v = load double, ptr %p
  %q = getelementptr ptr, ptr @names, i64 %j
  %f = load ptr, ptr %q
  %r = call double %f(double %v)
  ret double %r
}
define i64 @switch(i64 %i) {
  switch i64 %i, label %e [ i64 0, label %a
    i64 1, label %b
    i64 2, label %c
    i64 3, label %d
    i64 4, label %f ]
a:
  ret i64 17
b:
  ret i64 4
c:
  ret i64 99
d:
  ret i64 1000
f:
  %m = mul i64 %i, 12345678901
  ret i64 %m
e:
  ret i64 -1
}
"""


def test_constants_tables_and_jumps() -> None:
    found = load_elf(compile_ir_text(_TABLES))
    assert found is not None
    assert set(found) == {"second", "pick", "switch"}
    pick = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64, ctypes.c_int64)(found["pick"])
    assert [pick(i, 0) for i in range(5)] == [v + 0.1 for v in (1.5, 2.5, 3.5, 4.5, 5.5)]
    assert [pick(i, 1) for i in range(5)] == [v * 3.25 for v in (1.5, 2.5, 3.5, 4.5, 5.5)]
    switch = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(found["switch"])
    assert [switch(i) for i in range(6)] == [17, 4, 99, 1000, 4 * 12345678901, -1]


def test_what_it_does_not_know_goes_to_llvm() -> None:
    external = compile_ir_text(
        "declare double @cos(double)\ndefine double @f(double %x) {\n"
        "  %y = call double @cos(double %x)\n  ret double %y\n}"
    )
    assert load_elf(external) is None
    variable = compile_ir_text(
        "@v = global i64 5\ndefine i64 @g() {\n  %x = load i64, ptr @v\n  ret i64 %x\n}"
    )
    assert load_elf(variable) is None
    address = load_object(external)("f")
    assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(address)(0.0) == 1.0


def test_damaged_files_never_crash_the_loader() -> None:
    good = compile_ir_text("define i64 @f() {\n  ret i64 3\n}")
    assert load_elf(good) is not None
    for end in range(0, len(good), 7):
        load_elf(good[:end])
    for i in range(0, len(good), 3):
        load_elf(good[:i] + bytes([good[i] ^ 0xFF]) + good[i + 1 :])


def test_code_is_never_writable() -> None:
    found = load_elf(compile_ir_text("define i64 @f() {\n  ret i64 3\n}"))
    assert found is not None
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, rights = line.split()[:2]
        start, end = (int(x, 16) for x in span.split("-"))
        if start <= found["f"] < end:
            assert rights.startswith("r-x")
            break
    else:
        pytest.fail("not mapped")


def test_a_warm_start_does_not_import_llvm(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom lamella.runtime.native import native\nnative()\n"
        "print('llvmlite.binding' in sys.modules)"
    )
    seen = [
        subprocess.run(
            [sys.executable, "-c", script], text=True, capture_output=True, check=True, timeout=60,
            env={"LAMELLA_CACHE_DIR": str(tmp_path / "c"), "PATH": ""},
        ).stdout.strip()
        for _ in range(3)
    ]  # fmt: skip
    assert seen[0] == "True"
    assert "False" in seen[1:]  # a source file edited meanwhile would make one more start cold


def test_a_loader_that_may_not_map_code_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os_host, "protect_code", lambda pointer, nbytes: False)
    data = compile_ir_text("define i64 @f() {\n  ret i64 3\n}")
    assert load_elf(data) is None
    before = len(native._engines)
    with config(debug=0):
        assert ctypes.CFUNCTYPE(ctypes.c_int64)(load_object(data)("f"))() == 3
    assert len(native._engines) == before + 1
