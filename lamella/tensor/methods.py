"""The methods of tensors that PyTorch has beside those of everyday use: functions of this package
under PyTorch's names, imported when they are called, and the creation of tensors like another.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from lamella import ops
from lamella.dtypes import as_dtype, int8, int16, uint8
from lamella.errors import ShapeError
from lamella.tensor.axes import axis_of, shape_of
from lamella.tensor.comparison import astype
from lamella.tensor.core import TensorCore, wrap
from lamella.tensor.operands import TensorLike, as_node
from lamella.tensor.values import TensorValues

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = ["TensorMethods"]


@functools.cache
def _found(module: str, name: str) -> Callable[..., Any]:
    function: Callable[..., Any] = getattr(
        importlib.import_module(f"lamella.tensor.{module}"), name
    )
    return function


def _later(module: str, name: str) -> Callable[..., Tensor]:
    """The method that is a function of ``lamella.tensor.module``, imported at the first call."""

    def method(self: TensorCore, *args: Any, **options: Any) -> Tensor:
        result: Tensor = _found(module, name)(self, *args, **options)
        return result

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"``lamella.tensor.{module}.{name}`` of the tensor."
    return method


def _kind(self: TensorCore, dtype: object) -> Any:
    return self.node.dtype if dtype is None else as_dtype(dtype)


class TensorMethods(TensorValues):
    """PyTorch's further methods."""

    __slots__ = ()

    absolute = _later("numeric", "absolute")
    arccos = _later("numeric", "arccos")
    arccosh = _later("numeric", "arccosh")
    arcsin = _later("numeric", "arcsin")
    arcsinh = _later("numeric", "arcsinh")
    arctan = _later("numeric", "arctan")
    arctan2 = _later("numeric", "arctan2")
    arctanh = _later("numeric", "arctanh")
    deg2rad = _later("numeric", "deg2rad")
    fix = _later("numeric", "fix")
    float_power = _later("numeric", "float_power")
    fmax = _later("numeric", "fmax")
    fmin = _later("numeric", "fmin")
    frexp: Callable[..., Any] = _later("numeric", "frexp")
    gcd = _later("numeric", "gcd")
    heaviside = _later("numeric", "heaviside")
    isneginf = _later("numeric", "isneginf")
    isposinf = _later("numeric", "isposinf")
    isreal = _later("numeric", "isreal")
    lcm = _later("numeric", "lcm")
    ldexp = _later("numeric", "ldexp")
    logaddexp2 = _later("numeric", "logaddexp2")
    rad2deg = _later("numeric", "rad2deg")
    sinc = _later("numeric", "sinc")
    copysign = _later("elementwise", "copysign")
    hypot = _later("elementwise", "hypot")
    logaddexp = _later("elementwise", "logaddexp")
    nextafter = _later("elementwise", "nextafter")
    bitwise_and = _later("comparison", "bitwise_and")
    bitwise_left_shift = _later("comparison", "bitwise_left_shift")
    bitwise_or = _later("comparison", "bitwise_or")
    bitwise_right_shift = _later("comparison", "bitwise_right_shift")
    bitwise_xor = _later("comparison", "bitwise_xor")
    greater = _later("comparison", "greater")
    greater_equal = _later("comparison", "greater_equal")
    less = _later("comparison", "less")
    less_equal = _later("comparison", "less_equal")
    not_equal = _later("comparison", "not_equal")
    signbit = _later("comparison", "signbit")
    fliplr = _later("manipulation", "fliplr")
    flipud = _later("manipulation", "flipud")
    diagflat = _later("triangles", "diagflat")
    dsplit: Callable[..., Any] = _later("arranging", "dsplit")
    hsplit: Callable[..., Any] = _later("arranging", "hsplit")
    rot90 = _later("arranging", "rot90")
    vsplit: Callable[..., Any] = _later("arranging", "vsplit")
    histogram: Callable[..., Any] = _later("counting", "histogram")
    allclose: Callable[..., Any] = _later("evaluation", "allclose")
    cross = _later("linalg", "cross")
    inner = _later("linalg", "inner")
    kron = _later("linalg", "kron")
    vdot = _later("linalg", "vdot")
    cholesky_inverse = _later("solving", "cholesky_inverse")
    cholesky_solve = _later("solving", "cholesky_solve")
    det = _later("solving", "det")
    lstsq: Callable[..., Any] = _later("solving", "lstsq")
    lu_solve = _later("solving", "lu_solve")
    matrix_exp = _later("solving", "matrix_exp")
    matrix_power = _later("solving", "matrix_power")
    slogdet: Callable[..., Any] = _later("solving", "slogdet")
    cholesky = _later("decomposition", "cholesky")
    lu: Callable[..., Any] = _later("decomposition", "lu")
    qr: Callable[..., Any] = _later("decomposition", "qr")
    svd: Callable[..., Any] = _later("decomposition", "svd")
    digamma = _later("special", "digamma")
    erfinv = _later("special", "erfinv")
    i0 = _later("special", "i0")
    lgamma = _later("special", "lgamma")
    log_softmax = _later("special", "log_softmax")
    logit = _later("special", "logit")
    polygamma = _later("special", "polygamma")
    softmax = _later("special", "softmax")
    xlogy = _later("special", "xlogy")
    addbmm = _later("products", "addbmm")
    addcdiv = _later("products", "addcdiv")
    addcmul = _later("products", "addcmul")
    addmm = _later("products", "addmm")
    addmv = _later("products", "addmv")
    addr = _later("products", "addr")
    baddbmm = _later("products", "baddbmm")
    aminmax: Callable[..., Any] = _later("pytorch", "aminmax")
    clamp_max = _later("pytorch", "clamp_max")
    clamp_min = _later("pytorch", "clamp_min")
    diag_embed = _later("pytorch", "diag_embed")
    dist = _later("pytorch", "dist")
    frac = _later("pytorch", "frac")
    index_add = _later("pytorch", "index_add")
    index_copy = _later("pytorch", "index_copy")
    index_fill = _later("pytorch", "index_fill")
    index_select = _later("pytorch", "index_select")
    kthvalue: Callable[..., Any] = _later("pytorch", "kthvalue")
    masked_scatter = _later("pytorch", "masked_scatter")
    masked_select = _later("pytorch", "masked_select")
    msort = _later("pytorch", "msort")
    narrow = _later("pytorch", "narrow")
    sgn = _later("pytorch", "sgn")
    split_with_sizes: Callable[..., Any] = _later("pytorch", "split_with_sizes")
    tensor_split: Callable[..., Any] = _later("pytorch", "tensor_split")
    unique_consecutive: Callable[..., Any] = _later("pytorch", "unique_consecutive")
    diagonal_scatter = _later("scatters", "diagonal_scatter")
    index_put = _later("scatters", "index_put")
    index_reduce = _later("scatters", "index_reduce")
    put = _later("scatters", "put")
    scatter_reduce = _later("scatters", "scatter_reduce")
    select_scatter = _later("scatters", "select_scatter")
    slice_scatter = _later("scatters", "slice_scatter")
    histc = _later("statistics", "histc")
    logcumsumexp = _later("statistics", "logcumsumexp")
    mode: Callable[..., Any] = _later("statistics", "mode")
    nonzero_static = _later("statistics", "nonzero_static")
    renorm = _later("statistics", "renorm")
    istft = _later("signal", "istft")
    stft = _later("signal", "stft")
    equal: Callable[..., Any] = _later("evaluation", "array_equal")
    inverse = _later("solving", "inv")
    pinverse = _later("solving", "pinv")
    igamma = _later("special", "gammainc")
    igammac = _later("special", "gammaincc")
    take_along_dim = _later("searching", "take_along_axis")
    ger = _later("linalg", "outer")
    mvlgamma = _later("special", "multigammaln")
    swapdims = _later("manipulation", "swapaxes")

    # -- tensors like this one ---------------------------------------------------------------------
    def new_zeros(self, *shape: Any, dtype: object = None) -> Tensor:
        """Zeros of the same element type."""
        return wrap(ops.full(0, shape_of("new_zeros", *shape), _kind(self, dtype)))

    def new_ones(self, *shape: Any, dtype: object = None) -> Tensor:
        """Ones of the same element type."""
        return wrap(ops.full(1, shape_of("new_ones", *shape), _kind(self, dtype)))

    def new_empty(self, *shape: Any, dtype: object = None) -> Tensor:
        """Zeros of the same element type: nothing is left uninitialised."""
        return wrap(ops.full(0, shape_of("new_empty", *shape), _kind(self, dtype)))

    def new_full(self, size: Any, fill_value: Any, dtype: object = None) -> Tensor:
        """``fill_value`` everywhere, of the same element type."""
        value = as_node(fill_value, _kind(self, dtype))
        return wrap(ops.broadcast_to(value, shape_of("new_full", size)))

    def new_tensor(self, data: TensorLike, dtype: object = None) -> Tensor:
        """A tensor of ``data``, of the same element type."""
        return wrap(as_node(data, _kind(self, dtype)))

    # -- element types -----------------------------------------------------------------------------
    def short(self) -> Tensor:
        """As int16."""
        return astype(self, int16)

    def char(self) -> Tensor:
        """As int8."""
        return astype(self, int8)

    def byte(self) -> Tensor:
        """As uint8."""
        return astype(self, uint8)

    def is_signed(self) -> bool:
        """Whether the element type has negative numbers."""
        return self.node.dtype.kind in "ifc"

    def is_nonzero(self) -> bool:
        """Whether the single element is not 0."""
        return bool(self)

    def is_same_size(self, other: TensorCore) -> bool:
        """Whether the shapes are equal."""
        return self.node.shape == other.node.shape

    # -- arranging ---------------------------------------------------------------------------------
    @property
    def mH(self) -> Tensor:  # noqa: N802
        """The last two axes exchanged, conjugated."""
        return cast("Tensor", self).mT.conj()

    @property
    def H(self) -> Tensor:  # noqa: N802
        """The conjugate transpose of a matrix."""
        return self.mH

    def adjoint(self) -> Tensor:
        """The last two axes exchanged, conjugated."""
        return self.mH

    def stride(self, dim: int | None = None) -> Any:
        """Elements between neighbours along each axis, in row-major order."""
        shape = [int(size) for size in self.node.shape]
        steps = tuple(int(np.prod(shape[place + 1 :])) for place in range(len(shape)))
        return steps if dim is None else steps[axis_of("stride", dim, self.node.shape)]

    def select(self, dim: int, index: Any) -> Tensor:
        """The slice at ``index`` along ``dim``, without that axis."""
        place = axis_of("select", dim, self.node.shape)
        return cast("Tensor", self)[(slice(None),) * place + (index,)]

    def unfold(self, dimension: int, size: int, step: int) -> Tensor:
        """All windows of ``size`` along ``dimension``, ``step`` apart, in a last axis."""
        from lamella.tensor.manipulation import moveaxis
        from lamella.tensor.searching import take

        place = axis_of("unfold", dimension, self.node.shape)
        starts = np.arange(0, int(self.node.shape[place]) - size + 1, step)
        windows = take(self, starts[:, None] + np.arange(size), axis=place)
        return moveaxis(windows, place + 1, -1)

    def sum_to_size(self, *size: Any) -> Tensor:
        """Summed over what broadcasting ``size`` to this shape would repeat."""
        wanted, own = shape_of("sum_to_size", *size), self.node.shape
        lead = len(own) - len(wanted)
        axes = [k for k in range(len(own)) if k < lead or wanted[k - lead] != own[k]]
        return cast("Tensor", self).sum(axes, keepdims=True).reshape(wanted)

    # -- elements ----------------------------------------------------------------------------------
    def relu(self) -> Tensor:
        """0 where the tensor is negative."""
        from lamella.tensor.comparison import where

        return where(self <= 0, 0, self)  # type: ignore[operator]

    def logdet(self) -> Tensor:
        """The logarithm of the determinant; NaN where that is negative."""
        sign, log = cast("Tensor", self).slogdet()
        return cast("Tensor", sign.log() + log)

    def bernoulli(self, p: TensorLike | None = None) -> Tensor:
        """0 or 1 of the same element type, 1 with probability ``p``, by default the elements."""
        from lamella.tensor import random

        chance = self if p is None else p
        return random.bernoulli(chance, self.node.shape, dtype=self.node.dtype)

    def multinomial(self, num_samples: int, replacement: bool = False) -> Tensor:
        """Positions along the last axis, drawn with the elements as weights.

        Raises:
            ShapeError: unless there are one or two axes, with ``num_samples`` elements or more
                where none is drawn twice. OptionError: for weights that are none.
        """
        from lamella.tensor import random
        from lamella.tensor.random.domain import require_weights, whole
        from lamella.tensor.searching import topk

        count = whole("multinomial", "num_samples", num_samples, 1)
        shape = self.node.shape
        few = len(shape) in (1, 2) and isinstance(shape[-1], int) and shape[-1] < count
        if len(shape) not in (1, 2) or (few and not replacement):
            raise ShapeError(
                f"[multinomial] {count} positions by weights of shape {shape}: give one or two "
                "axes, the last with a weight for each position, or replacement=True"
            )
        require_weights("multinomial", self)
        logits = cast("Tensor", self).log()
        if replacement:
            drawn = random.categorical(logits, (num_samples,))
            return drawn if drawn.ndim == 1 else drawn.T
        noise = random.gumbel(self.node.shape, dtype=logits.dtype)
        return topk(logits + noise, num_samples).indices
