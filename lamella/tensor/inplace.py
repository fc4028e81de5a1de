"""Methods in place: the tensor stands for the result from then on; no other tensor changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from lamella import ops
from lamella.dtypes import promote
from lamella.errors import DTypeError, ShapeError
from lamella.tensor.core import TensorCore
from lamella.tensor.methods import TensorMethods

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = ["TensorInPlace", "in_place"]


def in_place(name: str, function: Callable[..., Any]) -> Callable[..., Tensor]:
    """The method that rebinds a tensor to ``function`` of it, keeping shape and element type."""

    def method(self: Tensor, *args: Any, **options: Any) -> Tensor:
        new = function(self, *args, **options).node
        old = self.node
        if new.shape != old.shape:
            raise ShapeError(
                f"[{name}] in place, shape {old.shape} would become {new.shape}; write x = x ... "
                "instead"
            )
        if new.dtype is not old.dtype:
            if promote(old.dtype, new.dtype).kind != old.dtype.kind:
                raise DTypeError(
                    f"[{name}] in place, {old.dtype.name} cannot hold the {new.dtype.name} result; "
                    "write x = x ... instead, or cast the operand"
                )
            new = ops.cast(new, old.dtype)
        self.rebind(new)
        return self

    method.__name__ = method.__qualname__ = name
    method.__doc__ = (
        f"``{function.__name__}`` in place: the tensor stands for the result from now on."
    )
    return method


def _own(name: str) -> Callable[..., Tensor]:
    """The method ``name`` in place."""

    def function(self: TensorCore, *args: Any, **options: Any) -> Any:
        return getattr(self, name)(*args, **options)

    function.__name__ = name
    return in_place(f"{name}_", function)


class TensorInPlace(TensorMethods):
    """Methods in place, under PyTorch's names."""

    __slots__ = ()

    absolute_ = _own("absolute")
    acos_ = _own("acos")
    acosh_ = _own("acosh")
    addbmm_ = _own("addbmm")
    addcdiv_ = _own("addcdiv")
    addcmul_ = _own("addcmul")
    addmm_ = _own("addmm")
    addmv_ = _own("addmv")
    addr_ = _own("addr")
    arccos_ = _own("arccos")
    arccosh_ = _own("arccosh")
    arcsin_ = _own("arcsin")
    arcsinh_ = _own("arcsinh")
    arctan_ = _own("arctan")
    arctan2_ = _own("arctan2")
    arctanh_ = _own("arctanh")
    asin_ = _own("asin")
    asinh_ = _own("asinh")
    atan_ = _own("atan")
    atan2_ = _own("atan2")
    atanh_ = _own("atanh")
    baddbmm_ = _own("baddbmm")
    bitwise_and_ = _own("bitwise_and")
    bitwise_left_shift_ = _own("bitwise_left_shift")
    bitwise_not_ = _own("bitwise_not")
    bitwise_or_ = _own("bitwise_or")
    bitwise_right_shift_ = _own("bitwise_right_shift")
    bitwise_xor_ = _own("bitwise_xor")
    ceil_ = _own("ceil")
    clamp_max_ = _own("clamp_max")
    clamp_min_ = _own("clamp_min")
    copysign_ = _own("copysign")
    cos_ = _own("cos")
    cosh_ = _own("cosh")
    cumprod_ = _own("cumprod")
    cumsum_ = _own("cumsum")
    deg2rad_ = _own("deg2rad")
    digamma_ = _own("digamma")
    divide_ = _own("divide")
    eq_ = _own("eq")
    erf_ = _own("erf")
    erfc_ = _own("erfc")
    erfinv_ = _own("erfinv")
    exp2_ = _own("exp2")
    expm1_ = _own("expm1")
    fix_ = _own("fix")
    float_power_ = _own("float_power")
    floor_ = _own("floor")
    floor_divide_ = _own("floor_divide")
    fmod_ = _own("fmod")
    frac_ = _own("frac")
    gcd_ = _own("gcd")
    ge_ = _own("ge")
    greater_ = _own("greater")
    greater_equal_ = _own("greater_equal")
    gt_ = _own("gt")
    heaviside_ = _own("heaviside")
    hypot_ = _own("hypot")
    i0_ = _own("i0")
    igamma_ = _own("igamma")
    igammac_ = _own("igammac")
    index_add_ = _own("index_add")
    index_copy_ = _own("index_copy")
    index_fill_ = _own("index_fill")
    index_put_ = _own("index_put")
    index_reduce_ = _own("index_reduce")
    lcm_ = _own("lcm")
    ldexp_ = _own("ldexp")
    le_ = _own("le")
    less_ = _own("less")
    less_equal_ = _own("less_equal")
    lgamma_ = _own("lgamma")
    log_ = _own("log")
    log10_ = _own("log10")
    log1p_ = _own("log1p")
    log2_ = _own("log2")
    logical_and_ = _own("logical_and")
    logical_not_ = _own("logical_not")
    logical_or_ = _own("logical_or")
    logical_xor_ = _own("logical_xor")
    logit_ = _own("logit")
    lt_ = _own("lt")
    masked_scatter_ = _own("masked_scatter")
    multiply_ = _own("multiply")
    nan_to_num_ = _own("nan_to_num")
    ne_ = _own("ne")
    negative_ = _own("negative")
    nextafter_ = _own("nextafter")
    not_equal_ = _own("not_equal")
    polygamma_ = _own("polygamma")
    put_ = _own("put")
    rad2deg_ = _own("rad2deg")
    reciprocal_ = _own("reciprocal")
    relu_ = _own("relu")
    remainder_ = _own("remainder")
    renorm_ = _own("renorm")
    round_ = _own("round")
    rsqrt_ = _own("rsqrt")
    scatter_ = _own("scatter")
    scatter_add_ = _own("scatter_add")
    scatter_reduce_ = _own("scatter_reduce")
    sgn_ = _own("sgn")
    sign_ = _own("sign")
    sin_ = _own("sin")
    sinc_ = _own("sinc")
    sinh_ = _own("sinh")
    square_ = _own("square")
    subtract_ = _own("subtract")
    tan_ = _own("tan")
    tril_ = _own("tril")
    triu_ = _own("triu")
    true_divide_ = _own("true_divide")
    trunc_ = _own("trunc")
    xlogy_ = _own("xlogy")

    def fill_diagonal_(self, fill_value: Any, wrap: bool = False) -> Tensor:
        """Fill the main diagonal, where all axes have one index; ``wrap``: of a tall matrix, start
        again after each block of as many rows as columns and one.
        """
        from lamella.tensor.creation import arange

        x = cast("Tensor", self)
        size = min(int(s) for s in self.node.shape)
        if wrap and self.node.shape[0] > self.node.shape[-1] and x.ndim == 2:
            columns = int(self.node.shape[1])
            flat = x.reshape(-1)
            flat[arange(0, x.numel(), columns + 1)] = fill_value
            return self._filled(flat.reshape(self.node.shape))
        x[(arange(size),) * x.ndim] = fill_value
        return x

    def _filled(self, values: Tensor) -> Tensor:
        return cast("Tensor", self).copy_(values)

    def bernoulli_(self, p: Any = 0.5) -> Tensor:
        """Fill with 0 and 1, 1 with probability ``p``."""
        from lamella.tensor import random

        return self._filled(random.bernoulli(p, self.node.shape, dtype=self.node.dtype))

    def exponential_(self, lambd: float = 1.0) -> Tensor:
        """Fill with exponentially distributed numbers of rate ``lambd``."""
        from lamella.tensor import random

        return self._filled(random.exponential(self.node.shape, 1 / lambd, dtype=self.node.dtype))

    def cauchy_(self, median: float = 0.0, sigma: float = 1.0) -> Tensor:
        """Fill with numbers of the Cauchy distribution."""
        from lamella.tensor import random

        return self._filled(random.cauchy(self.node.shape, median, sigma, dtype=self.node.dtype))

    def log_normal_(self, mean: float = 1.0, std: float = 2.0) -> Tensor:
        """Fill with exponentials of normal numbers."""
        from lamella.tensor import random

        return self._filled(random.lognormal(self.node.shape, mean, std, dtype=self.node.dtype))

    def random_(self, low: int = 0, high: int | None = None) -> Tensor:
        """Fill with whole numbers in [``low``, ``high``), or in [0, ``low``) without ``high``."""
        from lamella.tensor import random

        return self._filled(random.randint(low, high, self.node.shape).astype(self.node.dtype))
