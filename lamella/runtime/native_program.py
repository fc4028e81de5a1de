"""The native program loop, as LLVM IR text: launches in order, with jumps between them.

Output: ``PROGRAM_IR``, the part of ``native_ir`` that defines ``run_program(plan, slots)``. It is
entered with the interpreter's lock, which it gives up before the first launch that is worth it, and
takes every ``POLL`` seconds to let Python call signal handlers; where one raises, the run ends.
Behind the slots lie two words: a run ends before its next launch once the first is not 0, and the
second becomes the number of the row, from 1, at which a run ended early (and where one that
finds it there goes on).

A row of the table without a function is a control row: its second word says which of ``CONTROLS``,
its third where it may jump to, its arguments are numbers of slots. Control rows read and write the
slots, which belong to the run, so loops and branches cost no call back into Python and programs
with them are as reentrant as others. The meaning of each, with ``s`` for the slots::

    move   a b c d …   s[a] = s[b]; s[c] = s[d]; …
    add    a b c d …   s[a] += s[b]; s[c] += s[d]; …
    scale  a b c       s[a] += s[b] * s[c]
    jump               go on at the target
    less   a b         go on at the target unless s[a] < s[b] (signed)
    load   a b         s[a] = the int64 at the address s[b]
    store  a b         the int64 at the address s[a] = s[b]
    copy   a b n       s[n] bytes from the address s[b] to s[a], unless they are equal
    zero   a n         s[n] bytes at the address s[a] become 0
"""

from __future__ import annotations

from typing import Final

from lamella.runtime import os_host

__all__ = ["CONTROLS", "LAUNCH_WORDS", "PLAN_WORDS", "PROGRAM_IR", "RUN_WORDS"]

PLAN_WORDS: Final = 7  # launches, their table, index, times or null, pool, most arguments, slots
RUN_WORDS: Final = 2  # behind the slots: whether to stop, and where a run ended early
POLL: Final = 0.05  # seconds
LAUNCH_WORDS: Final = 8  # function, extent, grain, arguments, first index, flags, scratch, copies

CONTROLS: Final = ("move", "add", "scale", "jump", "less", "load", "store", "copy", "zero")

# @move_bytes: from b to a (or zeros, with b null), 64 bytes at a time.
_BYTES: Final = """
define internal void @move_bytes(ptr %a, ptr %b, i64 %n) noinline {
entry:
  %zero = icmp eq ptr %b, null
  %blocks = and i64 %n, -64
  %some = icmp ne i64 %blocks, 0
  br i1 %some, label %block, label %rest
block:
  %i = phi i64 [0, %entry], [%i1, %write]
  br i1 %zero, label %write, label %read
read:
  %p_b = getelementptr i8, ptr %b, i64 %i
  %v = load <8 x i64>, ptr %p_b, align 1
  br label %write
write:
  %w = phi <8 x i64> [zeroinitializer, %block], [%v, %read]
  %p_a = getelementptr i8, ptr %a, i64 %i
  store <8 x i64> %w, ptr %p_a, align 1
  %i1 = add i64 %i, 64
  %more = icmp slt i64 %i1, %blocks
  br i1 %more, label %block, label %rest
rest:
  %k0 = phi i64 [0, %entry], [%blocks, %write]
  br label %byte
byte:
  %k = phi i64 [%k0, %rest], [%k1, %put]
  %left = icmp slt i64 %k, %n
  br i1 %left, label %one, label %out
one:
  br i1 %zero, label %put, label %get
get:
  %p_c = getelementptr i8, ptr %b, i64 %k
  %c = load volatile i8, ptr %p_c
  br label %put
put:
  %d = phi i8 [0, %one], [%c, %get]
  %p_d = getelementptr i8, ptr %a, i64 %k
  store volatile i8 %d, ptr %p_d
  %k1 = add i64 %k, 1
  br label %byte
out:
  ret void
}
"""

