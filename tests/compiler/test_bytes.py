"""Products of int8 summed in int32: by the machine's instruction for them, and exact. Their
schedules are among those of test_contractions.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from lamella import ops
from lamella.compiler.codegen import assembly
from lamella.compiler.emit.target import named
from lamella.compiler.pipeline import compile_graph
from lamella.dtypes import int8, int32
from lamella.ir.loop_interp import run_kernel
from lamella.ir.loops import Kernel
from lamella.ir.text import kernel_text, parse_kernel
from tests.support.llvm_backend import NAMES, run_kernel_llvm, target_named

pytestmark = pytest.mark.makes_no_program

INSTRUCTIONS = {
    "avx512vnni": r"vpdpbusd\t.*zmm", "avx512": r"vpmaddwd\t.*zmm", "avx2": r"vpmaddwd\t.*ymm",
    "x86-64-v2": r"pmaddwd\t.*xmm", "aarch64": r"sdot\t",
}  # fmt: skip


def kernels(target: str, shape: tuple[int, int, int], order: str) -> list[Kernel]:
    m, n, k = shape
    a = ops.placeholder((k, m) if order[0] == "t" else (m, k), int8)
    b = ops.placeholder((n, k) if order[1] == "t" else (k, n), int8)
    of_a, of_b = ((1, 0) if order[0] == "t" else (0, 1)), ((2, 1) if order[1] == "t" else (1, 2))
    made = compile_graph([ops.contract(a, b, of_a, of_b, (0, 2), int32)], [a, b], [],
                         named(target).unit, verify=True)  # fmt: skip
    return made.kernels


@pytest.mark.parametrize("target", INSTRUCTIONS)
def test_the_instruction_for_bytes_is_used(target: str) -> None:
    text = assembly(kernels(target, (256, 256, 256), "nn"), named(target))
    assert re.search(INSTRUCTIONS[target], text)


@pytest.mark.parametrize("order", ["nn", "nt", "tn", "tt"])
def test_text_has_all_of_a_kernel(order: str) -> None:
    for kernel in kernels("avx512vnni", (40, 24, 67), order):
        assert kernel_text(parse_kernel(kernel_text(kernel))) == kernel_text(kernel)


def test_the_operations_on_bytes() -> None:
    kernel = parse_kernel("""kernel k
  in x: int8
  in a: int32
  in b: int32
  out w: int32
  out s: int32
  out u: int32
grid i < 1
  lanes j < 21
    w[j] = word<int32>(x[4*j], x[4*j + 1], x[4*j + 2], x[4*j + 3])
    s[j] = dotbytes(a[j], b[j], 5:int32)
    u[j] = udotbytes(a[j], b[j], -7:int32)""")
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, 84).astype(np.int8)
    a, b = (rng.integers(-(2**31), 2**31, 21).astype(np.int32) for _ in range(2))
    ab = [v.view(np.int8).reshape(21, 4).astype(np.int64) for v in (a, b)]
    wanted = {
        "w": x.view(np.int32), "s": (ab[0] * ab[1]).sum(1) + 5,
        "u": ((ab[0] & 255) * ab[1]).sum(1) - 7,
    }  # fmt: skip
    for name in (None, *NAMES, "avx512"):
        arrays = {"x": x, "a": a, "b": b, **{key: np.zeros(21, np.int32) for key in wanted}}
        if name is None:
            run_kernel(kernel, arrays, {}, {})
        else:
            run_kernel_llvm(kernel, arrays, {}, {}, target_named(name))
        for key, value in wanted.items():
            np.testing.assert_array_equal(arrays[key], value)
