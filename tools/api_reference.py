"""The API reference, made from signatures and docstrings while the site is built (an mkdocs hook).

Input: the modules of the package and their ``__all__``. Output: one generated Markdown page a
module under ``reference/`` and an index of them; nothing is written into docs/.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

SECTION = re.compile(r"^(Args|Returns|Raises|Yields|Attributes|Example|Examples|Note|Notes):\s*$")
ITEM = re.compile(r"^ {4}([\w*., ]+(?: \([^)]*\))?):\s+(.*)$")
QUOTED = re.compile(r"(: |-> )'([^']*)'")  # annotations that are kept as text
ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def modules() -> Iterator[ModuleType]:
    """The package's modules that state public names, in alphabetical order."""
    import lamella

    yield lamella
    for found in sorted(pkgutil.walk_packages(lamella.__path__, "lamella."), key=lambda f: f.name):
        if found.name.rpartition(".")[2].startswith(("_", "os_")):
            continue  # private, or a variant for one operating system
        module = importlib.import_module(found.name)
        if getattr(module, "__all__", None):
            yield module


def markdown(docstring: str) -> str:
    """A docstring (Google style, reStructuredText marks, doctests) as Markdown."""
    lines: list[str] = []
    example = False
    for line in inspect.cleandoc(docstring).splitlines():
        starts = line.lstrip().startswith(">>>")
        if starts and not example:
            lines.append("```pycon")
            example = True
        elif example and not line.strip():
            lines.extend(["```", ""])
            example = False
            continue
        lines.append(line.strip() if example else _prose(line))
    if example:
        lines.append("```")
    return "\n".join(lines)


def _prose(line: str) -> str:
    line = re.sub(r":(?:class|func|meth|mod):`([^`]+)`", r"`\1`", line).replace("``", "`")
    if found := SECTION.match(line):
        return f"**{found[1]}**\n"
    if found := ITEM.match(line):
        return f"- `{found[1]}`: {found[2]}"
    return line.strip() if line.startswith(" ") else line


def signature(value: object) -> str:
    """The signature as text, or nothing for what has none."""
    try:
        text = ADDRESS.sub("", str(inspect.signature(value)))  # type: ignore[arg-type]
        return QUOTED.sub(r"\1\2", text)
    except (TypeError, ValueError):
        return ""


def entry(name: str, value: object, level: int = 2) -> Iterator[str]:
    """The lines that describe one public name, and the public methods of a class."""
    if not (inspect.isclass(value) or callable(value)):
        shown = ADDRESS.sub("", repr(value))[:200]
        yield f"{'#' * level} {name}\n\n```python\n{name} = {shown}\n```\n"
        return
    yield f"{'#' * level} {name}\n\n```python\n{name}{signature(value)}\n```\n"
    yield markdown(inspect.getdoc(value) or "") + "\n"
    if inspect.isclass(value) and not issubclass(value, BaseException):
        for member, found in sorted(vars(value).items()):
            if not member.startswith("_") and inspect.isfunction(found) and found.__doc__:
                yield from entry(member, found, level + 1)


def page(module: ModuleType) -> str:
    """The page of one module."""
    lines = [f"# {module.__name__}\n", markdown(module.__doc__ or ""), ""]
    for name in module.__all__:
        value = getattr(module, name)
        home = getattr(value, "__module__", module.__name__)
        if inspect.ismodule(value):
            continue
        if module.__name__ == "lamella" and home != "lamella" and home.startswith("lamella."):
            first = (
                (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ").replace("``", "`")
            )
            lines.append(f"- [`lm.{name}`]({home}.md): {first}")
        elif home == module.__name__ or not str(home).startswith("lamella"):
            lines.extend(entry(name, value))
    return "\n".join(lines) + "\n"


def pages() -> dict[str, str]:
    """Every generated page by its path in the site's sources."""
    found = {f"reference/{module.__name__}.md": page(module) for module in modules()}
    index = [
        "# API reference\n",
        "Made from the docstrings, whose examples are tested. [All settings](settings.md).\n",
    ]
    for path, text in found.items():
        name = path[len("reference/") : -len(".md")]
        about = next((line for line in text.splitlines()[1:] if line.strip()), "")
        index.append(f"- [`{name}`]({name}.md): {about}")
    from lamella.config import flag_table

    settings = f"# Settings\n\n{flag_table()}\n"
    return {
        **found,
        "reference/index.md": "\n".join(index) + "\n",
        "reference/settings.md": settings,
    }


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages to the site (called by mkdocs)."""
    from mkdocs.structure.files import File

    made = pages()
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    return files
