"""``jit``: a function as one compiled program, with the state it reads and rebinds found by itself.

Input: a function of pytrees (imperative or not). Output: a function with the same results and
effects on tensors. The first call with arguments of a structure runs it once on placeholders
(``tracing``), compiles the graph, and remembers what of Python it saw (``guards``); later calls
check that and run the program (``entry``). A difference makes another trace, never a stale result.
"""
from __future__ import annotations

import copy
import functools
import inspect
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final, Generic, Literal, Protocol, Self, TypeVar, overload

from lamella.config import config
from lamella.errors import OptionError, ShapeError, did_you_mean
from lamella.forks import new_lock
from lamella.ir.dim import Dim
from lamella.runtime.report import report
from lamella.tensor.pending import current_trace, traces
from lamella.transforms.entry import Entry
from lamella.transforms.guards import Environment
from lamella.transforms.lowered import Lowered
from lamella.transforms.numbers import Numbers
from lamella.transforms.opened import Opened
from lamella.transforms.pickling import reduced
from lamella.transforms.shortcut import MISS, Shortcut
from lamella.transforms.signature import Axes, Call, Opening, arrays_to_tensors, check_budget
from lamella.transforms.sizes import OpenSizes
from lamella.transforms.tracing import Recording, one_at_a_time, record

__all__ = ["Jit", "jit"]

Made = TypeVar("Made")
Dynamic = Mapping[str, Axes] | Literal[False] | None

MANY: Final = 16  # programs of one function after which a warning names the reason
FIXED: Final = 2  # programs of one function in which slices start at numbers, not at arguments
SHORT: Final = 4  # shortcuts of one function
MOST: Final = 256  # argument structures, and programs of one structure, that are kept


