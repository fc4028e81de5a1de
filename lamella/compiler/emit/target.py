"""Targets of native code: the processor, what it can do, and the sizes the schedules depend on.

Input: nothing (``host()``) or a name (``named("avx2")``). Output: an immutable :class:`Target`,
whose ``key`` is part of every cache key. llvmlite is imported only when the host is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from lamella.errors import OptionError, did_you_mean

__all__ = ["Target", "host", "named"]


@dataclass(frozen=True, slots=True)
class Target:
    """One instruction set as the emitter sees it.

    ``masked``: loads and stores under a mask are cheap (else the rest of a lanes loop is a scalar
    loop). ``gather``: so are
    gathers. ``half``: float16 converts in hardware. ``fma``: a*b+c in one instruction.
    ``contract``: a product and a sum may become one
    fma (off in tests that want every bit). Sizes are in bytes.
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

    @property
    def attributes(self) -> str:
        """The LLVM function attributes of every kernel."""
        bits = self.vector_bytes * 8
        return f'nounwind "prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}"'


def _x86(name: str, cpu: str, vector_bytes: int, registers: int, **has: bool) -> Target:
    return Target(name, "x86_64-unknown-linux-gnu", cpu, "", vector_bytes, registers, **has)


NAMED: Final = {
    "x86-64-v2": _x86("x86-64-v2", "x86-64-v2", 16, 16, masked=False, gather=False, fma=False,
    half=False),
    "avx2": _x86("avx2", "haswell", 32, 16, masked=False, gather=True, fma=True, half=True),
    "avx512": _x86("avx512", "skylake-avx512", 64, 32, masked=True, gather=True, fma=True,
    half=True),
    "aarch64": Target(
        "aarch64", "aarch64-unknown-linux-gnu", "cortex-a76", "+neon,+fullfp16", 16, 32,
        masked=False, gather=False, fma=True, half=True,
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
        l1=l1,
        l2=l2,
        l3=l3,
    )
