"""What tests share: hypothesis profiles, a program cache of the session's own, ``--quick``."""

from __future__ import annotations

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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="skip the tests marked slow")


def pytest_configure() -> None:
    """Tables of primitives are to have all of them."""
    import lamella.ops

    lamella.ops.load_all()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--quick"):
        return
    skip = pytest.mark.skip(reason="slow, and --quick was given")
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(skip)


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
