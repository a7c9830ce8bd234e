"""The files of the project: one version everywhere, notes of a release, forms that can be read."""

import importlib.util
import re
from pathlib import Path

import pytest

import outrule

ROOT = Path(__file__).parents[1]
YAML = sorted(
    [*ROOT.glob(".github/**/*.yml"), ROOT / "action.yml", ROOT / ".pre-commit-config.yaml"]
)


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / ".github" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_is_one_version():
    (cited,) = re.findall(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.M)
    assert cited == outrule.__version__ == script("release_notes").version_of_package()


def test_release_notes_are_the_section_of_the_version():
    notes = script("release_notes").notes
    text = (
        "# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2026-01-01\n\n- new\n\n## [1.1.0]\n- old\n"
    )
    assert notes(text, "1.2.0") == "- new"
    assert notes(text, "1.1.0") == "- old"
    for version in ("1.3.0", "1.2", "Unreleased"):
        with pytest.raises(SystemExit, match=f"no notes for {version}"):
            notes(text, version)


def test_every_dependency_has_an_oldest_version():
    oldest = script("oldest")
    for requirement in oldest.PROJECT["dependencies"]:
        assert oldest.LOWER.match(requirement), requirement


@pytest.mark.parametrize("path", YAML, ids=lambda path: path.name)
def test_every_form_and_workflow_is_valid_yaml(path):
    yaml = pytest.importorskip("yaml")
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert content


def test_workflows_run_the_documented_command():
    documented = "python tests/run.py"
    for page in ("README.md", "CONTRIBUTING.md", ".github/workflows/tests.yml", ".ci/run"):
        assert documented in (ROOT / page).read_text(encoding="utf-8"), page
