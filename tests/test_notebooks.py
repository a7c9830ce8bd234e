"""The notebooks of the docs run from top to bottom, and show what their cells give."""

import json

import pytest

from make_notebooks import FOLDER, NOTEBOOKS, executed, page_of, text_in

pytest.importorskip("matplotlib")


def code_of(book):
    return [cell for cell in book["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_its_page_is_the_same(path):
    stored, fresh = json.loads(path.read_text(encoding="utf-8")), executed(path)
    stale = "run python tests/make_notebooks.py"
    assert [text_in(cell) for cell in code_of(fresh)] == list(map(text_in, code_of(stored))), stale
    page, pictures = page_of(path.stem, stored["cells"])
    assert page == path.with_suffix(".md").read_text(encoding="utf-8"), stale
    assert pictures
    assert all((FOLDER / name).read_bytes() == content for name, content in pictures.items()), stale


def test_there_are_notebooks():
    assert len(NOTEBOOKS) >= 3
