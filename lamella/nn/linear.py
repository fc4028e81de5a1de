"""Linear maps, lookups and the small layers around them: Linear, Embedding, Dropout, Flatten,
Unflatten, Identity.
"""

from __future__ import annotations

import math
from typing import Any

import lamella as lm
from lamella.errors import OptionError
from lamella.nn import functional as F
from lamella.nn import init
from lamella.nn.module import Module
from lamella.nn.parameter import Parameter
from lamella.tensor.tensor import Tensor

__all__ = ["Dropout", "Embedding", "Flatten", "Identity", "Linear", "Unflatten"]


class Identity(Module):
    """Its input; any arguments are taken and ignored.

    >>> Identity()(3)
    3
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, x: Any) -> Any:
        """``x``."""
        return x


class Linear(Module):
    """``y = x @ weight.T + bias`` over the last axis: ``(..., in_features)`` to ``(...,
    out_features)``.

    ``weight`` is ``(out_features, in_features)``, drawn uniform in ``±1/sqrt(in_features)``, as is
    ``bias``.

    >>> Linear(3, 2)(lm.ones((4, 3))).shape
    (4, 2)
    """

    bias: Parameter | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(lm.empty((out_features, in_features), dtype=dtype or lm.float32))
        self.register_parameter(
            "bias", Parameter(lm.empty(out_features, dtype=dtype or lm.float32)) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(max(self.in_features, 1))
            init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        """``x @ weight.T + bias``."""
        return F.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The options, as PyTorch shows them."""
        text = f"in_features={self.in_features}, out_features={self.out_features}"
        return f"{text}, bias={self.bias is not None}"


class Embedding(Module):
    """Rows of a table by index: integer ``(...)`` to ``(..., embedding_dim)``.

    ``weight`` is ``(num_embeddings, embedding_dim)``, standard normal. The row ``padding_idx``
    starts at zero and is not trained. An index outside the table raises IndexError when the result
    is computed.

    >>> Embedding(10, 4)(lm.asarray([[1, 2, 3]])).shape
    (1, 3, 4)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = F.padding_row(padding_idx, num_embeddings)
        self.weight = Parameter(
            lm.empty((num_embeddings, embedding_dim), dtype=dtype or lm.float32)
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            kept = (lm.arange(self.num_embeddings) != self.padding_idx).astype(self.weight.dtype)
            self.weight.data = self.weight.detach() * kept[:, None]

    def forward(self, x: Tensor) -> Tensor:
        """The rows at ``x``."""
        return F.embedding(x, self.weight, self.padding_idx)

    @classmethod
    def from_pretrained(
        cls, weight: Tensor, freeze: bool = True, padding_idx: int | None = None
    ) -> Embedding:
        """An embedding with a given table."""
        layer = cls(*weight.shape, padding_idx=padding_idx)
        layer.weight = Parameter(weight, requires_grad=not freeze)
        return layer

    def extra_repr(self) -> str:
        """The options, as PyTorch shows them."""
        padding = f", padding_idx={self.padding_idx}" if self.padding_idx is not None else ""
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


class Dropout(Module):
    """In training, each element is zero with probability ``p`` and divided by ``1 - p`` otherwise.

    >>> Dropout(0.5).eval()(lm.ones(2)).tolist()
    [1.0, 1.0]
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise OptionError(f"[Dropout] p={p} is no probability; give one from 0 to 1")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """``x`` with elements dropped."""
        return F.dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        """The options."""
        return f"p={self.p}"


class Flatten(Module):
    """Join the axes from ``start_dim`` to ``end_dim`` into one.

    >>> Flatten()(lm.ones((2, 3, 4))).shape
    (2, 12)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, x: Tensor) -> Tensor:
        """``x`` with joined axes."""
        return x.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """The options."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Split the axis ``dim`` into axes of the given sizes.

    >>> Unflatten(1, (2, 3))(lm.ones((4, 6))).shape
    (4, 2, 3)
    """

    def __init__(self, dim: int, unflattened_size: tuple[int, ...]) -> None:
        super().__init__()
        self.dim = dim
        self.unflattened_size = tuple(unflattened_size)

    def forward(self, x: Tensor) -> Tensor:
        """``x`` with the axis split."""
        dim = self.dim % x.ndim
        return x.reshape((*x.shape[:dim], *self.unflattened_size, *x.shape[dim + 1 :]))

    def extra_repr(self) -> str:
        """The options."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
