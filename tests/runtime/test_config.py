"""Settings: scopes, bounds, environment variables and their messages."""

from __future__ import annotations

import contextlib
import copy
import pickle
import platform

import numpy as np
import pytest

import lamella as lm
from lamella.config import FLAGS, Config, config, flag_table
from lamella.errors import OptionError


def test_few_flags_each_declared_and_documented() -> None:
    assert len(FLAGS) <= 20
    assert {flag.name for flag in FLAGS} == set(Config.__annotations__)
    table = flag_table()
    for flag in FLAGS:
        assert flag.doc
        assert f"| `{flag.name}` |" in table


def test_scopes_nest_and_restore_after_an_exception() -> None:
    settings = Config({})
    with settings(debug=1):
        scope = settings(debug=2, threads=3)
        with contextlib.suppress(KeyError), scope:
            assert (settings.debug, settings.threads) == (2, 3)
            raise KeyError
        assert (settings.debug, settings.threads) == (1, 0)
    assert settings.debug == 0


def test_a_scope_may_be_entered_again() -> None:
    settings = Config({})
    scope = settings(debug=3)
    for _ in range(2):
        with scope:
            assert settings.debug == 3
        assert settings.debug == 0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"debgu": 1}, "did you mean 'debug'"),
        ({"debug": 6}, "lies from 0 to 5"),
        ({"debug": -1}, "lies from 0 to 5"),
        ({"debug": "2"}, "whole number"),
        ({"debug": 1.5}, "whole number"),
        ({"backend": "lvm"}, "did you mean 'llvm'"),
        ({"backend": 1}, "is text"),
    ],
)
def test_bad_values_are_refused_by_scope_and_assignment(
    values: dict[str, object], message: str
) -> None:
    settings = Config({})
    with pytest.raises(OptionError, match=message):
        settings(**values)  # type: ignore[arg-type]
    ((name, value),) = values.items()
    with pytest.raises(OptionError, match=message):
        setattr(settings, name, value)
    assert repr(settings) == repr(Config({}))


def test_an_unknown_attribute_names_the_closest_flag() -> None:
    with pytest.raises(OptionError, match="did you mean 'threads'"):
        _ = config.thread
    assert not hasattr(config, "__wrapped__")


def test_environment_variables() -> None:
    settings = Config({"LAMELLA_DEBUG": "2", "LAMELLA_CACHE_DIR": "/x", "LAMELLA_THREADS": ""})
    assert (settings.debug, settings.cache_dir, settings.threads) == (2, "/x", 0)
    with pytest.raises(OptionError, match=r"LAMELLA_DEBUG='much' is not a whole number"):
        Config({"LAMELLA_DEBUG": "much"})
    with pytest.warns(UserWarning, match="did you mean 'LAMELLA_DEBUG'"):
        Config({"LAMELLA_DEBGU": "2"})
    with pytest.warns(UserWarning, match="did you mean 'LAMELLA_DEBUG'"):
        Config({"lamella_debug": "2"})
    with pytest.warns(UserWarning, match=r"LAMELLA_QUASAR has no effect, .*Known"):
        Config({"LAMELLA_QUASAR": "1"})


def test_watchers_hear_changes_only() -> None:
    settings, heard = Config({}), []
    settings.watch("threads", lambda: heard.append(settings.threads))
    settings.threads = 0
    with settings(threads=2):
        pass
    assert heard == [2, 0]


def test_copies_keep_their_own_values() -> None:
    settings = Config({"LAMELLA_DEBUG": "2"})
    twin = copy.copy(settings)
    twin.debug = 3
    assert (settings.debug, twin.debug) == (2, 3)
    assert pickle.loads(pickle.dumps(settings)).debug == 2


def test_a_target_that_this_machine_does_not_run_is_refused_where_it_would_run() -> None:
    foreign = "x86-64-v2" if platform.machine() in ("aarch64", "arm64") else "aarch64"
    x = lm.asarray(np.arange(3.0))
    with lm.config(target=foreign):
        assert "define" in lm.jit(lambda x: x + 1.5).lower(x).text(3)  # compiled for others
        with pytest.raises(OptionError, match=r"\[target\] .* not of the kind"):
            lm.eval(x + 1.5)
    assert (x + 1.5).tolist() == [1.5, 2.5, 3.5]
