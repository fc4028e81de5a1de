#!/bin/sh
# Print the newest usable Python from 3.11 on: one that starts and can make an environment with pip in it.
# PYTHON=/path/to/python overrides the search.
set -eu

usable() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

for candidate in ${PYTHON:-} python3.14 python3.13 python3.12 python3.11 python3 python; do
    if command -v "$candidate" >/dev/null 2>&1 && usable "$candidate"; then
        "$candidate" -c 'import sys; print(sys.executable)'
        exit 0
    fi
done
echo "No usable Python >= 3.11 found (it needs the venv and ensurepip modules: on Debian and Ubuntu" >&2
echo "apt-get install python3-venv). Set PYTHON=/path/to/python to name one." >&2
exit 1
