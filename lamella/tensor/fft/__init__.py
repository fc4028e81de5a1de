"""Discrete Fourier transforms (``lm.fft``): the functions of the array-API standard, of planes, and
cosine transforms.

Any length, several axes, ``norm`` "backward" (1/n on the inverse), "ortho" (1/√n on both) or
"forward". Input of float32 or less gives complex64, of float64 complex128. Derivatives to any
order, ``vmap`` and ``jit`` apply. See :mod:`lamella.tensor.fft.plan` for the method; errors are
below 1e-6 (float32) and 2e-15 (float64) of the root of the mean square, times log2 n.
"""
# ruff: noqa: F403

from lamella.tensor.fft.cosine import *
from lamella.tensor.fft.cosine import __all__ as _cosine
from lamella.tensor.fft.grid import *
from lamella.tensor.fft.grid import __all__ as _grid
from lamella.tensor.fft.transforms import *
from lamella.tensor.fft.transforms import __all__ as _transforms

__all__ = sorted([*_cosine, *_grid, *_transforms])
