"""The committed tables give the claims beside them and the numbers in the docs."""

from pathlib import Path

from outrule.evaluation.claims import judge, to_markdown
from outrule.evaluation.results import read_results

FOLDER = Path(__file__).parents[2] / "docs" / "evaluation"


def test_the_claims_are_those_of_the_committed_tables():
    claims = to_markdown(judge(read_results(FOLDER)))
    assert (FOLDER / "claims.md").read_text(encoding="utf-8") == claims


def test_the_docs_quote_the_claims():
    page = (FOLDER.parent / "evaluation.md").read_text(encoding="utf-8")
    claims = (FOLDER / "claims.md").read_text(encoding="utf-8")
    for figures in (
        "0.295 (0.242 to 0.321)",
        "0.341 (0.288 to 0.368)",
        "-0.008 (-0.048 to 0.030)",
        "0.179 (0.150 to 0.199)",
        "28 of 29",
        "13 of 20",
        "9 of 9 runs",
        "34 of 84",
        "0.253 (0.197 to 0.273)",
        "0.254 (0.202 to 0.273)",
    ):
        assert figures in page
        assert figures in claims
