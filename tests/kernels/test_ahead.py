import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from numba import typeof

from outrule.errors import DataError
from outrule.kernels import ahead, compiling, picking, tally, trees

FIT = """
import numpy as np
import outrule

generator = np.random.default_rng(0)
predictions = generator.uniform(size=(3000, 8))
outcomes = (generator.uniform(size=(3000, 8)) < predictions**2).astype(float)
calibrator = outrule.DecisionCalibrator(outrule.BestAction(), outrule.multipliers(8, limit=64))
calibrator.fit(predictions[:2000], outcomes[:2000])
calibrated = calibrator.predict(predictions[2000:])
outrule.certify(calibrator, predictions[2000:], outcomes[2000:])
"""
RECORD = """
from outrule.kernels import compiling

asked = []
load = compiling.KernelCache.load_overload


def recorded(self, sig, context):
    asked.append((self._name, sig))
    return load(self, sig, context)


compiling.KernelCache.load_overload = recorded
"""
MISSING = """
from outrule.kernels import ahead

for line in ahead.KERNELS:
    name, types = line.split(" ", 1)
    if (name, ahead.signature(types)) not in asked:
        print(line)
"""


def output_of(code, **changes):
    given = [sys.executable, "-c", code]
    return subprocess.run(
        given, check=True, capture_output=True, text=True, env=os.environ | changes
    ).stdout


def test_a_first_fit_and_its_certificate_need_every_kernel_that_helpers_compile():
    assert output_of(RECORD + FIT + MISSING) == ""


def test_a_signature_is_that_of_the_arguments():
    frozen = np.zeros(2)
    frozen.flags.writeable = False
    integers, floats = np.zeros(3, np.int64), np.zeros((2, 5))
    arguments = (frozen, (integers, (floats, integers)), None, 1, 0.5, True, np.zeros(1, np.uint8))
    found = ahead.signature("f1! (i1 (f2 i1)) - i f b u1")
    assert found == tuple(map(typeof, arguments))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    return tmp_path


def test_a_helper_names_and_compiles_its_share(folder, monkeypatch, capsys):
    lines = ("picking.longest i1", "tally.mark_picks c3 i1 b1", "curves.level_of f1! c")
    monkeypatch.setattr(ahead, "KERNELS", lines)
    new = compiling.njit(cache=True, nogil=True)(picking.longest.py_func)  # not compiled before
    monkeypatch.setattr(picking, "longest", new)
    ahead.compile_share(0, 2, "curves.level_of")
    assert capsys.readouterr().out == "picking.longest\n"
    assert [path.name.split("-")[0] for path in folder.rglob("*.kernel")] == ["picking.longest"]
    assert ahead.signature("i1") in picking.longest.overloads
    assert ahead.signature("c3 i1 b1") not in tally.mark_picks.overloads


@pytest.fixture
def helper(monkeypatch):
    """A process that is compiling a kernel for a while."""
    code = "import time; print('trees.settle', flush=True); time.sleep(0.5)"
    started = ahead.Helper([sys.executable, "-c", code])
    monkeypatch.setattr(ahead, "_helpers", [started])
    while not started.doing:
        time.sleep(0.01)
    yield started
    started.stop()


def test_a_kernel_that_a_helper_is_compiling_is_waited_for(helper):
    assert ahead.wait_for_helpers("trees.settle")
    assert helper.process.poll() == 0


def test_what_a_helper_has_compiled_is_loaded(folder, monkeypatch):
    share = "ahead.KERNELS = ['picking.longest i1']; ahead.compile_share(0, 1, '')"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(folder))
    started = ahead.Helper([sys.executable, "-c", f"from outrule.kernels import ahead; {share}"])
    monkeypatch.setattr(ahead, "_helpers", [started])
    while not started.doing:
        time.sleep(0.01)
    kernel = compiling.njit(cache=True, nogil=True)(picking.longest.py_func)
    kernel.compile(ahead.signature("i1"))
    assert list(kernel.stats.cache_hits.values()) == [1]
    assert ahead._helpers == [started]


@pytest.mark.usefixtures("folder", "helper")
def test_helpers_that_write_nothing_are_given_up():
    kernel = compiling.njit(cache=True, nogil=True)(trees.settle.py_func)
    kernel.compile(ahead.signature("u1 f1 f1 f2 f1"))
    assert list(kernel.stats.cache_misses.values()) == [1]
    assert ahead._helpers == []


