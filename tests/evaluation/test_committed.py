"""The committed tables give all that is written beside them, and the docs have no other figures."""

import re
from pathlib import Path

import pytest

from outrule.evaluation.claims import judge, to_markdown
from outrule.evaluation.figures import plan_all
from outrule.evaluation.page import render
from outrule.evaluation.results import read_results

FOLDER = Path(__file__).parents[2] / "docs" / "evaluation"


@pytest.fixture(scope="module")
def committed():
    results = read_results(FOLDER)
    return results, judge(results)


def test_the_claims_are_those_of_the_committed_tables(committed):
    assert (FOLDER / "claims.md").read_text(encoding="utf-8") == to_markdown(committed[1])


def test_the_page_is_that_of_the_committed_tables(committed):
    results, claims = committed
    figures = list(plan_all(results))
    assert (FOLDER / "index.html").read_text(encoding="utf-8") == render(results, claims, figures)
    for figure in figures:
        for kind in ("svg", "png"):
            assert (FOLDER / f"{figure.name}.{kind}").exists()


def test_five_worlds_of_every_m_were_run(committed):
    units = committed[0].units
    for problem, n_items in (*(("best-action", m) for m in (4, 16, 64, 256)), ("matching", 45)):
        worlds = units.filter(problem=problem, n_items=n_items, regime="brief")
        assert worlds["seed"].to_list() == [0, 1, 2, 3, 4]


def test_the_docs_have_no_figures_of_their_own():
    text = (FOLDER.parent / "evaluation.md").read_text(encoding="utf-8")
    assert not re.search(r"\b0\.\d{3}\b|\b\d+ of \d+\b", text)
    for name in re.findall(r"\(evaluation/([\w.-]+)\)", text):
        assert (FOLDER / name).exists()
