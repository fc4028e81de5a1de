"""Every primitive's builder, and what is composed of them: the vocabulary of graphs.

Builders take and return nodes; they check shapes and dtypes and do not promote. Import this module
as ``from lamella import ops`` and write ``ops.add(a, b)``; each module below lists its names.
"""
# ruff: noqa: F403, I001
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

# The order matters: a module may use those above it while it is imported, all others when it runs.
from lamella.ops.leaf import *
from lamella.ops.arithmetic import *
from lamella.ops.division import *
from lamella.ops.comparison import *
from lamella.ops.convert import *
from lamella.ops.complex import *
from lamella.ops.bitwise import *
from lamella.ops.rounding import *
from lamella.ops.exponential import *
from lamella.ops.trigonometric import *
from lamella.ops.power import *
from lamella.ops.reduce import *
from lamella.ops.position import *
from lamella.ops.cumulative import *
from lamella.ops.sorting import *
from lamella.ops.selection import *

# -- movement, indexing, contraction, convolution, windows, random -------------------------------
from lamella.ops.movement import *
from lamella.ops.slicing import *
from lamella.ops.joining import *
from lamella.ops.gathering import *
from lamella.ops.scattering import *
from lamella.ops.contraction import *
from lamella.ops.convolution import *
from lamella.ops.convolution_last import *
from lamella.ops.convolution_depthwise import *
from lamella.ops.convolution_winograd import *
from lamella.ops.windows import *
from lamella.ops.random import *
from lamella.ops.calls import *
from lamella.ops.label import *
from lamella.ops.attention import *

# -- loaded when first used: few programs need them ------------------------------------------------
if TYPE_CHECKING:
    from lamella.ops.solving import *
    from lamella.ops.factorization import *
    from lamella.ops.determinants import *
    from lamella.ops.special_bessel import *
    from lamella.ops.special_error import *
    from lamella.ops.special_gamma import *
    from lamella.ops.special_other import *
    from lamella.ops.sparse import *
    from lamella.ops.fourier_kernel import *

_LATER: Final = {
    "callback": "",  # by its own name
    "solving": (
        "exchanged inverse lu permutation pseudo_inverse solve triangular_solve"
    ),
    "factorization": "cholesky eig eigh qr svd",
    "determinants": "determinant log_determinant matrix_exp",
    "special_bessel": "i0e i1e j0 j1 y0 y1",
    "special_error": "erfcinv erfcx erfinv log_ndtr",
    "special_gamma": "betaln gamma lgamma polygamma",
    "special_zeta": "zeta",
    "special_other": "exprel lambertw log_poisson spence",
    "sparse": "sampled_product sparse_product",
    "fourier_kernel": "fourier",
}  # fmt: skip
_WHERE: Final = {name: module for module, names in _LATER.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'lamella.ops' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"lamella.ops.{_WHERE[name]}"), name)
    globals()[name] = found
    return found


def load_all() -> None:
    """Load every primitive, so that ``base.PRIMITIVES`` is complete."""
    for module in _LATER:
        importlib.import_module(f"lamella.ops.{module}")
