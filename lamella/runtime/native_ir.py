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

__all__ = [
    "LAUNCH_WORDS", "PLAN_WORDS", "POOL_ENV", "POOL_SPIN", "POOL_STOP", "POOL_WORDS",
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

PLAN_WORDS: Final = 6  # launches, their table, index table, times or null, pool, most arguments
LAUNCH_WORDS: Final = 8  # function, extent, grain, arguments, first index, flags, scratch, copies

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


# @run_program: every launch of a plan, in order, alone or on the pool.
_RUN: Final = """
define void @run_program(ptr %plan, ptr %slots) {
entry:
  %launches = load i64, ptr %plan
  %p_table = getelementptr i64, ptr %plan, i64 1
  %table = load ptr, ptr %p_table
  %p_index = getelementptr i64, ptr %plan, i64 2
  %index = load ptr, ptr %p_index
  %p_times = getelementptr i64, ptr %plan, i64 3
  %times = load ptr, ptr %p_times
  %p_pool = getelementptr i64, ptr %plan, i64 4
  %s = load ptr, ptr %p_pool
  %p_most = getelementptr i64, ptr %plan, i64 5
  %most = load i64, ptr %p_most
  %args = alloca i64, i64 %most, align 64
  %timed = icmp ne ptr %times, null
  POINTERS workers busy env
  br label %next
next:
  %i = phi i64 [0, %entry], [%i1, %done], [%i1, %stamp]
  %finished = icmp sge i64 %i, %launches
  br i1 %finished, label %out, label %launch
launch:
  %i1 = add i64 %i, 1
  %at = mul i64 %i, LAUNCH_WORDS
  %row = getelementptr i64, ptr %table, i64 %at
  %fn = load ptr, ptr %row
  %p_extent = getelementptr i64, ptr %row, i64 1
  %extent0 = load i64, ptr %p_extent
  %p_grain = getelementptr i64, ptr %row, i64 2
  %grain0 = load i64, ptr %p_grain
  %p_count = getelementptr i64, ptr %row, i64 3
  %count = load i64, ptr %p_count
  %p_first = getelementptr i64, ptr %row, i64 4
  %first = load i64, ptr %p_first
  %p_flags = getelementptr i64, ptr %row, i64 5
  %flags = load i64, ptr %p_flags
  %p_scratch = getelementptr i64, ptr %row, i64 6
  %scratch = load i64, ptr %p_scratch
  %p_copies = getelementptr i64, ptr %row, i64 7
  %copies0 = load i64, ptr %p_copies
  %which = getelementptr i64, ptr %index, i64 %first
  %bare = icmp eq i64 %count, 0
  br i1 %bare, label %sizes, label %copy
copy:
  %j = phi i64 [0, %launch], [%j1, %copy]
  %p_which = getelementptr i64, ptr %which, i64 %j
  %slot = load i64, ptr %p_which
  %p_value = getelementptr i64, ptr %slots, i64 %slot
  %value = load i64, ptr %p_value
  %p_arg = getelementptr i64, ptr %args, i64 %j
  store i64 %value, ptr %p_arg
  %j1 = add i64 %j, 1
  %more = icmp slt i64 %j1, %count
  br i1 %more, label %copy, label %sizes
sizes:
  %fixed = icmp eq i64 %flags, 0
  br i1 %fixed, label %clock, label %variable
variable:
  %f1 = and i64 %flags, 1
  %extent_in_slot = icmp ne i64 %f1, 0
  %e_slot = select i1 %extent_in_slot, i64 %extent0, i64 0
  %p_e = getelementptr i64, ptr %slots, i64 %e_slot
  %e_value = load i64, ptr %p_e
  %extent1 = select i1 %extent_in_slot, i64 %e_value, i64 %extent0
  %f2 = and i64 %flags, 2
  %grain_in_slot = icmp ne i64 %f2, 0
  %g_slot = select i1 %grain_in_slot, i64 %grain0, i64 0
  %p_g = getelementptr i64, ptr %slots, i64 %g_slot
  %g_value = load i64, ptr %p_g
  %grain1 = select i1 %grain_in_slot, i64 %g_value, i64 %grain0
  %f4 = and i64 %flags, 4
  %copies_in_slot = icmp ne i64 %f4, 0
  %c_slot = select i1 %copies_in_slot, i64 %copies0, i64 0
  %p_c = getelementptr i64, ptr %slots, i64 %c_slot
  %c_value = load i64, ptr %p_c
  %copies1 = select i1 %copies_in_slot, i64 %c_value, i64 %copies0
  br label %clock
clock:
  %extent = phi i64 [%extent0, %sizes], [%extent1, %variable]
  %grain = phi i64 [%grain0, %sizes], [%grain1, %variable]
  %copies = phi i64 [%copies0, %sizes], [%copies1, %variable]
  br i1 %timed, label %start, label %choose
start:
  %begun = call i64 @os_clock(ptr %p_env)
  br label %choose
choose:
  %t0 = phi i64 [0, %clock], [%begun, %start]
  %workers = load atomic i64, ptr %p_workers monotonic, align 8
  %helped = icmp sgt i64 %workers, 0
  %several = icmp sgt i64 %extent, %grain
  %useful = icmp sgt i64 %grain, 0
  %both = and i1 %helped, %several
  %shared = and i1 %both, %useful
  br i1 %shared, label %try, label %alone
try:
  %claim = cmpxchg ptr %p_busy, i64 0, i64 1 acquire monotonic, align 8
  %mine = extractvalue { i64, i1 } %claim, 1
  br i1 %mine, label %share, label %alone
share:
  %grains0 = sub i64 %extent, 1
  %grains1 = sdiv i64 %grains0, %grain
  %grains = add i64 %grains1, 1
  %people = add i64 %workers, 1
  %cap = shl i64 %people, 5
  %over = icmp sgt i64 %grains, %cap
  br i1 %over, label %coarser, label %split
coarser:
  %per0 = sub i64 %grains, 1
  %per1 = sdiv i64 %per0, %cap
  %per = add i64 %per1, 1
  %wide = mul i64 %per, %grain
  %tasks0 = sdiv i64 %grains0, %wide
  %tasks1 = add i64 %tasks0, 1
  br label %split
split:
  %chunk = phi i64 [%grain, %share], [%wide, %coarser]
  %tasks = phi i64 [%grains, %share], [%tasks1, %coarser]
  call void @parallel(ptr %s, ptr %fn, ptr %args, i64 %extent, i64 %chunk, i64 %tasks,
                      i64 %count, i64 %scratch, i64 %copies)
  store atomic i64 0, ptr %p_busy release, align 8
  br label %done
alone:
  call void %fn(ptr %args, i64 0, i64 %extent)
  br label %done
done:
  br i1 %timed, label %stamp, label %next
stamp:
  %t1 = call i64 @os_clock(ptr %p_env)
  %spent = sub i64 %t1, %t0
  %p_time = getelementptr i64, ptr %times, i64 %i
  %sum0 = load i64, ptr %p_time
  %sum = add i64 %sum0, %spent
  store i64 %sum, ptr %p_time
  br label %next
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
    text = "\n".join((*parts, _RUN)).replace("PAUSE", pause)
    text = text.replace("LAUNCH_WORDS", str(LAUNCH_WORDS))
    return re.sub(r"^  POINTERS (.*)$", _pointers, text, flags=re.MULTILINE)
