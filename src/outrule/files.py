"""Safe files: read up to a limit; replaced in one step by a complete one, or left as they were."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import IO
from uuid import uuid4

from outrule.errors import DataError

try:
    import fcntl
except ImportError:  # Windows, where nobody can remove a file that is open
    fcntl = None  # type: ignore[assignment]

STANDARD = "-"  # standard input or output
WILDCARDS = "*?["
ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.:-]+://")


@contextmanager
def whole_file(target: Path, *, durable: bool = True) -> Iterator[Path]:
    """A draft to write to; it replaces the target at the end, or is removed after an error.

    A link stays, and what it points to is replaced. The new file has the permissions of the old
    one. Drafts of the same target that a killed process has left are removed. A file that is not
    ``durable`` may be damaged if the machine fails within seconds; it does not wait for the disk.
    """
    target = follow_links(target)
    try:
        old = target.stat()
    except FileNotFoundError:
        old = None
    _remove_stale(target)
    draft, lock = _new_draft(target, 0o666 if old is None else 0o600)
    try:
        yield draft
        if durable:
            with draft.open("rb+") as file:
                os.fsync(file.fileno())
        if old is not None:
            _keep_access(draft, old)
        if fcntl is None:
            lock.close()
        draft.replace(target)
    except BaseException:
        lock.close()
        draft.unlink(missing_ok=True)
        raise
    finally:
        lock.close()


def follow_links(path: str | PathLike[str]) -> Path:
    """The file that a path means, however many links it takes; it need not exist."""
    real = Path(os.path.realpath(path))
    if real.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return real


def _new_draft(target: Path, mode: int) -> tuple[Path, IO[bytes]]:
    """A new file beside the target, and what keeps it locked until it is closed."""
    while True:
        draft = target.with_name(f"{_draft_prefix(target)}{uuid4().hex}{target.suffix}")
        lock = os.fdopen(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode), "rb")
        if fcntl is None:
            return draft, lock
        with suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        if os.fstat(lock.fileno()).st_nlink:  # or else it was taken for stale before it was locked
            return draft, lock
        lock.close()


def _draft_prefix(target: Path) -> str:
    return f".{sha256(os.fsencode(target.name)).hexdigest()[:16]}-"


def _remove_stale(target: Path) -> None:
    """Remove drafts that no process holds."""
    for draft in target.parent.glob(f"{_draft_prefix(target)}*"):
        with suppress(OSError):
            if fcntl is None:
                draft.unlink()
                continue
            lock = os.open(draft, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                draft.unlink()
            finally:
                os.close(lock)


def _keep_access(draft: Path, old: os.stat_result) -> None:
    """Give a draft the owner, as far as we may, and the permissions of the file it replaces."""
    if hasattr(os, "chown"):
        with suppress(OSError):
            os.chown(draft, old.st_uid, old.st_gid)
    draft.chmod(stat.S_IMODE(old.st_mode) & 0o777)


def write_text(target: Path, text: str) -> None:
    """Write a text file, complete or not at all; a pipe or device is written into."""
    try:
        if is_special(target):
            target.write_text(text, encoding="utf-8")
            return
        with whole_file(target) as draft:
            draft.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        if error.errno is not None:
            error.filename = str(target)  # not its draft; and a full disk does not say where it is
        raise


def read_limited(path: str | PathLike[str], most: int, *, secret: bool = False) -> bytes:
    """The bytes of a file; DataError if there are more than ``most``, and no more are read.

    A ``secret`` file may not be readable by everyone.
    """
    with Path(path).open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if secret and os.name == "posix" and mode & stat.S_IROTH:
            raise DataError(f"{path} can be read by every user, so it is no secret: chmod 600 it.")
        data = file.read(most + 1)
    if len(data) > most:
        raise DataError(f"{path} is too large: it has more than {most:,} bytes.")
    return data


@contextmanager
def naming_errors(path: object, verb: str) -> Iterator[None]:
    """Errors of the system become a DataError: this path cannot be read or written."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{path} cannot be {verb}: {error.strerror or error}.") from None


@contextmanager
def open_output(path: str | PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file to write to: standard output for "-", a pipe or device, or a whole file.

    Errors of the system become a DataError that names the path; a broken pipe stays what it is.
    """
    try:
        if str(path) == STANDARD:
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        elif is_special(path):
            with Path(path).open("wb") as file:
                yield file
        else:
            with whole_file(Path(path)) as draft, draft.open("wb") as file:
                yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        name = "standard output" if str(path) == STANDARD else path
        raise DataError(f"{name} cannot be written: {error.strerror or error}.") from None


def is_special(path: str | PathLike[str]) -> bool:
    """Whether a path is a pipe or a device, which is written into and never replaced."""
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def is_address(path: str | PathLike[str]) -> bool:
    """Whether a path is an address such as ``s3://bucket/folder``."""
    return ADDRESS.match(str(path)) is not None and local_path(path) == str(path)


def local_path(path: str | PathLike[str]) -> str:
    """A path without the ``file://`` of its address."""
    return str(path).removeprefix("file://")


def check_named(path: str | PathLike[str] | None) -> None:
    """Raise for an empty name, which would mean the current folder."""
    if path is not None and not str(path):
        raise DataError("a file name is empty: perhaps a shell variable is not set.")


def is_utf8(name: str) -> bool:
    """Whether a name, perhaps from the system, consists of characters that can be written."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_folder(path: str | PathLike[str]) -> bool:
    """Whether a path means many files: a folder, an address, or a pattern that is no file."""
    check_named(path)
    if is_address(path):
        return True
    path = local_path(path)
    if Path(path).is_dir():
        return True
    return has_wildcard(path) and not Path(path).exists()


def has_wildcard(name: str) -> bool:
    """Whether a path, or a part of one, is a pattern."""
    return any(c in name for c in WILDCARDS)
