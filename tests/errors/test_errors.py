"""One test per kind of mistake: raised at the call, of the expected kind, in the form
``[op] what (shapes, dtypes), why; how to fix it``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella.errors import LamellaError

A, B = lm.ones((2, 3)), lm.ones((4, 5))

CASES: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    ("matmul", lambda: lm.matmul(A, B), ValueError, r"\(2, 3\).*\(4, 5\).*3 ≠ 4"),
    ("matmul of a scalar", lambda: lm.tensor(1.0) @ A, ValueError, r"\[matmul\]"),
    ("broadcast", lambda: A + B, ValueError, r"\[add\].*\(2, 3\).*\(4, 5\)"),
    ("broadcast of a comparison", lambda: A < B, ValueError, r"\[less\].*\(2, 3\).*\(4, 5\)"),
    ("axis", lambda: A.sum(axis=2), ValueError, r"\[sum\] axis 2 .*\(2, 3\).*-2 to 1"),
    ("axis of a 0-d tensor", lambda: lm.tensor(1.0).sum(0), ValueError, r"\[sum\].*0-d"),
    ("axis twice", lambda: A.sum((0, -2)), ValueError, r"\[sum\].*twice"),
    ("axis of a wrong type", lambda: A.sum("rows"), TypeError, r"\[sum\] axis 'rows'"),
    ("reshape", lambda: A.reshape(4, 2), ValueError, r"\[reshape\].*\(2, 3\).*\(4, 2\)"),
    ("reshape of two unknowns", lambda: A.reshape(-1, -1), ValueError, r"\[reshape\]"),
    ("permute", lambda: A.permute(0, 0), ValueError, r"\[permute\]"),
    ("squeeze", lambda: A.squeeze((0, 1)), ValueError, r"\[squeeze\].*size 2"),
    ("expand", lambda: A.expand(4, 3), ValueError, r"\[expand\]"),
    ("concat", lambda: lm.concat([A, B]), ValueError, r"\[concat\].*\(2, 3\).*\(4, 5\)"),
    ("concat of nothing", lambda: lm.concat([]), ValueError, r"\[concat\]"),
    ("stack", lambda: lm.stack([A, B]), ValueError, r"\[stack\].*\(2, 3\).*\(4, 5\)"),
    ("split", lambda: A.split([1, 1], 1), ValueError, r"\[split\].*add up to 2"),
    ("empty maximum", lambda: lm.zeros((0, 2)).max(0), ValueError, r"\[max\]"),
    ("empty position", lambda: lm.zeros((0, 2)).argmax(0), ValueError, r"\[argmax\]"),
    ("ragged lists", lambda: lm.tensor([[1, 2], [3]]), ValueError, r"\[tensor\].*ragged"),
    ("text", lambda: lm.tensor(["a"]), TypeError, r"\[tensor\].*not a number"),
    ("an object", lambda: lm.tensor(object()), TypeError, r"\[tensor\]"),
    ("extended precision", lambda: lm.asarray(np.ones(2, "g")), TypeError, r"\[asarray\]"),
    ("a dtype that is none", lambda: lm.zeros(2, dtype="flot32"), TypeError, r"\[zeros\].*float32"),
    (
        "signed with uint64",
        lambda: lm.ones(2, dtype="int8") + lm.ones(2, dtype="uint64"),
        TypeError,
        r"\[add\]",
    ),
    (
        "a scalar too large",
        lambda: lm.ones(2, dtype="uint8") + 300,
        ValueError,
        r"\[add\] 300.*uint8",
    ),
    ("a number too large", lambda: lm.tensor([300], dtype="int8"), ValueError, r"\[tensor\] 300"),
    ("bits of floats", lambda: A & 1.5, TypeError, r"\[bitwise_and\]"),
    ("difference of bools", lambda: (A > 0) - (A > 0), TypeError, r"\[subtract\]"),
    ("integer to a negative power", lambda: lm.tensor([2]) ** -1, ValueError, r"\[pow\]"),
    ("index", lambda: A[2], IndexError, r"\[index\] index 2 .*\(2, 3\)"),
    ("too many indices", lambda: A[0, 0, 0], IndexError, r"\[index\] 3 indices"),
    ("index of a wrong type", lambda: A[0.5], TypeError, r"\[index\]"),
    ("mask", lambda: A[np.array([True])], IndexError, r"\[index\].*mask"),
    (
        "assignment",
        lambda: A.clone().__setitem__(0, lm.ones(4)),
        ValueError,
        r"\[assign\].*\(4,\).*\(3,\)",
    ),
    ("truth of many", lambda: bool(A > 0), ValueError, r"\[bool\].*any\(\)"),
    ("item of many", A.item, ValueError, r"\[item\]"),
    ("length of one", lambda: len(lm.tensor(1)), TypeError, r"\[len\]"),
    ("iteration over one", lambda: list(lm.tensor(1)), TypeError, r"\[iter\]"),
    ("an index that is a float", lambda: [1, 2][lm.tensor(1.0)], TypeError, r"\[index\]"),
    (
        "unknown option",
        lambda: A.sum(axs=0),
        ValueError,
        r"\[sum\] no option 'axs'; did you mean 'axis'",
    ),
    ("option twice", lambda: A.sum(axis=0, dim=0), ValueError, r"\[sum\].*twice"),
    (
        "unknown mode",
        lambda: lm.pad(A, 1, mode="reflct"),
        ValueError,
        r"\[pad\].*did you mean 'reflect'",
    ),
    ("unknown side", lambda: lm.searchsorted([1], [1], side="up"), ValueError, r"\[searchsorted\]"),
    ("unknown device", lambda: A.to("cuda"), ValueError, r"\[to\].*cpu"),
    ("unknown device at creation", lambda: lm.zeros(2, device="cuda"), ValueError, r"\[zeros\]"),
    ("unknown indexing", lambda: lm.meshgrid([1], [2], indexing="yx"), ValueError, r"\[meshgrid\]"),
    ("topk", lambda: lm.topk(A, 9), ValueError, r"\[topk\] k = 9"),
    ("negative size", lambda: lm.zeros(-1), ValueError, r"\[zeros\] size -1"),
    ("size of a wrong type", lambda: lm.zeros(1.5), TypeError, r"\[zeros\]"),
    ("step of zero", lambda: lm.arange(0, 5, 0), ValueError, r"\[arange\]"),
    ("einsum operands", lambda: lm.einsum("ij,jk->ik", A), ValueError, r"\[einsum\].*2 operands"),
    (
        "einsum sizes",
        lambda: lm.einsum("ij,jk->ik", A, B),
        ValueError,
        r"\[einsum\] axis 'j' has sizes 3 and 4",
    ),
    ("einsum result", lambda: lm.einsum("ij->z", A), ValueError, r"\[einsum\] 'z'"),
    ("einsum letters", lambda: lm.einsum("i1->i", A), ValueError, r"\[einsum\] '1'"),
    ("tensordot", lambda: lm.tensordot(A, B, 1), ValueError, r"\[tensordot\].*3 ≠ 4"),
    ("in-place shape", lambda: A.clone().add_(lm.ones((1, 2, 3))), ValueError, r"\[add_\]"),
    ("quantile", lambda: lm.quantile(A, 2.0), ValueError, r"\[quantile\]"),
    ("repeat", lambda: lm.repeat(A, [1, 2, 3], axis=0), ValueError, r"\[repeat\]"),
    ("view of other bits", lambda: lm.bitcast(A, "int64"), TypeError, r"\[bitcast\]"),
    ("result type of nothing", lm.result_type, ValueError, r"\[result_type\]"),
]


@pytest.mark.parametrize(("name", "act", "kind", "text"), CASES, ids=[name for name, *_ in CASES])
def test_mistakes(name: str, act: Callable[[], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text) as caught:
        act()
    assert isinstance(caught.value, LamellaError)
    message = str(caught.value)
    assert re.match(r"^\[\w+\] \S", message) and len(message) > 30


def test_the_traceback_ends_soon_after_the_users_line() -> None:
    with pytest.raises(ValueError) as caught:
        A + B
    frames = [str(entry.path) for entry in caught.traceback]
    assert frames[0].endswith("test_errors.py") and len(frames) <= 8
