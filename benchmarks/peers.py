"""The other frameworks as contestants of an inference workload: what each needs to run a function.

Input: a table of one function for each *spelling* (``torch``, ``jax``, ``mlx``, ``tinygrad``,
``numpy``), called with the framework's module, the weights and the inputs. Output: a
:class:`~benchmarks.contestant.Task` whose run is complete when it returns. Weights are constants
where a framework can compile them in, and arguments where that would only make it slow to compile.

What runs the same spelling: ``torch`` eager, ``torch_compile`` and ``torch_frozen`` (compiled with
its weights as constants), ``onnxruntime`` and ``openvino`` on the ONNX file that PyTorch exports.
"""

from __future__ import annotations

import io
import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from benchmarks.contestant import Array, Task

__all__ = [
    "ALL", "Methods", "by_case", "contestants", "exported", "repeated", "session", "task",
    "tinygrad_parts", "tree_map",
]  # fmt: skip

Function = Callable[..., Any]
Step = Callable[[], Any]
SPELLING = {
    "torch_compile": "torch", "torch_frozen": "torch", "onnxruntime": "torch", "openvino": "torch",
}  # fmt: skip
ALL = (
    "torch", "torch_compile", "jax", "onnxruntime", "openvino", "mlx", "tinygrad",
)  # fmt: skip


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    """A function of every leaf of nested lists, tuples and dictionaries."""
    if isinstance(tree, dict):
        return {key: tree_map(function, value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(tree_map(function, value) for value in tree)
    return function(tree)


def leaves(tree: Any) -> list[Any]:
    """The leaves of nested containers, in order."""
    found: list[Any] = []
    tree_map(found.append, tree)
    return found


def _numpy(function: Function, weights: Any, inputs: list[Array]) -> tuple[Step, Function]:
    return (lambda: function(np, weights, *inputs)), np.asarray


def _torch(function: Function, weights: Any, inputs: list[Array]) -> tuple[Step, Function]:
    import torch as th

    weights, values = tree_map(th.from_numpy, (weights, inputs))

    def step() -> Any:
        with th.no_grad():
            return function(th, weights, *values)

    return step, lambda y: y.numpy()


def _torch_compile(function: Function, weights: Any, inputs: list[Array]) -> tuple[Step, Function]:
    import torch as th

    compiled = th.compile(lambda weights, *values: function(th, weights, *values))
    return _torch(lambda _, *parts: compiled(*parts), weights, inputs)


def _torch_frozen(function: Function, weights: Any, inputs: list[Array]) -> tuple[Step, Function]:
    import torch as th
    import torch._inductor.config

    torch._inductor.config.freezing = True
    module = _module(function, weights).eval()
    values = tree_map(th.from_numpy, inputs)
    compiled = th.compile(module)

    def step() -> Any:
        with th.no_grad():
            return compiled(*values)

    return step, lambda y: y.numpy()


def _jax(function: Function, weights: Any, inputs: list[Array]) -> tuple[Step, Function]:
    import jax as j

    weights, values = tree_map(j.numpy.asarray, (weights, inputs))
    jitted = j.jit(lambda weights, *values: function(j, weights, *values))
    return (lambda: j.block_until_ready(jitted(weights, *values))), np.asarray


def _mlx(function: Function, weights: Any, inputs: list[Array]) -> tuple[Step, Function]:
    import mlx.core as mx

    mx.set_default_device(mx.cpu)
    weights, values = tree_map(mx.array, (weights, inputs))
    compiled = mx.compile(lambda weights, *values: function(mx, weights, *values))

    def step() -> Any:
        y = compiled(weights, *values)
        mx.eval(y)
        return y

    return step, np.array


class Methods:
    """tinygrad's functions, which are methods of tensors, as functions."""

    def __getattr__(self, name: str) -> Function:
        return lambda x, *rest, **options: getattr(x, name)(*rest, **options)


def _tinygrad(function: Function, weights: Any, inputs: list[Array]) -> tuple[Step, Function]:
    tensor, jit, wait = tinygrad_parts()
    weights, values = tree_map(lambda a: tensor(a).realize(), (weights, inputs))
    methods = Methods()
    jitted = jit(lambda *values: function(methods, weights, *values).realize())

    def step() -> Any:
        y = jitted(*values)
        wait()
        return y

    for _ in range(3):  # it runs, then records, then repeats what it recorded
        step()
    return step, lambda y: y.numpy()


def tinygrad_parts() -> tuple[Any, Any, Step]:
    """tinygrad's Tensor, its TinyJit, and a function that waits for its device: the processor,
    through whatever version of Clang there is.

    Raises:
        ImportError: if tinygrad, or Clang, is not there.
    """
    names = ("clang", *(f"clang-{number}" for number in range(30, 13, -1)))
    clang = os.environ.get("CC") or next(filter(shutil.which, names), None)
    if clang is None:
        raise ImportError("Clang", name="Clang, which tinygrad needs,")
    os.environ["CC"], os.environ["DEV"] = clang, "CPU"
    from tinygrad import Device, Tensor, TinyJit

    return Tensor, TinyJit, Device["CPU"].synchronize


def _module(function: Function, weights: Any) -> Any:
    """A module of PyTorch that calls the function; the weights are its buffers."""
    import torch as th

    class Written(th.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for number, value in enumerate(leaves(weights)):
                self.register_buffer(f"w{number}", th.from_numpy(value))

        def forward(self, *values: Any) -> Any:
            numbers = iter(range(len(leaves(weights))))
            given = tree_map(lambda _: getattr(self, f"w{next(numbers)}"), weights)
            return function(th, given, *values)

    return Written()


def exported(module: Any, inputs: list[Array]) -> bytes:
    """The ONNX file of a PyTorch module (opset 20: it has Gelu) with the inputs' sizes."""
    import onnx  # noqa: F401 - what is missing is said before anything is exported
    import torch as th

    file = io.BytesIO()
    names = [f"x{number}" for number in range(len(inputs))]
    with warnings.catch_warnings(), th.no_grad():
        warnings.simplefilter("ignore")
        values = tuple(map(th.from_numpy, inputs))
        th.onnx.export(
            module.eval(), values, file, dynamo=False, input_names=names, opset_version=20
        )
    return file.getvalue()


def session(framework: str, model: bytes, inputs: list[Array], threads: int = 2) -> Step:
    """A run of an ONNX file by ONNX Runtime or OpenVINO in float32, which returns the first output.
    Inputs that the exporter found unused are left out.
    """
    feed = {f"x{number}": value for number, value in enumerate(inputs)}
    if framework == "onnxruntime":
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        running = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        feed = {part.name: feed[part.name] for part in running.get_inputs()}
        return lambda: running.run(None, feed)[0]
    import openvino as ov

    settings = {
        "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }  # fmt: skip
    core = ov.Core()
    compiled = core.compile_model(core.read_model(model), "CPU", settings)
    request = compiled.create_infer_request()
    feed = {part.any_name: feed[part.any_name] for part in compiled.inputs}
    return lambda: request.infer(feed, share_inputs=True, share_outputs=True)[0]


def _runtime(framework: str) -> Callable[..., tuple[Step, Function]]:
    def make(function: Function, weights: Any, inputs: list[Array]) -> tuple[Step, Function]:
        model = exported(_module(function, weights), inputs)
        return session(framework, model, inputs), np.array

    return make


MAKERS: dict[str, Callable[..., tuple[Step, Function]]] = {
    "numpy": _numpy, "torch": _torch, "torch_compile": _torch_compile,
    "torch_frozen": _torch_frozen, "jax": _jax, "mlx": _mlx, "tinygrad": _tinygrad,
    "onnxruntime": _runtime("onnxruntime"), "openvino": _runtime("openvino"),
}  # fmt: skip


def repeated(step: Step, value: Function) -> Task:
    """A task that keeps what ``step`` returned last."""
    last: list[Any] = []

    def run() -> None:
        last[:] = [step()]

    return Task(run, lambda: value(last[0]))


def task(
    framework: str, written: Mapping[str, Function], inputs: Iterable[Array], weights: Any = ()
) -> Task:
    """A framework's task of a workload that is written in the spellings of a table."""
    function = written[SPELLING.get(framework, framework)]
    return repeated(*MAKERS[framework](function, weights, list(inputs)))


def contestants(
    written: Mapping[str, Function], data: Callable[[], Iterable[Array]]
) -> Callable[[str], Callable[[], Task]]:
    """The ``__getattr__`` of a workload whose contestants are frameworks."""

    def find(name: str) -> Callable[[], Task]:
        if name not in MAKERS:
            raise AttributeError(name)
        return lambda: task(name, written, data())

    return find


def by_case(
    make: Callable[[str, str], Task], cases: Iterable[str]
) -> Callable[[str], Callable[[], Task]]:
    """The ``__getattr__`` of a workload whose contestants are called FRAMEWORK_CASE."""
    longest_first = sorted(cases, key=len, reverse=True)

    def find(name: str) -> Callable[[], Task]:
        for case in longest_first:
            if name.endswith(f"_{case}"):
                return lambda: make(name.removesuffix(f"_{case}"), case)
        raise AttributeError(name)

    return find
