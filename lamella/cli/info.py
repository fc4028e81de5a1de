"""``lamella info``: what this installation is and what it computes with."""

from __future__ import annotations

import platform

import llvmlite
import numpy as np

import lamella as lm
from lamella.compiler.emit.target import host
from lamella.runtime.disk import cache_info

__all__ = ["report"]

_SHOWN = {
    "x86_64": (
        "sse4.2",
        "avx",
        "avx2",
        "fma",
        "f16c",
        "avx512f",
        "avx512vnni",
        "avx512bf16",
        "amx-tile",
        "amx-bf16",
    ),
    "aarch64": ("neon", "fullfp16", "dotprod", "bf16", "i8mm", "sve", "sve2"),
}


def report() -> str:
    """One line a fact: versions, processor, threads, program cache, devices.

    >>> report().splitlines()[0].split()[0]
    'lamella'
    """
    target = host()
    on = {feature[1:] for feature in target.features.split(",") if feature.startswith("+")}
    shown = [name for names in _SHOWN.values() for name in names if name in on]
    cache = cache_info()
    where = str(cache.folder) if cache.folder else "off"
    lines = {
        "lamella": lm.__version__,
        "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        "numpy": np.__version__,
        "llvmlite": f"{llvmlite.__version__} (LLVM {'.'.join(map(str, _llvm_version()))})",
        "processor": f"{target.cpu}, vectors of {8 * target.vector_bytes} bits",
        "features": " ".join(shown) or "none beyond the base",
        "threads": str(lm.num_threads()),
        "devices": ", ".join(map(str, lm.devices())),
        "cache": f"{where}, {cache.entries} programs, {cache.nbytes / 2**20:.1f} MiB",
    }
    return "\n".join(f"{name:<10} {text}" for name, text in lines.items())


def _llvm_version() -> tuple[int, ...]:
    import llvmlite.binding as llvm

    return tuple(llvm.llvm_version_info)
