"""Shapes in which sizes that have been seen to change are symbols.

Input: shapes, in order, of things that are alike but for their sizes. Output: patterns of such
shapes, and what their symbols are for some of them.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Pattern", "match", "opened"]

Pattern = tuple[tuple[int | str, ...], ...]


def match(pattern: Pattern, shapes: Sequence[tuple[int | str, ...]]) -> dict[str, int] | None:
    """The sizes of a pattern's symbols for these shapes; None if they are not of the pattern.

    >>> match((("n", 3), ("n",)), ((5, 3), (5,))), match((("n", 3), ("n",)), ((5, 3), (6,)))
    ({'n': 5}, None)
    """
    values: dict[str, int] = {}
    for wanted, shape in zip(pattern, shapes, strict=True):
        if wanted == shape:
            continue
        for want, have in zip(wanted, shape, strict=True):
            if type(want) is int:
                if want != have:
                    return None
            elif values.setdefault(want, have) != have:  # type: ignore[arg-type]
                return None
    return values


def opened(before: Pattern, shapes: Sequence[tuple[int | str, ...]]) -> Pattern:
    """A pattern of both: sizes that were the same and are the same share a symbol.

    >>> opened(((4, 3), (4,)), ((5, 3), (5,)))
    (('n0', 3), ('n0',))
    """
    names: dict[tuple[int | str, int | str], str] = {}
    return tuple(
        tuple([
            have if want == have else names.setdefault((want, have), f"n{len(names)}")
            for want, have in zip(wanted, shape, strict=True)
        ])
        for wanted, shape in zip(before, shapes, strict=True)
    )  # fmt: skip
