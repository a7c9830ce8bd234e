"""Links of README and docs lead somewhere: files, headings, pages of the site, names, tests."""

import ast
import importlib
import re
import tomllib
import unicodedata
from pathlib import Path

import pytest

import make_spec_page
import outrule

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob(".github/*.md")])
LINK = re.compile(r"(?<!\\)!?\[[^\]\n]*(?:\n[^\]\n]*)?\]\(([^)\s]+)\)")
SITE = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]


def prose(path):
    """A page without its code."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", "`x`", text)


def headings(path):
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    return re.findall(r"^#+ +(.+?) *#*$", text, re.M)


def on_platform(heading):
    """The anchor of a heading where the repository is shown."""
    plain = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower())
    return plain.replace(" ", "-")


def on_site(heading):
    """The anchor of a heading on the site."""
    plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def faults(path, text=None):
    """What is wrong with the links of a page."""
    for target in LINK.findall(prose(path) if text is None else text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        if not file.exists():
            yield f"{path.name}: {target} does not exist"
        elif anchor and file.suffix == ".md":
            known = headings(file)
            for kind in (on_platform, on_site):
                if anchor not in map(kind, known):
                    yield f"{path.name}: {target} has no such heading ({kind.__name__})"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(path):
    assert list(faults(path)) == []


@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.md")), ids=lambda path: path.stem)
def test_the_site_shows_what_the_page_has(path):
    text = re.sub(r"^ {4}.*$", "", prose(path), flags=re.M)
    assert re.findall(r"^ {1,3}[-*] .*", text, re.M) == [], "lists in lists need four blanks"
    assert re.findall(r"<(?!div class|/div|!--)[a-z/].*", text) == [], "taken for HTML"


def test_dead_links_are_found():
    page = DOCS / "guide.md"
    good = "[a](theory.md#the-guarantee), [b](#settings), [c](https://x.y/z)"
    assert list(faults(page, good + ", ![d](pictures/margins.svg)")) == []
    for bad in ("no.md", "theory.md#no", "#no", "pictures/no.svg", "../no"):
        assert len(list(faults(page, f"[a]({bad})"))) == (2 if "#" in bad else 1)
        assert list(faults(page, f"{good} ![two\nlines]({bad})"))


def pages_of(nav):
    for entry in nav:
        for value in entry.values():
            yield from pages_of(value) if isinstance(value, list) else [value]


def test_the_site_has_every_page_once():
    listed = list(pages_of(SITE["nav"]))
    assert len(set(listed)) == len(listed)
    found = [*DOCS.glob("*.md"), *DOCS.glob("notebooks/*.md")]
    pages = sorted(page.relative_to(DOCS).as_posix() for page in found)
    assert sorted(listed) == pages, "every page belongs into nav of zensical.toml"


def test_the_page_of_names_has_every_public_name():
    named = re.findall(r"^::: outrule\.([\w.]+)$", (DOCS / "api.md").read_text(), re.M)
    assert len(set(named)) == len(named)
    assert sorted(named) == sorted([*outrule.__all__, "integrations.mlflow"])


def test_docstrings_have_no_roles_which_the_page_of_names_would_print():
    files = [
        path
        for path in Path(outrule.__file__).parent.rglob("*.py")
        if path.parent.name != "kernels"
    ]
    assert [
        path for path in files if re.search(r":(meth|func|class|mod):`", path.read_text("utf-8"))
    ] == []


def test_the_tables_of_the_spec_are_those_of_the_code():
    page = make_spec_page.PAGE.read_text(encoding="utf-8")
    assert page == make_spec_page.filled(page), "run python tests/make_spec_page.py"
    assert page.count("<!-- made: ") == len(make_spec_page.SECTIONS) + 2
    for name, section in make_spec_page.SECTIONS.items():
        assert list(make_spec_page.MEANING[name]) == list(section.model_fields)


@pytest.mark.parametrize("kind", make_spec_page.SAMPLES)
def test_the_example_of_every_problem_is_read(kind, tmp_path):
    data = '[data]\ninstance = "i"\nitem = "j"\nprediction = "p"\noutcome = "y"\n'
    rule = '[[rules]]\nname = "r"\nweight = "p"\n'
    (tmp_path / "s.toml").write_text(f"{make_spec_page.sample(kind)}\n{data}{rule}")
    assert outrule.read_spec(tmp_path / "s.toml").problem


def guarantees():
    rows = re.findall(r"^\| .*\|$", (DOCS / "guarantees.md").read_text(encoding="utf-8"), re.M)[2:]
    assert len(rows) >= 10
    return [row.split(" | ")[-2:] for row in rows]


@pytest.mark.parametrize(("function", "test"), guarantees())
def test_every_guarantee_names_a_function_and_a_test(function, test):
    module, _, name = function.strip("` ").rpartition(".")
    assert hasattr(importlib.import_module(module), name)
    path, _, name = test.strip("`| ").partition("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert name in [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def test_the_table_of_margins_is_that_of_its_script():
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "benchmarks" / "pictures.py")
    pictures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pictures)
    assert pictures.table() in (DOCS / "choosing.md").read_text(encoding="utf-8")
