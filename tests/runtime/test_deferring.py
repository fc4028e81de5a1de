"""Calls that are recorded as one node: they are what the function records, and nobody can tell."""

from __future__ import annotations

import gc
from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella import tree
from lamella.errors import GradientError, LamellaIndexError, OptionError, ShapeError
from lamella.graph.deferred import Deferred
from lamella.runtime import evaluate, repeated
from lamella.tensor import deferring as module
from lamella.tensor import pending
from lamella.tensor.deferring import deferring

F = lm.nn.functional


def value(*shape: int, dtype: str = "float32", seed: int = 0) -> Any:
    x = lm.asarray(np.random.default_rng(seed).normal(size=shape).astype(dtype))
    lm.eval(x)
    return x


def positions(*shape: int, below: int) -> Any:
    x = lm.asarray(np.random.default_rng(1).integers(0, below, shape))
    lm.eval(x)
    return x


X, Y, Z = value(4, 6), value(4, 6, seed=1), value(6, 3, seed=2)
CALLS: dict[str, Callable[[], Any]] = {
    "softmax": lambda: F.softmax(X, 1),
    "log_softmax": lambda: F.log_softmax(X, dim=0),
    "layer_norm": lambda: F.layer_norm(X, (6,)),
    "group_norm": lambda: F.group_norm(X, 2),
    "clip": lambda: lm.clip(X, -1, 0.5),
    "where": lambda: lm.where(X > 0, X, Y),
    "sum": lambda: lm.sum(X, axis=(0, 1), keepdims=True),
    "var": lambda: X.var(1, correction=1),
    "max": lambda: X.max(1),
    "argmax": lambda: lm.argmax(X),
    "logsumexp": lambda: lm.logsumexp(X, axis=1),
    "norm": lambda: lm.linalg.norm(X),
    "cumsum": lambda: lm.cumsum(X, axis=1),
    "concat": lambda: lm.concat([X, Y], axis=1),
    "stack": lambda: lm.stack((X, Y), -1),
    "roll": lambda: lm.roll(X, 3),
    "pad": lambda: lm.pad(X, ((1, 2), (0, 1))),
    "sort": lambda: lm.sort(X, axis=0),
    "topk": lambda: lm.topk(X, 2),
    "kthvalue": lambda: X.kthvalue(2),
    "take": lambda: lm.take(X, positions(3, below=4), axis=0),
    "scatter_add": lambda: lm.scatter_add(X, 1, positions(4, 6, below=6), Y),
    "bincount": lambda: lm.bincount(positions(9, below=5), length=5),
    "histogram": lambda: lm.histogram(X, bins=4, range=(-2.0, 2.0)),
    "masked_fill": lambda: X.masked_fill(Y > 0, 2.5),
    "matmul": lambda: X @ Z,
    "einsum": lambda: lm.einsum("ij,jk->ki", X, Z),
    "outer": lambda: lm.outer(X[0], Y[0]),
    "quantile": lambda: lm.quantile(X, 0.3, axis=1),
    "interp": lambda: lm.interp(X, lm.sort(Y[0]), Y[1]),
    "fft": lambda: lm.fft.fft(X),
    "rfft": lambda: lm.fft.rfft(X, norm="ortho"),
    "fft2": lambda: lm.fft.fft2(X),
    "aminmax": lambda: lm.aminmax(X),
    "sign": lambda: lm.sign(X),
    "row": lambda: X[-2],
    "row_of_none": lambda: X[()],
    "read_rows": lambda: X[positions(3, below=4), 1:4],
    "assign_number": lambda: X.at[1, 2:].set(3.0),
    "assign_tensor": lambda: X.at[:, 1].set(Z[:4, 0]),
    "assign_integers": lambda: X.at[..., None, 2:4].max(positions(2, below=4)),
    "assign_whole": lambda: X.at[...].set(Y),
    "assign_strided": lambda: X.at[::-2, 3:0:-1].multiply(Y[:2, :3]),
    "assign_rows": lambda: X.at[positions(3, below=4)].add(Y[:3]),
    "assign_pairs": lambda: X.at[positions(3, below=4), positions(3, below=6)].set(1),
    "assign_mask": lambda: X.at[Y > 0].min(-1),
    "assign_array": lambda: X.at[1:3].add(np.ones(6)),
}  # fmt: skip


def leaves(result: Any) -> list[Any]:
    return tree.leaves(result)


