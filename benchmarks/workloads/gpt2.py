"""GPT-2 of 124 M parameters (Radford et al., 2019), random weights: the logits behind a prompt of
512 tokens, and behind one more token after 256 that are cached.

A contestant is called FRAMEWORK_CASE, as in ``torch_decode``. The model is one function for all
frameworks; JAX, MLX and tinygrad get the functional module's names from theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.harness import Figure, Task, Work, against, race

FRAMEWORKS = ("lamella", *peers.ALL)
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


def logits(f: Any, tokens: Any, cache: Sequence[Any], given: Sequence[Any]) -> Any:
    """The scores of the token that follows; ``f`` has the names of a functional module, ``concat``,
    and ``swapped``, which exchanges axes 1 and 2.
    """
    length, start = tokens.shape[1], CONTEXT if cache else 0
    x = f.embedding(tokens, given[0]) + given[1][start : start + length]
    for layer in range(LAYERS):
        p = given[2 + 12 * layer : 14 + 12 * layer]
        found = f.linear(f.layer_norm(x, (WIDTH,), p[0], p[1]), p[2], p[3])
        q, k, v = (
            f.swapped(
                found[..., i * WIDTH : (i + 1) * WIDTH].reshape((1, length, HEADS, WIDTH // HEADS))
            )
            for i in range(3)
        )
        if cache:
            k, v = f.concat([cache[2 * layer], k], 2), f.concat([cache[2 * layer + 1], v], 2)
        y = f.scaled_dot_product_attention(q, k, v, is_causal=not cache)
        x = x + f.linear(f.swapped(y).reshape((1, length, WIDTH)), p[4], p[5])
        h = f.linear(f.layer_norm(x, (WIDTH,), p[6], p[7]), p[8], p[9])
        x = x + f.linear(f.gelu(h, approximate="tanh"), p[10], p[11])
    return f.linear(f.layer_norm(x[:, -1], (WIDTH,), given[-2], given[-1]), given[0])


def _functional(functional: Any, concat: Any) -> SimpleNamespace:
    """The functional module of Lamella or PyTorch, with the two other names."""
    names = ("embedding", "linear", "layer_norm", "scaled_dot_product_attention", "gelu")
    own = {name: getattr(functional, name) for name in names}
    return SimpleNamespace(**own, concat=concat, swapped=lambda x: x.swapaxes(1, 2))


def _normed(mean: Any, x: Any, weight: Any, bias: Any) -> Any:
    centred = x - mean(x)
    return centred * (mean(centred * centred) + 1e-5) ** -0.5 * weight + bias


def _jax(jax: Any) -> SimpleNamespace:
    jnp = jax.numpy

    def attend(q: Any, k: Any, v: Any, is_causal: bool) -> Any:
        parts = (x.swapaxes(1, 2) for x in (q, k, v))
        return jax.nn.dot_product_attention(*parts, is_causal=is_causal).swapaxes(1, 2)

    return SimpleNamespace(
        embedding=lambda x, w: w[x],
        linear=lambda x, w, b=0.0: x @ w.T + b,
        layer_norm=lambda x, _, w, b: _normed(lambda x: jnp.mean(x, -1, keepdims=True), x, w, b),
        scaled_dot_product_attention=attend,
        gelu=lambda x, approximate: jax.nn.gelu(x, approximate=True),
        concat=jnp.concatenate,
        swapped=lambda x: x.swapaxes(1, 2),
    )


def _mlx(mx: Any) -> SimpleNamespace:
    def attend(q: Any, k: Any, v: Any, is_causal: bool) -> Any:
        mask, scale = "causal" if is_causal else None, (WIDTH / HEADS) ** -0.5
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask=mask)

    def gelu(x: Any, approximate: str) -> Any:
        return x * (1 + mx.tanh(0.7978845608 * (x + 0.044715 * x**3))) / 2

    return SimpleNamespace(
        embedding=lambda x, w: w[x],
        linear=lambda x, w, b=0.0: x @ w.T + b,
        layer_norm=lambda x, _, w, b: mx.fast.layer_norm(x, w, b, 1e-5),
        scaled_dot_product_attention=attend,
        gelu=gelu,
        concat=mx.concatenate,
        swapped=lambda x: x.swapaxes(1, 2),
    )


def _tinygrad(_: Any) -> SimpleNamespace:
    def attend(q: Any, k: Any, v: Any, is_causal: bool) -> Any:
        return q.scaled_dot_product_attention(k, v, is_causal=is_causal)

    return SimpleNamespace(
        embedding=lambda x, w: w[x],
        linear=lambda x, w, b=0.0: x @ w.T + b,
        layer_norm=lambda x, _, w, b: x.layernorm(eps=1e-5) * w + b,
        scaled_dot_product_attention=attend,
        gelu=lambda x, approximate: x.gelu(),
        concat=lambda parts, axis: parts[0].cat(*parts[1:], dim=axis),
        swapped=lambda x: x.transpose(1, 2),
    )


def lamella(case: str) -> Task:
    """Lamella, jitted."""
    import lamella as lm
    from lamella import nn

    given = [lm.asarray(a) for a in weights()]
    tokens, cache = data(case)
    functional = _functional(nn.functional, lm.concat)
    step = lm.jit(lambda t, c, p: logits(functional, t, c, p))
    arguments = lm.asarray(tokens), [lm.asarray(a) for a in cache], given
    last: list[Any] = []

    def run() -> None:
        last[:] = [step(*arguments)]
        lm.eval(*last)

    return Task(run, lambda: last[0].numpy())


SPELLED = {
    "torch": lambda th: _functional(th.nn.functional, th.cat),
    "jax": _jax,
    "mlx": _mlx,
    "tinygrad": _tinygrad,
}


def _task(framework: str, case: str) -> Task:
    if framework == "lamella":
        return lamella(case)
    tokens, cache = data(case)
    written = {
        name: lambda xp, given, tokens, *cache, spelled=spelled: logits(
            spelled(xp), tokens, cache, given
        )
        for name, spelled in SPELLED.items()
    }
    return peers.task(framework, written, [tokens, *cache], weights())


__getattr__ = peers.by_case(_task, CASES)


def _work(case: str) -> Work:
    """The products of a prompt, or the weights and the cache that a step reads."""
    matrices = LAYERS * 12 * WIDTH**2
    if case == "prefill":
        attention = LAYERS * 2 * PROMPT**2 * WIDTH
        return Work(flops=2.0 * (PROMPT * matrices + WIDTH * VOCABULARY) + attention)
    return Work(bytes=4.0 * (matrices + WIDTH * VOCABULARY + 2 * LAYERS * CONTEXT * WIDTH))


def measure(quick: bool) -> list[Figure]:
    """Lamella's time as a ratio to the others'."""
    figures = []
    for case in CASES:
        timings, left_out = race("gpt2", FRAMEWORKS, rounds=3 if quick else 7, rtol=1e-3, case=case)
        limits = dict.fromkeys(FRAMEWORKS, 1.0)
        figures += against(f"gpt2/{case}", timings, left_out, limits, _work(case))
    return figures
