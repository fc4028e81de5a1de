"""MobileNetV2 inference on 224 × 224 images, batch 1, random weights."""

from __future__ import annotations

from benchmarks.harness import Figure, Task, against, race
from benchmarks.workloads import vision

NAMES = ["torch", "lamella", "torch_last", "torch_compile", "onnxruntime"]


def lamella() -> Task:
    """lamella.nn under jit."""
    return vision.lamella_inference(vision.mobilenet_v2, 1)


def torch() -> Task:
    """PyTorch, eager."""
    return vision.torch_inference(vision.mobilenet_v2, 1)


def torch_last() -> Task:
    """PyTorch, eager, channels last."""
    return vision.torch_inference(vision.mobilenet_v2, 1, last=True)


def torch_compile() -> Task:
    """PyTorch, torch.compile."""
    return vision.torch_inference(vision.mobilenet_v2, 1, compiled=True)


def onnxruntime() -> Task:
    """ONNX Runtime."""
    return vision.onnxruntime_inference(vision.mobilenet_v2, 1)


def measure(quick: bool) -> list[Figure]:
    """Lamella's time as a ratio to the others'."""
    timings, left_out = race("mobilenet_v2", NAMES, rounds=3 if quick else 9)
    return against("MobileNetV2, 224², batch 1", timings, left_out, dict.fromkeys(NAMES, 1.0))
