"""Coefficients of the special functions: Chebyshev interpolation of mpmath's values.

Input: none. Output: ``lamella/ops/special_tables.py`` (``python -m tools.special_coefficients
PATH``). Each function is interpolated at Chebyshev points in 60 digits; the series is cut where its
rest is below 1e-17 of the function's size on the interval, and rewritten in powers of t in
[-1, 1]. Needs mpmath; the printed comment says how far the polynomial, in exact arithmetic, is from
the function.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp

mp.mp.dps = 60
Function = Callable[[Any], Any]


def chebyshev(f: Function, count: int) -> list[Any]:
    """The first ``count`` Chebyshev coefficients of ``f`` on [-1, 1]."""
    angles = [mp.pi * (k + mp.mpf(1) / 2) / count for k in range(count)]
    values = [f(mp.cos(angle)) for angle in angles]
    found = []
    for n in range(count):
        total = mp.fsum(v * mp.cos(n * angle) for v, angle in zip(values, angles, strict=True))
        found.append(total * (1 if n == 0 else 2) / count)
    return found


def powers(series: list[Any]) -> list[Any]:
    """A Chebyshev series in powers of t."""
    total = [mp.mpf(0)] * len(series)
    before, now = [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]
    for n, c in enumerate(series):
        if n == 0:
            basis = before
        else:
            basis = now
            after = [mp.mpf(0)] + [2 * a for a in now]
            for k, a in enumerate(before):
                after[k] -= a
            before, now = now, after
        for k, a in enumerate(basis):
            total[k] += c * a
    return total


def table(f: Function, tolerance: float = 1e-17, count: int = 64) -> tuple[list[float], float]:
    """Coefficients of ``f`` in powers of t, and the largest relative error on a grid."""
    series = chebyshev(f, count)
    size = max(abs(c) for c in series)
    length = max(n for n, c in enumerate(series) if abs(c) > tolerance * size) + 1
    found = [float(c) for c in powers(series[:length])]
    grid = [mp.mpf(k) / 50 for k in range(-50, 51)]
    exact = [f(t) for t in grid]
    scale = max(abs(v) for v in exact)
    error = max(abs(mp.polyval(found[::-1], t) - v) for t, v in zip(grid, exact, strict=True))
    return found, float(error / scale)


def between(f: Function, low: Any, high: Any) -> Function:
    """``f`` of the interval as a function of t in [-1, 1]."""
    low, high = mp.mpf(low), mp.mpf(high)
    return lambda t: f((high + low) / 2 + (high - low) / 2 * t)


def erfcx_scaled(t: Any) -> Any:
    """``(1 + 2 x) exp(x**2) erfc(x)`` in t = 1 - 8 / (x + 4)."""
    if t == 1:
        return 2 / mp.sqrt(mp.pi)
    x = 8 / (1 - t) - 4
    if x > 100:  # asymptotic series: erfc underflows nothing here, but cancels nothing either
        total = mp.fsum(
            (-1) ** k * mp.fac2(2 * k - 1) / (2 * x * x) ** k if k else mp.mpf(1)
            for k in range(12)
        )
        return (1 + 2 * x) / (x * mp.sqrt(mp.pi)) * total
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def erfinv_ratio(z: Any) -> Any:
    """``erfinv(sqrt z) / sqrt z``."""
    return mp.sqrt(mp.pi) / 2 if z == 0 else mp.erfinv(mp.sqrt(z)) / mp.sqrt(z)


def erfcinv_ratio(u: Any) -> Any:
    """``erfcinv(exp(-s**2)) / s`` in u = (s - 4) / (s + 4)."""
    s = 4 * (1 + u) / (1 - u)
    y = s
    for _ in range(60):
        step = (mp.log(mp.erfc(y)) + s * s) / (-2 / mp.sqrt(mp.pi) * mp.exp(-y * y) / mp.erfc(y))
        y -= step
        if abs(step) < mp.mpf(10) ** -50:
            break
    return y / s


def lgamma_ratio(x: Any) -> Any:
    """``lgamma(x) / ((x - 1) (x - 2))``."""
    if abs(x - 1) < mp.mpf(10) ** -30:
        return mp.euler
    if abs(x - 2) < mp.mpf(10) ** -30:
        return 1 - mp.euler
    return mp.loggamma(x) / ((x - 1) * (x - 2))


def hankel(order: int, cosine: bool) -> Function:
    """The slow factors P (of the cosine) and Q x / 8 of Hankel's form, in z = (8 / x)**2."""

    def factor(z: Any) -> Any:
        if z == 0:
            return mp.mpf(1) if cosine else mp.mpf(4 * order * order - 1) / 64
        x = 8 / mp.sqrt(z)
        shift = x - (2 * order + 1) * mp.pi / 4
        j, y = mp.besselj(order, x), mp.bessely(order, x)
        size = mp.sqrt(mp.pi * x / 2)
        if cosine:
            return size * (j * mp.cos(shift) + y * mp.sin(shift))
        return size * (y * mp.cos(shift) - j * mp.sin(shift)) * x / 8

    return factor


