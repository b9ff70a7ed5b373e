"""Files appear whole or not at all, where the user said, with the mode they had."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from swapcal.archive import put_text, replacing

posix = pytest.mark.skipif(os.name != "posix", reason="links, fifos and modes of POSIX")


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_text_is_written_whole(tmp_path: Path) -> None:
    put_text(tmp_path / "page", "½ and ‖x‖\n")
    assert (tmp_path / "page").read_bytes() == "½ and ‖x‖\n".encode()
    assert os.listdir(tmp_path) == ["page"]


def test_an_exception_leaves_the_old_file_and_nothing_beside(tmp_path: Path) -> None:
    put_text(tmp_path / "page", "old")

    def interrupted() -> None:
        with replacing(tmp_path / "page") as file:
            file.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (tmp_path / "page").read_text() == "old"
    assert os.listdir(tmp_path) == ["page"]


def test_the_name_moves_and_the_bytes_are_not_copied(tmp_path: Path) -> None:
    """A copy would be half-way for a while; a rename never is."""
    put_text(tmp_path / "page", "old")
    before = (tmp_path / "page").stat().st_ino
    with (tmp_path / "page").open() as reader:
        with replacing(tmp_path / "page") as file:
            file.write(b"new")
            fresh = os.fstat(file.fileno()).st_ino
        assert reader.read() == "old"
    assert (tmp_path / "page").stat().st_ino == fresh != before


@posix
def test_bytes_then_names_reach_the_disk(tmp_path: Path, monkeypatch: Any) -> None:
    happened: list[str] = []
    sync, rename = os.fsync, os.replace

    def noted_sync(handle: int) -> None:
        happened.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        sync(handle)

    def noted_rename(source: Any, target: Any) -> None:
        happened.append("rename")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(os, "replace", noted_rename)
    put_text(tmp_path / "page", "new")
    assert happened == ["file", "rename", "folder"]


@posix
def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    put_text(tmp_path / "there" / "page", "old")
    (tmp_path / "link").symlink_to(tmp_path / "there" / "page")
    (tmp_path / "dangling").symlink_to(tmp_path / "there" / "fresh")
    put_text(tmp_path / "link", "new")
    put_text(tmp_path / "dangling", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "page").read_text() == "new"
    assert (tmp_path / "there" / "fresh").read_text() == "new"
    assert sorted(os.listdir(tmp_path / "there")) == ["fresh", "page"]


@posix
def test_modes_are_kept_and_new_files_follow_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        put_text(tmp_path / "page", "x")
        assert mode_of(tmp_path / "page") == 0o640
        (tmp_path / "page").chmod(0o604)
        put_text(tmp_path / "page", "y")
        assert mode_of(tmp_path / "page") == 0o604
    finally:
        os.umask(old)


@posix
def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "fifo")
    for name, noun in (("fifo", "fifo"), ("folder", "folder"), ("link", "fifo")):
        with pytest.raises(OSError, match=f"given a {noun}, expected a regular file.*{name}"):
            put_text(tmp_path / name, "x")
    with pytest.raises(OSError, match="given a device, expected a regular file"):
        put_text("/dev/null", "x")
    assert stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert sorted(os.listdir(tmp_path)) == ["fifo", "folder", "link"]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"given a folder that does not exist \(.*no\), expected an existing"):
        put_text(tmp_path / "no" / "page", "x")
    put_text(tmp_path / "page", "x")
    with pytest.raises(NotADirectoryError, match="given a path that cannot be looked at"):
        put_text(tmp_path / "page" / "page", "x")


@posix
def test_a_file_that_may_not_be_written_is_not_replaced(tmp_path: Path, monkeypatch: Any) -> None:
    put_text(tmp_path / "page", "old")
    (tmp_path / "page").chmod(0o444)
    monkeypatch.setattr(os, "access", lambda path, how: bool(os.stat(path).st_mode & 0o200))  # also for root
    with pytest.raises(PermissionError, match="given a file that may not be written"):
        put_text(tmp_path / "page", "new")
    assert (tmp_path / "page").read_text() == "old"


def test_a_folder_that_takes_no_files_is_named(tmp_path: Path, monkeypatch: Any) -> None:
    def refuse(*args: Any) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(PermissionError, match=r"given a folder in which no file can be made \(Permission denied\)"):
        put_text(tmp_path / "page", "x")


def test_long_names_leave_room_for_the_temporary_one(tmp_path: Path) -> None:
    put_text(tmp_path / ("n" * 255), "x")
    assert os.listdir(tmp_path) == ["n" * 255]


KILLED = """
import os, signal, sys
from swapcal.archive import put_text
os.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL)
put_text(sys.argv[1], "new")
"""


@posix
def test_a_kill_leaves_the_old_file_and_a_temporary_one_that_harms_nobody(tmp_path: Path) -> None:
    put_text(tmp_path / "page", "old")
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "page")], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert (tmp_path / "page").read_text() == "old"
    (beside,) = [name for name in os.listdir(tmp_path) if name != "page"]
    assert beside.startswith(".page.")
    assert beside.endswith(".tmp")
    put_text(tmp_path / "page", "new")
    assert (tmp_path / "page").read_text() == "new"
    assert sorted(os.listdir(tmp_path)) == [beside, "page"]