def test_helpers_are_stopped_where_their_kernels_cannot_be_used(helper):
    ahead.give_up()
    assert ahead._helpers == []
    assert helper.process.returncode not in (None, 0)


def test_a_helper_has_the_package_of_this_process(tmp_path):
    package = Path(ahead.__file__).parents[1]
    shutil.copytree(package, tmp_path / "outrule", ignore=shutil.ignore_patterns("__pycache__"))
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})"
    print_where = (
        "print(ahead.command(0, 1, '')[-1].replace('compile_share(', 'print(ahead.ROOT, '))"
    )
    told = output_of(f"{code}; from outrule.kernels import ahead; {print_where}")
    asked = told.replace(
        "import compile_share", "import compile_share; from outrule.kernels import ahead"
    )
    assert output_of(asked).startswith(f"{tmp_path} ")


def test_other_kernels_are_not_waited_for(helper):
    assert not ahead.wait_for_helpers("trees.answer_yes")
    assert helper.process.poll() is None


def test_a_helper_that_hangs_is_not_waited_for_long(helper, monkeypatch):
    monkeypatch.setattr(ahead, "LONGEST", 0.05)
    ahead.wait_for_helpers("trees.settle")
    assert helper.process.poll() is None


def test_kernels_that_fits_do_not_share_start_no_helpers(monkeypatch):
    monkeypatch.setattr(ahead, "_helpers", None)
    assert not ahead.wait_for_helpers("matching.anything")
    assert ahead._helpers is None


def test_there_is_a_helper_for_every_other_core_with_memory(monkeypatch):
    monkeypatch.delenv(ahead.COMPILERS, raising=False)
    monkeypatch.setattr(ahead.threads, "n_cores", lambda: 3)
    monkeypatch.setattr(ahead.memory, "free_memory", lambda: 1e10)
    assert ahead.n_helpers() == 2
    with ahead.threads.using(2):
        assert ahead.n_helpers() == 1
        assert ahead.threads.run(lambda _: ahead.n_helpers(), 2) == [1, 1]
    monkeypatch.setattr(ahead.threads, "n_cores", lambda: 64)
    assert ahead.n_helpers() == ahead.MOST
    monkeypatch.setattr(ahead.memory, "free_memory", lambda: 1.5e9)
    assert ahead.n_helpers() == 1
    monkeypatch.setattr(ahead.memory, "free_memory", lambda: None)
    assert ahead.n_helpers() == ahead.MOST
    for text, number in (("1", 1), ("0", 0), ("99", ahead.MOST), ("", ahead.MOST)):
        monkeypatch.setenv(ahead.COMPILERS, text)
        assert ahead.n_helpers() == number
    for text in ("many", "-1", "1.5"):
        monkeypatch.setenv(ahead.COMPILERS, text)
        words = f"{ahead.COMPILERS} is {text!r}: it must be a number of processes, or 0 for none."
        with pytest.raises(DataError, match=f"^{re.escape(words)}$"):
            ahead.n_helpers()


def test_neither_programs_with_python_inside_nor_processes_of_a_pool_start_helpers(monkeypatch):
    monkeypatch.setenv(ahead.COMPILERS, "1")
    monkeypatch.setattr(ahead.threads, "n_cores", lambda: 2)
    assert ahead.n_helpers() == 1
    monkeypatch.setattr(multiprocessing, "parent_process", multiprocessing.current_process)
    assert ahead.n_helpers() == 0
    monkeypatch.undo()
    monkeypatch.setattr(sys, "executable", "/usr/sbin/uwsgi")
    assert ahead.n_helpers() == 0


@pytest.mark.slow
def test_with_helpers_a_first_fit_has_the_same_bits_and_compiles_less_itself(tmp_path):
    report = "\nimport sys\nsys.stdout.write(calibrated.tobytes().hex())"
    counted = "\nprint(len([1 for name, _ in asked]))"
    same, own = set(), []
    for number in ("0", "1"):
        changes = {"NUMBA_CACHE_DIR": str(tmp_path / number), ahead.COMPILERS: number}
        cold = RECORD + FIT + counted
        own.append(int(output_of(cold, **changes)))
        same.add(output_of(FIT + report, **changes))
    assert len(same) == 1
    # Those that are inside of a kernel are asked for only where that is compiled.
    assert own[1] < own[0]
