"""The native worker loop and program loop, as LLVM IR text.

Output: :func:`runtime_ir`, a module exporting ``worker(pool, number)``, ``stop(pool)``,
``spin(count)`` and ``run_program(plan, slots)``. It calls nothing outside itself but the addresses
in the pool's record.

How a launch is shared: its tasks are divided into *shares* of neighbours, one for each participant,
so that from launch to launch a thread meets the same part of the data, which its caches may still
hold; who has done its own share takes from the next ones. The word of a share holds an epoch (high
half) and the tasks still to take (low half). The caller writes the job, then publishes new words,
and last the epoch in the *ticket*, which workers wait for. Anyone takes a task by
comparing-and-swapping a share's word for one less. A swap succeeds only within the epoch that was
read, and an epoch ends only when all its tasks are done, so the job read in between is whole and
current. Nobody waits for a worker that did not take a task: with every worker asleep, or gone after
a fork, the caller does all the tasks itself. A second thread that finds the pool busy runs its
launch alone.

Idle workers spin for a while, then sleep on the *signal* word: a worker adds itself to *sleepers*
before it looks at the ticket once more, a caller publishes the ticket before it reads *sleepers*
(both sequentially consistent), so one of them sees the other.
"""

from __future__ import annotations

import re
from typing import Final

from lamella.runtime import os_host
from lamella.runtime.native_program import PROGRAM_IR

__all__ = [
    "POOL_ENV", "POOL_PYTHON", "POOL_SPIN", "POOL_STOP", "POOL_WORDS",
    "POOL_WORKERS", "runtime_ir",
]  # fmt: skip

# Words (8 bytes) of the pool's record; those that different threads write are 128 bytes apart.
_TICKET: Final = 0
_DONE: Final = 16
_JOB: Final = 32  # see _WORDS
POOL_WORKERS: Final = 48
POOL_SPIN: Final = 49
POOL_STOP: Final = 50
POOL_ENV: Final = 51  # four addresses, see os_host.native_addresses
POOL_PYTHON: Final = 55  # of PyEval_SaveThread, PyEval_RestoreThread, PyErr_CheckSignals
_BUSY: Final = 64
_SLEEPERS: Final = 80
_SIGNAL: Final = 96
_WAITING: Final = 112
_SHARES: Final = 128  # the words of the shares, from here on
_MOST_SHARES: Final = 64
_APART: Final = 16  # words from one share to the next
POOL_WORDS: Final = _SHARES + _MOST_SHARES * _APART

_WORDS: Final = {
    "ticket": _TICKET, "done": _DONE, "fn": _JOB, "args": _JOB + 1, "extent": _JOB + 2,
    "shares": _JOB + 3, "tasks": _JOB + 4, "count": _JOB + 5, "scratch": _JOB + 6,
    "copies": _JOB + 7, "workers": POOL_WORKERS, "spin": POOL_SPIN, "stop": POOL_STOP,
    "env": POOL_ENV, "python": POOL_PYTHON, "busy": _BUSY, "sleepers": _SLEEPERS,
    "signal": _SIGNAL, "waiting": _WAITING, "words": _SHARES,
}  # fmt: skip

_PAUSES: Final = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}


_SPIN: Final = """
define void @spin(i64 %count) {
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%j, %loop]
  PAUSE
  %j = add i64 %i, 1
  %more = icmp slt i64 %j, %count
  br i1 %more, label %loop, label %out
out:
  ret void
}
"""

# @rest: a moment of a loop that waits, in its round %k. After some rounds, from %least on, whoever
# shares the core goes first: it may be the thread that is waited for.
_REST: Final = """
define internal void @rest(ptr %env, i64 %k, i64 %least) noinline {
entry:
  PAUSE
  %turn = and i64 %k, 127
  %last = icmp eq i64 %turn, 127
  %late = icmp sge i64 %k, %least
  %yields = and i1 %last, %late
  br i1 %yields, label %yield, label %out
yield:
  %p_yield = getelementptr i64, ptr %env, i64 3
  %f = load ptr, ptr %p_yield
  %r = call i32 %f()
  br label %out
out:
  ret void
}
"""

