"""Programs compiled by loops in which a size, an index or a number changes from step to step."""

from __future__ import annotations

import json

from benchmarks.harness import Figure, python, within

LIMIT = 5
CODE = """
import json
import lamella as lm
from lamella.runtime.evaluate import compiled_count

def counted(loop):
    before = compiled_count()
    loop()
    return compiled_count() - before

def grow():
    rows = lm.zeros((0, 8))
    for step in range(200):
        rows = lm.concat([rows, lm.ones((1, 8)) * float(step)])
        if rows.shape[0] != step + 1 or rows[-1, 0].item() != step:
            raise SystemExit("wrong value")

def index():
    x = lm.arange(1000)
    for i in range(1000):
        if x[i].item() != i:
            raise SystemExit("wrong value")

def number():
    x = lm.ones(100)
    for i in range(1000):
        if lm.sum(x * float(i)).item() != 100.0 * i:
            raise SystemExit("wrong value")

print(json.dumps({"a row more each of 200 steps": counted(grow), "x[i] for 1,000 i": counted(index),
                  "1,000 numbers": counted(number)}))
"""


def measure(quick: bool) -> list[Figure]:
    """The number of programs as a ratio to 5."""
    counts = json.loads(python(CODE, LAMELLA_CACHE="0"))
    return [
        within(f"programs: {name}", "5", count, LIMIT, f"{count} programs")
        for name, count in counts.items()
    ]
