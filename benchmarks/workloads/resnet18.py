"""ResNet-18 inference on 224 × 224 images, batch 1 and 8, random weights."""

from __future__ import annotations

from benchmarks import peers
from benchmarks.harness import Figure, Work, against, race
from benchmarks.workloads import vision

BATCHES = (1, 8)
FLOPS, BYTES = 2 * 1.8e9, 4 * 11.7e6  # of an image (the paper, table 1), and of the weights


__getattr__ = peers.by_case(
    lambda framework, case: vision.inference(vision.resnet18, framework, int(case)),
    map(str, BATCHES),
)


def measure(quick: bool) -> list[Figure]:
    """Lamella's time as a ratio to the others'."""
    figures, names = [], vision.NAMES
    for batch in BATCHES:
        timings, left_out = race("resnet18", names, rounds=3 if quick else 9, case=str(batch))
        limits, work = dict.fromkeys(names, 1.0), Work(batch * FLOPS, BYTES)
        figures += against(f"ResNet-18, 224², batch {batch}", timings, left_out, limits, work)
    return figures
