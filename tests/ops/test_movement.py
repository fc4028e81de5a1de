"""Movement, slicing and joining against NumPy, and the errors of their builders."""

from __future__ import annotations

import numpy as np
import pytest

from lamella import ops
from lamella.dtypes import float32, int64
from lamella.errors import DTypeError, LamellaIndexError, ShapeError
from lamella.graph.batch import batch
from lamella.ir.dim import Dim
from lamella.ir.interp import interpret
from lamella.ir.node import Node
from tests.ops.evaluate import leaf, value

X = np.arange(24).reshape(2, 3, 4)


def test_reshape_works_out_one_size() -> None:
    assert value(lambda x: ops.reshape(x, (4, -1)), X).tolist() == X.reshape(4, 6).tolist()
    n = Dim("n")
    assert ops.reshape(ops.placeholder((n, 4), float32), (-1, 2)).shape == (2 * n, 2)


@pytest.mark.parametrize("shape", [(5, 5), (-1, 5), (-1, -1), (0, -1)])
def test_reshape_keeps_every_element(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"\[reshape\] shape \(2, 3, 4\)"):
        ops.reshape(leaf(X), shape)


def test_nothing_to_do_is_no_node() -> None:
    x = leaf(X)
    assert ops.reshape(x, (2, 3, 4)) is x
    assert ops.permute(x, (0, 1, 2)) is x
    assert ops.broadcast_to(x, (2, 3, 4)) is x
    assert ops.flip(x, ()) is x
    assert ops.slice(x, (0, 0, 0), x.shape) is x
    assert ops.pad(x, (0, 0, 0), (0, 0, 0)) is x
    assert ops.concatenate([x], 0) is x


def test_permute_names_every_axis_once() -> None:
    assert value(lambda x: ops.permute(x, (-1, 0, 1)), X).shape == (4, 2, 3)
    for axes in ((0, 1), (0, 0, 1), (0, 1, 3)):
        with pytest.raises(ShapeError, match=r"\[permute\]"):
            ops.permute(leaf(X), axes)


@pytest.mark.parametrize("shape", [(3, 4), (2, 2, 4), (2, 3, 1)])
def test_broadcast_needs_fitting_sizes(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"\[broadcast_to\]"):
        ops.broadcast_to(leaf(X), shape)


def test_slice_is_numpy_slicing() -> None:
    def build(x: Node) -> Node:
        return ops.slice(x, (1, 2, 3), (1, 3, 2), (1, -1, -2))

    assert value(build, X).tolist() == X[1:2, ::-1, 3::-2].tolist()


@pytest.mark.parametrize(
    ("starts", "sizes", "strides"),
    [((0, 0, 2), (1, 1, 3), (1, 1, 1)), ((0, 0, 0), (1, 1, 2), (1, 1, -1)),
     ((-1, 0, 0), (1, 1, 1), (1, 1, 1)), ((0, 0, 1), (1, 1, 2), (1, 1, 3))],
)  # fmt: skip
def test_slice_refuses_known_positions_outside(starts, sizes, strides) -> None:
    with pytest.raises(LamellaIndexError, match=r"\[slice\] positions"):
        ops.slice(leaf(X), starts, sizes, strides)
    known = [ops.scalar(start, int64) for start in starts]
    with pytest.raises(IndexError):
        ops.slice(leaf(X), known, sizes, strides)


def test_slice_refuses_bad_options() -> None:
    with pytest.raises(ShapeError, match="stride 0"):
        ops.slice(leaf(X), (0, 0, 0), (1, 1, 1), (1, 0, 1))
    with pytest.raises(ShapeError, match="every axis needs one"):
        ops.slice(leaf(X), (0,), (1,))
    with pytest.raises(ShapeError, match="0-d int64"):
        ops.slice(leaf(X), (ops.scalar(1.0, float32), 0, 0), (1, 1, 1))


def test_one_structure_serves_every_start() -> None:
    first, second = (ops.slice(leaf(X), (ops.scalar(i, int64), 0, 0), (1, 3, 4)) for i in (0, 1))
    assert first.op == second.op and first.shape == second.shape
    assert interpret([second])[0].tolist() == X[1:2].tolist()


def test_update_slice_is_numpy_assignment() -> None:
    u = -np.arange(4).reshape(1, 2, 2)
    expected = X.copy()
    expected[1:2, 2:0:-1, 0::3] = u
    found = value(lambda x, v: ops.update_slice(x, v, (1, 2, 0), (1, -1, 3)), X, u)
    assert found.tolist() == expected.tolist()
    with pytest.raises(DTypeError, match=r"\[update_slice\]"):
        ops.update_slice(leaf(X), leaf(u.astype(np.float32)), (1, 2, 0), (1, -1, 3))


def test_starts_may_differ_along_a_batch() -> None:
    x, i = ops.placeholder((5, 3), float32), ops.placeholder((), int64)
    node = ops.slice(x, (i, 0), (2, 3))
    starts = ops.placeholder((4,), int64)
    ((found, _),) = batch([node], {i: starts}, 4)
    data, at = np.random.default_rng(0).random((5, 3), np.float32), np.array([0, 3, 1, 1])
    got = interpret([found], {x: data, starts: at})[0]
    assert got.tolist() == [data[s : s + 2].tolist() for s in at]


def test_pad_places_and_fills() -> None:
    found = value(lambda x: ops.pad(x, (1, 0), (0, 2), 9, (0, 1)), np.ones((2, 2), np.int32))
    assert found.tolist() == [[9] * 5, [1, 9, 1, 9, 9], [1, 9, 1, 9, 9]]
    for low, high in (((0,), (0,)), ((-1, 0), (0, 0))):
        with pytest.raises(ShapeError, match=r"\[pad\] amounts"):
            ops.pad(leaf(np.ones((2, 2))), low, high)


def test_concatenate_checks_shapes_and_dtypes() -> None:
    with pytest.raises(ShapeError, match="no tensor"):
        ops.concatenate([], 0)
    with pytest.raises(ShapeError, match="differ beside axis 0"):
        ops.concatenate([leaf(X), leaf(X[:, :2])], 0)
    with pytest.raises(ShapeError):
        ops.concatenate([leaf(1.0)], 0)
    with pytest.raises(DTypeError, match=r"\[concatenate\]"):
        ops.concatenate([leaf(X), leaf(X.astype(np.float32))], 0)


def test_concatenate_of_symbolic_sizes_has_a_derivative() -> None:
    from lamella.graph.reverse import vjp

    n = Dim("n")
    a, b = (ops.placeholder((n, 2), float32, tracked=True) for _ in range(2))
    joined = ops.concatenate([a, b], 0)
    ct = ops.placeholder(joined.shape, float32)
    grads = vjp([joined], [ct], [a, b])
    data = np.arange(12, dtype=np.float32).reshape(6, 2)
    found = interpret(grads, {ct: data}, {"n": 3})
    assert [g.tolist() for g in found] == [data[:3].tolist(), data[3:].tolist()]
