"""A GPT of 6 layers, 384 wide, for the training benchmarks: one definition for Lamella and PyTorch,
whose modules have the same names, and one of functions for JAX and MLX. Weights are drawn once by
NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

LAYERS, WIDTH, HEADS, CONTEXT, BATCH, VOCABULARY = 6, 384, 6, 256, 8, 65
RATE, DECAY = 3e-4, 0.1
Weights = dict[str, np.ndarray[Any, np.dtype[np.float32]]]


def weights() -> Weights:
    """Every parameter by PyTorch's name."""
    draw = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return draw.normal(scale=0.02, size=shape).astype(np.float32)

    found: Weights = {
        "tokens.weight": normal(VOCABULARY, WIDTH), "places.weight": normal(CONTEXT, WIDTH),
        "norm.weight": np.ones(WIDTH, np.float32), "norm.bias": np.zeros(WIDTH, np.float32),
        "head.weight": normal(VOCABULARY, WIDTH),
    }  # fmt: skip
    for i in range(LAYERS):
        name = f"blocks.{i}"
        for norm in ("norm1", "norm2"):
            found[f"{name}.{norm}.weight"] = np.ones(WIDTH, np.float32)
            found[f"{name}.{norm}.bias"] = np.zeros(WIDTH, np.float32)
        for layer, n, m in (("qkv", 3, 1), ("out", 1, 1), ("up", 4, 1), ("down", 1, 4)):
            found[f"{name}.{layer}.weight"] = normal(n * WIDTH, m * WIDTH)
            found[f"{name}.{layer}.bias"] = np.zeros(n * WIDTH, np.float32)
    return found


def batch() -> tuple[Any, Any]:
    """Tokens, and those that follow them."""
    tokens = np.random.default_rng(1).integers(0, VOCABULARY, (BATCH, CONTEXT + 1))
    return tokens[:, :-1].copy(), tokens[:, 1:].copy()


