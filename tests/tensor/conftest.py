"""Tests of the tensor layer run on the interpreter; TENSOR_TESTS_BACKEND=llvm runs them on compiled
code.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from lamella.config import config


@pytest.fixture(autouse=True)
def _backend() -> Iterator[None]:
    with config(backend=os.environ.get("TENSOR_TESTS_BACKEND", "interpret")):
        yield
