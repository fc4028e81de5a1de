"""Lamella: a deep learning framework in pure Python with its own compiler.

``import lamella as lm`` gives arrays with NumPy's and the array-API standard's names, gradients,
``lm.jit``, and (loaded at first use) ``lm.nn``, ``lm.optim``, ``lm.data``. Nothing here is imported
before it is used: the table below says where each public name lives.
"""

from __future__ import annotations

import importlib
import math
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from lamella.dtypes import (
    bfloat16,
    bool_,
    complex64,
    complex128,
    finfo,
    float16,
    float32,
    float64,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)  # fmt: skip
from lamella.dtypes import promote as promote_types

if TYPE_CHECKING:
    from lamella.config import config as config
    from lamella.tensor.arranging import *  # noqa: F403
    from lamella.tensor.comparison import *  # noqa: F403
    from lamella.tensor.complex import *  # noqa: F403
    from lamella.tensor.counting import *  # noqa: F403
    from lamella.tensor.creation import *  # noqa: F403
    from lamella.tensor.elementwise import *  # noqa: F403
    from lamella.tensor.evaluation import *  # noqa: F403
    from lamella.tensor.gradient import *  # noqa: F403
    from lamella.tensor.joining import *  # noqa: F403
    from lamella.tensor.linalg import *  # noqa: F403
    from lamella.tensor.manipulation import *  # noqa: F403
    from lamella.tensor.nanreduction import *  # noqa: F403
    from lamella.tensor.numeric import *  # noqa: F403
    from lamella.tensor.padding import *  # noqa: F403
    from lamella.tensor.quantiles import *  # noqa: F403
    from lamella.tensor.reduction import *  # noqa: F403
    from lamella.tensor.searching import *  # noqa: F403
    from lamella.tensor.sequences import *  # noqa: F403
    from lamella.tensor.sets import *  # noqa: F403
    from lamella.tensor.tensor import Tensor as Tensor
    from lamella.tensor.transcendental import *  # noqa: F403
    from lamella.tensor.triangles import *  # noqa: F403

__version__: Final = "0.1.0"

pi: Final = math.pi
e: Final = math.e
inf: Final = math.inf
nan: Final = math.nan
euler_gamma: Final = 0.5772156649015329
newaxis: Final = None
__array_api_version__: Final = "2024.12"
bool = bool_  # the standard's name; the builtin is not used in this module


def __array_namespace_info__() -> Any:  # noqa: N807 - the standard's name
    """The inspection functions of the array-API standard."""
    return importlib.import_module("lamella.tensor.namespace").array_namespace_info()


