"""Signals (``lm.signal``): windows, convolutions, short-time Fourier transforms, mel filter
banks, reading between the elements of a grid.
"""
# ruff: noqa: F403

from lamella.tensor.signal.filtering import *
from lamella.tensor.signal.filtering import __all__ as _filtering
from lamella.tensor.signal.mel import *
from lamella.tensor.signal.mel import __all__ as _mel
from lamella.tensor.signal.spectrogram import *
from lamella.tensor.signal.spectrogram import __all__ as _spectrogram
from lamella.tensor.signal.windows import *
from lamella.tensor.signal.windows import __all__ as _windows

__all__ = sorted([*_filtering, *_mel, *_spectrogram, *_windows])
