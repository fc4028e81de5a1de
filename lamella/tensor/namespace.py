"""What ``__array_namespace_info__()`` of the array-API standard answers: devices and dtypes.

Input: nothing but questions. Output: plain dictionaries and lists, fresh for every call.
"""

from __future__ import annotations

from lamella.dtypes import ALL, COMPLEX, DType, complex64, float32, int64
from lamella.tensor.core import check_device
from lamella.tensor.evaluation import isdtype

__all__ = ["NamespaceInfo", "array_namespace_info"]

_STANDARD = tuple(d for d in (*ALL, *COMPLEX) if d.name not in ("float16", "bfloat16"))


class NamespaceInfo:
    """The inspection functions of the standard."""

    def capabilities(self) -> dict[str, bool | int | None]:
        """Whether boolean indexing and shapes that depend on values work; the most axes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """Where tensors are made."""
        return "cpu"

    def default_dtypes(self, *, device: object = None) -> dict[str, DType]:
        """The types of numbers that nothing else decides."""
        check_device(device)
        return {
            "real floating": float32,
            "complex floating": complex64,
            "integral": int64,
            "indexing": int64,
        }

    def dtypes(
        self, *, device: object = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """The standard's types by name, all or those of a kind (:func:`lamella.isdtype`)."""
        check_device(device)
        return {d.name: d for d in _STANDARD if kind is None or isdtype(d, kind)}

    def devices(self) -> list[str]:
        """All devices."""
        return ["cpu"]


def array_namespace_info() -> NamespaceInfo:
    """The inspection functions of the array-API standard (``__array_namespace_info__``).

    >>> array_namespace_info().default_dtypes()["real floating"]
    lamella.float32
    """
    return NamespaceInfo()
