"""Programs kept on disk: the same answers without the compiler; anything damaged is made again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lamella import ops
from lamella.compiler.blueprint import from_json, to_json
from lamella.dtypes import float32
from lamella.ir.dim import Dim
from lamella.ir.node import Node
from lamella.ops.leaf import DATA
from tests.support.units import AVX2

SCRIPT = """
import sys, numpy as np, lamella as lm
x = lm.asarray(np.arange(12, dtype=np.float32).reshape(3, 4))
print(lm.exp(-x).sum(1).tolist(), x[lm.asarray([2, 0])].tolist())
print("llvmlite.binding" in sys.modules, "lamella.compiler.pipeline" in sys.modules)
"""


def run(folder: Path) -> list[str]:
    environment = {"LAMELLA_CACHE_DIR": str(folder), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, env=environment
    )
    return done.stdout.splitlines()


def test_a_warm_start_needs_no_compiler(tmp_path: Path) -> None:
    cold, warm = run(tmp_path), run(tmp_path)
    assert cold[0] == warm[0]
    assert cold[1] == "True True"
    assert warm[1] == "False False"


def test_damaged_programs_are_made_again(tmp_path: Path) -> None:
    first = run(tmp_path)[0]
    for path in tmp_path.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            path.write_bytes(data[: len(data) // 2] + b"?" + data[len(data) // 2 + 1 :])
    assert run(tmp_path)[0] == first


def test_json_gives_the_program_back() -> None:
    from lamella.compiler.pipeline import compile_graph

    n = Dim("n")
    x = Node(DATA, (), (n, 7), float32)
    x.value = np.zeros((3, 7), np.float32)
    outputs = [ops.reduce_sum(ops.exp(x), (1,)), ops.reshape(x, (7 * n,))]
    program = compile_graph(outputs, [x], [], AVX2)
    back = from_json(to_json(program))
    assert to_json(back) == to_json(program)
    assert back.steps == program.steps and back.temporaries == program.temporaries
    assert [k.name for k in back.kernels] == [k.name for k in program.kernels]


@pytest.mark.parametrize("text", ["", "[]", "{}", json.dumps({"sources": 3})])
def test_other_json_is_refused(text: str) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        from_json(text.encode())
