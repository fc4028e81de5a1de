"""ResNet-18 inference on 224 × 224 images, batch 1 and 8, random weights."""

from __future__ import annotations

import os

from benchmarks.harness import Figure, Task, against, race
from benchmarks.workloads import vision

BATCH = int(os.environ.get("BENCHMARK_BATCH", "1"))  # race sets it for the contestants
NAMES = ["torch", "lamella", "torch_last", "torch_compile", "onnxruntime"]


def lamella() -> Task:
    """lamella.nn under jit."""
    return vision.lamella_inference(vision.resnet18, BATCH)


def torch() -> Task:
    """PyTorch, eager."""
    return vision.torch_inference(vision.resnet18, BATCH)


def torch_last() -> Task:
    """PyTorch, eager, channels last."""
    return vision.torch_inference(vision.resnet18, BATCH, last=True)


def torch_compile() -> Task:
    """PyTorch, torch.compile."""
    return vision.torch_inference(vision.resnet18, BATCH, compiled=True)


def onnxruntime() -> Task:
    """ONNX Runtime."""
    return vision.onnxruntime_inference(vision.resnet18, BATCH)


def measure(quick: bool) -> list[Figure]:
    """Lamella's time as a ratio to the others'."""
    figures = []
    for batch in (1, 8):
        os.environ["BENCHMARK_BATCH"] = str(batch)
        timings, left_out = race("resnet18", NAMES, rounds=3 if quick else 9)
        limits = dict.fromkeys(NAMES, 1.0)
        figures += against(f"ResNet-18, 224², batch {batch}", timings, left_out, limits)
    return figures
