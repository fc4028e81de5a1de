"""From kernels to machine code in memory.

Input: kernels and a target. Output: the bytes of an object file (what the disk cache keeps), and
the addresses of its functions once loaded. The text of a kernel is already vectorised, in SSA form
and free of invariant code in loops, so no optimisation pipeline runs: only ``sroa`` where a kernel
keeps arrays in registers. docs/design/ has the measurements behind this.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import re
import threading
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from lamella.compiler.emit.llvm import emit_module, needs_sroa
from lamella.compiler.emit.target import Target
from lamella.errors import CompilerError
from lamella.ir.dim import typical
from lamella.ir.loops import Kernel

if TYPE_CHECKING:
    from types import ModuleType

    from llvmlite.binding import LLJIT, ModuleRef, ResourceTracker, TargetMachine

__all__ = ["assembly", "compile_ir", "compile_objects", "load_object"]

LEVEL: Final = 2  # of LLVM's code generation
# Passes of LLVM's code generation that find nothing here and take time: instructions are written
# once; processors reorder by themselves.
_SUPERFLUOUS: Final = ("disable-machine-cse", "disable-post-ra")
# Scheduling before register allocation gains a tenth at most where sums fill the registers, and
# loses as much where functions are computed: it takes apart what several vectors do in turns.
# Keeping constants in registers over a loop pays there and in long kernels; others are ready sooner
# without it. It gains a quarter where a function is computed: a polynomial otherwise loads
# each of its coefficients for every vector, and AVX-512 loads one vector in a cycle on some cores.
_SCHEDULER: Final = "enable-misched"
_CONSTANTS: Final = "disable-machine-licm"
# LLVM 22 makes a masked load the operand in memory of an operation under the same mask, and may
# take it out again as a load without the mask, which reads what must not be read. This pass does
# the former; where such pairs may be it is left out (elsewhere it saves an instruction in fifty).
_PEEPHOLE: Final = "disable-peephole"
_MASKED: Final = re.compile(r"@llvm\.masked\.load\.[\s\S]* = select <")

_LITTLE: Final = 1 << 20  # scalar operations

_lock = threading.RLock()
if hasattr(os, "register_at_fork"):  # LLVM is copied at rest
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )
_loaded: list[ResourceTracker] = []
_count = itertools.count()  # names of libraries; a name stays taken where linking failed
_DEFINED: Final = re.compile(r"^define void @([\w.$]+)\(", re.MULTILINE)


@cache
def _llvm() -> ModuleType:
    llvm = importlib.import_module("llvmlite.binding")

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@cache
def _machine(target: Target, level: int) -> TargetMachine:
    llvm = _llvm()
    if target.triple != llvm.get_process_triple():
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=level, reloc="pic", codemodel="small"
    )


def _module(text: str, machine: TargetMachine, sroa: bool) -> ModuleRef:
    """Parsed text, after the only pass that may be needed."""
    llvm = _llvm()
    try:
        module = llvm.parse_assembly(text)
    except RuntimeError as error:
        raise CompilerError(f"[llvm] the emitted text is not valid: {error}") from error
    if sroa:
        manager = llvm.create_new_function_pass_manager()
        manager.add_sroa_pass()
        builder = llvm.create_pass_builder(
            machine, llvm.create_pipeline_tuning_options(speed_level=0)
        )
        for function in module.functions:
            if not function.is_declaration:
                manager.run(function, builder)
    return module


@contextlib.contextmanager
def _fewer_passes(schedule: bool, constants: bool, text: str) -> Iterator[None]:
    """Without the superfluous passes, and without what ``text`` does not bear; LLVM's settings are
    the process's, so they are put back.
    """
    llvm = _llvm()
    llvm.set_option("", f"-{_PEEPHOLE}={str(_MASKED.search(text) is not None).lower()}")
    for name in _SUPERFLUOUS:
        llvm.set_option("", f"-{name}=true")
    llvm.set_option("", f"-{_SCHEDULER}={str(schedule).lower()}")
    llvm.set_option("", f"-{_CONSTANTS}={str(not constants).lower()}")
    try:
        yield
    finally:
        llvm.set_option("", f"-{_PEEPHOLE}=false")
        llvm.set_option("", f"-{_SCHEDULER}=true")
        llvm.set_option("", f"-{_CONSTANTS}=false")
        for name in _SUPERFLUOUS:
            llvm.set_option("", f"-{name}=false")


def _are_long(kernels: Sequence[Kernel]) -> bool:
    """Whether a launch of one of the kernels has much to do, as far as sizes say."""
    return any(typical(k.work) * typical(k.body.var.size) > _LITTLE for k in kernels)


def compile_ir(
    text: str, target: Target, *, sroa: bool = False, level: int = LEVEL, constants: bool = True
) -> bytes:
    """The object of LLVM IR text, for ``load_object``.

    Raises:
        CompilerError: if LLVM refuses the text.
    """
    with _lock, _fewer_passes(sroa, constants, text):
        machine = _machine(target, level)
        return _pack(
            _DEFINED.findall(text), bytes(machine.emit_object(_module(text, machine, sroa)))
        )


def compile_objects(kernels: Sequence[Kernel], target: Target, *, level: int = LEVEL) -> bytes:
    """One object file with a function per kernel, named as the kernels are.

    Args:
        kernels: kernels with distinct names.
        target: what to compile for.
        level: LLVM's code generation effort, 0 to 3.

    Raises:
        CompilerError: if a kernel cannot be translated.

    >>> from lamella.compiler.emit.target import host
    >>> from lamella.ir.text import parse_kernel
    >>> clear = parse_kernel('''kernel clear
    ...   out x: float32
    ... grid i < 8
    ...   x[i] = 0.0:float32''')
    >>> list(load_object(compile_objects([clear], host())))
    ['clear']
    """
    sroa = needs_sroa(kernels)
    constants = sroa or _are_long(kernels)
    text = emit_module(kernels, target)
    return compile_ir(text, target, sroa=sroa, level=level, constants=constants)


def assembly(kernels: Sequence[Kernel], target: Target, *, level: int = LEVEL) -> str:
    """The assembly text of kernels, for people and tests."""
    sroa = needs_sroa(kernels)
    text = emit_module(kernels, target)
    constants = sroa or _are_long(kernels)
    with _lock, _fewer_passes(sroa, constants, text):
        machine = _machine(target, level)
        return str(machine.emit_assembly(_module(text, machine, sroa)))


# -- objects ---------------------------------------------------------------------------------------
# An object is the names of its functions (ASCII, one a line), an empty line, and the file LLVM
# wrote.
def _pack(names: Sequence[str], data: bytes) -> bytes:
    return "".join(f"{name}\n" for name in names).encode() + b"\n" + data


def _unpack(data: bytes) -> tuple[list[str], bytes]:
    head, mark, rest = data.partition(b"\n\n")
    if not mark or not rest:
        raise CompilerError("[load] not an object file of this compiler; remove it from the cache")
    return head.decode("ascii", "replace").split("\n"), rest


@cache
def _linker() -> LLJIT:
    llvm = _llvm()
    machine = llvm.Target.from_default_triple().create_target_machine(
        opt=2, reloc="pic", codemodel="small"
    )
    return llvm.create_lljit_compiler(machine, use_jit_link=False, suppress_errors=True)


def load_object(data: bytes) -> dict[str, int]:
    """Load what ``compile_objects`` made for this machine, here or in another process; its
    functions' addresses by name.

    Loaded code lives as long as the process, because programs hold bare addresses. Objects may
    define equal names.

    Raises:
        CompilerError: if the object is damaged or refers to functions outside itself.
    """
    names, image = _unpack(data)
    with _lock:
        builder = _llvm().JITLibraryBuilder().add_object_img(image)
        for name in names:
            builder.export_symbol(name)
        try:
            library = builder.link(_linker(), f"objects{next(_count)}")
        except RuntimeError as error:
            raise CompilerError(f"[load] the object cannot be linked: {error}") from error
        _loaded.append(library)
        return {name: int(library[name]) for name in names}