def bessel_small(name: str) -> Function:
    """What is left of a Bessel function near 0 once odd factors and logarithms are taken out."""

    def at(z: Any) -> Any:
        x = mp.sqrt(z) if z > 0 else mp.mpf(10) ** -20
        if name == "j0":
            return mp.besselj(0, x)
        if name == "j1":
            return mp.besselj(1, x) / x
        if name == "y0":
            return mp.bessely(0, x) - 2 / mp.pi * mp.log(x) * mp.besselj(0, x)
        rest = mp.bessely(1, x) - 2 / mp.pi * (mp.log(x) * mp.besselj(1, x) - 1 / x)
        return rest / x

    return at


def modified(order: int, large: bool) -> Function:
    """``exp(-x) I(x)`` divided by x**order on [0, 8]; times sqrt(x) in 8 / x beyond."""
    if not large:
        return lambda x: (
            mp.exp(-x) * mp.besseli(order, x) / x**order if x else mp.mpf(1) / 2**order
        )
    return lambda u: (
        mp.exp(-8 / u) * mp.besseli(order, 8 / u) * mp.sqrt(8 / u)
        if u
        else 1 / mp.sqrt(2 * mp.pi)
    )


TABLES: dict[str, tuple[str, Function, float]] = {
    "ERFCX": ("(1 + 2 x) erfcx(x) in t = 1 - 8 / (x + 4), x >= 0", erfcx_scaled, 1e-17),
    "ERFINV": (
        "erfinv(x) / x in t = 8 x**2 - 1, |x| <= 1/2", between(erfinv_ratio, 0, 0.25), 1e-17
    ),
    "ERFCINV": (
        "erfcinv(exp(-s**2)) / s in (s - 4) / (s + 4) from -0.68 to 0.76",
        between(erfcinv_ratio, "-0.68", "0.76"), 3e-7,
    ),
    "ERFCINV_SINGLE": (
        "the same for float32, from -0.68 to 0.46", between(erfcinv_ratio, "-0.68", "0.46"), 1e-10,
    ),
    "ERFINV_SINGLE": ("erfinv(x) / x for float32", between(erfinv_ratio, 0, 0.25), 1e-10),
    "ERFINV_TAIL": (
        "erfinv(1 - exp(-s**2)) / s for float32, from -0.68 to 0.02",
        between(erfcinv_ratio, "-0.68", "0.02"), 1e-10,
    ),
    "LGAMMA": ("lgamma(x) / ((x - 1) (x - 2)) in t = x - 2", between(lgamma_ratio, 1, 3), 1e-17),
    "LGAMMA_SINGLE": ("the same for float32", between(lgamma_ratio, 1, 3), 1e-10),
    "J0": ("j0(x) in t = x**2 / 32 - 1, |x| <= 8", between(bessel_small("j0"), 0, 64), 1e-17),
    "J1": ("j1(x) / x in t = x**2 / 32 - 1", between(bessel_small("j1"), 0, 64), 1e-17),
    "Y0": (
        "y0(x) - 2/pi log(x) j0(x) in t = x**2 / 32 - 1", between(bessel_small("y0"), 0, 64), 1e-17
    ),
    "Y1": (
        "(y1(x) - 2/pi (log(x) j1(x) - 1/x)) / x in t = x**2 / 32 - 1",
        between(bessel_small("y1"), 0, 64), 1e-17,
    ),
    "P0": ("Hankel's P of order 0 in t = 2 (8/x)**2 - 1, x >= 8", between(hankel(0, True), 0, 1),
           1e-17),
    "Q0": ("Hankel's Q of order 0 times x / 8", between(hankel(0, False), 0, 1), 1e-17),
    "P1": ("Hankel's P of order 1", between(hankel(1, True), 0, 1), 1e-17),
    "Q1": ("Hankel's Q of order 1 times x / 8", between(hankel(1, False), 0, 1), 1e-17),
    "I0_SMALL": ("exp(-x) i0(x) in t = x / 4 - 1, x <= 8", between(modified(0, False), 0, 8),
                 1e-17),
    "I1_SMALL": ("exp(-x) i1(x) / x in t = x / 4 - 1", between(modified(1, False), 0, 8), 1e-17),
    "I0_LARGE": ("sqrt(x) exp(-x) i0(x) in t = 16 / x - 1, x >= 8", between(modified(0, True), 0,
                 1), 1e-17),
    "I1_LARGE": ("sqrt(x) exp(-x) i1(x) in t = 16 / x - 1", between(modified(1, True), 0, 1),
                 1e-17),
}  # fmt: skip
HEAD = '''"""Polynomials of the special functions, in powers of t in [-1, 1], constant first.

Generated by ``python -m tools.special_coefficients``: Chebyshev interpolation of mpmath's values in
60 digits. The comment above each table says what it is, and its error as a part of the largest
value.
"""

from __future__ import annotations

from typing import Final

'''


def written(name: str, comment: str, values: list[float], error: float) -> str:
    """One table as Python."""
    lines = [f"# {comment}; {error:.1g}"[:100], f"{name}: Final = ("]
    row = "   "
    for value in values:
        text = f" {value!r},"
        if len(row) + len(text) > 100:
            lines.append(row)
            row = "   "
        row += text
    return "\n".join([*lines, row, ")  # fmt: skip", ""])


def main(path: str) -> None:
    """Write the module of tables."""
    parts = []
    for name, (comment, function, tolerance) in TABLES.items():
        values, error = table(function, tolerance)
        print(f"{name}: {len(values)} coefficients, error {error:.2g}")
        parts.append(written(name, comment, values, error))
    Path(path).write_text(HEAD + "\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
