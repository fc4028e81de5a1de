"""An index out of range is reported whatever it selects from."""

from __future__ import annotations

import pytest

import lamella as lm


@pytest.mark.parametrize(
    "table",
    [lambda: lm.ones(3), lambda: lm.full((3,), 2.5) * 2, lambda: lm.arange(3), lambda: lm.eye(3)],
)
def test_of_a_computed_table(table) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(IndexError, match="out of range"):
        lm.take(table(), lm.asarray([3]), axis=0).numpy()
    with pytest.raises(IndexError, match="out of range"):
        table()[lm.asarray([0, -4])].numpy()
