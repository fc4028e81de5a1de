"""The runtime's own native code: compiled once, kept in the program cache, loaded on first use.

Input: LLVM IR text. Output: object bytes, and from those the addresses of functions. LLVM is
imported here only when something must be compiled or loaded, never by ``import lamella``.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from lamella.errors import CompilerError
from lamella.forks import in_child
from lamella.runtime import disk
from lamella.runtime.elf import load_elf
from lamella.runtime.native_ir import runtime_ir

__all__ = ["Native", "compile_ir_text", "load_object", "native"]

# ELF; Mach-O; COFF for x86-64 and AArch64
_OBJECT_MAGICS: Final = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\x64\x86", b"\x64\xaa")
_engines: Final[list[object]] = []  # loaded code lives as long as the process


class _Loading:
    """Serialises the first load."""

    lock = threading.Lock()


@functools.cache
def _llvm() -> Any:
    """llvmlite.binding with the host's target ready."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@functools.cache
def _machine() -> Any:
    """A target machine for any CPU of this architecture: this code has nothing to vectorise."""
    target = _llvm().Target.from_default_triple()
    return target.create_target_machine(opt=2, reloc="pic", codemodel="default", jit=True)


def compile_ir_text(text: str) -> bytes:
    """The object file of a module of LLVM IR.

    Raises:
        CompilerError: if LLVM does not accept the text.
    """
    llvm = _llvm()
    try:
        module = llvm.parse_assembly(text)
        module.verify()
        return bytes(_machine().emit_object(module))
    except RuntimeError as error:
        raise CompilerError(f"[native] LLVM refused generated code: {error}") from error


def load_object(data: bytes) -> Callable[[str], int]:
    """Load an object file for good; the result gives the address of each function it defines.

    Raises:
        CompilerError: if the object is not one for this machine.
    """
    loaded = load_elf(data)
    if loaded is not None:
        return functools.partial(_find, loaded.get)
    if not data.startswith(_OBJECT_MAGICS):  # LLVM itself would crash on it
        raise CompilerError("[native] not an object file: its first bytes are unknown")
    llvm = _llvm()
    try:
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
        engine.add_object_file(llvm.ObjectFileRef.from_data(data))
        engine.finalize_object()
    except RuntimeError as error:
        raise CompilerError(f"[native] an object file could not be loaded: {error}") from error
    _engines.append(engine)

    return functools.partial(_find, engine.get_function_address)


def _find(lookup: Callable[[str], int | None], name: str) -> int:
    found = lookup(name)
    if not found:
        raise CompilerError(f"[native] an object file lacks the function {name!r}")
    return int(found)


@dataclass(frozen=True, slots=True)
class Native:
    """Callable native functions (see ``native_ir``). All but ``run_program`` release the GIL while
    they run; it does where that is worth it, and raises what a signal handler raised.
    """

    worker: Callable[[int, int], None]
    stop: Callable[[int], None]
    spin: Callable[[int], None]
    run_program: Callable[[int, int], None]


@functools.cache
def native() -> Native:
    """The runtime's native code, from the cache or compiled now.

    Raises:
        CompilerError: if it cannot be compiled or loaded.
    """
    with _Loading.lock:
        machine = {"AMD64": "x86_64", "arm64": "aarch64"}.get(
            platform.machine(), platform.machine()
        )
        text = runtime_ir(machine)
        stored = disk.get(text)
        if stored is None:
            stored = compile_ir_text(text)
            disk.put(text, stored)
        address = load_object(stored)
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    return Native(
        ctypes.CFUNCTYPE(None, pointer, size)(address("worker")),
        ctypes.CFUNCTYPE(None, pointer)(address("stop")),
        ctypes.CFUNCTYPE(None, size)(address("spin")),
        ctypes.PYFUNCTYPE(None, pointer, pointer)(address("run_program")),
    )


def _after_fork() -> None:
    _Loading.lock = threading.Lock()  # another thread may have held it when the process was copied


in_child(_after_fork)
