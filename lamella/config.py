"""Every setting of Lamella: one record per flag, with its environment variable and meaning.

Input: ``LAMELLA_<NAME>`` variables read once at import, assignments (``config.debug = 2``) and
scopes (``with config(debug=2):``). Output: plain attributes, cheap enough to read on every
evaluation. Invariants: a flag always holds a value of its type within its bounds; ``0`` (or ``""``)
is always off or "choose for me"; settings are those of the process, not of a thread.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from lamella.errors import OptionError, did_you_mean

__all__ = ["FLAGS", "Config", "Flag", "config", "flag_table"]

Value = int | str


@dataclass(frozen=True, slots=True)
class Flag:
    """One setting: its name, default and meaning, and what values it takes.

    The type is that of ``default``. Numbers lie between ``low`` and ``high`` inclusive; a text flag
    with ``choices`` takes one of them.
    """

    name: str
    default: Value
    doc: str
    low: int = 0
    high: int = 1
    choices: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        """The environment variable that sets the flag at start.

        >>> Flag("debug", 0, "").variable
        'LAMELLA_DEBUG'
        """
        return f"LAMELLA_{self.name.upper()}"


_MANY: Final = 2**40

FLAGS: Final[tuple[Flag, ...]] = (
    Flag("debug", 0, "1 programs and times, 2 kernels with rates, 3 loop IR, 4 LLVM IR, 5 assembly",
         high=5),
    Flag("backend", "llvm", "what computes values: compiled code, or the interpreter defining it",
         choices=("llvm", "interpret")),
    Flag("optimize", 1, "the optional passes of the compiler; 0 keeps only those needed to run"),
    Flag("winograd", 1, "convolve 3 x 3 taps that stay the same by Winograd's transforms, which "
         "round differently; 0 is direct sums"),
    Flag("panels", 2048, "MiB of copies of parameters, laid out once for the products of compiled "
         "functions, that this process may keep; 0 keeps none", high=_MANY),
    Flag("skip_passes", "", "comma-separated names of single passes to leave out"),
    Flag("verify", 0, "check the IR after every pass"),
    Flag("debug_nans", 0, "raise when a computed value has a NaN, naming what made it; slow"),
    Flag("target", "", "CPU to compile for, such as avx2 or x86-64-v2; empty is this machine's"),
    Flag("lines", 0, "remember the line that recorded each operation, for lm.profile"),
    Flag("threads", 0, "threads that run programs; 0 is every CPU this process may use", high=4096),
    Flag("spin", 200, "microseconds an idle worker looks for work before it sleeps; 0 is at once",
         high=1_000_000),
    Flag("flush", 512, "pending operations after which a loop's next iteration starts evaluation; "
         "0 waits until a value is looked at", high=_MANY),
    Flag("memory_cache", 1024, "MiB of freed memory kept for reuse; 0 gives it back at once",
         high=_MANY),
    Flag("memory_limit", 0, "MiB of buffers this process may hold; 0 is what the system has",
         high=_MANY),
    Flag("huge_pages", 1, "ask the system for huge pages behind large buffers"),
    Flag("cache", 1, "keep compiled programs on disk"),
    Flag("cache_dir", "", "folder of compiled programs; empty is the user's cache folder"),
    Flag("cache_size", 1024, "MiB of compiled programs kept on disk", low=1, high=_MANY),
    Flag("programs", 1024, "compiled programs kept in memory", low=1, high=_MANY),
)  # fmt: skip

_BY_NAME: Final[Mapping[str, Flag]] = {flag.name: flag for flag in FLAGS}


def _checked(name: str, value: object, source: str) -> Value:
    """``value`` as the flag ``name`` takes it; ``source`` is named in the message."""
    flag = _BY_NAME.get(name)
    if flag is None:
        raise OptionError(f"[config] {source}: no flag {name!r}; {did_you_mean(name, _BY_NAME)}")
    if isinstance(flag.default, str):
        if not isinstance(value, str):
            raise OptionError(f"[config] {source}: {name} is text, not {value!r}; write a string")
        if flag.choices and value not in flag.choices:
            raise OptionError(
                f"[config] {source}: {name} cannot be {value!r}; "
                f"{did_you_mean(value, flag.choices)}"
            )
        return value
    if not isinstance(value, int):
        raise OptionError(f"[config] {source}: {name} is a whole number, not {value!r}")
    if not flag.low <= value <= flag.high:
        raise OptionError(
            f"[config] {source}: {name} cannot be {value}; it lies from {flag.low} to {flag.high}"
        )
    return int(value)


def _from_text(flag: Flag, text: str) -> Value:
    """The value that an environment variable's text means."""
    if isinstance(flag.default, str):
        return _checked(flag.name, text, flag.variable)
    try:
        number = int(text)
    except ValueError:
        raise OptionError(
            f"[config] {flag.variable}={text!r} is not a whole number; {flag.name} lies "
            f"from {flag.low} to {flag.high}"
        ) from None
    return _checked(flag.name, number, flag.variable)


