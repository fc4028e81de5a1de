"""Special functions under SciPy's names (``lm.special``): error functions, gamma and beta, Bessel
and Airy functions, elliptic and exponential integrals, orthogonal polynomials, distribution
functions, entropies, exponentials without cancellation. PyTorch's names stand beside SciPy's.

Operands are tensors or anything :func:`lamella.asarray` takes, of real numbers; shapes broadcast,
integers are cast to float32. float32 is computed in float64 and rounded once, so that its error is
hardly more than half a unit in the last place (ulp).
"""
# ruff: noqa: F403
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

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

if TYPE_CHECKING:
    from lamella.tensor.special.airy_functions import *
    from lamella.tensor.special.counting import *
    from lamella.tensor.special.cylindrical import *
    from lamella.tensor.special.distributions import *
    from lamella.tensor.special.elliptic import *
    from lamella.tensor.special.harmonics import *
    from lamella.tensor.special.integrals import *
    from lamella.tensor.special.inverse import *
    from lamella.tensor.special.modified import *
    from lamella.tensor.special.orthogonal import *
    from lamella.tensor.special.transforms import *

# Loaded when one of its names is first used.
_LATER: Final = {
    "airy_functions": "airy airy_ai",
    "counting": (
        "bernoulli euler factorial2 kolmogorov loggamma owens_t perm poch rgamma stirling2 "
        "zetac"
    ),
    "cylindrical": "bessel_jn jn jv spherical_in spherical_jn spherical_kn spherical_yn yn yv",
    "distributions": (
        "bdtr bdtrc bdtri chdtr chdtrc chdtri fdtr fdtrc fdtri gdtr gdtrc gdtrix nbdtr nbdtrc "
        "nbdtri pdtr pdtrc stdtr stdtrit"
    ),
    "elliptic": "agm ellipe ellipeinc ellipk ellipkinc ellipkm1 elliprc elliprd elliprf elliprg",
    "harmonics": "lpmv sph_harm_y",
    "integrals": "dawsn erfi exp1 expi expn fresnel shichi sici voigt_profile wofz",
    "inverse": "betainccinv betaincinv gammainccinv gammaincinv",
    "modified": "iv ive k0 k0e k1 k1e kn kv kve",
    "orthogonal": (
        "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v "
        "chebyshev_polynomial_w eval_chebyc eval_chebys eval_chebyt eval_chebyu eval_gegenbauer "
        "eval_genlaguerre eval_hermite eval_hermitenorm eval_jacobi eval_laguerre eval_legendre "
        "eval_sh_chebyt eval_sh_chebyu eval_sh_jacobi eval_sh_legendre hermite_polynomial_h "
        "hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p "
        "shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u "
        "shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w"
    ),
    "transforms": (
        "boxcox boxcox1p cbrt cosdg cotdg diric exp10 huber inv_boxcox inv_boxcox1p log2 "
        "ndtri_exp powm1 pseudo_huber radian round sindg softplus spherical_bessel_j0 tandg"
    ),
}
# PyTorch's names of functions that have another here.
_SYNONYMS: Final = {
    "bessel_j0": "j0", "bessel_j1": "j1", "bessel_y0": "y0", "bessel_y1": "y1",
    "modified_bessel_i0": "i0", "modified_bessel_i1": "i1", "modified_bessel_k0": "k0",
    "modified_bessel_k1": "k1", "scaled_modified_bessel_k0": "k0e",
    "scaled_modified_bessel_k1": "k1e",
}  # fmt: skip
_WHERE: Final = {name: file for file, names in _LATER.items() for name in names.split()}
_FIRST: Final = {*_bessel, *_elementary, *_entropy, *_error, *_gamma, *_incomplete}

__all__ = sorted({*_FIRST, *_WHERE, *_SYNONYMS})


def __getattr__(name: str) -> Any:
    if name in _SYNONYMS:
        found = getattr(importlib.import_module(__name__), _SYNONYMS[name])
    elif name in _WHERE:
        found = getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
    else:
        from lamella.errors import did_you_mean

        hint = did_you_mean(name, __all__).split(" Known")[0] if not name.startswith("_") else ""
        raise AttributeError(
            f"module 'lamella.special' has no attribute {name!r}{'; ' if hint else ''}{hint}"
        )
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
