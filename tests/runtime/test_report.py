"""What LAMELLA_DEBUG prints, level by level, and that it leaves results and profiles alone."""

from __future__ import annotations

import re

import numpy as np
import pytest

import lamella as lm
from lamella.errors import OptionError
from lamella.runtime.evaluate import forget_programs

LAUNCH = re.compile(r"kernel k\w{8} .+: [\d.]+ ms, [\d.]+ GFLOP/s, [\d.]+ GB/s")
MARKS = {1: "program: ", 3: "loop IR\nkernel ", 4: "LLVM IR\n", 5: "assembly\n"}


def said(capsys: pytest.CaptureFixture[str], level: int, size: int) -> str:
    capsys.readouterr()
    x = lm.asarray(np.linspace(-1, 1, size))
    with lm.config(debug=level):
        out = lm.jit(lambda t: lm.exp(t) + level)(x).numpy()
    np.testing.assert_allclose(out, np.exp(np.linspace(-1, 1, size)) + level)
    return capsys.readouterr().err


@pytest.mark.parametrize("level", range(6))
def test_each_level_adds_its_own(capsys: pytest.CaptureFixture[str], level: int) -> None:
    text = said(capsys, level, 333 + level)
    assert bool(LAUNCH.search(text)) is (level >= 2)
    for least, mark in MARKS.items():
        assert (mark in text) is (level >= least), mark
    assert ("define" in text) is (level >= 4)
    assert (".text" in text or "__text" in text) is (level >= 5)


def test_programs_from_the_disk_are_shown_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, 0, 444)
    forget_programs()
    assert MARKS[3] in said(capsys, 3, 444)


def test_every_launch_of_a_known_program_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    double = lm.jit(lambda t: t * 2.0)
    x = lm.ones((100,))
    for _ in range(3):
        double(x)
    with lm.config(debug=2):
        capsys.readouterr()
        for _ in range(3):
            lm.eval(double(x))
    assert len(LAUNCH.findall(capsys.readouterr().err)) == 3
    lm.eval(double(x))
    assert capsys.readouterr().err == ""


def test_a_profile_takes_the_place_of_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    x = lm.ones((100,))
    with lm.config(debug=2):
        with lm.profile() as p, pytest.raises(OptionError, match="nest"), lm.profile():
            pass
        with lm.profile() as p:
            lm.eval(x * 3.0)
            lm.config.debug = 0
            lm.config.debug = 2
        assert sum(row.count for row in p.rows()) >= 1
        assert not LAUNCH.search(capsys.readouterr().err)
        lm.eval(x * 5.0)
        assert LAUNCH.search(capsys.readouterr().err)
