"""The vectors of usual targets, for tests that compile without running."""

from __future__ import annotations

from lamella.compiler.emit.target import named

SSE, AVX2, AVX512, NEON = (
    named(name).unit for name in ("x86-64-v2", "avx2", "avx512", "aarch64")
)
