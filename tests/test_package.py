"""The package from outside: its names, what importing it costs, its types and its version."""

import ast
import importlib.metadata
import importlib.resources
import json
import statistics
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import outrule

# What others build on: sections 4 to 6 and 9 of the specification.
WORDS = """
    FreshBatches PrivateReuse Reuse FixedStep LineSearch Isotonic
    BestAction Classification Rejection TopK PartitionMatroid GraphicMatroid LaminarMatroid
    TransversalMatroid LinearMatroid Matroid Matching Assignment LinearProblem Oracle GreedyMatching
    Multiplier multipliers Reweight Choose Fixed
    DecisionCalibrator Instances certify Certificate verify CertificateError load theory metrics
    CalibratedPredictor Spec read_spec summarise report plots Watch WatchStatus watch_report
    worlds Problem Rule View Patch Round Status ArgumentError DataError
"""
PROMISED = WORDS.split()


@pytest.mark.parametrize("name", PROMISED)
def test_the_promised_name_is_there(name):
    assert getattr(outrule, name).__name__.split(".")[-1] == name
    assert name in outrule.__all__


def test_what_is_promised_of_a_calibrator_is_there():
    for name in ("fit", "partial_fit", "predict", "decide", "save"):
        assert callable(getattr(outrule.DecisionCalibrator, name))
    assert callable(outrule.Instances.from_table)
    assert callable(outrule.Instances.from_arrays)
    assert callable(outrule.Matching.complete)
    assert callable(outrule.BestAction.solve)


def test_every_name_comes_from_the_module_that_the_list_says():
    for name, module in outrule._PLACES.items():
        value = getattr(outrule, name)
        if module == "outrule":
            assert value.__name__ == f"outrule.{name}"
        else:
            assert value.__module__.startswith(module), name
    assert dir(outrule) == outrule.__all__ == sorted(outrule._PLACES)


def test_no_two_classes_have_the_same_name():
    names = [
        (node.name, path)
        for path in Path(outrule.__file__).parent.rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
    ]
    twice = [name for name, count in Counter(name for name, _ in names).items() if count > 1]
    assert [(name, path) for name, path in names if name in twice] == []


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'outrule' has no attribute 'magic'"):
        outrule.magic  # noqa: B018 - looking it up is the test
    assert not hasattr(outrule, "_magic")


@pytest.fixture(scope="module")
def imports():
    """Three fresh processes: seconds that the import took after NumPy's, and what it brought in."""
    code = (
        "import json, sys, time, numpy; start = time.perf_counter(); import outrule; "
        "print(json.dumps([time.perf_counter() - start, sorted(sys.modules)]))"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
        for _ in range(3)
    ]
    return [json.loads(run.stdout) for run in runs]


def test_importing_takes_less_than_half_a_second(imports):
    assert statistics.median(seconds for seconds, _ in imports) < 0.5


@pytest.mark.parametrize(
    "library", ["numba", "sklearn", "scipy", "polars", "matplotlib", "pandas", "pyarrow", "typer"]
)
def test_importing_brings_in_no_large_library(imports, library):
    for _, modules in imports:
        assert library not in modules


def test_an_error_can_be_caught_before_anything_large_is_imported():
    code = "import sys, outrule; outrule.DataError; print('sklearn' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert run.stdout.strip() == "False"


def test_the_package_says_that_it_is_typed():
    assert importlib.resources.files("outrule").joinpath("py.typed").is_file()


def test_the_version_is_that_of_the_metadata():
    assert outrule.__version__ == importlib.metadata.version("outrule")
