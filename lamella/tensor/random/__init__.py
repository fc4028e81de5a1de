"""Random numbers: the same stream on every machine and for any number of threads.

Two ways: an explicit ``key`` (made by :func:`key`, multiplied by :func:`split`), or the implicit
generator that :func:`manual_seed` seeds. Draws of location and scale take the shape first; those
that have parameters of their own take them first, and ``shape`` defaults to theirs.

Parameters outside their domain: numbers, sequences and NumPy arrays are refused (OptionError) when
the draw is recorded. Tensors are not looked at: where their elements are outside, what is drawn is
NaN, or -1 if it is a whole number.
"""
# ruff: noqa: F403

from lamella.tensor.random.continuous import *
from lamella.tensor.random.continuous import __all__ as _continuous
from lamella.tensor.random.discrete import *
from lamella.tensor.random.discrete import __all__ as _discrete
from lamella.tensor.random.gamma import *
from lamella.tensor.random.gamma import __all__ as _gamma
from lamella.tensor.random.multivariate import *
from lamella.tensor.random.multivariate import __all__ as _multivariate
from lamella.tensor.random.orders import *
from lamella.tensor.random.orders import __all__ as _orders
from lamella.tensor.random.stream import *
from lamella.tensor.random.stream import __all__ as _stream

__all__ = sorted([*_continuous, *_discrete, *_gamma, *_multivariate, *_orders, *_stream])