@pytest.mark.parametrize("name", CALLS)
def test_every_call_records_the_same_graph(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call = CALLS[name]
    lm.eval(call())
    with monkeypatch.context() as patch:
        patch.setattr(module, "_describe", lambda *arguments: False)
        plain = leaves(call())
        wanted = evaluate._lay_out([leaf.node for leaf in plain])[0]
    values = [[leaf.numpy() for leaf in plain]]
    for _ in range(4):
        found = leaves(call())
        assert evaluate._lay_out([leaf.node for leaf in found])[0] == wanted
        values.append([leaf.numpy() for leaf in found])
    # whole programs, found by the call
    values.extend([leaf.numpy() for leaf in leaves(call())] for _ in range(3))
    for found in values[1:]:
        for a, b in zip(found, values[0], strict=True):
            assert a.dtype == b.dtype and np.array_equal(a, b)


def test_a_known_call_is_one_node_and_lays_nothing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    pending.flush()  # of what other tests left pending
    evaluate.forget_programs()  # those of other sizes would be open in them
    for _ in range(3):
        lm.eval(F.softmax(X, 1), *lm.topk(X, 2))
        lm.eval(F.softmax(X, 1))
        lm.eval(*lm.topk(X, 2))
        lm.eval(lm.topk(X, 2)[1])
    monkeypatch.setattr(evaluate, "_lay_out", None)
    y = F.softmax(Y, 1)
    assert type(y.node) is Deferred
    wanted = np.exp(Y.numpy()) / np.exp(Y.numpy()).sum(1, keepdims=True)
    assert np.allclose(y.numpy(), wanted, rtol=1e-6) and type(y.node) is not Deferred
    values, places = lm.topk(Y, 2)
    assert np.array_equal(values.numpy(), -np.sort(-Y.numpy(), 1)[:, :2])
    assert np.array_equal(places.numpy(), np.argsort(-Y.numpy(), 1)[:, :2])
    assert np.array_equal(lm.topk(Y, 2)[1].numpy(), places.numpy())


def test_results_of_a_call_stay_related() -> None:
    for _ in range(4):
        values, places = lm.topk(X, 2)
        both = lm.take_along_axis(X, places, axis=1) - values
        assert not both.numpy().any()
        values, places = lm.topk(X, 2)
        kept = values + 1
        del values
        gc.collect()
        assert np.array_equal(kept.numpy() - 1, lm.take_along_axis(X, places, 1).numpy() + 1 - 1)


def test_numbers_tell_forms_apart() -> None:
    one = lm.ones(3)
    lm.eval(one)
    for _ in range(3):
        for fill in (0.0, -0.0, 1, 1.0, True):
            found = one.masked_fill(one > 0, fill).numpy()
            assert np.array_equal(np.signbit(found), np.signbit(np.full(3, fill, np.float32)))
            assert (found == fill).all()
        assert lm.sum(one, dtype=lm.float64).dtype is lm.float64
        assert lm.sum(one, dtype=lm.float32).dtype is lm.float32


def test_the_same_operand_twice() -> None:
    for _ in range(4):
        for a, b in ((X, Y), (X, X), (Y, X)):
            assert np.array_equal(lm.where(a > b, a, b).numpy(), np.maximum(a.numpy(), b.numpy()))
            assert np.array_equal(lm.concat([a, b]).numpy(), np.concatenate([a.numpy(), b.numpy()]))


def test_pending_operands_make_one_program(searches: list[int]) -> None:
    for _ in range(3):
        y = F.softmax(lm.exp(X) * 2, 1).sum(1)
        assert np.allclose(y.numpy(), 1, rtol=1e-6)
    assert {*searches} == {1}
    searches.clear()
    F.softmax(lm.exp(X) * 2, 1).sum(1).numpy()
    assert not searches


def test_a_program_of_more_than_the_call_is_not_the_call_s() -> None:
    def elu(x: Any) -> Any:
        return lm.where(x > 0, x, lm.expm1(x))

    def relu(x: Any) -> Any:
        return lm.where(x > 0, x, x * 0.0)

    for _ in range(4):
        x = X.numpy()
        assert np.allclose(elu(X).numpy(), np.where(x > 0, x, np.expm1(x)), rtol=1e-6)
        assert np.array_equal(relu(X).numpy(), np.where(x > 0, x, x * 0))


def test_gradients_transformations_and_names() -> None:
    for _ in range(3):
        lm.eval(F.softmax(X, 1))
    w = lm.tensor(X.numpy(), requires_grad=True)
    y = F.softmax(w, 1)
    assert y.node.tracked
    (y * Y).sum().backward()
    plain = lm.grad(lambda x: (F.softmax(x, 1) * Y).sum())(X)
    assert np.allclose(w.grad.numpy(), plain.numpy(), rtol=1e-5, atol=1e-7)
    step = lm.jit(lambda x: F.softmax(x, 1))
    assert np.allclose(step(X).numpy(), F.softmax(X, 1).numpy(), rtol=1e-6)
    rows = lm.vmap(lambda row: F.softmax(row, 0))(X)
    assert np.allclose(rows.numpy(), F.softmax(X, 1).numpy(), rtol=1e-6)
    before = F.softmax(X, 1)  # pending, one node
    leaf = before.detach()
    leaf.requires_grad = True
    (leaf * 2).sum().backward()
    assert leaf.grad.tolist() == lm.full((4, 6), 2.0).tolist()


def test_a_derivative_passes_through_a_call_recorded_before() -> None:
    for _ in range(3):
        lm.eval(F.softmax(X, 1))
    before = F.softmax(X, 1)
    found = lm.grad(lambda x: (before * x).sum())(Y)
    assert np.array_equal(found.numpy(), F.softmax(X, 1).numpy())


def test_functions_that_do_more_are_left_alone() -> None:
    count = 0

    @deferring
    def drawn(x: Any) -> Any:
        return x + lm.random.normal((3,))

    @deferring
    def looks(x: Any) -> Any:
        return x * 2 if x.sum().item() > 0 else x

    @deferring
    def itself(x: Any) -> Any:
        return x

    @deferring
    def counting(x: Any) -> Any:
        nonlocal count
        count += 1
        return x + count

    x = lm.ones(3)
    lm.eval(x)
    assert len({tuple(drawn(x).tolist()) for _ in range(5)}) == 5
    assert [looks(x).tolist() for _ in range(3)] == [[2.0] * 3] * 3
    assert [looks(-x).tolist() for _ in range(3)] == [[-1.0] * 3] * 3
    assert all(itself(x) is x for _ in range(4))
    assert len({tuple(counting(x).tolist()) for _ in range(5)}) == 5


def test_errors_are_those_of_the_function() -> None:
    for _ in range(4):
        with pytest.raises(ShapeError, match="concat"):
            lm.concat([X, Z], axis=0)


def test_a_fault_names_the_line_of_its_call() -> None:
    index, bad = positions(3, below=4), lm.asarray([1, 2, 40])
    lm.eval(bad)
    for _ in range(3):
        lm.eval(lm.take(X, index, axis=0))
    node = lm.take(X, index, axis=0).node
    assert "test_deferring.py" in node.site
    for _ in range(3):
        with pytest.raises(LamellaIndexError, match=r"test_deferring\.py"):
            lm.take(X, bad, axis=0).numpy()
        assert np.array_equal(lm.take(X, index, axis=0).numpy(), X.numpy()[index.numpy()])


def test_calls_weigh_what_they_record() -> None:
    x = X
    pending.flush()
    most = 0
    for _ in range(600):
        x = F.softmax(x, 1)
        most = max(most, len(pending.noted))
    assert 10 < most < 200
    assert np.allclose(x.numpy(), 1 / 6, rtol=1e-5)


def test_threads_look_inside_the_same_call() -> None:
    for _ in range(3):
        lm.eval(F.softmax(X, 1))
    wanted = F.softmax(X, 1).numpy()
    found: list[np.ndarray] = []

    def work(y: Any, inside: bool) -> None:
        found.append((y + 0.0 if inside else y).numpy())

    for _ in range(30):
        y = F.softmax(X, 1)
        threads = [Thread(target=work, args=(y, i % 2)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 120 and all(np.array_equal(each, wanted) for each in found)


def test_named_axes_are_known_to_the_function() -> None:
    for _ in range(3):
        lm.eval(lm.sum(X, axis=1))
    named = X.named("a", "b")
    assert lm.sum(named, axis="b").names == ("a",)
    assert F.softmax(named, 1).names == ("a", "b")


def test_calls_on_unnamed_axes_stay_one_node_beside_named_ones() -> None:
    X.named("a", "b")
    for _ in range(3):
        lm.eval(F.softmax(X, 1), *lm.topk(X, 2))
    y, (values, places) = F.softmax(X, 1), lm.topk(X, 2)
    assert type(y.node) is Deferred and y.names == (None, None)
    assert type(values.node) is Deferred and type(places.node) is Deferred


def test_programs_are_forgotten_together() -> None:
    for _ in range(3):
        lm.eval(F.softmax(X, 1))
    assert repeated._known
    evaluate.forget_programs()
    assert not repeated._known
    assert np.isfinite(F.softmax(X, 1).numpy()).all()


def test_reductions_without_nan_and_identities_are_one_node() -> None:
    exact = np.random.default_rng(3).normal(size=(3, 4)).astype(np.float32)
    exact[1, 2] = np.nan
    x = lm.asarray(exact)
    lm.eval(x)
    pairs = [(lm.nansum, np.nansum), (lm.nanmean, np.nanmean), (lm.nanmax, np.nanmax)]
    for i in range(4):
        for own, known in pairs:
            made = own(x, axis=1)
            assert i < 2 or type(made.node) is Deferred
            np.testing.assert_allclose(made.numpy(), known(exact, axis=1), rtol=1e-6)
        for k in (0, 1):
            made = lm.eye(3, 4, k=k)
            assert i < 2 or type(made.node) is Deferred
            np.testing.assert_array_equal(made.numpy(), np.eye(3, 4, k=k))


@pytest.mark.parametrize("mode", ["set", "add", "multiply", "max", "min"])
def test_assignments_of_a_form_are_one_node_whatever_their_numbers(mode: str) -> None:
    draw = np.random.default_rng(3)
    combined = {"set": None, "add": np.add, "multiply": np.multiply, "max": np.maximum,
                "min": np.minimum}[mode]  # fmt: skip
    x = value(7, 5)
    for turn in range(5):
        i, n, rows = int(draw.integers(-7, 7)), float(draw.normal()), draw.permutation(7)[:3]
        row = draw.normal(size=5).astype("float32")
        index = lm.asarray(rows)
        lm.eval(index)
        for subscript, known, new in (
            ((i,), (i,), n), ((slice(turn, turn + 2), 1), (slice(turn, turn + 2), 1), n),
            ((rows,), (index,), lm.asarray(row)), ((i, ...), (i, ...), row),
            ((x.numpy() > n,), (x > n,), n),
        ):  # fmt: skip
            wanted = x.numpy().copy()
            if combined is None:
                wanted[subscript] = np.asarray(new)
            else:
                combined.at(wanted, subscript, np.asarray(new, np.float32))
            found = getattr(x.at[known], mode)(new)
            assert type(found.node) is Deferred or turn == 0
            assert np.allclose(found.numpy(), wanted, rtol=1e-6)


def test_assigning_in_place_keeps_other_tensors_and_raises_as_before() -> None:
    x = value(6)
    index = positions(2, below=6)
    for i in range(6):
        before, other = x.numpy().copy(), x + 0
        kept = lm.asarray(x)
        x = lm.tensor(x)
        x[i] = i
        x[index] += 1
        before[i] = i
        before[index.numpy()] += 1
        assert np.array_equal(x.numpy(), before)
        assert np.array_equal(kept.numpy(), other.numpy())
        with pytest.raises(LamellaIndexError, match="out of range"):
            x[i + 6] = 1
        with pytest.raises(ShapeError, match="does not broadcast"):
            x[:2] = lm.ones(3)
    with pytest.raises(OptionError, match="does not fit"):
        lm.zeros(3, dtype=lm.int8)[0] = 300
    leaf = lm.zeros(3, requires_grad=True)
    with pytest.raises(GradientError):
        leaf[0] = 1
    (leaf.at[0].set(2.0) * leaf).sum().backward()
    assert leaf.grad is not None and leaf.grad.tolist() == [2.0, 0.0, 0.0]


def test_a_fault_names_the_line_of_a_known_assignment() -> None:
    for place in (1, 2, 3, 9):
        index = lm.asarray([place])
        lm.eval(index)
        changed = X.at[index].set(1.0)
        if place < 4:
            assert (changed[place] == 1).all()
            continue
        with pytest.raises(LamellaIndexError, match=r"test_deferring\.py"):
            changed.numpy()


def test_filled_tensors_are_one_node() -> None:
    for turn in range(4):
        for shape, dtype in (((2, 3), lm.float32), ((), lm.int8), ((0, 4), lm.complex64)):
            like = lm.asarray(np.zeros(shape, dtype.name))
            for number, made in (
                (0, lm.zeros(shape, dtype=dtype)), (1, lm.ones(shape, dtype=dtype)),
                (turn, lm.full(shape, turn, dtype=dtype)), (turn, lm.full_like(like, turn)),
                (0, lm.zeros_like(like)),
            ):  # fmt: skip
                wanted = np.full(shape, number, dtype.name)
                assert made.dtype is dtype and np.array_equal(made.numpy(), wanted)
        found = {type(made.node) for made in (lm.zeros((5, 2)), lm.ones(4), lm.full(3, 0.5))}
        assert turn < 2 or found == {Deferred}
        for number in (0.0, -0.0):
            assert (np.signbit(lm.full(2, number).numpy()) == np.signbit(number)).all()
        assert type(lm.zeros((True, 2)).shape[0]) is int
        leaf = lm.ones(3, requires_grad=True)
        (leaf * leaf).sum().backward()
        assert leaf.grad is not None and leaf.grad.tolist() == [2.0, 2.0, 2.0]
