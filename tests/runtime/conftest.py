"""What tests of the runtime share."""

from __future__ import annotations

from typing import Any

import pytest

from lamella.runtime import evaluate


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each graph that was laid out."""
    found: list[int] = []
    real = evaluate._lay_out

    def count(roots: Any) -> Any:
        found.append(len(roots))
        return real(roots)

    monkeypatch.setattr(evaluate, "_lay_out", count)
    return found
