"""The program cache on disk: what it returns, refuses, survives and bounds."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lamella.config import config
from lamella.runtime import disk


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    with config(cache_dir=str(tmp_path / "cache"), cache=1):
        yield tmp_path / "cache"


def entries(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


def test_what_is_put_is_found_by_its_key_only(root: Path) -> None:
    assert disk.get("a") is None
    disk.put("a", b"one")
    disk.put(b"b", b"")
    assert disk.get("a") == b"one"
    assert disk.get(b"a") == b"one"
    assert disk.get("b") == b""
    assert disk.get("c") is None
    disk.put("a", b"two")
    assert disk.get("a") == b"two"
    assert len(entries(root)) == 2


def test_the_folder_is_private(root: Path) -> None:
    disk.put("a", b"x")
    folder = disk.cache_folder()
    assert folder is not None
    assert folder.stat().st_mode & 0o777 == 0o700
    assert entries(root)[0].stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("cut", [0, 5, 20, 47, 48, 60])
def test_truncated_entries_are_ignored_and_replaced(root: Path, cut: int) -> None:
    disk.put("a", b"content of the entry")
    (path,) = entries(root)
    path.write_bytes(path.read_bytes()[:cut])
    assert disk.get("a") is None
    disk.put("a", b"content of the entry")
    assert disk.get("a") == b"content of the entry"


def test_every_damaged_byte_is_noticed(root: Path) -> None:
    disk.put("a", b"machine code")
    (path,) = entries(root)
    good = path.read_bytes()
    for i in range(len(good)):
        path.write_bytes(good[:i] + bytes([good[i] ^ 1]) + good[i + 1 :])
        assert disk.get("a") is None
    path.write_bytes(good + b"x")
    assert disk.get("a") is None
    path.write_bytes(good)
    assert disk.get("a") == b"machine code"


def test_an_entry_moved_under_another_key_is_foreign(root: Path) -> None:
    disk.put("a", b"from a")
    (source,) = entries(root)
    disk.put("b", b"from b")
    (target,) = (path for path in entries(root) if path != source)
    target.write_bytes(source.read_bytes())
    assert disk.get("b") is None
    assert disk.get("a") == b"from a"


def test_another_version_or_machine_does_not_see_the_entry(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.put("a", b"x")
    monkeypatch.setattr(disk, "environment_key", lambda: b"another CPU")
    assert disk.get("a") is None


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o777])
def test_a_folder_open_to_others_is_refused(root: Path, mode: int) -> None:
    folder = root / "programs-1"
    folder.mkdir(parents=True)
    folder.chmod(mode)
    with pytest.warns(UserWarning, match="not kept.*open to others"):
        assert disk.get("a") is None
    disk.put("a", b"x")
    assert not entries(root)
    assert "open to others" in (disk.cache_info().fault or "")


def test_a_link_or_file_in_place_of_the_folder_is_refused(root: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    root.mkdir()
    (root / "programs-1").symlink_to(elsewhere)
    with pytest.warns(UserWarning, match="symbolic link"):
        assert disk.cache_folder() is None
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "programs-1").write_text("")
    with config(cache_dir=str(blocked)), pytest.warns(UserWarning, match="not a folder"):
        assert disk.cache_folder() is None
    with config(cache_dir=str(blocked / "programs-1" / "x")), pytest.warns(match="not kept"):
        assert disk.cache_folder() is None


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(root: Path) -> None:
    folder = root / "programs-1"
    folder.mkdir(parents=True, mode=0o700)
    os.chown(folder, 12345, -1)
    with pytest.warns(UserWarning, match="belongs to user 12345"):
        assert disk.cache_folder() is None


def test_off(root: Path) -> None:
    with config(cache=0):
        disk.put("a", b"x")
        assert disk.get("a") is None
        assert disk.cache_info().folder is None
    assert not root.exists()


def test_errors_of_the_file_system_are_misses(root: Path) -> None:
    disk.put("a", b"x")
    (path,) = entries(root)
    path.unlink()
    path.mkdir()
    assert disk.get("a") is None
    disk.put("a", b"x")
    assert disk.get("a") is None
    assert [p for p in entries(root) if p.name.endswith(".part")] == []


def test_trimming_removes_the_least_recently_used_and_abandoned_files(root: Path) -> None:
    now = time.time()
    for i in range(10):
        known = set(entries(root))
        disk.put(f"key {i}", bytes(1000))
        (path,) = set(entries(root)) - known
        os.utime(path, (now - 20000 + i, now - 20000 + i))
    assert disk.get("key 0") is not None  # now the most recently used
    abandoned = path.with_name("x.part")
    abandoned.write_bytes(b"")
    os.utime(abandoned, (now - 9999, now - 9999))
    fresh = path.with_name("y.part")
    fresh.write_bytes(b"")
    disk.trim(5 * 1048)
    assert [i for i in range(10) if disk.get(f"key {i}") is not None] == [0, 6, 7, 8, 9]
    assert not abandoned.exists()
    assert fresh.exists()


def test_the_size_stays_bounded_by_writing_alone(root: Path) -> None:
    with config(cache_size=1):
        for i in range(60):
            disk.put(f"key {i}", bytes(100_000))
        info = disk.cache_info()
    assert info.nbytes <= (1 << 20) + (1 << 16) + 100_000
    assert 5 < info.entries < 13


_WRITER = """
import sys
from lamella.runtime import disk
for turn in range(150):
    for key in range(5):
        found = disk.get(f"k{key}")
        assert found is None or found == bytes([key]) * 50_000, "torn entry"
        disk.put(f"k{key}", bytes([key]) * 50_000)
    if turn % 20 == 0:
        disk.trim(100_000)
"""


def test_two_processes_share_one_folder(root: Path) -> None:
    environment = {**os.environ, "LAMELLA_CACHE_DIR": str(root)}
    processes = [
        subprocess.Popen([sys.executable, "-c", _WRITER], env=environment) for _ in range(2)
    ]
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    assert not [path for path in entries(root) if path.name.endswith(".part")]
    assert disk.get("k1") in (None, b"\1" * 50_000)
