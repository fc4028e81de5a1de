"""Trees: flattening and building back, structure, registered classes, messages."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import OrderedDict, namedtuple
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lamella as lm
from lamella import tree
from lamella.errors import OptionError, ShapeError

Point = namedtuple("Point", "x y")

trees = st.recursive(
    st.none() | st.integers() | st.text(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3)
        | st.tuples(inner, inner).map(lambda p: Point(*p))
    ),
    max_leaves=12,
)


@given(trees)
def test_flatten_and_back(value: Any) -> None:
    leaves, form = tree.flatten(value)
    built = tree.unflatten(form, leaves)
    assert built == value and type(built) is type(value)
    assert form == tree.structure(built) and hash(form) == hash(tree.structure(built))
    assert form.count == len(leaves) == len(tree.paths(value))


@given(trees)
def test_map_keeps_the_structure(value: Any) -> None:
    assert tree.structure(tree.map(lambda leaf: 0, value)) == tree.structure(value)


def test_dictionaries_are_equal_in_any_order() -> None:
    assert tree.structure({"a": 1, "b": 2}) == tree.structure({"b": 3, "a": 4})
    assert tree.leaves({"b": 3, "a": 4}) == [4, 3]
    assert tree.leaves({1: "x", "a": "y"}) == ["x", "y"]
    ordered = OrderedDict(b=1, a=2)
    assert tree.map(lambda v: v + 1, ordered) == OrderedDict(a=3, b=2)


def test_tensors_and_arrays_are_leaves() -> None:
    x = lm.ones(2)
    assert [leaf is x for leaf in tree.leaves({"w": x, "n": None, "l": [x]})] == [True, True]


def test_classes_join_by_methods_registration_or_decoration() -> None:
    class Own:
        def __init__(self, a: Any, tag: str) -> None:
            self.a, self.tag = a, tag

        def tree_flatten(self) -> tuple[list[Any], str]:
            return [self.a], self.tag

        @classmethod
        def tree_unflatten(cls, tag: str, children: Any) -> Own:
            return cls(children[0], tag)

    made = tree.map(lambda v: v + 1, Own([1, 2], "t"))
    assert made.a == [2, 3] and made.tag == "t"
    assert tree.structure(Own(1, "t")) != tree.structure(Own(1, "u"))

    @tree.dataclass
    @dataclasses.dataclass(frozen=True)
    class State:
        step: int
        weights: list[int]

    assert tree.map(lambda v: v * 2, State(1, [2, 3])) == State(2, [4, 6])
    assert tree.paths(State(1, [2, 3])) == [".step", ".weights[0]", ".weights[1]"]

    class Plain:
        pass

    plain = Plain()
    assert tree.leaves([plain]) == [plain]
    tree.register(Plain, lambda p: ((), None), lambda extra, children: plain)
    assert tree.leaves([plain]) == []


def test_is_leaf_stops() -> None:
    assert tree.leaves([(1, 2), [3]], is_leaf=lambda v: isinstance(v, tuple)) == [(1, 2), 3]


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (lambda: tree.map(lambda a, b: a, {"x": [1, 2]}, {"x": [1]}), r"\['x'\]"),
        (lambda: tree.map(lambda a, b: a, [1], (1,)), "the root"),
        (lambda: tree.unflatten(tree.structure([1, 2]), [1]), "1 leaves for a structure of 2"),
        (lambda: tree.dataclass(int), "not a dataclass"),
    ],
)
def test_mismatches_say_where(act: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        act()


def nested(depth: int) -> Any:
    found: Any = 1.0
    for _ in range(depth):
        found = [found]
    return found


def held_by_itself() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


@pytest.mark.parametrize("deep", [nested(10_000), held_by_itself()], ids=["deep", "cycle"])
def test_containers_nested_too_deeply_are_named(deep: Any) -> None:
    for act in (tree.flatten, tree.leaves, tree.structure, tree.paths, lm.jit(lambda v: v)):
        with pytest.raises(OptionError, match=r"containers nested too deeply"):
            act(deep)
    with pytest.raises(OptionError, match="recursion limit"):
        tree.map(lambda a, b: a, [1], deep)
    for make in (lm.asarray, lm.tensor, lambda v: lm.ones(2) + v, lambda v: lm.asarray([1, v])):
        with pytest.raises(ShapeError, match=r"sequences nested more than 64 deep"):
            make(deep)


def test_what_can_be_flattened_can_be_compared_and_shown() -> None:
    """At every depth that the stack allows, or the error says so."""
    for depth in range(40, 2000, 40):
        one, other = nested(depth), nested(depth - 1)
        try:
            found, form = tree.flatten(one)
        except OptionError:
            break
        assert tree.leaves(tree.unflatten(form, found)) == [1.0]
        assert repr(form).startswith("list([0]: list(")
        for second in (one, other):
            with contextlib.suppress(OptionError):
                tree.map(lambda a, b: a, one, second)
    else:
        pytest.fail("no depth was too much")
