"""Hand-written kernels in LLVM IR, for tests of what runs kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable

from lamella.runtime.native import compile_ir_text, load_object

_TEXT = """
define void @add(ptr %a, i64 %b, i64 %e) {
entry:
  %p = load ptr, ptr %a
  %q = getelementptr i64, ptr %a, i64 1
  %d = load i64, ptr %q
  br label %head
head:
  %i = phi i64 [%b, %entry], [%j, %body]
  %c = icmp slt i64 %i, %e
  br i1 %c, label %body, label %out
body:
  %x = getelementptr i64, ptr %p, i64 %i
  %v = load i64, ptr %x
  %w = add i64 %v, %d
  store i64 %w, ptr %x
  %j = add i64 %i, 1
  br label %head
out:
  ret void
}
define void @double_into_next(ptr %a, i64 %b, i64 %e) {
entry:
  %p = load ptr, ptr %a
  %q = getelementptr ptr, ptr %a, i64 1
  %r = load ptr, ptr %q
  br label %head
head:
  %i = phi i64 [%b, %entry], [%j, %body]
  %c = icmp slt i64 %i, %e
  br i1 %c, label %body, label %out
body:
  %x = getelementptr i64, ptr %p, i64 %i
  %v = load i64, ptr %x
  %w = mul i64 %v, 2
  %y = getelementptr i64, ptr %r, i64 %i
  store i64 %w, ptr %y
  %j = add i64 %i, 1
  br label %head
out:
  ret void
}
define void @work(ptr %a, i64 %b, i64 %e) {
entry:
  %p = load ptr, ptr %a
  %q = getelementptr i64, ptr %a, i64 1
  %d = load i64, ptr %q
  br label %head
head:
  %i = phi i64 [%b, %entry], [%i1, %next]
  %c = icmp slt i64 %i, %e
  br i1 %c, label %inner, label %out
inner:
  %k = phi i64 [0, %head], [%k1, %inner]
  %x = phi i64 [%i, %head], [%x2, %inner]
  %x1 = mul i64 %x, 6364136223846793005
  %x2 = add i64 %x1, 1442695040888963407
  %k1 = add i64 %k, 1
  %m = icmp slt i64 %k1, %d
  br i1 %m, label %inner, label %next
next:
  %y = getelementptr i64, ptr %p, i64 %i
  store i64 %x2, ptr %y
  %i1 = add i64 %i, 1
  br label %head
out:
  ret void
}
define void @where(ptr %a, i64 %b, i64 %e) {
entry:
  %here = alloca i64
  %h = ptrtoint ptr %here to i64
  %p = load ptr, ptr %a
  br label %head
head:
  %i = phi i64 [%b, %entry], [%i1, %body]
  %c = icmp slt i64 %i, %e
  br i1 %c, label %body, label %out
body:
  %y = getelementptr i64, ptr %p, i64 %i
  store i64 %h, ptr %y
  %i1 = add i64 %i, 1
  br label %head
out:
  ret void
}
define void @staged(ptr %a, i64 %b, i64 %e) {
entry:
  %p = load ptr, ptr %a
  %q = getelementptr i64, ptr %a, i64 1
  %s = load ptr, ptr %q
  br label %head
head:
  %i = phi i64 [%b, %entry], [%i1, %next]
  %c = icmp slt i64 %i, %e
  br i1 %c, label %body, label %out
body:
  store volatile i64 %i, ptr %s
  br label %inner
inner:
  %k = phi i64 [0, %body], [%k1, %inner]
  %v = load volatile i64, ptr %s
  %k1 = add i64 %k, 1
  %m = icmp slt i64 %k1, 300
  br i1 %m, label %inner, label %next
next:
  %y = getelementptr i64, ptr %p, i64 %i
  store i64 %v, ptr %y
  %i1 = add i64 %i, 1
  br label %head
out:
  ret void
}
define void @arguments(ptr %a, i64 %b, i64 %e) {
  %p = load ptr, ptr %a
  %q1 = getelementptr i64, ptr %a, i64 1
  %v1 = load i64, ptr %q1
  store i64 %v1, ptr %p
  %q2 = getelementptr i64, ptr %a, i64 2
  %v2 = load i64, ptr %q2
  %r2 = getelementptr i64, ptr %p, i64 1
  store i64 %v2, ptr %r2
  %r3 = getelementptr i64, ptr %p, i64 2
  store i64 %e, ptr %r3
  ret void
}
"""


@functools.cache
def kernels() -> Callable[[str], int]:
    """Addresses by name.

    ``add`` (pointer, step), ``double_into_next`` (from, to), ``work`` (pointer, rounds), ``where``
    (pointer: writes an address of the running thread's stack), ``arguments`` (pointer, x, y:
    writes x, y and the end of its range), ``staged`` (pointer, scratch: writes each index by way
    of scratch memory).
    """
    return load_object(compile_ir_text(_TEXT))