# @run_task: a task by a participant other than the caller, with scratch memory of its own: the last
# argument moves on by as many areas as the participant's number.
_SCRATCH: Final = """
define internal void @run_task(ptr %fn, ptr %args, i64 %count, i64 %offset, i64 %begin,
                               i64 %end) noinline {
entry:
  %own = alloca i64, i64 %count, align 64
  br label %copy
copy:
  %j = phi i64 [0, %entry], [%j1, %copy]
  %p_from = getelementptr i64, ptr %args, i64 %j
  %value = load i64, ptr %p_from
  %p_to = getelementptr i64, ptr %own, i64 %j
  store i64 %value, ptr %p_to
  %j1 = add i64 %j, 1
  %more = icmp slt i64 %j1, %count
  br i1 %more, label %copy, label %move
move:
  %moved = add i64 %value, %offset
  store i64 %moved, ptr %p_to
  call void %fn(ptr %own, i64 %begin, i64 %end)
  ret void
}
"""

# @take_tasks: run tasks of the present job while any is left, those of the own share first; how
# many it ran. Task t of T has the iterations from t/T to (t+1)/T of the extent.
_TASKS: Final = """
define internal i64 @take_tasks(ptr %s, i64 %id) noinline {
entry:
  POINTERS fn args extent shares tasks count scratch copies words
  %near = load atomic i64, ptr %p_shares acquire, align 8
  %some = icmp sgt i64 %near, 0
  br i1 %some, label %share, label %out
share:
  %k = phi i64 [0, %entry], [%k1, %following]
  %count0 = phi i64 [0, %entry], [%count, %following]
  %from = add i64 %id, %k
  %q = urem i64 %from, %near
  %at = mul i64 %q, APART
  %p_word = getelementptr i64, ptr %p_words, i64 %at
  br label %look
look:
  %count = phi i64 [%count0, %share], [%count, %swap], [%count1, %ran]
  %t = load atomic i64, ptr %p_word seq_cst, align 8
  %left = and i64 %t, 4294967295
  %none = icmp eq i64 %left, 0
  br i1 %none, label %following, label %take
take:
  %fn = load atomic ptr, ptr %p_fn acquire, align 8
  %args = load atomic ptr, ptr %p_args acquire, align 8
  %extent = load atomic i64, ptr %p_extent acquire, align 8
  %shares = load atomic i64, ptr %p_shares acquire, align 8
  %tasks = load atomic i64, ptr %p_tasks acquire, align 8
  %nargs = load atomic i64, ptr %p_count acquire, align 8
  %scratch = load atomic i64, ptr %p_scratch acquire, align 8
  %copies = load atomic i64, ptr %p_copies acquire, align 8
  %entitled = icmp slt i64 %id, %copies
  br i1 %entitled, label %swap, label %out
swap:
  %t1 = sub i64 %t, 1
  %swapped = cmpxchg ptr %p_word, i64 %t, i64 %t1 seq_cst seq_cst, align 8
  %ok = extractvalue { i64, i1 } %swapped, 1
  br i1 %ok, label %run, label %look
run:
  %q1 = add i64 %q, 1
  %before = mul i64 %q1, %tasks
  %behind = udiv i64 %before, %shares
  %task = sub i64 %behind, %left
  %first = mul i64 %task, %extent
  %begin = udiv i64 %first, %tasks
  %last = add i64 %first, %extent
  %end = udiv i64 %last, %tasks
  %offset = mul i64 %scratch, %id
  %plain = icmp eq i64 %offset, 0
  br i1 %plain, label %direct, label %private
direct:
  call void %fn(ptr %args, i64 %begin, i64 %end)
  br label %ran
private:
  call void @run_task(ptr %fn, ptr %args, i64 %nargs, i64 %offset, i64 %begin, i64 %end)
  br label %ran
ran:
  %count1 = add i64 %count, 1
  br label %look
following:
  %k1 = add i64 %k, 1
  %more = icmp slt i64 %k1, %near
  br i1 %more, label %share, label %out
out:
  %total = phi i64 [0, %entry], [%count, %take], [%count, %following]
  ret i64 %total
}
"""


