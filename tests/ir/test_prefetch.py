"""Prefetch: a hint in every form of a kernel, without effect, wherever its index points."""

from __future__ import annotations

import re

import numpy as np
import pytest

from lamella.compiler.codegen import assembly
from lamella.compiler.emit.target import named
from lamella.errors import CompilerError
from lamella.ir.loop_interp import run_kernel
from lamella.ir.loop_text import kernel_text
from lamella.ir.text import parse_kernel
from lamella.ir.verify_loops import verify_kernel
from tests.support.c_backend import run_kernel_c
from tests.support.llvm_backend import run_kernel_llvm, target_named

TEXT = """kernel k
  in x: float32
  out y: float32
  work 1
grid i < 4
  prefetch x[1000000*i + 7]
  prefetch2 x[1000000*i + 9]
  lanes l < 4
    prefetch x[4*i + 1*l + 4]
    y[4*i + 1*l] = add(x[4*i + 1*l], 1.0:float32)
"""


def test_it_reads_back() -> None:
    kernel = parse_kernel(TEXT)
    verify_kernel(kernel)
    assert "prefetch x[1000000*i + 7]" in kernel_text(kernel)
    assert "prefetch2 x[1000000*i + 9]" in kernel_text(kernel)
    assert parse_kernel(kernel_text(kernel)) == kernel


def test_it_has_no_effect() -> None:
    kernel = parse_kernel(TEXT)
    x = np.arange(16, dtype=np.float32)
    for run in (
        lambda y: run_kernel(kernel, {"x": x, "y": y}, {}, {}),
        lambda y: run_kernel_llvm(kernel, {"x": x, "y": y}, {}, {}, target_named("host")),
    ):
        y = np.zeros(16, np.float32)
        run(y)
        np.testing.assert_array_equal(y, x + np.float32(1))
    assert "prefetch" in assembly([kernel], target_named("host"))
    y = np.zeros(16, np.float32)
    run_kernel_c(kernel, {"x": x, "y": y}, {}, {})
    np.testing.assert_array_equal(y, x + np.float32(1))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("prefetch nowhere[1:int64]", "nowhere is no memory"),
        ("prefetch x[0.5:float32]", "an index is int64"),
        ("prefetch x[n[i]]", "reads nothing for its index"),
    ],
)
def test_what_is_no_prefetch(line: str, why: str) -> None:
    text = f"kernel k\n  in x: float32\n  in n: int64\n  out y: float32\ngrid i < 4\n  {line}\n"
    with pytest.raises(CompilerError, match=why):
        verify_kernel(parse_kernel(text))


@pytest.mark.parametrize(
    ("name", "near", "far"),
    [("avx512", "prefetcht0", "prefetcht1"), ("aarch64", "pldl1keep", "pldl2keep")],
)
def test_it_names_the_cache(name: str, near: str, far: str) -> None:
    text = assembly([parse_kernel(TEXT)], named(name))
    found = re.findall(r"prefetcht\d|pldl\dkeep", text)
    assert set(found) == {near, far} and found.count(near) == 2 * found.count(far)


def test_in_lanes_it_asks_for_every_line() -> None:
    kernel = parse_kernel(TEXT.replace("lanes l < 4", "lanes l < 4096"))
    text = assembly([kernel], target_named("host"))
    inside = [line for line in text.splitlines() if "prefetch" in line and "1000000" not in line]
    stores = [line for line in text.splitlines() if "vmovup" in line and "), %" not in line]
    assert len(inside) * 64 >= len(stores) * target_named("host").vector_bytes
