"""The cache of compiled kernels: read-only, full, damaged and shared folders."""

import importlib
import os
import pkgutil
import re
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from numba.core import config

import outrule
from outrule.kernels import compiling, picking

PACKAGE = Path(outrule.__file__).parent
NOBODY = 65534


def fresh_kernel():
    """A small kernel as a new process would have it."""
    function = picking.longest.py_func
    return compiling.njit(nogil=True, cache=True)(function)


def use(kernel):
    """Its answer, and whether it came from the cache."""
    answer = kernel(np.array([0, 3, 4, 9]))
    return answer, sum(kernel.stats.cache_hits.values()) == 1


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder that NUMBA_CACHE_DIR names; the others are out of reach."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "given"))
    monkeypatch.setattr(compiling, "HERE", tmp_path / "package")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    return tmp_path


def files(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_the_second_process_finds_what_the_first_has_compiled(folder):
    assert use(fresh_kernel()) == (5, False)
    assert use(fresh_kernel()) == (5, True)
    (path,) = files(folder)
    assert path.is_relative_to(folder / "given")


def test_the_first_folder_that_can_be_written_is_used(folder, monkeypatch):
    monkeypatch.setattr(config, "CACHE_DIR", "")
    (folder / "user").touch()  # a file, where a folder is needed
    (folder / "package").touch()
    assert [use(fresh_kernel())[1] for _ in range(2)] == [False, True]
    (path,) = files(folder / "temporary")
    private = path.parent.parent
    assert private.name == f"outrule-kernels-{os.getuid()}"
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    private.chmod(0o777)  # others could have put code into it
    assert [use(fresh_kernel()) for _ in range(2)] == [(5, False), (5, False)]
    private.rename(folder / "elsewhere")
    (folder / "elsewhere").chmod(0o700)
    private.symlink_to(folder / "elsewhere")
    assert use(fresh_kernel()) == (5, False)


def test_no_folder_at_all_is_no_error(folder, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "nowhere"))
    for name in ("given", "package", "user"):
        (folder / name).touch()
    assert [use(fresh_kernel()) for _ in range(2)] == [(5, False), (5, False)]


@pytest.mark.parametrize("place", [0, 10, 40, 0.5, -1])
@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_damaged_file_is_compiled_again_and_replaced(folder, place, damage):
    use(fresh_kernel())
    (path,) = files(folder)
    content = bytearray(path.read_bytes())
    place = int(place * len(content)) if isinstance(place, float) else place % len(content)
    if damage == "cut":
        del content[place:]
    else:
        content[place] ^= 0x10
    path.write_bytes(content)
    assert [use(fresh_kernel()) for _ in range(2)] == [(5, False), (5, True)]


def test_a_disk_that_fills_up_leaves_no_file_and_no_error(folder):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        assert use(fresh_kernel()) == (5, False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert files(folder) == []


def test_a_change_in_a_kernel_that_is_called_is_noticed(tmp_path, monkeypatch):
    package = tmp_path / "outrule"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    code = (
        "import sys; from outrule.kernels import compiling as c; "
        "sys.stdout.write(' '.join(c._stamp(f'outrule.kernels.{m}').hex() for m in sys.argv[1:]))"
    )

    def stamps():
        command = [sys.executable, "-c", code, "greedy", "best"]
        found = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, text=True)
        return found.stdout.split()

    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    before = stamps()
    source = package / "kernels" / "picking.py"  # greedy calls it, best does not
    source.write_text(source.read_text() + "\n# changed\n")
    after = stamps()
    assert before[0] != after[0]
    assert before[1] == after[1]


def test_no_kernel_has_fastmath_which_those_that_it_calls_would_keep():
    """Numba compiles a callee with the options of its first caller, and the cache keeps that."""
    for module in pkgutil.iter_modules([str(PACKAGE / "kernels")], "outrule.kernels."):
        for name, value in vars(importlib.import_module(module.name)).items():
            options = getattr(value, "targetoptions", {})
            assert "fastmath" not in options, f"{module.name}.{name}"


def test_all_kernels_have_this_cache():
    for path in (PACKAGE / "kernels").glob("*.py"):
        if path.name != "compiling.py":
            assert re.search("from numba import .*jit", path.read_text()) is None


USE = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
import numpy as np, outrule
assert outrule.__file__.startswith(sys.argv[2]), outrule.__file__
from outrule.kernels import picking
print(picking.longest(np.array([0, 3, 4])), sum(picking.longest.stats.cache_hits.values()))
"""


@pytest.fixture
def hardened():
    """A package that its user cannot write to, a home that does not exist, and how to run there."""
    if os.getuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("root can write everywhere, and there is no setpriv to be someone else")
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    user = user if os.getuid() == 0 else []
    if subprocess.run(
        [*user, sys.executable, "-c", "import numba"], capture_output=True
    ).returncode:
        pytest.skip("another user cannot read this Python")
    root = Path(tempfile.mkdtemp())
    shutil.copytree(PACKAGE, root / "outrule", ignore=shutil.ignore_patterns("__pycache__"))

    def run(*, as_user=True):
        command = [*(user if as_user else []), sys.executable, "-c", USE]
        paths = [str(root / "nowhere"), str(root)]
        places = {"HOME": str(root / "home"), "PYTHONPATH": str(root)}
        done = subprocess.run(
            [*command, *paths],
            env={**os.environ, **places, "XDG_CACHE_HOME": str(root / "home")},
            cwd=root,
            capture_output=True,
            check=False,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    def lock(mode):
        for path in (root, *root.rglob("*")):
            path.chmod((0o755 if path.is_dir() else 0o644) & mode)

    yield run, lock
    lock(0o777)
    shutil.rmtree(root)


def test_a_read_only_package_without_a_home_compiles_or_uses_what_the_image_has(hardened):
    run, lock = hardened
    lock(0o555)
    assert run() == ["3", "0"]  # compiled
    lock(0o777)
    run(as_user=False)  # as when the image is made
    lock(0o555)
    assert run() == ["3", "1"]  # from the image
