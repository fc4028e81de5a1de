"""What every form of sparse matrix computes by compressed rows: :class:`Arithmetic`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from lamella.tensor.operands import TensorLike

if TYPE_CHECKING:
    from lamella.sparse.rows import CSR
    from lamella.tensor.tensor import Tensor

__all__ = ["Arithmetic"]


class Arithmetic(ABC):
    """The arithmetic of a matrix that has :meth:`to_csr`; the results have that form."""

    __array_priority__ = 1000
    __array_ufunc__ = None  # arrays leave operators to the matrix

    @abstractmethod
    def to_csr(self) -> CSR:
        """The matrix by compressed rows."""

    def __getitem__(self, index: Any) -> Any:
        """Rows and columns, as of a :class:`CSR`."""
        return self.to_csr()[index]

    def __rmatmul__(self, dense: TensorLike) -> Tensor:
        return self.to_csr().__rmatmul__(dense)

    def __mul__(self, other: Any) -> CSR:
        return self.to_csr().__mul__(other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> CSR:
        return self.to_csr().__truediv__(other)

    def __neg__(self) -> CSR:
        return -self.to_csr()

    def __add__(self, other: Any) -> CSR:
        return self.to_csr().__add__(other)

    def __sub__(self, other: Any) -> CSR:
        return self.to_csr().__sub__(other)

    def sum(self, axis: int | None = None) -> Tensor:
        """The sum over ``axis``, as :meth:`CSR.sum`."""
        return self.to_csr().sum(axis)