# @worker: wait for work, spinning and then asleep, until told to stop.
_WORKER: Final = """
define void @worker(ptr %s, i64 %id) {
entry:
  POINTERS ticket done stop spin sleepers signal waiting env
  br label %wait
wait:
  %k = phi i64 [0, %entry], [%k1, %pause], [0, %work], [0, %report], [0, %wake], [0, %awake]
  %seen = phi i64 [0, %entry], [%seen, %pause], [%t, %work], [%t, %report], [%t, %wake],
                  [%seen, %awake]
  %t = load atomic i64, ptr %p_ticket seq_cst, align 8
  %any = icmp ne i64 %t, %seen
  br i1 %any, label %work, label %idle
work:
  %count = call i64 @take_tasks(ptr %s, i64 %id)
  %some = icmp ne i64 %count, 0
  br i1 %some, label %report, label %wait
report:
  %d = atomicrmw add ptr %p_done, i64 %count seq_cst, align 8
  %w = load atomic i64, ptr %p_waiting seq_cst, align 8
  %asleep = icmp ne i64 %w, 0
  br i1 %asleep, label %wake, label %wait
wake:
  call void @os_wake(ptr %p_env, ptr %p_done, i32 1)
  br label %wait
idle:
  %st = load atomic i64, ptr %p_stop acquire, align 8
  %stopped = icmp ne i64 %st, 0
  br i1 %stopped, label %out, label %patience
patience:
  %limit = load atomic i64, ptr %p_spin monotonic, align 8
  %tired = icmp sge i64 %k, %limit
  br i1 %tired, label %sleep, label %pause
pause:
  call void @rest(ptr %p_env, i64 %k, i64 0)
  %k1 = add i64 %k, 1
  br label %wait
sleep:
  %g = load atomic i32, ptr %p_signal seq_cst, align 8
  %n = atomicrmw add ptr %p_sleepers, i64 1 seq_cst, align 8
  %t2 = load atomic i64, ptr %p_ticket seq_cst, align 8
  %any2 = icmp ne i64 %t2, %seen
  %st2 = load atomic i64, ptr %p_stop seq_cst, align 8
  %stopped2 = icmp ne i64 %st2, 0
  %stay = or i1 %any2, %stopped2
  br i1 %stay, label %awake, label %rest
rest:
  call void @os_wait(ptr %p_env, ptr %p_signal, i32 %g)
  br label %awake
awake:
  %m = atomicrmw sub ptr %p_sleepers, i64 1 seq_cst, align 8
  br label %wait
out:
  ret void
}
"""


# @stop: have every worker leave its loop, asleep or not.
_STOP: Final = """
define void @stop(ptr %s) {
  POINTERS stop signal env
  store atomic i64 1, ptr %p_stop seq_cst, align 8
  %g = atomicrmw add ptr %p_signal, i32 1 seq_cst, align 4
  call void @os_wake(ptr %p_env, ptr %p_signal, i32 2147483647)
  ret void
}
"""


