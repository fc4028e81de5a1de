"""``python -m lamella`` is the ``lamella`` command."""

from __future__ import annotations

import sys

from lamella.cli import main

if __name__ == "__main__":
    sys.exit(main())
