"""A GPT of 6 layers, 384 wide, for the training benchmarks: one definition for Lamella and PyTorch,
whose modules have the same names, and one of functions for JAX. Weights are drawn once by NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
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
            q, k, v = (
                self.qkv(self.norm1(x)).reshape(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)[i]
                for i in range(3)
            )
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


def _jax_loss(w: Any, x: Any, y: Any) -> Any:
    import jax as j
    import jax.numpy as jnp

    def norm(v: Any, name: str) -> Any:
        centred = v - v.mean(-1, keepdims=True)
        scale = j.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
        return centred * scale * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(v: Any, name: str) -> Any:
        return v @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    v = w["tokens.weight"][x] + w["places.weight"][jnp.arange(CONTEXT)]
    mask = jnp.tril(jnp.ones((CONTEXT, CONTEXT), bool))
    for i in range(LAYERS):
        name = f"blocks.{i}"
        qkv = linear(norm(v, f"{name}.norm1"), f"{name}.qkv")
        q, k, u = qkv.reshape(BATCH, CONTEXT, 3, HEADS, -1).transpose(2, 0, 3, 1, 4)
        scores = q @ k.swapaxes(-1, -2) / (WIDTH / HEADS) ** 0.5
        attention = j.nn.softmax(jnp.where(mask, scores, -jnp.inf)) @ u
        v = v + linear(attention.transpose(0, 2, 1, 3).reshape(v.shape), f"{name}.out")
        hidden = j.nn.gelu(linear(norm(v, f"{name}.norm2"), f"{name}.up"), approximate=False)
        v = v + linear(hidden, f"{name}.down")
    logits = norm(v, "norm") @ w["head.weight"].T
    chosen = jnp.take_along_axis(j.nn.log_softmax(logits), y[..., None], -1)
    return -chosen.mean()


def jax_step() -> Callable[[], float]:
    """A training step of JAX, jitted whole, its state donated."""
    import jax as j
    import jax.numpy as jnp

    def update(state: Any, x: Any, y: Any) -> Any:
        w, first, second, count = state
        loss, grads = j.value_and_grad(_jax_loss)(w, x, y)
        count = count + 1
        first = j.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
        second = j.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, grads)
        one, two = 1 - 0.9**count, 1 - 0.999**count

        def moved(p: Any, m: Any, v: Any) -> Any:
            return p * (1 - RATE * DECAY) - RATE * (m / one) / (jnp.sqrt(v / two) + 1e-8)

        return (j.tree.map(moved, w, first, second), first, second, count), loss

    jitted = j.jit(update, donate_argnums=0)
    w = {name: jnp.asarray(value) for name, value in weights().items()}
    zeros = j.tree.map(jnp.zeros_like, w)
    state = [(w, zeros, j.tree.map(jnp.zeros_like, w), jnp.float32(0))]
    x, y = (jnp.asarray(part) for part in batch())

    def step() -> float:
        state[0], loss = jitted(state[0], x, y)
        return float(loss)

    return step
