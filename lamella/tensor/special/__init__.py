"""Special functions under SciPy's names (``lm.special``): error functions, gamma and beta, Bessel
functions, entropies, exponentials without cancellation.

Operands are tensors or anything :func:`lamella.asarray` takes, of real numbers; shapes broadcast,
integers are cast to float32. float32 is computed in float64 and rounded once, so that its error is
hardly more than half a unit in the last place (ulp).
"""
# ruff: noqa: F403

from lamella.tensor.special.bessel import *
from lamella.tensor.special.bessel import __all__ as _bessel
from lamella.tensor.special.elementary import *
from lamella.tensor.special.elementary import __all__ as _elementary
from lamella.tensor.special.entropy import *
from lamella.tensor.special.entropy import __all__ as _entropy
from lamella.tensor.special.error import *
from lamella.tensor.special.error import __all__ as _error
from lamella.tensor.special.gamma import *
from lamella.tensor.special.gamma import __all__ as _gamma
from lamella.tensor.special.incomplete import *
from lamella.tensor.special.incomplete import __all__ as _incomplete

__all__ = sorted([*_bessel, *_elementary, *_entropy, *_error, *_gamma, *_incomplete])
