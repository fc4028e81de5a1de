"""Targets of native code: the processor, what it can do, and the sizes the schedules depend on.

Input: nothing (``host()``) or a name (``named("avx2")``). Output: an immutable :class:`Target`,
whose ``key`` is part of every cache key. llvmlite is imported only when the host is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Final, Literal

from lamella.errors import OptionError, did_you_mean
from lamella.ir.vectors import VectorUnit

__all__ = ["Target", "host", "named"]

HINTED_ROWS: Final = {
    "znver3": 2,  # one row 0.85 to 0.9 of the speed with hints, eight rows 1.5 of it
    "znver4": 1,  # one row 1.06 to 1.15, eight rows 1.22 to 1.33
}
"""Rows from which hints for the second-level cache pay (see ``VectorUnit``), by LLVM's name of the
processor; another one is taken for the one here that has its width of vectors, if any.
"""

Dot = Literal["", "signed", "unsigned"]


@dataclass(frozen=True, slots=True)
class Target:
    """One instruction set as the emitter sees it.

    ``masked``: loads and stores under a mask are cheap (else the rest of a lanes loop is a scalar
    loop). ``gather``: so are
    gathers. ``half``: float16 converts in hardware. ``fma``: a*b+c in one instruction.
    ``contract``: a product and a sum may become one
    fma (off in tests that want every bit). ``dot``: four products of bytes, those of one factor
    signed or unsigned, are added to an int32 in one instruction. Sizes are in bytes.
    """

    name: str
    triple: str
    cpu: str
    features: str
    vector_bytes: int
    registers: int
    masked: bool
    gather: bool
    fma: bool
    half: bool
    contract: bool = True
    dot: Dot = ""
    l1: int = 32 << 10
    l2: int = 1 << 20
    l3: int = 16 << 20

    @property
    def key(self) -> str:
        """A text that differs between targets whose code may differ.

        >>> named("avx2").key == named("avx512").key
        False
        """
        contracted = "" if self.contract else "/exact"
        return f"{self.triple}/{self.cpu}/{self.features}/{self.vector_bytes}{contracted}"

    def lacks(self, here: Target) -> str:
        """Why the machine ``here`` cannot run this target's code, or nothing.

        >>> named("avx2").lacks(named("avx512")), named("avx512").lacks(named("avx2"))
        ('', 'its processor has fewer instructions')
        """
        kind = self.triple.split("-")[0]
        if kind != here.triple.split("-")[0]:
            return f"its processor is not of the kind {kind}"
        fewer = self.vector_bytes > here.vector_bytes or (self.fma and not here.fma)
        return "its processor has fewer instructions" if fewer else ""

    @property
    def scales(self) -> bool:
        """Whether vectors are multiplied by powers of two in one instruction, whatever the power:
        part of AVX-512.
        """
        return self.vector_bytes == 64 and self.triple.startswith("x86_64")

    @property
    def unit(self) -> VectorUnit:
        """What schedules know of the vectors."""
        rows = HINTED_ROWS.get(self.cpu, 2 if self.vector_bytes == 32 else 1)
        return VectorUnit(self.vector_bytes, self.registers, self.dot == "unsigned", rows)

    @property
    def attributes(self) -> str:
        """The LLVM function attributes of every kernel."""
        bits = self.vector_bytes * 8
        return f'nounwind "prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}"'


def _x86(
    name: str, cpu: str, vector_bytes: int, registers: int, dot: Dot = "", **has: bool
) -> Target:
    triple = "x86_64-unknown-linux-gnu"
    return Target(name, triple, cpu, "", vector_bytes, registers, dot=dot, **has)


NAMED: Final = {
    "x86-64-v2": _x86("x86-64-v2", "x86-64-v2", 16, 16, masked=False, gather=False, fma=False,
    half=False),
    "avx2": _x86("avx2", "haswell", 32, 16, masked=False, gather=True, fma=True, half=True),
    "avx512": _x86("avx512", "skylake-avx512", 64, 32, masked=True, gather=True, fma=True,
    half=True),
    "avx512vnni": _x86("avx512vnni", "cascadelake", 64, 32, "unsigned", masked=True, gather=True,
    fma=True, half=True),
    "aarch64": Target(
        "aarch64", "aarch64-unknown-linux-gnu", "cortex-a76", "+neon,+fullfp16", 16, 32,
        masked=False, gather=False, fma=True, half=True, dot="signed",
    ),
}  # fmt: skip


def named(name: str) -> Target:
    """A target by name.

    Raises:
        OptionError: for an unknown name.

    >>> named("avx2").vector_bytes
    32
    """
    if name not in NAMED:
        raise OptionError(f"[target] {name!r} is not a target; {did_you_mean(name, NAMED)}")
    return NAMED[name]


def _generic(triple: str, features: dict[str, bool]) -> Target:
    """The nearest named target for a machine's features."""
    if triple.startswith(("aarch64", "arm64")):
        return NAMED["aarch64"]
    wide = all(features.get(f) for f in ("avx512f", "avx512bw", "avx512dq", "avx512vl"))
    if wide:
        return NAMED["avx512"]
    if features.get("avx2") and features.get("fma"):
        return NAMED["avx2"]
    return NAMED["x86-64-v2"]


def _dot(base: Target, cpu: str, features: dict[str, bool]) -> Dot:
    """Which products of bytes a machine adds up in one instruction."""
    if base.triple.startswith("aarch64"):
        return "signed" if features.get("dotprod") or cpu.startswith("apple-") else ""
    vnni = "avx512vnni" if base.vector_bytes == 64 else "avxvnni"
    return "unsigned" if features.get(vnni) else ""


def _listed() -> set[str]:
    """The features of an AArch64 processor by Linux's names."""
    try:
        with open("/proc/cpuinfo") as lines:
            found = next((line for line in lines if line.startswith("Features")), "")
    except OSError:
        return set()
    return set(found.partition(":")[2].split())


def _cache_sizes() -> tuple[int, int, int]:
    """Data cache sizes of the first processor (Linux tells them; elsewhere modest guesses)."""
    sizes = {1: 32 << 10, 2: 1 << 20, 3: 16 << 20}
    for index in range(5):
        folder = f"/sys/devices/system/cpu/cpu0/cache/index{index}/"
        try:
            with (
                open(folder + "type") as kind,
                open(folder + "level") as level,
                open(folder + "size") as size,
            ):
                text = size.read().strip()
                if kind.read().strip() != "Instruction" and text.endswith("K"):
                    sizes[int(level.read())] = int(text[:-1]) << 10
        except (OSError, ValueError):
            break
    return sizes[1], sizes[2], sizes[3]


@cache
def host() -> Target:
    """The machine this process runs on.

    >>> host().vector_bytes in (16, 32, 64)
    True
    """
    import llvmlite.binding as llvm

    found = dict(llvm.get_host_cpu_features())
    triple = llvm.get_process_triple()
    base = _generic(triple, found)
    if base.triple.startswith("aarch64") and "asimddp" in _listed():
        found["dotprod"] = True  # LLVM does not ask for it
    features = ",".join(
        f"{'+' if on else '-'}{name}"
        for name, on in sorted(found.items())
        if name != "prefer-256-bit"
    )
    l1, l2, l3 = _cache_sizes()
    half = base.half and found.get("f16c", True)
    return replace(
        base,
        name="host",
        triple=triple,
        cpu=llvm.get_host_cpu_name(),
        features=features,
        half=half,
        dot=_dot(base, llvm.get_host_cpu_name(), found),
        l1=l1,
        l2=l2,
        l3=l3,
    )
