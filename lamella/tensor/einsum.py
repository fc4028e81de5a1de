"""``einsum``: sums of products named by letters, as a chain of two-operand contractions.

Input: an equation such as ``"bij,bjk->bik"`` and tensors. Letters that repeat within
an operand take its diagonal, letters that no other operand and not the result has are summed at
once, and operands are contracted pair by pair, the pair with the smallest result first. ``...``
stands for broadcast axes.
"""

from __future__ import annotations

import operator
import string
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from lamella import ops
from lamella.dtypes import int64
from lamella.errors import OptionError, ShapeError
from lamella.ir.decisions import at_least
from lamella.ir.dim import Size, product, typical
from lamella.ir.node import Node
from lamella.tensor.core import wrap
from lamella.tensor.deferring import deferring
from lamella.tensor.joining import promoted
from lamella.tensor.manipulation import common_shape, diagonal_node
from lamella.tensor.operands import TensorLike, cast

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = ["contract_nodes", "einsum"]

Labels = list[int]
Term = tuple[Node, Labels]


def contract_nodes(
    name: str, a: Node, b: Node, left: Labels, right: Labels, out: Sequence[int]
) -> Node:
    """The contraction of two nodes, sizes checked, bools counted.

    Raises:
        ShapeError: if axes with one label differ in size.
    """
    if a.dtype.kind == "b":
        a, b = cast(a, int64), cast(b, int64)
    for i, label in enumerate(left):
        if label in right and a.shape[i] != b.shape[right.index(label)]:
            raise ShapeError(
                f"[{name}] shapes {a.shape} and {b.shape}: {a.shape[i]} ≠ "
                f"{b.shape[right.index(label)]}, but axis "
                f"{i} and axis {right.index(label)} are summed or paired; transpose one"
            )
    return ops.contract(a, b, left, right, list(out))


# -- the equation ----------------------------------------------------------------------------------
def _label(letter: str, equation: str) -> int:
    if not letter.isalpha():
        raise OptionError(
            f"[einsum] {letter!r} in {equation!r} is no axis name; use letters, commas, '->' and "
            "'...'"
        )
    return ord(letter)


def _part_labels(part: str, equation: str, dots: int) -> Labels:
    """The labels of one operand; broadcast axes are -dots … -1."""
    if "..." not in part:
        return [_label(letter, equation) for letter in part]
    before, after = part.split("...", 1)
    return [
        *(_label(letter, equation) for letter in before),
        *range(-dots, 0),
        *(_label(letter, equation) for letter in after),
    ]


def _parse(equation: str, nodes: Sequence[Node]) -> tuple[list[Labels], Labels]:
    """Each operand's labels and the result's.

    Raises:
        OptionError: for an equation that does not fit the operands.
    """
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    parts = left.split(",")
    if len(parts) != len(nodes):
        raise OptionError(
            f"[einsum] {equation!r} names {len(parts)} operands and {len(nodes)} are given; "
            "separate them by commas"
        )
    found, most = [], 0
    for part, node in zip(parts, nodes, strict=True):
        named = len(part.replace("...", ""))
        dots = node.ndim - named if "..." in part else 0
        if dots < 0 or (not dots and named != node.ndim and "..." not in part):
            raise ShapeError(
                f"[einsum] {part!r} of {equation!r} names {named} axes of an operand of shape "
                f"{node.shape}; "
                "name each axis, or add '...'"
            )
        most = max(most, dots)
        found.append(_part_labels(part, equation, dots))
    if arrow:
        out = _part_labels(right, equation, most)
    else:
        flat = [label for labels in found for label in labels if label >= 0]
        out = [*range(-most, 0), *(label for label in sorted(set(flat)) if flat.count(label) == 1)]
    _check_result(equation, found, out)
    return found, out


_LETTERS: Final = string.ascii_uppercase + string.ascii_lowercase  # in alphabetical order


def _from_lists(given: Sequence[Any]) -> tuple[str, Sequence[TensorLike]]:
    """The equation and the operands of ``(operand, axes, operand, axes, …, axes of the result)``.

    Raises:
        OptionError: for axes that are no whole numbers from 0 to 51, or ``...``.
    """
    pairs = len(given) // 2
    lists = [*given[1 : 2 * pairs : 2], *given[2 * pairs :]]
    texts = []
    for axes in lists:
        try:
            numbers = [axis if axis is ... else operator.index(axis) for axis in axes]
        except TypeError:
            numbers = [-1]
        if any(axis is not ... and not 0 <= axis < len(_LETTERS) for axis in numbers):
            raise OptionError(
                f"[einsum] the axes {axes!r:.60} are no list of whole numbers from 0 to "
                f"{len(_LETTERS) - 1} (or ...); give one after each operand, or an equation first"
            )
        texts.append("".join("..." if axis is ... else _LETTERS[axis] for axis in numbers))
    arrow = "->" + texts.pop() if len(given) % 2 else ""
    return ",".join(texts) + arrow, given[: 2 * pairs : 2]


def _check_result(equation: str, found: Sequence[Labels], out: Labels) -> None:
    known = {label for labels in found for label in labels}
    for label in out:
        if out.count(label) > 1 or (label not in known):
            name = chr(label) if label >= 0 else "..."
            raise OptionError(
                f"[einsum] {name!r} of the result of {equation!r} is named twice or by no operand; "
                "name axes of the operands, once each"
            )