class _Scope:
    """Restores the settings it replaced when its ``with`` block ends."""

    __slots__ = ("_owner", "_saved", "_values")

    def __init__(self, owner: Config, values: dict[str, Value]) -> None:
        self._owner = owner
        self._values = values
        self._saved: dict[str, Value] = {}

    def __enter__(self) -> Config:
        for name, value in self._values.items():
            self._saved[name] = getattr(self._owner, name)
            setattr(self._owner, name, value)
        return self._owner

    def __exit__(self, *exc_info: object) -> None:
        for name, value in self._saved.items():
            setattr(self._owner, name, value)


class Config:
    """The settings as attributes, and a scope when called.

    Raises:
        OptionError: for an unknown flag, or a value of the wrong type or out of bounds.

    >>> settings = Config({})
    >>> with settings(debug=2):
    ...     settings.debug
    2
    >>> settings.debug
    0
    """

    debug: int
    backend: str
    optimize: int
    skip_passes: str
    verify: int
    debug_nans: int
    target: str
    lines: int
    winograd: int
    panels: int
    threads: int
    spin: int
    flush: int
    memory_cache: int
    memory_limit: int
    huge_pages: int
    cache: int
    cache_dir: str
    cache_size: int
    programs: int

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        self.__dict__["_watchers"] = {}
        for flag in FLAGS:
            text = environment.get(flag.variable, "")
            self.__dict__[flag.name] = _from_text(flag, text) if text else flag.default
        _warn_about_unknown(environment)

    def __setattr__(self, name: str, value: object) -> None:
        checked = _checked(name, value, "assignment")
        if checked != self.__dict__[name]:
            self.__dict__[name] = checked
            for action in self.__dict__["_watchers"].get(name, ()):
                action()

    def __getattr__(self, name: str) -> Value:
        if name.startswith("__"):  # protocols that copy, pickle or inspect probe for these
            raise AttributeError(name)
        raise OptionError(f"[config] no flag {name!r}; {did_you_mean(name, _BY_NAME)}")

    def __call__(self, **values: Value) -> _Scope:
        """A scope with these values: ``with config(debug=2, threads=1): ...``."""
        return _Scope(self, {k: _checked(k, v, "config(...)") for k, v in values.items()})

    def __dir__(self) -> list[str]:
        return [flag.name for flag in FLAGS]

    def __repr__(self) -> str:
        return f"config({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in FLAGS)})"

    def watch(self, name: str, action: Callable[[], None]) -> None:
        """Call ``action()`` after every change of the flag ``name``.

        >>> settings = Config({})
        >>> settings.watch("threads", lambda: print("now", settings.threads))
        >>> settings.threads = 3
        now 3
        """
        _checked(name, getattr(self, name), "watch")
        self.__dict__["_watchers"].setdefault(name, []).append(action)


def _warn_about_unknown(environment: Mapping[str, str]) -> None:
    """Variables that set nothing: misspelt ones, or those of another version, so no error."""
    known = [flag.variable for flag in FLAGS]
    for name in environment:
        if name.upper().startswith("LAMELLA_") and name not in known:
            warnings.warn(
                f"[config] {name} has no effect, for there is no such setting in this version; "
                f"{did_you_mean(name.upper(), known)}",
                stacklevel=4,
            )


def flag_table() -> str:
    """The flags as a Markdown table, for the documentation.

    >>> print(flag_table().splitlines()[2][:40])
    | `debug` | `LAMELLA_DEBUG` | 0 | 0 to 5
    """
    rows = ["| flag | variable | default | values | meaning |", "|---|---|---|---|---|"]
    for flag in FLAGS:
        if flag.choices:
            values = ", ".join(flag.choices)
        elif isinstance(flag.default, str):
            values = "text"
        else:
            values = f"{flag.low} up" if flag.high == _MANY else f"{flag.low} to {flag.high}"
        default = flag.default if flag.default != "" else '""'
        rows.append(f"| `{flag.name}` | `{flag.variable}` | {default} | {values} | {flag.doc} |")
    return "\n".join(rows)


config: Final = Config()
