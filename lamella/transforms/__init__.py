"""Transformations of functions: derivatives, batching, compilation; functions in and out."""
from lamella.transforms.associative import associative_scan
from lamella.transforms.batching import vmap
from lamella.transforms.branching import cond, switch
from lamella.transforms.callback import (
    ShapeDtypeStruct,
    check,
    debug_print,
    io_callback,
    pure_callback,
)  # fmt: skip
from lamella.transforms.checkpoint import checkpoint, checkpoint_name, checkpoint_policies
from lamella.transforms.control import fori_loop, map, scan, while_loop
from lamella.transforms.custom import custom_batch, custom_jvp, custom_vjp
from lamella.transforms.derivatives import (
    grad,
    hessian,
    hvp,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    value_and_grad,
    vjp,
)  # fmt: skip
from lamella.transforms.jit import jit
from lamella.transforms.mapping import apply_along_axis, apply_over_axes, vectorize

__all__ = [
    "ShapeDtypeStruct", "apply_along_axis", "apply_over_axes", "associative_scan", "check",
    "checkpoint", "checkpoint_name", "checkpoint_policies", "cond", "custom_batch", "custom_jvp",
    "custom_vjp", "debug_print", "fori_loop", "grad", "hessian", "hvp", "io_callback", "jacfwd",
    "jacrev", "jit", "jvp", "linearize", "map", "pure_callback", "scan", "switch",
    "value_and_grad", "vectorize", "vjp", "vmap", "while_loop",
]  # fmt: skip
