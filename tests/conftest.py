"""What tests share: hypothesis profiles, a program cache of the session's own, ``--quick``."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# "quick" draws the same examples in every run, so that a change fails for what it changed;
# "thorough" explores (HYPOTHESIS_PROFILE=thorough make test).
settings.register_profile(
    "quick",
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("emulated", settings.get_profile("quick"), max_examples=6)
settings.register_profile(
    "thorough", max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

# A process that a script starts in the background ignores Ctrl-C, and so do its children; tests of
# interruption start children that must not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The user's own program cache must neither help the tests nor be filled by them; workers of one
# session share a folder.
_OWN_CACHE: Path | None = None
if "PYTEST_XDIST_WORKER" not in os.environ:
    _OWN_CACHE = Path(tempfile.mkdtemp(prefix="lamella-tests-"))
    os.environ["LAMELLA_CACHE_DIR"] = str(_OWN_CACHE)


# Folders of what is composed of primitives: where the suite runs with the optional passes off, one
# in so many of their tests does; those of the primitives and of the compiler all do.
COMPOSED = ("cli", "data", "docs", "fft", "linalg", "optim", "signal", "sparse", "special")
ONE_IN = 5


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="skip the tests marked slow")


def pytest_configure() -> None:
    """Tables of primitives are to have all of them."""
    import lamella.ops

    lamella.ops.load_all()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    import lamella

    if not lamella.config.optimize:
        chosen = _without_passes(items)
        config.hook.pytest_deselected(items=[i for i in items if i not in chosen])
        items[:] = [i for i in items if i in chosen]
    if not config.getoption("--quick"):
        return
    skip = pytest.mark.skip(reason="slow, and --quick was given")
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(skip)


def _without_passes(items: list[pytest.Item]) -> set[pytest.Item]:
    """The tests that may find something where the optional passes are off: they make programs and
    do not turn the passes on themselves; a share of those of what is composed.
    """
    chosen, number = set(), 0
    for item in items:
        if item.get_closest_marker("makes_no_program") or "optimized" in _fixtures(item):
            continue
        composed = item.path.parent.name in COMPOSED
        number += composed
        if not composed or number % ONE_IN == 0:
            chosen.add(item)
    return chosen


def _fixtures(item: pytest.Item) -> list[str]:
    return getattr(item, "fixturenames", [])


def pytest_collection() -> None:
    """What collection makes stays: the garbage collector need not walk thousands of tests."""
    gc.disable()


def pytest_collection_finish() -> None:
    """The garbage collector begins with what tests make."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    if _OWN_CACHE is not None:
        shutil.rmtree(_OWN_CACHE, ignore_errors=True)


@pytest.fixture(autouse=True)
def _unnamed() -> Iterator[None]:
    """No test finds that another has named axes, after which the process asks for names."""
    yield
    naming = sys.modules.get("lamella.graph.names")
    if naming is not None:
        naming.state.active = False


@pytest.fixture(autouse=True)
def _programs(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test marked ``makes_no_program`` makes none."""
    if request.node.get_closest_marker("makes_no_program") is None:
        yield
        return
    from lamella.runtime.evaluate import compiled_count

    before = compiled_count()
    yield
    assert compiled_count() == before, "it makes programs: take the mark makes_no_program away"


@pytest.fixture
def optimized() -> Iterator[None]:
    """The optional passes are on, also where the suite runs without them."""
    from lamella.config import config

    with config(optimize=1):
        yield


@pytest.fixture
def root() -> Path:
    """The root of the repository."""
    return Path(__file__).resolve().parent.parent
