"""These tests run on compiled code: what they are about is programs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import lamella as lm
from lamella.config import config


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    lm.manual_seed(0)
    with config(backend="llvm"):
        yield
