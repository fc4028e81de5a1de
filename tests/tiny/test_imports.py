"""What ``import lamella`` loads, and that every public name is there."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import lamella as lm

NEVER = ("llvmlite", "PIL", "matplotlib", "scipy", "rich", "torch", "jax")
UPPER = ("cli", "io", "data", "nn", "optim", "transforms", "compiler", "graph.reverse")


def loaded(statement: str) -> set[str]:
    code = f"{statement}\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_import_is_light() -> None:
    names = loaded("import lamella")
    assert names.isdisjoint(NEVER)
    assert names.isdisjoint(f"lamella.{package}" for package in UPPER)


def test_recording_operations_loads_no_compiler() -> None:
    names = loaded("import lamella as lm; x = lm.ones((2, 3)); y = lm.tanh(x) * 2 + x")
    assert "llvmlite" not in names


def test_every_public_name_is_there() -> None:
    missing = [name for name in lm.__all__ if not hasattr(lm, name)]
    assert missing == []
    assert set(lm.__all__) <= set(dir(lm))


def test_versions_agree(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert lm.__version__ == project["version"]