class Jit(Generic[Made]):
    """A compiled function.

    ``lower(*args)`` shows what was made of it; ``programs`` counts its compiled programs.
    """

    def __init__(
        self, f: Callable[..., Made], dynamic: Dynamic = None,
        memory_budget: int | None = None,
    ) -> None:  # fmt: skip
        if not callable(f):
            raise OptionError(f"[jit] {type(f).__name__} cannot be called; pass a function")
        check_budget("jit", memory_budget)
        self._budget = memory_budget
        functools.update_wrapper(self, f, updated=())
        self._f = f
        self._given: Dynamic = dynamic
        self._dynamic = _positions(f, dynamic)
        self._sizes = OpenSizes() if dynamic is None and memory_budget is None else None
        self._entries: dict[tuple[object, ...], list[Entry]] = {}
        self._lock = new_lock()
        self._opened = Opened()
        self._shortcuts: list[Shortcut] = []  # for the calls of some forms, the newest first
        self._described: list[dict[str, str]] = []  # the arguments traced lately, in words
        self.programs = 0

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Jit[Made]: ...
    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """As a method: one compiled function an instance, so that instances share no state."""
        if instance is None:
            return self
        name = f"_jit {getattr(self._f, '__name__', 'call')}"
        held = getattr(instance, "__dict__", None)
        if held is None:
            raise OptionError(
                f"[jit] {type(instance).__name__} has __slots__ and no __dict__ to keep a compiled "
                "method in; add '__dict__' to them, or compile a function"
            )
        found = held.get(name)
        if found is None or found._f.__self__ is not instance:  # a copied object has a copied dict
            bound = types.MethodType(self._f, instance)
            dynamic = _without_self(self._f, self._given)
            found = held[name] = Jit(bound, dynamic, self._budget)
        return found

    def __call__(self, *args: Any, **options: Any) -> Made:
        """The function's result."""
        if (traces and current_trace() is not None) or config.backend == "interpret":
            args, options = arrays_to_tensors(args, options)
            return self._f(*args, **options)  # inside another transformation: part of its graph
        if not options:
            for shortcut in self._shortcuts:
                found: Made = shortcut(args)
                if found is not MISS:
                    return found
        call = Call(args, options, self._dynamic, self._opened.arguments)
        for entry in self._candidates(call):
            if entry.misfit(call) is None:
                found = entry.run(call)
                if not (options or self._dynamic):
                    self._shorten(entry, args, call)
                return found
        return self._run_new(call)

    def _candidates(self, call: Call) -> Iterator[Entry]:
        """The programs that may be a call's, the newest first: those for its sizes, and then those
        with some of them open, as the call is then seen.
        """
        yield from reversed(self._entries.get(call.key, ()))
        for opening in () if self._sizes is None else self._sizes.openings(call):
            call.open_sizes(opening)
            yield from reversed(self._entries.get(call.key, ()))
        call.open_sizes(None)

    def _run_new(self, call: Call) -> Made:
        """Run a program that none of those at hand was, or one that another thread has just made.

        Where its trace left tensors outside, nobody else traces until they have values.
        """
        with ExitStack() as alone:
            entry = self._entry(call, alone)
            try:
                result: Made = entry.run(call)
            except BaseException:
                entry.keep(call)
                raise
        return result

    def _shorten(self, entry: Entry, args: tuple[Any, ...], call: Call) -> None:
        """Have a shortcut for calls like one that the entry has served; open sizes take no room
        from others.
        """
        if call.sizes and len(self._shortcuts) == SHORT:
            return
        made = entry.shortcut(args, call)
        if made is not None:
            self._shortcuts = [made, *self._shortcuts[: SHORT - 1]]

    def lower(self, *args: Any, **options: Any) -> Lowered:
        """The program for these arguments, to be looked at; it is compiled but not run."""
        with ExitStack() as alone:
            call = Call(args, options, self._dynamic, self._opened.arguments)
            return self._entry(call, alone).lowered()

    def __copy__(self) -> Self:
        """Itself: nothing tells two of them apart."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Jit[Made]:
        """A compiled function of the copied module, or method of a copied object; else itself."""
        copied = copy.deepcopy(self._f, memo)
        return self if copied is self._f else Jit(copied, self._given, self._budget)

    def __reduce__(self) -> Any:
        """By name, as functions are pickled, or by its function; programs are left behind."""
        if isinstance(self._f, types.MethodType):
            owner, name = self._f.__self__, self._f.__name__
            if isinstance(getattr(type(owner), name, None), Jit):
                return getattr, (owner, name)
        return reduced(self, self._f, (Jit, (self._f, self._given, self._budget)))

    def __repr__(self) -> str:
        return f"<jit of {self._name}, {self.programs} programs>"

    @property
    def _name(self) -> str:
        return str(getattr(self._f, "__qualname__", type(self._f).__name__))

    def _entry(self, call: Call, alone: ExitStack) -> Entry:
        """The program for a call; where its trace leaves tensors outside, ``alone`` then holds what
        keeps others from tracing.
        """
        with self._lock, one_at_a_time:  # while nobody has exchanged nodes and numbers
            reason = None
            while True:
                for entry in self._candidates(call):
                    found = entry.misfit(call)
                    if found is None:
                        return entry
                    reason = reason or found  # the newest program's says most
                    if entry is self._entries[call.key][-1]:
                        self._opened.learn(entry.varied())
                if not self._opened.open(call):
                    return self._trace(call, reason, alone)

    def _trace(self, call: Call, reason: str | None, alone: ExitStack) -> Entry:
        entry, recording = self._made_open(call) or self._made(call)
        if recording.escaped:
            alone.enter_context(self._lock)
            alone.enter_context(one_at_a_time)
        self.programs += 1
        described = call.described()
        reason = reason or _difference(self._described, described)
        self._described = [*self._described[-MANY:], described]
        report(1, f"jit {self._name}: traced ({reason})")
        if self.programs == MANY + 1:
            warnings.warn(
                f"[jit] {self._name} has been compiled {self.programs} times, last because "
                f"{reason}; pass what changes as a tensor, or name changing sizes in dynamic=",
                RuntimeWarning, stacklevel=5,
            )  # fmt: skip
        self._keep(call.key, entry)
        return entry

    def _made_open(self, call: Call) -> tuple[Entry, Recording] | None:
        """A program with open sizes, if a call like this one has had others.

        Where there is none, what the function does needs to be compiled for its very sizes.
        """
        if self._sizes is None:
            return None
        known = self._sizes.openings(call)
        failed: list[Opening] = []
        for opening in known or self._sizes.proposals(call):
            call.open_sizes(opening)
            try:
                made = self._made(call)
            except Exception:  # also what is the function's own doing will be raised again
                failed.append(opening)
                continue
            if made[0].fits_sizes(call):
                self._sizes.accept(call, opening, () if known else failed)
                return made
        call.open_sizes(None)
        made = self._made(call)
        self._sizes.refuse(call, failed)
        return made

    def _made(self, call: Call) -> tuple[Entry, Recording]:
        """A program for a call as it is seen, and what it is made of."""
        call.values = None
        recording, environment, numbers = self._recorded(call)
        if call.opening is not None and any(isinstance(each, Dim) for each in numbers.settled):
            raise ShapeError("[jit] what the function does is for one size")
        environment.watch_also([hook for slot in recording.slots for hook in slot.hooks])
        environment.unwatch(recording.functions)
        fixed = self.programs < FIXED
        return Entry(recording, environment, numbers, call, fixed, self._budget), recording

    def _recorded(self, call: Call) -> tuple[Recording, Environment, Numbers]:
        """What the function does, with stand-ins for open numbers.

        What raises with stand-ins is tried without: it may be their doing.
        """
        opened = self._opened
        before: tuple[Any, ...] | None = None
        while True:
            environment = Environment(self._f, call.objects(), opened.paths)
            numbers = Numbers(environment, call)
            if environment.asks_types and call.opening is not None:
                raise ShapeError("[jit] code that asks for types would see that a size is open")
            if numbers.given and environment.asks_types:
                opened.close(numbers.given, call)
                continue
            try:
                recording = record(self._f, call, environment, numbers)
            except Exception:
                if before is not None:
                    opened.reset(before, call)
                if not numbers.given:
                    raise
                before = opened.state()
                opened.close(numbers.given, call)
                continue
            if call.sizes and environment.settle(call.sizes) and call.opening is not None:
                raise ShapeError("[jit] the function keeps a size outside, which no call repeats")
            opened.close(numbers.fixed, call)
            if all(isinstance(source, Dim) for source in numbers.kept):
                return recording, environment, numbers

    def _keep(self, key: tuple[object, ...], entry: Entry) -> None:
        """Remember a program, and forget the oldest when there are very many."""
        entries = self._entries
        if key not in entries and len(entries) >= MOST:
            del entries[next(iter(entries))]
        entries[key] = [*entries.get(key, ())[-MOST:], entry]


class Decorator(Protocol):
    """``jit`` with options, waiting for its function."""

    def __call__(self, f: Callable[..., Made], /) -> Jit[Made]:
        """The compiled function."""
        ...


def _difference(before: Sequence[Mapping[str, str]], now: Mapping[str, str]) -> str:
    """The first argument that differs from those traced before, the most similar of them."""
    if not before:
        return "first call"

    def changes(old: Mapping[str, str]) -> list[str]:
        return [path for path in {**old, **now} if old.get(path) != now.get(path)]

    nearest = min(reversed(before), key=lambda old: len(changes(old)))
    for path in changes(nearest):
        old, new = nearest.get(path, "absent"), now.get(path, "absent")
        return f"{path} was {old} and is {new}"
    return "arguments of another structure"


def _positions(
    f: Callable[..., Any], dynamic: Dynamic
) -> dict[str | int, Axes]:
    """``dynamic`` under the names and the positions of arguments."""
    if dynamic is None or dynamic is False:
        return {}
    if not isinstance(dynamic, Mapping):
        raise OptionError(
            f"[jit] dynamic={dynamic!r:.40} maps no arguments to axes; leave it out to have sizes "
            "opened that change, give False for a program for each size, or name axes, as in "
            'dynamic={"x": {0: "batch"}}'
        )
    names = list(inspect.signature(f).parameters)
    found: dict[str | int, Axes] = {}
    for name, axes in dynamic.items():
        if name not in names:
            raise OptionError(
                f"[jit] dynamic names an argument {name!r} the function does not have; "
                f"{did_you_mean(name, names)}"
            )
        found[name] = found[names.index(name)] = axes
    return found


def _without_self(f: Callable[..., Any], dynamic: Dynamic) -> Dynamic:
    """``dynamic`` for a bound method."""
    if not dynamic:
        return dynamic
    first = next(iter(inspect.signature(f).parameters), None)
    return {name: axes for name, axes in dynamic.items() if name != first}


@overload
def jit(
    f: Callable[..., Made], *, dynamic: Dynamic = None,
    memory_budget: int | None = None,
) -> Jit[Made]: ...  # fmt: skip
@overload
def jit(
    f: None = None, *, dynamic: Dynamic = None, memory_budget: int | None = None
) -> Decorator: ...
def jit(
    f: Callable[..., Any] | None = None, *, dynamic: Dynamic = None,
    memory_budget: int | None = None,
) -> Any:  # fmt: skip
    """Compile ``f`` whole: forward, backward, optimiser update, random numbers and running
    statistics become one program.

    Args:
        f: a function or method of trees of tensors, arrays and Python values, or a module. Tensors
            it reads or rebinds anywhere (in modules, optimisers, closures) are state and need not
            be declared, nor need Python numbers, text and flags that it sets where they were
            before. Text and flags that it reads are part of the program: another value makes
            another. So are numbers until they have changed once; from then on a program serves all
            their values that lead through the same branches, loops and shapes. NumPy's numbers are
            passed on as Python's.
        dynamic: None: a size of an argument is part of the program until it has changed once; from
            then on a program serves all sizes of 2 and more that lead through the same branches,
            with the results of programs for each of them. What cannot do without a size (a loop of
            Python over an axis) gets a program for each. False: every size is part of the program.
            A mapping, for arguments by name, of axes whose size may change, as
            ``{"x": {0: "batch"}}``: one program serves every size from the first call on, and one
            that it cannot serve is an error.
        memory_budget: bytes that a call may take at once, by its plan: values between, and results
            but for the state that they replace. Values of the forward pass are then computed again
            in the backward pass as far as it takes, those that are cheapest for their size first;
            the results are the same. ``lower(*args).memory`` is what a program takes. Without a
            budget only what costs hardly any time is computed again.

    Raises:
        TraceError: when called, if ``f`` looks at a value that a program cannot know when it is
            compiled.
        OptionError: if ``dynamic`` names what is no argument or is no mapping; for a budget that is
            no number of bytes; when called, for one that cannot be kept, with the least that is
            needed.

    >>> import lamella as lm
    >>> @lm.jit
    ... def f(x):
    ...     return (x * 2).sum()
    >>> f(lm.ones(3)).item()
    6.0
    """
    if f is None:
        return lambda g: Jit(g, dynamic, memory_budget)
    return Jit(f, dynamic, memory_budget)
