"""The native worker loop and program loop, as LLVM IR text.

Output: :func:`runtime_ir`, a module exporting ``worker(pool, number)``, ``stop(pool)``,
``spin(count)`` and ``run_program(plan, slots)``. It calls nothing outside itself but the addresses
in the pool's record.

How a launch is shared: the pool's *ticket* holds an epoch (high half) and the tasks still to take
(low half). The caller writes the job, then publishes a new ticket; anyone takes a task by
comparing-and-swapping the ticket for one less. A swap succeeds only within the epoch that was read,
and an epoch ends only when all its tasks are done, so the job read in between is whole and current.
Nobody waits for a worker that did not take a task: with every worker asleep, or gone after a fork,
the caller does all the tasks itself. A second thread that finds the pool busy runs its launch
alone.

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
    "POOL_ENV", "POOL_SPIN", "POOL_STOP", "POOL_WORDS",
    "POOL_WORKERS", "runtime_ir",
]  # fmt: skip

# Words (8 bytes) of the pool's record; those that different threads write are 128 bytes apart.
_TICKET: Final = 0
_DONE: Final = 16
_JOB: Final = 32  # see _WORDS
POOL_WORKERS: Final = 48
POOL_SPIN: Final = 49
POOL_STOP: Final = 50
POOL_ENV: Final = 51  # three addresses, see os_host.native_addresses
_BUSY: Final = 64
_SLEEPERS: Final = 80
_SIGNAL: Final = 96
_WAITING: Final = 112
POOL_WORDS: Final = 128

_WORDS: Final = {
    "ticket": _TICKET, "done": _DONE, "fn": _JOB, "args": _JOB + 1, "extent": _JOB + 2,
    "chunk": _JOB + 3, "tasks": _JOB + 4, "count": _JOB + 5, "scratch": _JOB + 6,
    "copies": _JOB + 7, "workers": POOL_WORKERS, "spin": POOL_SPIN, "stop": POOL_STOP,
    "env": POOL_ENV, "busy": _BUSY, "sleepers": _SLEEPERS, "signal": _SIGNAL, "waiting": _WAITING,
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

# @take_tasks: run tasks of the present job while any is left; how many it ran.
_TASKS: Final = """
define internal i64 @take_tasks(ptr %s, i64 %id) noinline {
entry:
  POINTERS ticket fn args extent chunk tasks count scratch copies
  br label %look
look:
  %count = phi i64 [0, %entry], [%count, %swap], [%count1, %ran]
  %t = load atomic i64, ptr %p_ticket seq_cst, align 8
  %left = and i64 %t, 4294967295
  %none = icmp eq i64 %left, 0
  br i1 %none, label %out, label %take
take:
  %fn = load atomic ptr, ptr %p_fn acquire, align 8
  %args = load atomic ptr, ptr %p_args acquire, align 8
  %extent = load atomic i64, ptr %p_extent acquire, align 8
  %chunk = load atomic i64, ptr %p_chunk acquire, align 8
  %tasks = load atomic i64, ptr %p_tasks acquire, align 8
  %nargs = load atomic i64, ptr %p_count acquire, align 8
  %scratch = load atomic i64, ptr %p_scratch acquire, align 8
  %copies = load atomic i64, ptr %p_copies acquire, align 8
  %entitled = icmp slt i64 %id, %copies
  br i1 %entitled, label %swap, label %out
swap:
  %t1 = sub i64 %t, 1
  %swapped = cmpxchg ptr %p_ticket, i64 %t, i64 %t1 seq_cst seq_cst, align 8
  %ok = extractvalue { i64, i1 } %swapped, 1
  br i1 %ok, label %run, label %look
run:
  %task = sub i64 %tasks, %left
  %begin = mul i64 %task, %chunk
  %stop = add i64 %begin, %chunk
  %short = icmp slt i64 %stop, %extent
  %end = select i1 %short, i64 %stop, i64 %extent
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
out:
  ret i64 %count
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
  %t = load atomic i64, ptr %p_ticket seq_cst, align 8
  %left = and i64 %t, 4294967295
  %any = icmp ne i64 %left, 0
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
  PAUSE
  %k1 = add i64 %k, 1
  br label %wait
sleep:
  %g = load atomic i32, ptr %p_signal seq_cst, align 8
  %n = atomicrmw add ptr %p_sleepers, i64 1 seq_cst, align 8
  %t2 = load atomic i64, ptr %p_ticket seq_cst, align 8
  %left2 = and i64 %t2, 4294967295
  %any2 = icmp ne i64 %left2, 0
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
define internal void @parallel(ptr %s, ptr %fn, ptr %args, i64 %extent, i64 %chunk,
                               i64 %tasks, i64 %count, i64 %scratch, i64 %copies) noinline {
entry:
  POINTERS ALL
  store atomic ptr %fn, ptr %p_fn release, align 8
  store atomic ptr %args, ptr %p_args release, align 8
  store atomic i64 %extent, ptr %p_extent release, align 8
  store atomic i64 %chunk, ptr %p_chunk release, align 8
  store atomic i64 %tasks, ptr %p_tasks release, align 8
  store atomic i64 %count, ptr %p_count release, align 8
  store atomic i64 %scratch, ptr %p_scratch release, align 8
  store atomic i64 %copies, ptr %p_copies release, align 8
  store atomic i64 0, ptr %p_done release, align 8
  %t = load atomic i64, ptr %p_ticket monotonic, align 8
  %epoch = and i64 %t, -4294967296
  %next = add i64 %epoch, 4294967296
  %ticket = or i64 %next, %tasks
  store atomic i64 %ticket, ptr %p_ticket seq_cst, align 8
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
  PAUSE
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
    parts = (declaration, os_host.NATIVE_IR, _SPIN, _SCRATCH, _TASKS, _WORKER, _STOP, _PARALLEL)
    text = "\n".join((*parts, PROGRAM_IR)).replace("PAUSE", pause)
    return re.sub(r"^  POINTERS (.*)$", _pointers, text, flags=re.MULTILINE)
