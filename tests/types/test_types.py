"""A program as a person writes it: what type checkers see, and that the public names are there.

``make types`` checks this file too: every ``assert_type`` is a test of the annotations, and each
function runs as a test of what they promise.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import assert_type

import numpy as np
import pytest

import lamella as lm
from lamella import nn, optim
from lamella.transforms.jit import Jit


class Net(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 2)

    def forward(self, x: lm.Tensor) -> lm.Tensor:
        """``(batch, 3)`` to ``(batch, 2)``."""
        return self.second(lm.relu(self.first(x)))


def test_operators_give_tensors() -> None:
    x = lm.ones((2, 3))
    assert_type(x + 1, lm.Tensor)
    assert_type(2 * x, lm.Tensor)
    assert_type(-x, lm.Tensor)
    assert_type(x < 1, lm.Tensor)
    assert_type(x == 1, lm.Tensor)
    assert_type(x @ x.T, lm.Tensor)
    assert_type(x[0], lm.Tensor)
    assert_type(x.add_(1), lm.Tensor)
    assert_type(x.softmax(-1), lm.Tensor)
    assert_type(x.size(0), int)
    assert type(x.softmax(-1)) is type(x.add_(1)) is lm.Tensor


def test_choices_depend_on_arguments() -> None:
    x = lm.asarray([0.0, 2.0])
    assert_type(lm.where(x > 0, x, 1.0), lm.Tensor)
    assert_type(lm.where(x > 0), tuple[lm.Tensor, ...])
    assert_type(lm.nonzero(x, as_tuple=False), lm.Tensor)
    assert type(lm.where(x > 0)) is tuple


def test_a_module_has_the_types_of_its_forward() -> None:
    net = Net()
    x = lm.ones((5, 3))
    assert_type(net(x), lm.Tensor)
    assert_type(nn.CrossEntropyLoss()(net(x), lm.asarray([0, 1, 1, 0, 1])), lm.Tensor)
    with pytest.raises(lm.errors.DTypeError):
        net("text")  # type: ignore[arg-type]


def test_a_compiled_function_keeps_its_result() -> None:
    net = Net()
    optimizer = optim.SGD(net.parameters(), lr=0.1)

    @lm.jit
    def step(x: lm.Tensor) -> tuple[lm.Tensor, lm.Tensor]:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss, loss * 2

    @lm.jit(dynamic={"x": {0: "batch"}})
    def doubled(x: lm.Tensor) -> lm.Tensor:
        return x * 2

    assert_type(step, Jit[tuple[lm.Tensor, lm.Tensor]])
    assert_type(step(np.ones((5, 3), np.float32)), tuple[lm.Tensor, lm.Tensor])
    assert_type(doubled(lm.ones(2)), lm.Tensor)


def declared() -> Iterator[str]:
    """The names that type checkers find in the package where it loads them lazily."""
    source = ast.parse(Path(str(lm.__file__)).read_text("utf-8"))
    (block,) = (s for s in source.body if isinstance(s, ast.If) and "_F" in ast.unparse(s))
    for statement in block.body:
        if isinstance(statement, ast.ImportFrom):
            for name in statement.names:
                if name.name == "*":
                    yield from importlib.import_module(str(statement.module)).__all__
                else:
                    yield name.asname or name.name
        elif isinstance(statement, ast.Assign):
            for target in ast.walk(statement.targets[0]):
                if isinstance(target, ast.Name):
                    yield target.id


def test_type_checkers_see_the_public_names() -> None:
    found = {name for name in declared() if not name.startswith("_")}
    assert found == {*lm._WHERE, *lm._OTHERS, *lm._MODULES}
