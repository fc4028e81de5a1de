"""Transformations of functions: derivatives, batching, compilation; functions in and out."""
from lamella.transforms.batching import vmap
from lamella.transforms.derivatives import (
    grad,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    value_and_grad,
    vjp,
)  # fmt: skip
from lamella.transforms.jit import jit

__all__ = ["grad", "hessian", "jacfwd", "jacrev", "jit", "jvp", "value_and_grad", "vjp", "vmap"]
