"""Lamella: a deep learning framework in pure Python with its own compiler.

``import lamella as lm`` gives arrays with NumPy's and the array-API standard's names, gradients,
``lm.jit``, and (loaded at first use) ``lm.nn``, ``lm.optim``, ``lm.data``. Nothing here is imported
before it is used: the table below says where each public name lives.
"""
# ruff: noqa: F403, F405

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

if TYPE_CHECKING:  # the names that __getattr__ finds
    from lamella import data as data
    from lamella import dtypes as dtypes
    from lamella import errors as errors
    from lamella import io as io
    from lamella import linalg as linalg
    from lamella import nn as nn
    from lamella import ops as ops
    from lamella import optim as optim
    from lamella import sparse as sparse
    from lamella import transforms as transforms
    from lamella import tree as tree
    from lamella.config import config as config
    from lamella.errors import LamellaError as LamellaError
    from lamella.io import load as load
    from lamella.io import save as save
    from lamella.nn import functional as _F
    from lamella.runtime.profile import profile as profile
    from lamella.tensor import fft as fft
    from lamella.tensor import linalg as _linalg
    from lamella.tensor import random as random
    from lamella.tensor import signal as signal
    from lamella.tensor import solving as _solving
    from lamella.tensor import special as special
    from lamella.tensor.arranging import *
    from lamella.tensor.comparison import *
    from lamella.tensor.complex import *
    from lamella.tensor.counting import *
    from lamella.tensor.creation import *
    from lamella.tensor.dlpack import from_dlpack as from_dlpack
    from lamella.tensor.elementwise import *
    from lamella.tensor.evaluation import *
    from lamella.tensor.gradient import enable_grad as enable_grad
    from lamella.tensor.gradient import is_grad_enabled as is_grad_enabled
    from lamella.tensor.gradient import no_grad as no_grad
    from lamella.tensor.gradient import set_grad_enabled as set_grad_enabled
    from lamella.tensor.gradient import stop_gradient as stop_gradient
    from lamella.tensor.joining import *
    from lamella.tensor.manipulation import *
    from lamella.tensor.naming import contract as contract
    from lamella.tensor.nanreduction import *
    from lamella.tensor.norms import matrix_rank as matrix_rank
    from lamella.tensor.numeric import *
    from lamella.tensor.padding import *
    from lamella.tensor.polynomials import *
    from lamella.tensor.products import *
    from lamella.tensor.pytorch import *
    from lamella.tensor.pytorch_names import *
    from lamella.tensor.quantiles import *
    from lamella.tensor.random import manual_seed as manual_seed
    from lamella.tensor.reduction import *
    from lamella.tensor.scatters import *
    from lamella.tensor.searching import *
    from lamella.tensor.sequences import *
    from lamella.tensor.sets import *
    from lamella.tensor.solving import matrix_power as matrix_power
    from lamella.tensor.statistics import *
    from lamella.tensor.tensor import Tensor as Tensor
    from lamella.tensor.transcendental import *
    from lamella.tensor.triangles import *
    from lamella.transforms import *
    from lamella.transforms.kernel import custom_op as custom_op
    from lamella.transforms.kernel import kernel as kernel

    mul, neg, sub, eq, ge, gt = multiply, negative, subtract, equal, greater_equal, greater
    le, lt, ne, movedim, swapdims = less_equal, less, not_equal, moveaxis, swapaxes
    row_stack, take_along_dim, trapz = vstack, take_along_axis, trapezoid
    cross, dot, einsum, inner = _linalg.cross, _linalg.dot, _linalg.einsum, _linalg.inner
    kron, matmul, matvec, norm = _linalg.kron, _linalg.matmul, _linalg.matvec, _linalg.norm
    outer, ger, tensordot, vdot = _linalg.outer, _linalg.outer, _linalg.tensordot, _linalg.vdot
    vecdot, vecmat = _linalg.vecdot, _linalg.vecmat
    cholesky_inverse, cholesky_solve = _solving.cholesky_inverse, _solving.cholesky_solve
    det, inverse, lu_solve = _solving.det, _solving.inv, _solving.lu_solve
    matrix_exp, pinverse, slogdet = _solving.matrix_exp, _solving.pinv, _solving.slogdet
    get_num_threads = num_threads
    digamma, erfinv, i0, igamma = special.digamma, special.erfinv, special.i0, special.gammainc
    igammac, lgamma, log_softmax = special.gammaincc, special.lgamma, special.log_softmax
    logit, mvlgamma, polygamma = special.logit, special.multigammaln, special.polygamma
    softmax, xlogy = special.softmax, special.xlogy
    istft, stft = signal.istft, signal.stft
    adaptive_avg_pool1d, adaptive_max_pool1d = _F.adaptive_avg_pool1d, _F.adaptive_max_pool1d
    avg_pool1d, bilinear = _F.avg_pool1d, _F.bilinear
    binary_cross_entropy_with_logits, cdist = _F.binary_cross_entropy_with_logits, _F.cdist
    celu, channel_shuffle, conv1d, conv2d = _F.celu, _F.channel_shuffle, _F.conv1d, _F.conv2d
    conv3d, conv_transpose1d, conv_transpose2d = _F.conv3d, _F.conv_transpose1d, _F.conv_transpose2d
    conv_transpose3d, cosine_embedding_loss = _F.conv_transpose3d, _F.cosine_embedding_loss
    cosine_similarity, ctc_loss, hardshrink = _F.cosine_similarity, _F.ctc_loss, _F.hardshrink
    hinge_embedding_loss, kl_div, layer_norm = _F.hinge_embedding_loss, _F.kl_div, _F.layer_norm
    margin_ranking_loss, max_pool1d = _F.margin_ranking_loss, _F.max_pool1d
    max_pool2d, max_pool3d, pairwise_distance = _F.max_pool2d, _F.max_pool3d, _F.pairwise_distance
    pdist, pixel_shuffle, pixel_unshuffle = _F.pdist, _F.pixel_shuffle, _F.pixel_unshuffle
    poisson_nll_loss, prelu, relu, rms_norm = _F.poisson_nll_loss, _F.prelu, _F.relu, _F.rms_norm
    rrelu, selu, threshold = _F.rrelu, _F.selu, _F.threshold
    triplet_margin_loss = _F.triplet_margin_loss

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
        "cumulative_prod cumulative_sum logsumexp max mean min prod std sum trace var"
    ),
    "lamella.tensor.nanreduction": (
        "nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmin nanprod nanstd nansum "
        "nanvar"
    ),
    "lamella.tensor.products": "addbmm addcdiv addcmul addmm addmv addr baddbmm bmm mm mv",
    "lamella.tensor.pytorch": (
        "aminmax block_diag bucketize cartesian_prod clamp_max clamp_min combinations diag_embed "
        "dist frac index_add index_copy index_fill index_select kthvalue masked_fill "
        "masked_scatter masked_select msort narrow sgn split_with_sizes std_mean tensor_split "
        "unique_consecutive var_mean"
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
        "cross dot einsum inner kron matmul matvec norm outer tensordot vdot vecdot vecmat"
    ),
    "lamella.tensor.solving": "matrix_power",
    "lamella.tensor.polynomials": (
        "poly polyadd polyder polydiv polyfit polyint polymul polysub roots"
    ),
    "lamella.tensor.pytorch_names": (
        "adjoint bartlett_window bernoulli blackman_window chain_matmul clone detach div "
        "hamming_window hann_window is_complex is_floating_point is_nonzero is_same_size is_signed "
        "kaiser_window logdet multinomial normal numel poisson rand rand_like randint randint_like "
        "randn randn_like randperm rsub scalar_tensor t"
    ),
    "lamella.tensor.scatters": (
        "diagonal_scatter index_put index_reduce put scatter_reduce select_scatter slice_scatter"
    ),
    "lamella.tensor.statistics": (
        "cumulative_trapezoid histc logcumsumexp mode nonzero_static renorm"
    ),
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
# PyTorch's names of functions that have another name or module here: "new=old" or "same".
_SYNONYMS: Final = {
    "lamella.tensor.elementwise": "mul=multiply neg=negative sub=subtract",
    "lamella.tensor.comparison": (
        "eq=equal ge=greater_equal gt=greater le=less_equal lt=less ne=not_equal"
    ),
    "lamella.tensor.manipulation": "movedim=moveaxis swapdims=swapaxes",
    "lamella.tensor.joining": "row_stack=vstack",
    "lamella.tensor.searching": "take_along_dim=take_along_axis",
    "lamella.tensor.sequences": "trapz=trapezoid",
    "lamella.tensor.linalg": "ger=outer",
    "lamella.tensor.solving": (
        "cholesky_inverse cholesky_solve det inverse=inv lu_solve matrix_exp pinverse=pinv slogdet"
    ),
    "lamella.tensor.norms": "matrix_rank",
    "lamella.tensor.evaluation": "get_num_threads=num_threads",
    "lamella.tensor.special": (
        "digamma erfinv i0 igamma=gammainc igammac=gammaincc lgamma log_softmax logit "
        "mvlgamma=multigammaln polygamma softmax xlogy"
    ),
    "lamella.tensor.signal": "istft stft",
    "lamella.nn.functional": (
        "adaptive_avg_pool1d adaptive_max_pool1d avg_pool1d bilinear "
        "binary_cross_entropy_with_logits cdist celu channel_shuffle conv1d conv2d conv3d "
        "conv_transpose1d conv_transpose2d conv_transpose3d cosine_embedding_loss "
        "cosine_similarity ctc_loss hardshrink hinge_embedding_loss kl_div layer_norm "
        "margin_ranking_loss max_pool1d max_pool2d max_pool3d pairwise_distance pdist "
        "pixel_shuffle pixel_unshuffle poisson_nll_loss prelu relu rms_norm rrelu selu threshold "
        "triplet_margin_loss"
    ),
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
_OTHERS: Final = {
    pair.partition("=")[0]: (module, pair.rpartition("=")[2])
    for module, pairs in _SYNONYMS.items()
    for pair in pairs.split()
}

__all__ = [
    *_WHERE, *_OTHERS, *_MODULES, "bfloat16", "bool", "bool_", "complex64", "complex128", "e",
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


def _find(name: str) -> Any:
    """The public name, imported at its first use."""
    if name in _WHERE:
        found = getattr(importlib.import_module(_WHERE[name]), name)
    elif name in _OTHERS:
        module, own = _OTHERS[name]
        found = getattr(importlib.import_module(module), own)
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


if not TYPE_CHECKING:  # which would have every name be one of the package
    __getattr__ = _find


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
