"""The program cache on disk: compiled code by key, shared by the user's processes.

Input: a key (whatever determines the code) and bytes. Output: the same bytes later, or None. Each
entry carries a SHA-256 over its key, the environment (Lamella, LLVM and the CPU) and its content,
so a damaged, truncated or foreign entry is a miss, and the next ``put`` replaces it. Writes go to a
temporary file that is renamed, so readers see whole entries only. The folder holds native code: it
must be the user's own and closed to everyone else, or the cache stays off with a warning. Nothing
here is ever fatal.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import hmac
import os
import struct
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lamella.config import config
from lamella.runtime import os_host

__all__ = ["CacheInfo", "cache_folder", "cache_info", "environment_key", "get", "put", "trim"]

_FOLDER: Final = "programs-1"  # the number changes with the format of entries
_MAGIC: Final = b"LAMELLA1"
_HEADER: Final = struct.Struct("<8sQ32s")  # magic, content length, digest
_TEMPORARY: Final = ".part"
_STALE: Final = 3600.0  # seconds after which a temporary file is abandoned or a time stamp renewed


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """The state of the cache: where it is (None if off), why it is off, and counts."""

    folder: Path | None
    fault: str | None
    entries: int
    nbytes: int
    limit: int
    hits: int
    misses: int
    writes: int


class _State:
    """What this process knows of the cache."""

    __slots__ = ("checked", "fault", "folder", "hits", "misses", "since_trim", "writes")

    def __init__(self) -> None:
        self.checked: str | None = None  # the setting that ``folder`` was derived from
        self.folder: Path | None = None
        self.fault: str | None = None
        self.hits = self.misses = self.writes = self.since_trim = 0


_state: Final = _State()


@functools.cache
def environment_key() -> bytes:
    """A digest of what compiled code depends on besides its source: Lamella, LLVM, the machine.

    >>> len(environment_key())
    32
    """
    import llvmlite

    parts = (_lamella_version(), llvmlite.__version__, *os_host.machine_identity())
    return hashlib.sha256("\0".join(parts).encode()).digest()


@functools.cache
def _lamella_version() -> str:
    """The version, with the time of the newest source file while working from a checkout."""
    import lamella

    version = str(getattr(lamella, "__version__", "0"))
    root = Path(lamella.__file__).parent
    if not (root.parent / "pyproject.toml").is_file():
        return version
    newest = 0
    for folder in ("compiler", "ir", "ops", "runtime"):
        for base, _, names in os.walk(root / folder):
            for name in names:
                if name.endswith(".py"):
                    newest = max(newest, os.stat(os.path.join(base, name)).st_mtime_ns)
    return f"{version}+{newest}"


def cache_folder() -> Path | None:
    """The folder of entries, made if need be; None if the cache is off or its folder not safe."""
    if not config.cache:
        return None
    if _state.checked != config.cache_dir:
        _state.checked = config.cache_dir
        _state.folder, _state.fault = _open_folder()
        if _state.fault:
            warnings.warn(
                f"[cache] compiled programs are not kept: {_state.fault}; "
                "set LAMELLA_CACHE_DIR to a folder of your own, or LAMELLA_CACHE=0",
                stacklevel=2,
            )
    return _state.folder


def _open_folder() -> tuple[Path | None, str | None]:
    try:
        root = Path(config.cache_dir) if config.cache_dir else os_host.cache_root() / "lamella"
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = root.absolute() / _FOLDER
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        fault = os_host.folder_fault(folder)
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: there is no home folder
        return None, f"{config.cache_dir or 'the cache folder'} cannot be used ({error})"
    return (None, f"{folder} is not safe: {fault}") if fault else (folder, None)


def _digests(key: bytes | str) -> tuple[bytes, str]:
    """The key bound to the environment, and the entry's path within the folder."""
    raw = key.encode() if isinstance(key, str) else key
    bound = hashlib.sha256(environment_key() + raw).digest()
    name = bound.hex()
    return bound, f"{name[:2]}/{name[2:]}"


def get(key: bytes | str) -> bytes | None:
    """The content stored under ``key`` by this version on this kind of machine, or None.

    >>> get("never stored") is None
    True
    """
    folder = cache_folder()
    if folder is None:
        return None
    bound, name = _digests(key)
    path = folder / name
    try:
        with open(path, "rb") as file:
            data = file.read()
            if time.time() - os.fstat(file.fileno()).st_mtime > _STALE:
                os.utime(path)  # recently used entries are the last to be trimmed
    except OSError:
        data = b""
    content = _unpack(bound, data)
    if content is None:
        _state.misses += 1
    else:
        _state.hits += 1
    return content


def _unpack(bound: bytes, data: bytes) -> bytes | None:
    if len(data) < _HEADER.size:
        return None
    magic, length, digest = _HEADER.unpack_from(data)
    content = data[_HEADER.size :]
    if magic != _MAGIC or length != len(content):
        return None
    expected = hashlib.sha256(bound + content).digest()
    return content if hmac.compare_digest(digest, expected) else None


def put(key: bytes | str, content: bytes) -> None:
    """Store ``content`` under ``key``, replacing what is there; silent if it cannot be."""
    folder = cache_folder()
    if folder is None:
        return
    bound, name = _digests(key)
    header = _HEADER.pack(_MAGIC, len(content), hashlib.sha256(bound + content).digest())
    path = folder / name
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{os.urandom(4).hex()}{_TEMPORARY}")
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with open(handle, "wb") as file:
            file.write(header + content)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        return
    _state.writes += 1
    _state.since_trim += len(header) + len(content)
    limit = config.cache_size << 20
    if bound[0] == 0 or _state.since_trim > limit // 16:  # one write in 256 pays for the scan
        trim(limit)


def _entries(folder: Path) -> Iterator[tuple[float, int, str]]:
    """(time of last use, bytes, path) of every file."""
    for group in _scan(folder):
        for item in _scan(group.path):
            with contextlib.suppress(OSError):  # another process may have removed it
                status = item.stat(follow_symlinks=False)
                yield status.st_mtime, status.st_size, item.path


def _scan(path: str | Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as items:
            return list(items)
    except OSError:
        return []


def trim(limit: int) -> None:
    """Remove the least recently used entries until at most ``limit`` bytes are left."""
    folder = cache_folder()
    if folder is None:
        return
    _state.since_trim = 0
    now = time.time()
    found = sorted(_entries(folder))
    total = sum(size for _, size, _ in found)
    for used, size, path in found:
        abandoned = path.endswith(_TEMPORARY) and now - used > _STALE
        if total <= limit and not abandoned:
            continue
        with contextlib.suppress(OSError):
            os.unlink(path)
            total -= size


def cache_info() -> CacheInfo:
    """Where the cache is, how large it is, and what this process found in it.

    >>> cache_info().limit == config.cache_size << 20
    True
    """
    folder = cache_folder()
    sizes = [size for _, size, _ in _entries(folder)] if folder else []
    fault = _state.fault if config.cache else "off (LAMELLA_CACHE=0)"
    return CacheInfo(
        folder, fault, len(sizes), sum(sizes), config.cache_size << 20,
        _state.hits, _state.misses, _state.writes,
    )  # fmt: skip