# @control: one control row; where to go on. Pairs are taken in turn.
_CONTROL: Final = """
define internal i64 @control(ptr %s, ptr %which, i64 %code, i64 %count, i64 %target,
                             i64 %following) {
entry:
  switch i64 %code, label %out [ i64 0, label %pairs  i64 1, label %pairs  i64 2, label %three
    i64 3, label %jump  i64 4, label %two  i64 5, label %two  i64 6, label %two
    i64 7, label %three  i64 8, label %two ]
jump:
  ret i64 %target
pairs:
  %adds = icmp eq i64 %code, 1
  %any = icmp ne i64 %count, 0
  br i1 %any, label %pair, label %out
pair:
  %j = phi i64 [0, %pairs], [%j2, %pair]
  %w_to = getelementptr i64, ptr %which, i64 %j
  %n_to = load i64, ptr %w_to
  %p_to = getelementptr i64, ptr %s, i64 %n_to
  %w_from = getelementptr i64, ptr %w_to, i64 1
  %n_from = load i64, ptr %w_from
  %p_from = getelementptr i64, ptr %s, i64 %n_from
  %from = load i64, ptr %p_from
  %old = load i64, ptr %p_to
  %sum = add i64 %old, %from
  %new = select i1 %adds, i64 %sum, i64 %from
  store i64 %new, ptr %p_to
  %j2 = add i64 %j, 2
  %more = icmp slt i64 %j2, %count
  br i1 %more, label %pair, label %out
two:
  %a_n = load i64, ptr %which
  %p_a = getelementptr i64, ptr %s, i64 %a_n
  %a = load i64, ptr %p_a
  %b_w = getelementptr i64, ptr %which, i64 1
  %b_n = load i64, ptr %b_w
  %p_b = getelementptr i64, ptr %s, i64 %b_n
  %b = load i64, ptr %p_b
  switch i64 %code, label %zero [ i64 4, label %less  i64 5, label %load  i64 6, label %store ]
less:
  %is = icmp slt i64 %a, %b
  %next = select i1 %is, i64 %following, i64 %target
  ret i64 %next
load:
  %source = inttoptr i64 %b to ptr
  %loaded = load i64, ptr %source
  store i64 %loaded, ptr %p_a
  ret i64 %following
store:
  %sink = inttoptr i64 %a to ptr
  store i64 %b, ptr %sink
  ret i64 %following
zero:
  %to_zero = inttoptr i64 %a to ptr
  call void @move_bytes(ptr %to_zero, ptr null, i64 %b)
  ret i64 %following
three:
  %x_n = load i64, ptr %which
  %p_x = getelementptr i64, ptr %s, i64 %x_n
  %x = load i64, ptr %p_x
  %y_w = getelementptr i64, ptr %which, i64 1
  %y_n = load i64, ptr %y_w
  %p_y = getelementptr i64, ptr %s, i64 %y_n
  %y = load i64, ptr %p_y
  %z_w = getelementptr i64, ptr %which, i64 2
  %z_n = load i64, ptr %z_w
  %p_z = getelementptr i64, ptr %s, i64 %z_n
  %z = load i64, ptr %p_z
  %scales = icmp eq i64 %code, 2
  br i1 %scales, label %scale, label %copy
scale:
  %product = mul i64 %y, %z
  %scaled = add i64 %x, %product
  store i64 %scaled, ptr %p_x
  ret i64 %following
copy:
  %same = icmp eq i64 %x, %y
  br i1 %same, label %out, label %move
move:
  %p_dst = inttoptr i64 %x to ptr
  %p_src = inttoptr i64 %y to ptr
  call void @move_bytes(ptr %p_dst, ptr %p_src, i64 %z)
  br label %out
out:
  ret i64 %following
}
"""

# @look: let go of the interpreter's lock, or let Python call signal handlers if it is time to;
# whether one raised, and so the lock is held. %w: the thread's state or null, weight, when it was.
_LOOK: Final = """
define internal i1 @look(ptr %w, ptr %env, ptr %p_release) noinline {
entry:
  %p_weight = getelementptr i64, ptr %w, i64 1
  store i64 0, ptr %p_weight
  %p_last = getelementptr i64, ptr %w, i64 2
  %release = load ptr, ptr %p_release
  %now = call i64 @os_clock(ptr %env)
  %state = load ptr, ptr %w
  %held = icmp eq ptr %state, null
  br i1 %held, label %go, label %wait
wait:
  %last = load i64, ptr %p_last
  %spent = sub i64 %now, %last
  %late = icmp sgt i64 %spent, POLL
  br i1 %late, label %ask, label %on
ask:
  %p_restore = getelementptr ptr, ptr %p_release, i64 1
  %restore = load ptr, ptr %p_restore
  call void %restore(ptr %state)
  store ptr null, ptr %w
  %p_signals = getelementptr ptr, ptr %p_release, i64 2
  %signals = load ptr, ptr %p_signals
  %result = call i32 %signals()
  %raised = icmp ne i32 %result, 0
  br i1 %raised, label %out, label %go
go:
  %fresh = call ptr %release()
  store ptr %fresh, ptr %w
  store i64 %now, ptr %p_last
  br label %on
on:
  ret i1 false
out:
  ret i1 true
}
"""

