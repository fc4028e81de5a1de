"""Of globals, ``lm.jit`` watches those that a function reads, and of the library's no caches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lamella as lm

T: list[float] = [1.0]  # a global with the name of an attribute of tensors


def test_a_global_named_like_an_attribute_is_not_watched() -> None:
    compiled = lm.jit(lambda x: x.T * 2)
    x = lm.ones((2, 3))
    compiled(x)
    T.append(2.0)
    try:
        assert compiled(x).shape == (3, 2)
        assert compiled.programs == 1
    finally:
        T.pop()


def by_global(x: Any) -> Any:
    return x.T * T[-1]


def by_inner_function(x: Any) -> Any:
    def inner() -> Any:
        return T[-1]

    return x * inner()


def by_body_of_a_class(x: Any) -> Any:
    class Holder:
        factor = T[-1]

    return x * Holder.factor


def by_comprehension(x: Any) -> Any:
    return sum(x * factor for factor in T)


@pytest.mark.parametrize("f", [by_global, by_inner_function, by_body_of_a_class, by_comprehension])
def test_a_global_is_watched_wherever_code_reads_it(f: Callable[..., Any]) -> None:
    compiled, x = lm.jit(f), lm.ones(2)
    try:
        assert compiled(x).tolist() == f(x).tolist()
        T.append(3.0)
        assert compiled(x).tolist() == f(x).tolist() != [1.0, 1.0]
        assert compiled.programs == 2
    finally:
        del T[1:]


def test_functions_of_the_library_are_not_watched_for_how_they_were_called() -> None:
    from lamella import floor_divide

    compiled = lm.jit(lambda x: floor_divide(x, 0.5) * 2)
    for size in (2, 3, 4):
        x = lm.asarray(np.full(size, 0.25))
        floor_divide(x, 0.5).numpy()  # the first call of this form outside
        assert compiled(lm.ones(2)).tolist() == [4.0, 4.0]
    assert compiled.programs == 1