# @parallel: publish a job, take part in it, and return when all of it is done.
_PARALLEL: Final = """
declare i64 @llvm.smin.i64(i64, i64)
define internal void @parallel(ptr %s, ptr %fn, ptr %args, i64 %extent, i64 %people,
                               i64 %tasks, i64 %count, i64 %scratch, i64 %copies) noinline {
entry:
  POINTERS ALL
  %shares0 = call i64 @llvm.smin.i64(i64 %people, i64 MOST_SHARES)
  %shares1 = call i64 @llvm.smin.i64(i64 %shares0, i64 %copies)
  %shares = call i64 @llvm.smin.i64(i64 %shares1, i64 %tasks)
  store atomic ptr %fn, ptr %p_fn release, align 8
  store atomic ptr %args, ptr %p_args release, align 8
  store atomic i64 %extent, ptr %p_extent release, align 8
  store atomic i64 %shares, ptr %p_shares release, align 8
  store atomic i64 %tasks, ptr %p_tasks release, align 8
  store atomic i64 %count, ptr %p_count release, align 8
  store atomic i64 %scratch, ptr %p_scratch release, align 8
  store atomic i64 %copies, ptr %p_copies release, align 8
  store atomic i64 0, ptr %p_done release, align 8
  %t = load atomic i64, ptr %p_ticket monotonic, align 8
  %epoch = add i64 %t, 4294967296
  br label %publish
publish:
  %q = phi i64 [0, %entry], [%q1, %publish]
  %q1 = add i64 %q, 1
  %first0 = mul i64 %q, %tasks
  %first = udiv i64 %first0, %shares
  %behind0 = mul i64 %q1, %tasks
  %behind = udiv i64 %behind0, %shares
  %own_tasks = sub i64 %behind, %first
  %word = or i64 %epoch, %own_tasks
  %at = mul i64 %q, APART
  %p_word = getelementptr i64, ptr %p_words, i64 %at
  store atomic i64 %word, ptr %p_word release, align 8
  %more = icmp slt i64 %q1, %shares
  br i1 %more, label %publish, label %open
open:
  store atomic i64 %epoch, ptr %p_ticket seq_cst, align 8
  %n = load atomic i64, ptr %p_sleepers seq_cst, align 8
  %asleep = icmp sgt i64 %n, 0
  br i1 %asleep, label %call, label %work
call:
  %others = sub i64 %tasks, 1
  %fewer = icmp slt i64 %others, %n
  %m = select i1 %fewer, i64 %others, i64 %n
  %m32 = trunc i64 %m to i32
  %g = atomicrmw add ptr %p_signal, i32 1 seq_cst, align 4
  call void @os_wake(ptr %p_env, ptr %p_signal, i32 %m32)
  br label %work
work:
  %own = call i64 @take_tasks(ptr %s, i64 0)
  %rest = sub i64 %tasks, %own
  %limit = load atomic i64, ptr %p_spin monotonic, align 8
  br label %join
join:
  %k = phi i64 [0, %work], [%k1, %pause]
  %d = load atomic i64, ptr %p_done seq_cst, align 8
  %all = icmp eq i64 %d, %rest
  br i1 %all, label %out, label %patience
patience:
  %tired = icmp sgt i64 %k, %limit
  br i1 %tired, label %sleep, label %pause
pause:
  call void @rest(ptr %p_env, i64 %k, i64 256)
  %k1 = add i64 %k, 1
  br label %join
sleep:
  store atomic i64 1, ptr %p_waiting seq_cst, align 8
  br label %again
again:
  %d2 = load atomic i64, ptr %p_done seq_cst, align 8
  %all2 = icmp eq i64 %d2, %rest
  br i1 %all2, label %awake, label %doze
doze:
  %d32 = trunc i64 %d2 to i32
  call void @os_wait(ptr %p_env, ptr %p_done, i32 %d32)
  br label %again
awake:
  store atomic i64 0, ptr %p_waiting seq_cst, align 8
  br label %out
out:
  ret void
}
"""


def _pointers(match: re.Match[str]) -> str:
    """Pointers ``%p_NAME`` to words of the pool ``%s``, for a line ``POINTERS name ...``."""
    names = _WORDS if match[1] == "ALL" else match[1].split()
    return "\n".join(f"  %p_{n} = getelementptr i64, ptr %s, i64 {_WORDS[n]}" for n in names)


def runtime_ir(machine: str) -> str:
    """The module's text for ``machine``: "x86_64", "aarch64", or another (spinning plainly).

    >>> "define void @worker" in runtime_ir("aarch64")
    True
    """
    declaration, pause = _PAUSES.get(machine, ("", 'call void asm sideeffect "", "~{memory}"()'))
    waiting = (declaration, os_host.NATIVE_IR, _SPIN, _REST)
    parts = (*waiting, _SCRATCH, _TASKS, _WORKER, _STOP, _PARALLEL, PROGRAM_IR)
    text = "\n".join(parts).replace("PAUSE", pause)
    text = text.replace("MOST_SHARES", str(_MOST_SHARES)).replace("APART", str(_APART))
    return re.sub(r"^  POINTERS (.*)$", _pointers, text, flags=re.MULTILINE)