# -- preparing operands ----------------------------------------------------------------------------
def _sizes(terms: Sequence[Term]) -> dict[int, Size]:
    """The size of each label, 1s broadcast.

    Raises:
        ShapeError: if a label stands for different sizes.
    """
    sizes: dict[int, Size] = {}
    for node, labels in terms:
        for label, size in zip(labels, node.shape, strict=True):
            before = sizes.get(label, 1)
            if before not in (1, size) and size != 1:
                name = chr(label) if label >= 0 else "..."
                raise ShapeError(
                    f"[einsum] axis {name!r} has sizes {before} and {size}; one name stands for "
                    "one size"
                )
            sizes[label] = before if size == 1 else size
    return sizes


def _diagonal(term: Term) -> Term:
    """Repeated labels within an operand taken along the diagonal.

    Raises:
        ShapeError: if the axes of one label differ in size.
    """
    node, labels = term
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            if node.shape[first] != node.shape[second]:
                name = chr(label) if label >= 0 else "..."
                raise ShapeError(
                    f"[einsum] axis {name!r} of an operand of shape {node.shape} has sizes "
                    f"{node.shape[first]} and {node.shape[second]}; the diagonal that a repeated "
                    "name takes needs one size: slice the operand"
                )
            node = diagonal_node(node, 0, first, second)
            labels = [a for i, a in enumerate(labels) if i not in (first, second)] + [label]
    return node, labels


def _alone_summed(term: Term, needed: set[int], sizes: dict[int, Size]) -> Term:
    """Axes of size 1 that broadcast dropped, and labels nothing else needs summed."""
    node, labels = term
    keep = [i for i, label in enumerate(labels) if node.shape[i] == sizes[label]]
    node = ops.reshape(node, tuple(node.shape[i] for i in keep))
    labels = [labels[i] for i in keep]
    axes = tuple(i for i, label in enumerate(labels) if label not in needed)
    if axes:
        node = ops.reduce_sum(node, axes)
        labels = [label for label in labels if label in needed]
    return node, labels


def _needed(terms: Sequence[Term], out: Labels) -> set[int]:
    return set(out).union(*(labels for _, labels in terms)) if terms else set(out)


def _best_pair(terms: Sequence[Term], out: Labels, sizes: dict[int, Size]) -> tuple[int, int]:
    """The pair whose contraction has the smallest result (the first of equals)."""
    best: tuple[Size, int, int] | None = None
    for i in range(len(terms)):
        for j in range(i + 1, len(terms)):
            rest = [term for k, term in enumerate(terms) if k not in (i, j)]
            needed = _needed(rest, out)
            joined = dict.fromkeys(terms[i][1] + terms[j][1])
            volume = product(tuple(sizes[label] for label in joined if label in needed))
            if best is None or not at_least(volume, best[0], typical(volume) >= typical(best[0])):
                best = (volume, i, j)
    return (best[1], best[2]) if best else (0, 1)


@deferring
def einsum(equation: str | TensorLike, *operands: Any, optimize: object = True) -> Tensor:
    """The sum of products that an equation names: ``"ij,jk->ik"`` is the matrix product.

    Args:
        equation: operands' axes by letters, and after ``->`` those of the result (left out: the
            letters that occur once, in alphabetical order); ``...`` stands for axes that broadcast.
        operands: as many tensors. Without an equation: each tensor with a list of numbers after it
            that name its axes, and at the end the list of the result's if wanted.
        optimize: NumPy's, and changes nothing: the order of products is always chosen.

    Raises:
        OptionError: for an equation that does not parse. ShapeError: for sizes that do not agree.

    >>> einsum("ij,j->i", [[1, 2], [3, 4]], [1, 1]).tolist()
    [3, 7]
    """
    given: Sequence[TensorLike] = operands
    if not isinstance(equation, str):
        equation, given = _from_lists((equation, *operands))
    nodes = promoted("einsum", given)
    if nodes[0].dtype.kind == "b":
        nodes = [cast(node, int64) for node in nodes]
    labels, out = _parse(equation, nodes)
    terms = [_diagonal(term) for term in zip(nodes, labels, strict=True)]
    sizes = _sizes(terms)
    terms = [
        _alone_summed(term, _needed([t for t in terms if t is not term], out), sizes)
        for term in terms
    ]
    while len(terms) > 1:
        i, j = _best_pair(terms, out, sizes)
        (a, left), (b, right) = terms[i], terms[j]
        rest = [term for k, term in enumerate(terms) if k not in (i, j)]
        needed = _needed(rest, out)
        result = [label for label in dict.fromkeys(left + right) if label in needed]
        if not rest:
            result = [label for label in out if label in result]
        terms = [*rest, (contract_nodes("einsum", a, b, left, right, result), result)]
    return wrap(_arranged(*terms[0], out, sizes))


def _arranged(node: Node, labels: Labels, out: Labels, sizes: dict[int, Size]) -> Node:
    """The last term with its axes in the result's order; axes that nothing spans are broadcast."""
    extra = [label for label in labels if label not in out]
    if extra:
        node = ops.reduce_sum(node, tuple(labels.index(label) for label in extra))
        labels = [label for label in labels if label in out]
    node = ops.permute(node, [labels.index(label) for label in out if label in labels])
    shape = tuple(sizes[label] if label in labels else 1 for label in out)
    node = ops.reshape(node, shape)
    return ops.broadcast_to(node, common_shape("einsum", shape, tuple(sizes[x] for x in out)))
