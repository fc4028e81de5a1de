"""An interruption (Ctrl-C) of a compiled step changes its state as a whole or not at all."""

from __future__ import annotations

import numpy as np
import pytest

import lamella as lm
from lamella.runtime.launch import Plan
from lamella.transforms.entry import Entry


def counting_step():
    """A step over two counters, of which one's value is held by another handle too."""
    alone, shared = lm.asarray(np.zeros(1000, np.float32), copy=True), lm.zeros(1000)

    @lm.jit
    def step(x):
        alone.add_(1)
        shared.add_(1)
        return x * 2

    holders = []
    for _ in range(2):
        step(lm.ones(3))
        holders[:] = [shared.detach()]  # keeps the value from being written over
    return step, alone, shared, holders


def counts(*tensors):
    return [float(tensor.numpy()[0]) for tensor in tensors]


def test_an_interruption_while_native_code_runs_keeps_state_whole(monkeypatch):
    step, alone, shared, _holders = counting_step()
    run = Plan.run

    def interrupted(self, *arguments):  # Python calls signal handlers when native code is back
        run(self, *arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(Plan, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        step(lm.ones(3))
    monkeypatch.undo()
    assert counts(alone, shared) in ([2.0, 2.0], [3.0, 3.0])
    step(lm.ones(3))
    assert counts(alone)[0] == counts(shared)[0]


def test_an_interruption_before_native_code_changes_nothing(monkeypatch):
    step, alone, shared, _holders = counting_step()

    def interrupted(self, *arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(Plan, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        step(lm.ones(3))
    monkeypatch.undo()
    assert counts(alone, shared) == [2.0, 2.0]


def test_an_interruption_while_results_are_handed_out_hands_out_the_rest(monkeypatch):
    step, alone, shared, _holders = counting_step()
    deliver, calls = Entry._deliver, []

    def interrupted(self, run, call):
        calls.append(run)
        if len(calls) > 1:
            return deliver(self, run, call)
        run.handles[self._states[0][0]].node = run.nodes[self._states[0][1]]
        raise KeyboardInterrupt

    monkeypatch.setattr(Entry, "_deliver", interrupted)
    with pytest.raises(KeyboardInterrupt):
        step(lm.ones(3))
    monkeypatch.undo()
    assert counts(alone, shared) == [3.0, 3.0]


@pytest.mark.parametrize("row", [1, 9])
def test_an_interruption_of_a_step_that_checks_indices(monkeypatch, row):
    table, count = lm.asarray(np.ones((4, 300), np.float32), copy=True), lm.zeros(1000)
    holders = []

    @lm.jit
    def step(i):
        total = table[i].sum()
        table.add_(1)
        count.add_(1)
        return total

    for _ in range(2):
        step(lm.asarray([1]))
        holders[:] = [count.detach()]  # keeps the value from being written over
    run = Plan.run

    def interrupted(self, *arguments):
        run(self, *arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(Plan, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        step(lm.asarray([row]))
    monkeypatch.undo()
    found = float(table.numpy()[0, 0]), float(count.numpy()[0])
    assert found in ([(3.0, 2.0)] if row == 9 else [(3.0, 2.0), (4.0, 3.0)])
    step(lm.asarray([1]))
    assert table.numpy()[0, 0] == count.numpy()[0] + 1
