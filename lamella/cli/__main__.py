"""``python -m lamella.cli``: the command without its installed script."""

import sys

from lamella.cli import main

sys.exit(main())
