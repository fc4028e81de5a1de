"""Elementary functions over basic operations, for emitters without a mathematics library."""

from __future__ import annotations

from lamella.compiler.mathlib.expand import expand_math
from lamella.compiler.mathlib.trigonometry import huge_angle, is_huge

__all__ = ["expand_math", "huge_angle", "is_huge"]
