"""Runs a graph's program kernel by kernel on NumPy arrays, by the loop interpreter or the C
emitter.

Input: nodes whose leaves hold values. Output: their values. What the compiler made is thus checked
without LLVM, and a difference between the runners shows which of emitter, kernel or rule is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import lamella as lm
from lamella.compiler.blueprint import Blueprint, Control, Step
from lamella.compiler.pipeline import compile_graph
from lamella.ir.dim import product
from lamella.ir.loops import Kernel
from lamella.ir.node import Node, topological
from lamella.ir.vectors import VectorUnit
from lamella.runtime.buffer import Buffer
from tests.support.jumps import Pointer, control
from tests.support.units import AVX2

Array = npt.NDArray[np.generic]
Slot = Array | Pointer | bool | int | float
RunKernel = Callable[[Kernel, Mapping[str, Array], Mapping[str, Any], Mapping[str, int]], None]


def run_program(
    outputs: Sequence[Node], run_kernel: RunKernel, unit: VectorUnit = AVX2
) -> list[Array]:
    """The values of ``outputs``, by ``run_kernel`` on what the compiler makes of them."""
    order = topological(outputs)
    inputs = [node for node in order if node.value is not None and node.op.name != "scalar"]
    scalars = [node for node in order if node.op.name == "scalar"]
    blueprint = compile_graph(outputs, inputs, scalars, unit)
    arrays = [np.ascontiguousarray(node.value) for node in inputs]
    numbers = [node.value for node in scalars]
    slots = _slots(blueprint, arrays, numbers)
    at = 0
    while at < len(blueprint.steps):
        step = blueprint.steps[at]
        at += 1
        if isinstance(step, Control):
            at = control(step, slots, at)
        else:
            _run_step(blueprint.kernels[step.kernel], step, slots, run_kernel)
    return _results(blueprint, slots, arrays)


def nodes_of(tensors: Sequence[lm.Tensor]) -> list[Node]:
    """The nodes of pending tensors, over inputs that hold NumPy arrays of their own."""
    outputs = [tensor.node for tensor in tensors]
    for node in topological(outputs):
        if isinstance(node.value, Buffer):
            node.value = node.value.numpy(node.shape, node.dtype.numpy).copy()
    return outputs


def _slots(blueprint: Blueprint, arrays: list[Array], numbers: Sequence[object]) -> list[Slot]:
    made: list[Slot] = [array.reshape(-1) for array in arrays]
    made += [np.zeros(int(product(shape)), dtype.numpy) for shape, dtype in blueprint.outputs]
    made += numbers  # type: ignore[arg-type]
    made += [np.full(int(t.nbytes), 0xA5, np.uint8) for t in blueprint.temporaries]
    made += [np.zeros(8, np.int64) for _ in blueprint.faults]
    made += [0] * blueprint.registers
    made += [int(number) for number in blueprint.numbers]
    return made


def _run_step(kernel: Kernel, step: Step, slots: list[Slot], run_kernel: RunKernel) -> None:
    given = iter(step.slots)
    arrays = {}
    for buffer in kernel.buffers:
        found = slots[next(given)]
        if isinstance(found, Pointer):
            found = found.memory()
            found = found[: found.size // buffer.dtype.itemsize * buffer.dtype.itemsize]
        if isinstance(found, np.ndarray):
            arrays[buffer.name] = (
                found if found.dtype == buffer.dtype else found.view(buffer.dtype.numpy)
            )
    params = {param.name: slots[next(given)] for param in kernel.params}
    run_kernel(kernel, arrays, params, {})


def _results(blueprint: Blueprint, slots: list[Slot], arrays: list[Array]) -> list[Array]:
    first = blueprint.inputs
    made: list[Array] = []
    for i, (shape, _) in enumerate(blueprint.outputs):
        source = blueprint.same.get(i)
        if source is None:
            found = slots[first + i]
        else:
            found = made[source] if source >= 0 else arrays[-1 - source]
        made.append(np.asarray(found).reshape(tuple(int(size) for size in shape)))
    return made
