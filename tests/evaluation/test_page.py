"""The page: well-formed, complete, self-contained, and safe with any text."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files

import made_up
import pytest

from outrule.evaluation.claims import Claim, Verdict, judge
from outrule.evaluation.figures import Figure
from outrule.evaluation.page import render

HOSTILE = """<script>alert("1 & 2")</script>'"""
VOID = {"meta", "img"}
CLAIMS = [
    Claim(
        "Small is low.",
        "section 5",
        {"brief": "0.1 to 0.2", "converged": "a tenth"},
        {"brief": "0.1 < 0.2.", "converged": "0.1."},
        Verdict.CONFIRMED,
        "gap-matching",
    ),
    Claim(
        "Large is low.",
        "figure 3",
        {"brief": "none", "converged": "no run"},
        {"brief": "No.", "converged": "No."},
        Verdict.NOT_CONFIRMED,
        "lost",
    ),
    Claim("It varies.", "figure 4", {"brief": "0"}, {"brief": "No."}, Verdict.DEPENDS, "steps"),
    Claim(
        "Line search.", "not in the paper", {"brief": "2"}, {"brief": "Twice."}, Verdict.MEASURED
    ),
    Claim("Never.", "figure 5", {}, {}, Verdict.NOT_RUN),
]
FIGURES = [
    Figure(name, f"Title of {name}", f"Caption of {name}.", [])
    for name in ("gap-matching-brief", "steps-brief")
]


class Reader(HTMLParser):
    """Fails where a tag is not closed; collects tags and their text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.words = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def page():
    return Reader(render(made_up.results(), CLAIMS, FIGURES))


def test_every_claim_is_there_with_its_verdict_and_what_was_measured(page):
    for claim in CLAIMS:
        said = (*claim.numbers.values(), *claim.measured.values())
        for words in (claim.statement, claim.source, claim.verdict, *said):
            assert words in page.text
    assert "Of 3 claims of the paper that were judged, 1 hold wherever" in page.text
    assert "confirmed 1 not confirmed 1 depends on the regime 1 measured 1 not run 1" in page.text


def test_every_figure_is_there_with_a_text_and_both_files(page):
    images = {one["src"]: one["alt"] for one in page.all("img")}
    assert images == {f"{one.name}.svg": one.title for one in FIGURES}
    links = {one["href"] for one in page.all("a") if not one["href"].startswith("#")}
    assert links == {f"{one.name}.{kind}" for one in FIGURES for kind in ("png", "svg")}
    assert all(one.caption in page.text for one in FIGURES)


def test_every_link_inside_the_page_has_its_section(page):
    names = {one.get("id") for _, one in page.tags}
    inside = {one["href"][1:] for one in page.all("a") if one["href"].startswith("#")}
    sections = {"claims", "reading", "figures", "details", "data", "settings"}
    assert inside == sections | {one.name for one in FIGURES}
    assert inside <= names


def test_the_first_screen_has_the_answer_and_two_figures():
    names = ("gap-matching-brief", "gap-matching-converged", "value-best-action-converged")
    drawn = [Figure(name, name, "", []) for name in names]
    first = render(made_up.results(), CLAIMS, drawn).partition('<section id="claims"')[0]
    assert re.findall('<img src="(.*?)"', first) == [f"{names[0]}.svg", f"{names[2]}.svg"]
    assert "Of 3 claims" in first


def test_the_data_the_settings_and_the_machine_are_there(page):
    results = made_up.results()
    world = results.units.row(0, named=True)
    for name in ("plain", "best_rule", "oracle", "squared_error"):
        assert f"{world[name]:.4f}" in page.text
    assert str(round(results.units["seconds"].max())) in page.text
    assert len(page.all("tr")) == 1 + len(results.units) + 1 + len(CLAIMS)
    for words in ("epsilons 1/4, 1/16, 1/64", "batch sizes 16, 64, 256", "test instances 1,000"):
        assert words in page.text
    for words in (
        "outrule 0.1.0, numpy 2.3.0",
        "Linux x86_64",
        "python 3.12.1",
        "time (h:m:s) 0:00:12",
    ):
        assert words in page.text


def test_it_says_how_to_read_the_figures(page):
    for words in ("Utility gap", "Utility improvement", "tolerance of ε/2", "twice the ε"):
        assert words in page.text


def test_the_time_has_hours_minutes_and_seconds():
    results = made_up.results()
    for seconds, words in ((3, "0:00:03"), (11_000.4, "3:03:20")):
        changed = replace(results, provenance={"seconds": seconds})
        assert f"<dd>{words}</dd>" in render(changed, [], [])


def test_hostile_text_is_text():
    results = made_up.results()
    claim = Claim(HOSTILE, HOSTILE, {HOSTILE: HOSTILE}, {HOSTILE: HOSTILE}, Verdict.NOT_RUN)
    figure = Figure('a"><i>', HOSTILE, HOSTILE, [])
    changed = replace(
        results,
        provenance={HOSTILE: {HOSTILE: HOSTILE}, "list": [HOSTILE]},
        units=results.units.with_columns(problem=results.units["problem"] + HOSTILE),
    )
    page = Reader(render(changed, [claim], [figure]))
    assert not page.all("script")
    assert not page.all("i")
    assert page.all("img") == [{"src": 'a"><i>.svg', "alt": HOSTILE, "loading": "lazy"}]
    assert page.text.count(HOSTILE) >= 10


def test_it_needs_no_network_and_no_scripts():
    text = render(made_up.results(), CLAIMS, FIGURES)
    assert not re.search(r"https?:|//|@import|url\(|<script|<link", text)


def test_it_is_in_english_for_screens_of_any_width_light_or_dark_and_for_paper(page):
    text = render(made_up.results(), CLAIMS, FIGURES)
    assert page.all("html") == [{"lang": "en"}]
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in page.all(
        "meta"
    )
    report = files("outrule.reporting").joinpath("page.css").read_text(encoding="utf-8")
    assert report in text
    for words in ("prefers-color-scheme: dark", "@media print", "max-width: 36rem"):
        assert words in report
    headers = page.all("th")
    assert headers
    assert all(one.get("scope") in ("col", "row") for one in headers)


def test_the_judged_claims_of_made_up_results_fit():
    results = made_up.results()
    claims = judge(results)
    page = Reader(render(results, claims, []))
    assert len(claims) == len(page.all("h3")) - 2 > 5
    assert all(claim.measured["brief"] in page.text for claim in claims)


def test_without_claims_and_figures_it_is_still_a_page():
    page = Reader(render(made_up.results(), [], []))
    assert "confirmed" not in page.text
    assert not page.all("img")
