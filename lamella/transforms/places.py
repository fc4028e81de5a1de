"""Where Python keeps a value: an attribute, an item, a variable, to be read and set from outside.

Input: a container, object or closure variable, and a name or position in it. Output:
:class:`Place`. Setting one runs no code of the user's.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

__all__ = ["SETTABLE", "Form", "Place", "bump"]

SETTABLE: Final = frozenset({dict, OrderedDict, defaultdict, list, deque})  # no subclass of a user


class Form(Enum):
    """How a place is read, as the text of an expression of its holder and its key."""

    ITEM = "{0}[{1}]"
    CELL = "{0}.cell_contents"
    SLOT = "getattr({0}, {1})"
    CLASS = "vars({0})[{1}]"


@dataclass(frozen=True, slots=True)
class Place:
    """One place.

    Args:
        form: what it is.
        holder: the container, the ``__dict__``, the closure variable or the object.
        key: the item or the attribute; None for a closure variable.
        name: what code that sets it mentions (see ``codes.stored``).
        announced: whether those who watch the holder rely on being told of its changes.
    """

    form: Form
    holder: Any
    key: Any
    name: str
    announced: bool = False

    def read(self) -> Any:
        """What is there.

        Raises:
            LookupError, ValueError, AttributeError: if nothing is.
        """
        if self.form is Form.ITEM:
            return self.holder[self.key]
        if self.form is Form.CELL:
            return self.holder.cell_contents
        return getattr(self.holder, self.key) if self.form is Form.SLOT else (
            vars(self.holder)[self.key]
        )  # fmt: skip

    def write(self, value: object) -> None:
        """Put ``value`` there, unseen by anyone."""
        if self.form is Form.ITEM:
            self.holder[self.key] = value
        elif self.form is Form.CELL:
            self.holder.cell_contents = value
        elif self.form is Form.SLOT:
            object.__setattr__(self.holder, self.key, value)
        else:
            type.__setattr__(self.holder, self.key, value)


def bump() -> None:
    """Tell those who watch modules that something in one has changed."""
    nn = sys.modules.get("lamella.nn.module")
    if nn is not None:
        nn.bump()