def modules(nn: Any, arange: Callable[[int], Any]) -> Any:
    """The model from ``lamella.nn`` or ``torch.nn``."""
    functional = nn.functional

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x: Any) -> Any:
            b, t, _ = x.shape
            qkv = self.qkv(self.norm1(x)).reshape(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
            q, k, v = (qkv[i] for i in range(3))
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.permute(0, 2, 1, 3).reshape(b, t, WIDTH))
            return x + self.down(functional.gelu(self.up(self.norm2(x))))

    class GPT(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(VOCABULARY, WIDTH)
            self.places = nn.Embedding(CONTEXT, WIDTH)
            self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
            self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

        def forward(self, tokens: Any) -> Any:
            x = self.tokens(tokens) + self.places(arange(tokens.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    return GPT()


def lamella_step() -> Callable[[], float]:
    """A training step of Lamella, jitted whole; it returns the loss."""
    import lamella as lm
    from lamella import nn, optim

    model = modules(nn, lm.arange)
    model.load_state_dict(weights())
    optimizer = optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
    x, y = (lm.asarray(part) for part in batch())

    @lm.jit
    def step(x: Any, y: Any) -> Any:
        logits = model(x)
        loss = nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return lambda: float(step(x, y).item())


def torch_step(compiled: bool) -> Callable[[], float]:
    """A training step of PyTorch."""
    import torch as th

    model = modules(th.nn, th.arange)
    model.load_state_dict({name: th.from_numpy(value) for name, value in weights().items()})
    optimizer = th.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
    x, y = (th.from_numpy(part) for part in batch())

    def loss_of(x: Any, y: Any) -> Any:
        logits = model(x)
        return th.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), y.reshape(-1))

    forward = th.compile(loss_of) if compiled else loss_of

    def step() -> float:
        loss = forward(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step


def _loss(f: Any, w: Any, x: Any, y: Any) -> Any:
    """The loss in functions of arrays; ``f`` has those that JAX and MLX call differently."""

    def norm(v: Any, name: str) -> Any:
        centred = v - v.mean(-1, keepdims=True)
        scale = ((centred * centred).mean(-1, keepdims=True) + 1e-5) ** -0.5
        return centred * scale * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(v: Any, name: str) -> Any:
        return v @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    v = w["tokens.weight"][x] + w["places.weight"][f.xp.arange(CONTEXT)]
    mask = f.xp.tril(f.xp.ones((CONTEXT, CONTEXT))) > 0
    for i in range(LAYERS):
        name = f"blocks.{i}"
        qkv = linear(norm(v, f"{name}.norm1"), f"{name}.qkv")
        q, k, u = qkv.reshape(BATCH, CONTEXT, 3, HEADS, -1).transpose(2, 0, 3, 1, 4)
        scores = q @ k.swapaxes(-1, -2) / (WIDTH / HEADS) ** 0.5
        attention = f.softmax(f.xp.where(mask, scores, -float("inf"))) @ u
        v = v + linear(attention.transpose(0, 2, 1, 3).reshape(v.shape), f"{name}.out")
        up = linear(norm(v, f"{name}.norm2"), f"{name}.up")
        v = v + linear(up * (1 + f.erf(up * 0.5**0.5)) / 2, f"{name}.down")
    logits = norm(v, "norm") @ w["head.weight"].T
    chosen = f.xp.take_along_axis(logits, y[..., None], -1)
    return (f.logsumexp(logits) - chosen[..., 0]).mean()


def _update(f: Any, state: Any, x: Any, y: Any) -> Any:
    """One step of AdamW: the next state, and the loss."""
    w, first, second, count = state
    loss, grads = f.value_and_grad(lambda w, x, y: _loss(f, w, x, y))(w, x, y)
    count = count + 1
    one, two = 1 - 0.9**count, 1 - 0.999**count
    first = {n: 0.9 * m + 0.1 * grads[n] for n, m in first.items()}
    second = {n: 0.999 * v + 0.001 * grads[n] ** 2 for n, v in second.items()}
    moved = {
        n: p * (1 - RATE * DECAY) - RATE * (first[n] / one) / (f.xp.sqrt(second[n] / two) + 1e-8)
        for n, p in w.items()
    }
    return (moved, first, second, count), loss


def jax_step() -> Callable[[], float]:
    """A training step of JAX, jitted whole, its state donated."""
    import jax as j
    import jax.numpy as jnp

    f = SimpleNamespace(
        xp=jnp,
        softmax=j.nn.softmax,
        erf=j.lax.erf,
        logsumexp=lambda x: j.nn.logsumexp(x, axis=-1),
        value_and_grad=j.value_and_grad,
    )
    jitted = j.jit(lambda state, x, y: _update(f, state, x, y), donate_argnums=0)
    w = {name: jnp.asarray(value) for name, value in weights().items()}
    zeros = j.tree.map(jnp.zeros_like, w)
    state = [(w, zeros, j.tree.map(jnp.zeros_like, w), jnp.float32(0))]
    x, y = (jnp.asarray(part) for part in batch())

    def step() -> float:
        state[0], loss = jitted(state[0], x, y)
        return float(loss)

    return step


def mlx_step() -> Callable[[], float]:
    """A training step of MLX, compiled whole."""
    import mlx.core as mx

    mx.set_default_device(mx.cpu)
    f = SimpleNamespace(
        xp=mx,
        softmax=lambda x: mx.softmax(x, axis=-1),
        erf=mx.erf,
        logsumexp=lambda x: mx.logsumexp(x, axis=-1),
        value_and_grad=mx.value_and_grad,
    )
    compiled = mx.compile(lambda state, x, y: _update(f, state, x, y))
    w = {name: mx.array(value) for name, value in weights().items()}
    zeros = {name: mx.zeros_like(value) for name, value in w.items()}
    state = [(w, zeros, zeros, mx.array(0.0))]
    x, y = (mx.array(part) for part in batch())

    def step() -> float:
        state[0], loss = compiled(state[0], x, y)
        mx.eval(state[0], loss)
        return float(loss.item())

    return step
