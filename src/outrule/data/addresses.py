"""Files at addresses such as ``s3://bucket/file``, which fsspec reads and writes, each whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from outrule.errors import DataError
from outrule.files import has_wildcard, is_address, local_path


@dataclass(frozen=True)
class Address:
    """A file that fsspec knows; small, so that it can be sent to workers."""

    url: str

    def __str__(self) -> str:
        return self.url

    def read_bytes(self) -> bytes:
        with _opened(self.url) as (system, path):
            return bytes(system.cat_file(path))

    def read_end(self) -> bytes:
        """A Parquet file without its rows: only what its end says about it."""
        with _opened(self.url) as (system, path):
            size = int(system.size(path))
            end = system.cat_file(path, start=max(0, size - 8), end=size)
            length = 8 + int.from_bytes(end[:4], "little")
            if end[4:] != b"PAR1" or length > size:
                return bytes(system.cat_file(path, start=0, end=8))  # which is found to be damaged
            return b"PAR1" + bytes(system.cat_file(path, start=size - length, end=size))

    def exists(self) -> bool:
        with _opened(self.url) as (system, path):
            system.invalidate_cache()
            return bool(system.exists(path))

    def write_bytes(self, data: bytes) -> None:
        """Write a whole file, under another name until it is complete."""
        with _opened(self.url) as (system, path):
            folder, _, name = path.rpartition("/")
            draft = f"{folder}/.{uuid4().hex}-{name}"
            system.makedirs(folder, exist_ok=True)
            try:
                system.pipe_file(draft, data)
                system.mv(draft, path)
            except BaseException:
                with suppress(Exception):  # there may be no draft, or no connection
                    system.rm(draft)
                raise

    def unlink(self, *, missing_ok: bool = False) -> None:
        with _opened(self.url) as (system, path):
            if not missing_ok or system.exists(path):
                system.rm(path)

    def stamp(self) -> tuple[Any, ...]:
        """By what a change of the file is noticed."""
        with _opened(self.url) as (system, path):
            system.invalidate_cache()
            return (system.ukey(path),)


Place = Path | Address


def place_of(path: Any) -> Place:
    """Where a file is, by what a user wrote."""
    return Address(str(path)) if is_address(path) else Path(local_path(path))


def list_addresses(source: str) -> tuple[str, list[str]]:
    """The files of a folder with its subfolders, or of a pattern: where, and their names."""
    protocol, _, rest = source.rstrip("/").partition("://")
    parts = rest.split("/")
    depth = next((i for i, part in enumerate(parts) if has_wildcard(part)), len(parts))
    root, pattern = f"{protocol}://{'/'.join(parts[:depth])}", "/".join(parts[depth:])
    with _opened(root) as (system, path):
        if not pattern and system.isfile(path):
            return root.rpartition("/")[0], [parts[-1]]
        found = system.glob(f"{path}/{pattern}") if pattern else system.find(path)
        return root, [str(name)[len(path) :].lstrip("/") for name in found]


@contextmanager
def _opened(url: str) -> Iterator[tuple[Any, str]]:
    """The file system of an address, and the path there; its errors become those of the system."""
    try:
        from fsspec.core import url_to_fs  # an extra
    except ImportError:
        words = f"{url} needs fsspec, which is not installed"
        raise DataError(f"{words}: pip install 'outrule[remote]'.") from None
    try:
        yield url_to_fs(url)
    except ImportError as error:  # of the library for this kind of address
        raise DataError(f"{url} cannot be opened: {error}.") from None
    except FileNotFoundError:
        raise OSError(0, "No such file") from None
    except Exception as error:  # of any library
        reason = str(error).partition("\n")[0].rstrip(".") or type(error).__name__
        raise OSError(0, reason) from None
