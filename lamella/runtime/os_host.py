"""The operating system this process runs on: os_linux, os_macos or os_windows under one name."""

from __future__ import annotations

import sys

if sys.platform == "win32":
    from lamella.runtime.os_windows import *  # noqa: F403
elif sys.platform == "darwin":
    from lamella.runtime.os_macos import *  # noqa: F403
else:
    from lamella.runtime.os_linux import *  # noqa: F403
