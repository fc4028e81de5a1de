"""Resident memory over 1,000 steps of a training loop without jit and without a call to eval."""

from __future__ import annotations

import json

from benchmarks.harness import Figure, python

SPREAD = 0.05
CODE = """
import json, sys
import numpy as np
import lamella as lm
from lamella import nn, optim

lm.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 10))
opt = optim.AdamW(model.parameters(), lr=1e-3)
draw = np.random.default_rng(0)
total, sizes = lm.zeros(()), []
for step in range(int(sys.argv[1])):
    x = lm.asarray(draw.normal(size=(64, 32)).astype(np.float32))
    y = lm.asarray(draw.integers(0, 10, size=64))
    loss = nn.functional.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    total = total + loss.detach()
    if step >= 50 and step % 10 == 0:
        sizes.append(next(int(l.split()[1]) for l in open("/proc/self/status") if
        l.startswith("VmRSS")))
assert np.isfinite(total.item())
print(json.dumps(sizes))
"""


def measure(quick: bool) -> list[Figure]:
    """The largest resident size after step 50 as a ratio to the size at step 50."""
    steps = 200 if quick else 1000
    sizes = json.loads(python(CODE, str(steps)))
    ratio = max(max(sizes) / sizes[0], sizes[0] / min(sizes))
    detail = f"{min(sizes) / 1024:.0f} to {max(sizes) / 1024:.0f} MiB over {steps} steps"
    return [
        Figure(
            "memory of a training loop",
            "lamella",
            "step 50",
            ratio,
            detail,
            "≤ 1.05",
            ratio <= 1 + SPREAD,
        )
    ]
