"""GPT-2 of 124 M parameters (Radford et al., 2019), random weights: the logits behind a prompt of
512 tokens, and behind one more token after 256 that are cached.

A contestant is called FRAMEWORK_CASE, as in ``torch_decode``. The model is one function for both
frameworks, whose functional modules have the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.harness import Figure, Task, against, race

FRAMEWORKS = ("lamella", "torch")
CASES = ("prefill", "decode")
LAYERS, WIDTH, HEADS, VOCABULARY, LONGEST = 12, 768, 12, 50257, 1024
PROMPT, CONTEXT = 512, 256


def weights() -> list[Any]:
    """Token and position embeddings, then each layer's twelve arrays, then the last norm's two."""
    draw = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return draw.standard_normal(shape, dtype=np.float32) * np.float32(0.02)

    def norm() -> list[Any]:
        return [1 + normal(WIDTH), normal(WIDTH)]

    def linear(out: int, width: int) -> list[Any]:
        return [normal(out, width), normal(out)]

    found = [normal(VOCABULARY, WIDTH), normal(LONGEST, WIDTH)]
    for _ in range(LAYERS):
        found += norm() + linear(3 * WIDTH, WIDTH) + linear(WIDTH, WIDTH)
        found += norm() + linear(4 * WIDTH, WIDTH) + linear(WIDTH, 4 * WIDTH)
    return found + norm()


def data(case: str) -> tuple[Any, list[Any]]:
    """Tokens, and the cached keys and values of each layer."""
    draw = np.random.default_rng(1)
    if case == "prefill":
        return draw.integers(0, VOCABULARY, (1, PROMPT)), []
    shape = (1, HEADS, CONTEXT, WIDTH // HEADS)
    cache = [draw.standard_normal(shape, dtype=np.float32) for _ in range(2 * LAYERS)]
    return draw.integers(0, VOCABULARY, (1, 1)), cache


def logits(f: Any, join: Any, tokens: Any, cache: Sequence[Any], given: Sequence[Any]) -> Any:
    """The scores of the token that follows; ``f`` is a functional module, ``join`` concatenates."""
    length, start = tokens.shape[1], CONTEXT if cache else 0
    x = f.embedding(tokens, given[0]) + given[1][start : start + length]
    for layer in range(LAYERS):
        p = given[2 + 12 * layer : 14 + 12 * layer]
        found = f.linear(f.layer_norm(x, (WIDTH,), p[0], p[1]), p[2], p[3])
        q, k, v = (
            found[..., i * WIDTH : (i + 1) * WIDTH]
            .reshape((1, length, HEADS, WIDTH // HEADS))
            .swapaxes(1, 2)
            for i in range(3)
        )
        if cache:
            k, v = join([cache[2 * layer], k], 2), join([cache[2 * layer + 1], v], 2)
        y = f.scaled_dot_product_attention(q, k, v, is_causal=not cache)
        x = x + f.linear(y.swapaxes(1, 2).reshape((1, length, WIDTH)), p[4], p[5])
        h = f.linear(f.layer_norm(x, (WIDTH,), p[6], p[7]), p[8], p[9])
        x = x + f.linear(f.gelu(h, approximate="tanh"), p[10], p[11])
    return f.linear(f.layer_norm(x[:, -1], (WIDTH,), given[-2], given[-1]), given[0])


def lamella(case: str) -> Task:
    """Lamella, jitted."""
    import lamella as lm
    from lamella import nn

    given = [lm.asarray(a) for a in weights()]
    tokens, cache = data(case)
    step = lm.jit(lambda t, c, p: logits(nn.functional, lm.concat, t, c, p))
    arguments = lm.asarray(tokens), [lm.asarray(a) for a in cache], given
    last: list[Any] = []

    def run() -> None:
        last[:] = [step(*arguments)]
        lm.eval(*last)

    return Task(run, lambda: last[0].numpy())


def torch(case: str) -> Task:
    """PyTorch, eager."""
    import torch as th
    from torch.nn import functional

    given = [th.from_numpy(a) for a in weights()]
    tokens, cache = data(case)
    arguments = th.from_numpy(tokens), [th.from_numpy(a) for a in cache]
    last: list[Any] = []

    def run() -> None:
        with th.inference_mode():
            last[:] = [logits(functional, th.cat, *arguments, given)]

    return Task(run, lambda: last[0].numpy())


def __getattr__(name: str) -> Callable[[], Task]:
    framework, _, case = name.partition("_")
    if framework not in FRAMEWORKS or case not in CASES:
        raise AttributeError(name)
    return lambda: globals()[framework](case)  # type: ignore[no-any-return]


def measure(quick: bool) -> list[Figure]:
    """Lamella's time as a ratio to PyTorch's."""
    figures = []
    for case in CASES:
        names = [f"{framework}_{case}" for framework in FRAMEWORKS]
        timings, left_out = race("gpt2", names, rounds=3 if quick else 7, rtol=1e-3)
        mine = {n.partition("_")[0]: t for n, t in timings.items()}
        missing = {n.partition("_")[0]: reason for n, reason in left_out.items()}
        figures += against(f"gpt2/{case}", mine, missing, {"torch": 1.0})
    return figures
