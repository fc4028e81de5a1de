"""Every public name of ``jax.lax``, ``jax.nn`` and ``jax.random`` is in ``docs/from-jax.md``."""

from __future__ import annotations

import re

import pytest

from tests.docs.test_from_jax import PAGE

jax = pytest.importorskip("jax", reason="JAX is not installed")


def listed(title: str) -> set[str]:
    text = PAGE.read_text().split(f"\n## {title}\n", 1)[1].split("\n## ")[0]
    rows = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


@pytest.mark.parametrize("title", ["jax.lax", "jax.nn", "jax.random"])
def test_every_name_is_listed(title: str) -> None:
    module = getattr(jax, title.removeprefix("jax."))
    names = {
        name for name in dir(module)
        if not name.startswith("_") and not name.endswith("_p") and name[0].islower()
        and type(getattr(module, name)).__name__ != "module"
    }  # fmt: skip
    assert sorted(names - listed(title)) == []
