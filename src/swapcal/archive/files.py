"""Files that appear whole or not at all."""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

Name = str | os.PathLike[str]

MOST_NAME = 40  # letters of the target's name in the temporary one, which has to fit a folder entry too


@contextmanager
def replacing(path: Name) -> Iterator[BinaryIO]:
    """Open a file beside `path` to write and read back; when the block ends well, it takes the place of `path`.

    The bytes reach the disk before the name does, so a crash leaves the old file or the new one, never half of one. A
    symbolic link stays, and what it points to is replaced. An existing file keeps its mode; what is not a regular
    file, or may not be written, is refused. After an exception nothing is left behind; a kill may leave a file named
    ``.<name>.<random>.tmp`` in the folder, which nothing reads and which may be deleted.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "page.html"
    >>> with replacing(target) as file:
    ...     _ = file.write(b"<p>whole")
    >>> target.read_bytes(), [entry.name for entry in target.parent.iterdir()]
    (b'<p>whole', ['page.html'])
    """
    target = Path(os.path.realpath(path))
    mode = _checked_mode(path, target)
    beside = target.with_name(f".{target.name[:MOST_NAME]}.{secrets.token_hex(6)}.tmp")
    try:
        with os.fdopen(_created(path, beside), "w+b") as file:
            if mode is not None:
                os.chmod(beside, mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def put_text(path: Name, text: str) -> None:
    """Write text as UTF-8, whole or not at all; see `replacing`."""
    with replacing(path) as file:
        file.write(text.encode())


def written(text: str, path: Name | None) -> str:
    """Return text, and write it if a path is given."""
    if path is not None:
        put_text(path, text)
    return text


def kind_of(mode: int) -> str:
    """Return what a file is, in words."""
    tests = {"folder": stat.S_ISDIR, "fifo": stat.S_ISFIFO, "socket": stat.S_ISSOCK, "device": stat.S_ISCHR}
    return next((word for word, test in tests.items() if test(mode)), "device" if stat.S_ISBLK(mode) else "file")


def _checked_mode(path: Name, target: Path) -> int | None:
    """Return the mode of the file that will be replaced, None if there is none; refuse what must not be replaced."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    except OSError as error:
        raise type(error)(
            error.errno, f"given a path that cannot be looked at ({error.strerror}), expected one that can", str(path)
        ) from None
    if not stat.S_ISREG(mode):
        number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(number, f"given a {kind_of(mode)}, expected a regular file", str(path))
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "given a file that may not be written, expected one that may", str(path))
    return stat.S_IMODE(mode)


def _created(path: Name, beside: Path) -> int:
    """Create the temporary file with the mode that the umask leaves."""
    try:
        return os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    except FileNotFoundError:
        refusal = f"given a folder that does not exist ({beside.parent}), expected an existing one"
        raise FileNotFoundError(errno.ENOENT, refusal, str(path)) from None
    except OSError as error:
        refusal = f"given a folder in which no file can be made ({error.strerror}), expected one that may be written"
        raise type(error)(error.errno, refusal, str(path)) from None


def _sync_folder(folder: Path) -> None:
    """Bring the new name to the disk, where folders can be synchronised at all."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)
