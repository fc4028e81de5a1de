"""Every public function of PyTorch's, JAX's and SciPy's namespaces is in Lamella's of the same
meaning, or on the page that says what is left out and why. A hole cannot come back unseen.
"""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType
from typing import Any

import pytest

import lamella as lm
from tests.support.listed import left, patterns

# module, where its names are, page, section that says what is left out
SPACES: list[tuple[str, str, str, str]] = [
    ("torch", "lamella", "from-pytorch.md", "torch"),
    ("torch.special", "lamella.special", "from-pytorch.md", "torch.special"),
    ("torch.linalg", "lamella.linalg", "from-pytorch.md", "torch.linalg"),
    ("torch.fft", "lamella.fft", "from-pytorch.md", "torch.fft"),
    ("torch.signal.windows", "lamella.signal", "from-pytorch.md", "torch.signal.windows"),
    ("torch.nn.init", "lamella.nn.init", "from-pytorch.md", "torch.nn.init"),
    ("torch.nn.utils", "lamella.nn.utils", "from-pytorch.md", "torch.nn.utils"),
    ("torch.func", "lamella", "from-pytorch.md", "torch.func"),
    ("jax.numpy", "lamella", "from-jax.md", "jax.numpy"),
    ("jax.numpy.linalg", "lamella.linalg", "from-jax.md", "jax.numpy"),
    ("jax.numpy.fft", "lamella.fft", "from-jax.md", "jax.numpy"),
    ("jax.scipy.special", "lamella.special", "from-jax.md", "jax.scipy"),
    ("jax.scipy.linalg", "lamella.linalg", "from-jax.md", "jax.scipy"),
    ("jax.scipy.signal", "lamella.signal", "from-jax.md", "jax.scipy"),
    ("jax.scipy.fft", "lamella.fft", "from-jax.md", "jax.scipy"),
    ("jax.scipy.ndimage", "lamella.signal", "from-jax.md", "jax.scipy"),
    ("jax.scipy.stats", "lamella", "from-jax.md", "jax.scipy"),
    ("jax.scipy.integrate", "lamella", "from-jax.md", "jax.scipy"),
    ("scipy.special", "lamella.special", "from-numpy.md", "scipy.special"),
]


def functions(module: ModuleType) -> set[str]:
    return {
        name
        for name in dir(module)
        if not name.startswith("_")
        and callable(found := getattr(module, name))
        and not inspect.isclass(found)
        and not isinstance(found, type(Any))
        and getattr(found, "__module__", None) != "typing"
    }


@pytest.mark.parametrize(("theirs", "ours", "page", "title"), SPACES, ids=lambda s: s)
def test_every_function_is_there_or_listed(theirs: str, ours: str, page: str, title: str) -> None:
    pytest.importorskip(theirs.split(".")[0])
    space: Any = lm
    for part in ours.split(".")[1:]:
        space = getattr(space, part)
    found = functions(importlib.import_module(theirs))
    assert found
    missing = {name for name in found if not hasattr(space, name)}
    assert left(missing, patterns(page, title)) == []


@pytest.mark.parametrize(("theirs", "ours", "page", "title"), SPACES[1:4] + SPACES[-1:])
def test_what_is_listed_is_not_there(theirs: str, ours: str, page: str, title: str) -> None:
    space: Any = lm
    for part in ours.split(".")[1:]:
        space = getattr(space, part)
    assert [name for name in patterns(page, title) if name in space.__all__] == []