# @run_program: every launch of a plan, in order, alone or on the pool. A launch weighs 64 where it
# is worth sharing, 16 where it may take about as long as a task, else 1; at 64 it is time to look.
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
  POINTERS workers busy env python
  %w = alloca [3 x i64], align 16
  store ptr null, ptr %w
  %p_weight = getelementptr i64, ptr %w, i64 1
  store i64 0, ptr %p_weight
  %p_slots = getelementptr i64, ptr %plan, i64 6
  %behind = load i64, ptr %p_slots
  %p_stop = getelementptr i64, ptr %slots, i64 %behind
  %p_reached = getelementptr i64, ptr %p_stop, i64 1
  %reached = load i64, ptr %p_reached
  store i64 0, ptr %p_reached
  %some = icmp ne i64 %reached, 0
  %one = zext i1 %some to i64
  %origin = sub i64 %reached, %one
  br label %next
next:
  %i = phi i64 [%origin, %entry], [%following, %done], [%following, %stamp], [%jumped, %decide]
  %finished = icmp sge i64 %i, %launches
  br i1 %finished, label %out, label %turn
turn:
  %stop = load atomic i64, ptr %p_stop monotonic, align 8
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %leave, label %weigh
weigh:
  %weight0 = load i64, ptr %p_weight
  %weight1 = add i64 %weight0, 1
  store i64 %weight1, ptr %p_weight
  %due = icmp sgt i64 %weight1, 64
  br i1 %due, label %look, label %launch
look:
  %raised = call i1 @look(ptr %w, ptr %p_env, ptr %p_python)
  br i1 %raised, label %leave, label %launch
leave:
  %reached1 = add i64 %i, 1
  store i64 %reached1, ptr %p_reached
  br label %out
launch:
  %following = add i64 %i, 1
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
  %control = icmp eq ptr %fn, null
  br i1 %control, label %decide, label %gather
decide:
  %jumped = call i64 @control(ptr %slots, ptr %which, i64 %extent0, i64 %count, i64 %grain0,
                              i64 %following)
  br label %next
gather:
  %bare = icmp eq i64 %count, 0
  br i1 %bare, label %sizes, label %copy
copy:
  %j = phi i64 [0, %gather], [%j1, %copy]
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
  %lasts = icmp sge i64 %extent, %grain
  br i1 %lasts, label %long, label %measure
long:
  %several = icmp sgt i64 %extent, %grain
  %useful = icmp sgt i64 %grain, 0
  %worth = and i1 %several, %useful
  %heavy = select i1 %worth, i64 64, i64 16
  %weight2 = load i64, ptr %p_weight
  %weight3 = add i64 %weight2, %heavy
  store i64 %weight3, ptr %p_weight
  %state = load ptr, ptr %w
  %holds = icmp eq ptr %state, null
  br i1 %holds, label %free, label %measure
free:
  %never = call i1 @look(ptr %w, ptr %p_env, ptr %p_python)
  store i64 %weight3, ptr %p_weight
  br label %measure
measure:
  %sharable = phi i1 [false, %clock], [%worth, %long], [%worth, %free]
  br i1 %timed, label %start, label %choose
start:
  %begun = call i64 @os_clock(ptr %p_env)
  br label %choose
choose:
  %t0 = phi i64 [0, %measure], [%begun, %start]
  %workers = load atomic i64, ptr %p_workers monotonic, align 8
  %helped = icmp sgt i64 %workers, 0
  %shared = and i1 %helped, %sharable
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
  %tasks = call i64 @llvm.smin.i64(i64 %grains, i64 %cap)
  call void @parallel(ptr %s, ptr %fn, ptr %args, i64 %extent, i64 %people, i64 %tasks,
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
  %p_runs = getelementptr i64, ptr %p_time, i64 %launches
  %runs0 = load i64, ptr %p_runs
  %runs = add i64 %runs0, 1
  store i64 %runs, ptr %p_runs
  br label %next
out:
  %free_state = load ptr, ptr %w
  %locked = icmp eq ptr %free_state, null
  br i1 %locked, label %end, label %lock
lock:
  %p_restore = getelementptr ptr, ptr %p_python, i64 1
  %restore = load ptr, ptr %p_restore
  call void %restore(ptr %free_state)
  br label %end
end:
  ret void
}
"""

PROGRAM_IR: Final = (
    _BYTES + _CONTROL + _LOOK.replace("POLL", str(int(POLL * 1e9 / os_host.CLOCK_NANOSECONDS)))
    + _RUN.replace("LAUNCH_WORDS", str(LAUNCH_WORDS))
)  # fmt: skip
