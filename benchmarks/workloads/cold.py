"""A small program that has never been seen: a few pointwise operations and a reduction, from the
line to the answer; of plain functions, and of up to four transcendental ones.

The process has computed something else before, so LLVM is loaded; the program cache is off and
every structure is new.
"""

from __future__ import annotations

import json
import statistics

from benchmarks.harness import Figure, duration, python, within

LIMIT = 15e-3
CODE = """
import itertools, json, sys, time
import lamella as lm

plain = [lm.abs, lm.square, lm.floor, lm.sign, lm.negative, lm.sqrt, lm.ceil, lm.isfinite]
curved = [lm.exp, lm.tanh, lm.sin, lm.sqrt, lm.abs, lm.log1p, lm.cos, lm.square]
operations = plain if sys.argv[2] == "plain" else curved
x = lm.ones((64, 100))
float(lm.sum(x * 2 + 1))
seconds = []
for chosen in itertools.islice(itertools.permutations(operations, 4), 0, 1680, 1680 //
int(sys.argv[1])):
    start = time.perf_counter()
    y = x
    for operation in chosen:
        y = operation(y) + x
    float(lm.sum(y))
    seconds.append(time.perf_counter() - start)
print(json.dumps(seconds))
"""


def measure(quick: bool) -> list[Figure]:
    """The median time of new programs as a ratio to 15 ms."""
    figures = []
    for kind in ("plain", "transcendental"):
        seconds = json.loads(python(CODE, "5" if quick else "20", kind, LAMELLA_CACHE="0"))
        own = statistics.median(seconds)
        detail = f"{duration(own)}, at most {duration(max(seconds))} of {len(seconds)} programs"
        figures.append(within(f"cold small program, {kind}", "15 ms", own, LIMIT, detail))
    return figures
