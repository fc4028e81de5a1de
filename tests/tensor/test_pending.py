"""When pending values are computed: together, at loop boundaries, and never inside a trace."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator, Sequence
from threading import Thread
from typing import Any

import pytest

import lamella as lm
from lamella import ops
from lamella.errors import TraceError
from lamella.ir.node import Node
from lamella.tensor import pending
from lamella.tensor.core import wrap
from lamella.tensor.pending import set_trace


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[list[Node]]:
    """The lists of nodes that were computed together."""
    lm.eval()
    found: list[list[Node]] = []
    lm.ones(1).item()  # loads the evaluator
    real = pending.evaluator
    assert real is not None

    def record(nodes: Sequence[Node]) -> None:
        found.append(list(nodes))
        real(nodes)

    monkeypatch.setattr(pending, "evaluator", record)
    return found


def test_one_look_computes_everything_alive(batches: list[list[Node]]) -> None:
    x = lm.tensor([1.0, 2.0])
    a, b = x * 2, x + 1
    dead = x * 100
    del dead
    assert a.tolist() == [2.0, 4.0]
    assert len(batches) == 1 and {id(n) for n in batches[0]} == {id(a.node), id(b.node)}
    assert b.tolist() == [2.0, 3.0] and len(batches) == 1


def test_untracked_history_is_dropped() -> None:
    x = lm.tensor([1.0])
    y = x * 2
    old = weakref.ref(x.node)
    z = y + 1
    assert z.item() == 3.0
    del x
    gc.collect()
    assert old() is None


def test_a_loop_flushes_at_its_own_boundary(batches: list[list[Node]]) -> None:
    x = lm.zeros(2)
    total = 0
    for _ in range(400):
        y = x * 2.0
        z = y + 1.0
        x = z - y
        total += 3
    assert x.tolist() == [1.0, 1.0]
    assert 2 <= len(batches) <= total // pending.soft_limit() + 1
    assert len(pending.noted) < 10


def test_every_flush_of_a_loop_has_one_structure(batches: list[list[Node]]) -> None:
    x = lm.zeros(2)
    lm.eval(x)
    for _ in range(1500):
        x = x * 0.5 + 1.0
        x = lm.tanh(x)
    del x
    steady = batches[1:]

    def ops_of(nodes: list[Node]) -> list[str]:
        return sorted(node.op.name for node in nodes)

    assert len(steady) >= 3 and all(ops_of(nodes) == ops_of(steady[0]) for nodes in steady)


def test_the_hard_limit_flushes_without_a_loop(batches: list[list[Node]]) -> None:
    source = "import lamella as lm\nx = lm.zeros(2)\n" + "x = x + 1.0\n" * 2500
    space: dict[str, Any] = {}
    exec(source, space)
    assert batches
    assert space["x"].tolist() == [2500.0, 2500.0]


def test_zero_turns_automatic_flushing_off(batches: list[list[Node]]) -> None:
    lm.eval()
    with lm.config(flush=0):
        x = lm.zeros(2)
        for _ in range(1200):
            x = x + 1.0
        assert not batches
    assert x.tolist() == [1200.0, 1200.0]


def test_a_fault_raises_where_it_is_looked_at_and_only_there() -> None:
    x = lm.zeros(3)
    bad = x[lm.tensor([7])]
    good = x + 1
    assert good.tolist() == [1.0] * 3
    assert (x * 2).tolist() == [0.0] * 3
    with pytest.raises(IndexError):
        bad.numpy()
    with pytest.raises(IndexError):
        bad.numpy()
    fresh = x[lm.tensor([9])]
    with pytest.raises(IndexError):
        lm.eval(fresh)


class Recorder:
    """A trace that remembers what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    def heard(self, kind: str, tensor: Any) -> bool:
        return any(event == kind and each is tensor for event, each in self.events)

    def touch(self, tensor: Any) -> None:
        self.events.append(("touch", tensor))

    def rebind(self, tensor: Any) -> None:
        self.events.append(("rebind", tensor))

    def created(self, tensor: Any) -> None:
        self.events.append(("created", tensor))

    def value(self, tensor: Any) -> None:
        self.events.append(("value", tensor))

    def read_grad(self, tensor: Any) -> None:
        self.events.append(("read_grad", tensor))

    def write_grad(self, tensor: Any) -> None:
        self.events.append(("write_grad", tensor))

    def backward(self, root: Node) -> None:
        self.events.append(("backward", root))


@pytest.fixture
def trace() -> Iterator[Recorder]:
    lm.eval()
    recorder = Recorder()
    previous = set_trace(recorder)
    yield recorder
    set_trace(previous)


def test_a_trace_hears_of_reads_changes_and_results(trace: Recorder) -> None:
    set_trace(None)
    x, w = lm.ones(2), lm.ones(2, requires_grad=True)
    before = len(pending.noted)
    set_trace(trace)
    y = x + w
    x += 1
    x[0] = y[1]
    assert [kind for kind, t in trace.events if t is x] == [
        "touch",
        "touch",
        "rebind",
        "touch",
        "rebind",
    ]
    assert trace.heard("touch", w) and trace.heard("created", y)
    assert len(pending.noted) == before  # nothing recorded here waits for the process's own flush
    trace.events.clear()
    (y * w).sum().backward()
    assert trace.heard("write_grad", w)
    _ = w.grad
    assert trace.heard("read_grad", w)


def test_other_threads_are_not_traced(trace: Recorder) -> None:
    worker = Thread(target=lambda: (lm.ones(2) + 1).tolist())
    worker.start()
    worker.join()
    assert trace.events == []


def test_values_of_placeholders_are_refused_with_advice(trace: Recorder) -> None:
    x = wrap(ops.placeholder((2,), lm.float32))
    y = x * 2
    for look in (
        y.numpy,
        y.tolist,
        lambda: bool(y[0] > 0),
        lambda: float(y[0]),
        lambda: lm.eval(y),
        lambda: y[y > 0],
    ):
        with pytest.raises(TraceError, match=r"lm\.where"):
            look()
    assert repr(y) == str(y) == "Tensor(float32[2], traced)"
    closed = lm.ones(2) + 1
    assert closed.tolist() == [
        2.0,
        2.0,
    ]  # a constant inside a trace has a value, which the trace was told of
    assert trace.heard("value", closed)


def test_a_leaked_placeholder_does_not_poison_others() -> None:
    leaked = wrap(ops.placeholder((2,), lm.float32)) * 2
    good = lm.ones(2) + 1
    assert good.tolist() == [2.0, 2.0]
    with pytest.raises(TraceError):
        leaked.numpy()


def test_values_in_many_threads() -> None:
    found: list[float] = []

    def work(seed: int) -> None:
        x = lm.full((8,), float(seed))
        for _ in range(20):
            x = x * 1.5 - x * 0.5
        found.append(x.sum().item())

    workers = [Thread(target=work, args=(seed,)) for seed in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(found) == [8.0 * seed for seed in range(8)]


def test_products_that_are_only_a_number() -> None:
    assert (lm.ones(()) * 2).item() == 2.0
    assert (3 / lm.ones(())).item() == 3.0
    both = [lm.ones(()) * 2.5, lm.ones(()) * 2.5]
    lm.eval(both)
    assert [each.item() for each in both] == [2.5, 2.5]
