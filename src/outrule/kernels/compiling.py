"""Numba's compiler with a cache on disk that can be read-only, full or damaged without harm."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import llvmlite  # type: ignore[import-untyped] # it has no types
import numba
from numba.core import config
from numba.core.caching import IndexDataCacheFile
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps
from numba.misc.appdirs import AppDirs

from outrule import progress
from outrule.files import whole_file
from outrule.kernels import ahead

Function = TypeVar("Function", bound=Callable[..., Any])
HERE = Path(__file__).parent
IMPORTS = re.compile(r"^from (outrule\.kernels\.\w+) import", re.MULTILINE)
_NUMBA_FILE: Any = IndexDataCacheFile
_DUMP: Any = dumps
_REBUILD: Any = CompileResult._rebuild
CHECKSUM = hashlib.sha256().digest_size  # bytes behind the content of a file


def njit(*, cache: bool, **options: Any) -> Callable[[Function], Function]:
    """``numba.njit``, with the cache of this module."""

    def compiled(function: Function) -> Function:
        # No wrappers are compiled to call a kernel from C, or one named with _ from Python.
        inner = function.__name__.startswith("_")
        without = {"no_cfunc_wrapper": True, "no_cpython_wrapper": inner}
        kernel: Any = numba.njit(**(options | without))(function)
        if cache and kernel is not function:  # it is, with NUMBA_DISABLE_JIT=1
            kernel._cache = KernelCache(function)
        return kernel  # type: ignore[no-any-return] # called as the function is

    return compiled


class KernelCache:
    """One file per signature, in the first folder that has it; whatever fails is a miss.

    Numba's own cache needs a folder that it can write to, even to read what is there; it stops
    where a file is damaged or the disk is full; and it takes no notice of changes in other modules.
    """

    cache_path = None

    def __init__(self, function: Any) -> None:
        self._module = function.__module__
        self._name = f"{self._module.rpartition('.')[2]}.{function.__qualname__}"

    def load_overload(self, sig: Any, context: Any) -> Any:
        context.refresh()
        found = self._load(sig, context)
        if found is None:
            waited = ahead.wait_for_helpers(self._name)
            found = self._load(sig, context)  # a helper may just have written it
            if found is None:
                progress.compiling()
                if waited:
                    ahead.give_up()
        return found

    def _load(self, sig: Any, context: Any) -> Any:
        for folder in _folders():
            with suppress(Exception):  # missing, damaged, or of another version
                path = self._file(folder, sig, context.codegen())
                content = path.read_bytes()
                if content[-CHECKSUM:] == self._checksum(content[:-CHECKSUM]):
                    payload = _NUMBA_FILE(str(folder), self._name, None)._load_data(path.name)
                    return _REBUILD(context, *payload)
        return None

    def save_overload(self, sig: Any, result: Any) -> None:
        if result.lifted or result.library.has_dynamic_globals:
            return
        payload = _DUMP(result._reduce())
        for folder in _folders(to_write=True):
            with suppress(Exception):  # read-only or full: the next one, or none
                folder.mkdir(parents=True, exist_ok=True)
                path = self._file(folder, sig, result.codegen)
                with whole_file(path, durable=False) as draft:  # its checksum tells damage
                    draft.write_bytes(payload + self._checksum(payload))
                return

    def enable(self) -> None:
        """Numba's name; this cache is always on."""

    disable = flush = enable

    def _file(self, folder: Path, sig: Any, codegen: Any) -> Path:
        versions = (numba.__version__, llvmlite.__version__, sys.implementation.cache_tag)
        key = repr((versions, codegen.magic_tuple(), sig)).encode()
        return folder / f"{self._name}-{hashlib.sha256(key).hexdigest()[:16]}.kernel"

    def _checksum(self, payload: bytes) -> bytes:
        return hashlib.sha256(_stamp(self._module) + payload).digest()


@cache
def _stamp(module: str) -> bytes:
    """A hash of the source of a module and of the kernels that it calls."""
    source = str(find_spec(module).loader.get_source(module))  # type: ignore[union-attr]
    called = b"".join(map(_stamp, IMPORTS.findall(source)))
    return hashlib.sha256(source.encode() + called).digest()


def _folders(*, to_write: bool = False) -> Iterator[Path]:
    """Where compiled kernels are kept, the first choice first."""
    own = f"outrule-{hashlib.sha256(str(HERE).encode()).hexdigest()[:16]}"
    given: str = config.CACHE_DIR  # type: ignore[attr-defined] # NUMBA_CACHE_DIR
    if given:
        yield Path(given) / own
    else:
        yield HERE / "__pycache__"
        users: Any = AppDirs(appname="numba", appauthor=False)  # type: ignore[no-untyped-call]
        yield Path(users.user_cache_dir) / own
    with suppress(OSError):  # no folder for temporary files, or not one of ours in it
        yield _private(to_write) / own


def _private(to_write: bool) -> Path:
    """A folder for temporary files that nobody else can write to: what is in it will be run."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir()) / f"outrule-kernels-{user}"
    if to_write:
        folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    open_to_others = os.name == "posix" and bool(found.st_mode & 0o077)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != user or open_to_others:
        raise PermissionError(folder)
    return folder
