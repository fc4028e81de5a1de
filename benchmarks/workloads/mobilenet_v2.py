"""MobileNetV2 inference on 224 × 224 images, batch 1, random weights."""

from __future__ import annotations

from benchmarks import peers
from benchmarks.harness import Figure, Work, against, race
from benchmarks.workloads import vision

WORK = Work(flops=2 * 300e6, bytes=4 * 3.5e6)  # of the paper, table 4


__getattr__ = peers.by_case(
    lambda framework, case: vision.inference(vision.mobilenet_v2, framework, int(case)), ["1"]
)


def measure(quick: bool) -> list[Figure]:
    """Lamella's time as a ratio to the others'."""
    names = vision.NAMES
    timings, left_out = race("mobilenet_v2", names, rounds=3 if quick else 9, case="1")
    limits = dict.fromkeys(names, 1.0)
    return against("MobileNetV2, 224², batch 1", timings, left_out, limits, WORK)