_FROM: Final = {
    "lamella.tensor.tensor": "Tensor",
    "lamella.tensor.creation": (
        "arange array as_tensor asanyarray asarray ascontiguousarray empty empty_like eye "
        "from_numpy full full_like linspace logspace meshgrid ones ones_like tensor zeros "
        "zeros_like"
    ),
    "lamella.tensor.elementwise": (
        "abs add atan2 clamp clip copysign divide floor_divide fmod hypot lerp logaddexp maximum "
        "minimum multiply negative nextafter positive pow reciprocal remainder sign square "
        "subtract"
    ),
    "lamella.tensor.complex": (
        "angle complex conj imag polar real view_as_complex view_as_real"
    ),
    "lamella.tensor.comparison": (
        "astype bitcast bitwise_and bitwise_invert bitwise_left_shift bitwise_not bitwise_or "
        "bitwise_right_shift bitwise_xor ceil equal floor greater greater_equal isclose "
        "isfinite isinf isnan less less_equal logical_and logical_not logical_or logical_xor "
        "nan_to_num not_equal round signbit trunc where"
    ),
    "lamella.tensor.transcendental": (
        "acos acosh asin asinh atan atanh cos cosh erf erfc exp exp2 expm1 log log10 log1p log2 "
        "rsqrt sigmoid sin sinh sqrt tan tanh"
    ),
    "lamella.tensor.reduction": (
        "all amax amin any argmax argmin count_nonzero cummax cummin cumprod cumsum "
        "cumulative_prod cumulative_sum logsumexp max mean min prod std sum var"
    ),
    "lamella.tensor.nanreduction": (
        "nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmin nanprod nanstd nansum "
        "nanvar"
    ),
    "lamella.tensor.quantiles": (
        "median nanmedian nanpercentile nanquantile percentile quantile"
    ),
    "lamella.tensor.manipulation": (
        "broadcast_arrays broadcast_shapes broadcast_tensors broadcast_to diag diagonal expand "
        "expand_dims flatten flip fliplr flipud matrix_transpose moveaxis permute permute_dims "
        "ravel reshape roll squeeze swapaxes transpose tril triu unflatten unsqueeze"
    ),
    "lamella.tensor.joining": (
        "array_split cat chunk concat concatenate diff hstack repeat repeat_interleave "
        "split stack tile unbind unstack vstack"
    ),
    "lamella.tensor.searching": (
        "argpartition argsort argwhere flatnonzero gather lexsort nonzero one_hot partition "
        "put_along_axis scatter scatter_add searchsorted sort take take_along_axis topk"
    ),
    "lamella.tensor.sets": (
        "intersect1d isin setdiff1d setxor1d union1d unique unique_all unique_counts "
        "unique_inverse unique_values"
    ),
    "lamella.tensor.arranging": (
        "append atleast_1d atleast_2d atleast_3d block choose column_stack compress delete dsplit "
        "dstack extract hsplit insert piecewise resize rot90 select trim_zeros vsplit"
    ),
    "lamella.tensor.triangles": (
        "diag_indices diag_indices_from diagflat fromfunction geomspace identity indices ix_ "
        "ravel_multi_index tri tril_indices tril_indices_from triu_indices triu_indices_from "
        "unravel_index vander"
    ),
    "lamella.tensor.numeric": (
        "absolute arccos arccosh arcsin arcsinh arctan arctan2 arctanh around bitwise_count cbrt "
        "conjugate deg2rad degrees divmod fabs fix float_power fmax fmin frexp gcd heaviside "
        "invert iscomplex isneginf isposinf isreal lcm ldexp left_shift logaddexp2 mod modf "
        "polyval power rad2deg radians right_shift rint sinc spacing true_divide"
    ),
    "lamella.tensor.padding": "pad",
    "lamella.tensor.sequences": (
        "convolve correlate ediff1d gradient interp trapezoid unwrap"
    ),
    "lamella.tensor.counting": (
        "average bincount corrcoef cov digitize histogram histogram2d histogram_bin_edges "
        "histogramdd ptp"
    ),
    "lamella.tensor.linalg": (
        "cross dot einsum inner kron matmul matvec norm outer tensordot trace vdot vecdot vecmat"
    ),
    "lamella.tensor.solving": "matrix_power",
    "lamella.tensor.gradient": (
        "enable_grad is_grad_enabled no_grad set_grad_enabled stop_gradient"
    ),
    "lamella.tensor.evaluation": (
        "allclose array_equal array_equiv can_cast devices eval is_tensor iscomplexobj isdtype "
        "isrealobj ndim num_threads result_type set_num_threads shape size"
    ),
    "lamella.tensor.dlpack": "from_dlpack",
    "lamella.tensor.naming": "contract",
    "lamella.tensor.random": "manual_seed",
    "lamella.config": "config",
    "lamella.runtime.profile": "profile",
    "lamella.errors": "LamellaError",
    "lamella.io": "save load",
    "lamella.transforms": (
        "ShapeDtypeStruct apply_along_axis apply_over_axes associative_scan check checkpoint "
        "checkpoint_name checkpoint_policies cond custom_batch custom_jvp custom_vjp debug_print "
        "fori_loop grad hessian hvp io_callback jacfwd jacrev jit jvp linearize map pure_callback "
        "scan switch value_and_grad vectorize vjp vmap while_loop"
    ),
    "lamella.transforms.kernel": "custom_op kernel",
}
_MODULES: Final = {
    "linalg": "lamella.linalg",
    "sparse": "lamella.sparse",
    "random": "lamella.tensor.random",
    "special": "lamella.tensor.special",
    "fft": "lamella.tensor.fft",
    "signal": "lamella.tensor.signal",
    "tree": "lamella.tree",
    "errors": "lamella.errors",
    "dtypes": "lamella.dtypes",
    "nn": "lamella.nn",
    "optim": "lamella.optim",
    "data": "lamella.data",
    "io": "lamella.io",
    "transforms": "lamella.transforms",
    "ops": "lamella.ops",
}
_WHERE: Final = {name: module for module, names in _FROM.items() for name in names.split()}

__all__ = [
    *_WHERE, *_MODULES, "bfloat16", "bool", "bool_", "complex64", "complex128", "e",
    "euler_gamma", "finfo", "float16", "float32", "float64", "iinfo", "inf", "int8", "int16",
    "int32", "int64", "nan", "newaxis", "pi", "promote_types", "uint8", "uint16", "uint32",
    "uint64",
]  # fmt: skip


class _Package(ModuleType):
    """This package. Its submodules ``tensor`` and ``config`` do not hide the function and object of
    these names: the import system binds a submodule in its package, which is declined here. Import
    from them with ``from``.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and name in _WHERE):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        found = getattr(importlib.import_module(_WHERE[name]), name)
    elif name in _MODULES:
        found = importlib.import_module(_MODULES[name])
    else:
        from lamella.errors import did_you_mean

        hint = did_you_mean(name, __all__).split(" Known")[0] if not name.startswith("_") else ""
        raise AttributeError(
            f"module 'lamella' has no attribute {name!r}{'; ' if hint else ''}{hint}"
        )
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
