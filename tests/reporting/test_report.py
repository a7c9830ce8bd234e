"""The report: one page that is well formed, loads nothing, escapes everything and stays small."""

import copy
import datetime
import hashlib
import json
import re
import warnings
from base64 import b64encode
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given, strategies as st

import outrule
from letter import algorithm_one
from outrule import ArgumentError, BestAction, DataError, Fixed, Instances
from outrule.proof.advice import PHRASES
from outrule.reporting import SECTIONS as ALL, report
from outrule.reporting.charts import MINUS, Scale, chart
from outrule.reporting.held_out import name_of_test
from outrule.reporting.markup import figures
from outrule.reporting.summary import summarise
from outrule.reporting.training import ROUNDS, thinned
from outrule.words import KEPT, harmless

EVIL = "<script>alert(1)</script>"
WORSE = "</script><img src=x onerror=alert(1)>\"'&amp;\u2028"
VOID = {"meta", "link", "br", "input", "img"}

SECTIONS = [name for name in ALL if name != "segments"]  # none were asked for here


class Page(HTMLParser):
    """The elements of a page; every one that is opened must be closed, in its turn."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.texts, self.scripts = [], [], [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        where = self.open[-1] if self.open else ""
        (self.scripts if where in ("script", "style") else self.texts).append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def make(rules, n=300, m=8, **changes):
    rng = np.random.default_rng(0)
    draws = [(rng.random((n, m)), rng.integers(0, 2, (n, m))) for _ in range(2)]
    settings = {"epsilon": 0.2} | changes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a loop that is cut short says so
        calibrator = algorithm_one(BestAction(), rules, **settings).fit(*draws[0])
    columns = {EVIL: draws[1][0]}
    return summarise(calibrator, Instances.from_arrays(*draws[1], columns=columns))


@pytest.fixture(scope="module")
def summary():
    return make([Fixed(0, EVIL), Fixed(1, WORSE), *outrule.multipliers(8, limit=6)])


@pytest.fixture(scope="module")
def certificate():
    calibrator = algorithm_one(BestAction(), [Fixed(0, EVIL), Fixed(1)], 0.2)
    draws = [np.random.default_rng(seed).random((2, 300, 3)) for seed in (0, 1)]
    return outrule.certify(calibrator.fit(*draws[0]), *draws[1])


@pytest.fixture(scope="module")
def html(summary):
    return report(summary)


@pytest.fixture(scope="module")
def page(html):
    return Page(html)


@pytest.fixture(scope="module")
def large():
    return make(outrule.multipliers(16, limit=1_000), m=16, epsilon=0.05, max_rounds=100)


def renamed(summary, name):
    """The same summary with another name of its first rule."""
    changed = copy.deepcopy(summary)
    old = changed["rules"][0]["name"]
    changed["rules"][0]["name"] = changed["rules"][0]["text"] = name
    changed["verdict"]["closest_rule"] = changed["model"]["best_rule"] = name
    for row in (*changed["violations"], *changed["rounds"], *changed["ledger"]["tests"]):
        if row["test"] == old:
            row["test"] = name
    changed["data"]["other_columns"] = [name]
    return changed


def test_the_page_is_well_formed_and_in_english(page):
    assert page.elements[0] == ("html", {"lang": "en"})
    assert {attributes.get("charset") for attributes in page.all("meta")} >= {"utf-8"}


def test_the_sections_stand_in_their_order(page):
    assert [section["id"] for section in page.all("section")] == ["verdict", *SECTIONS]
    assert [link["href"] for link in page.all("a")[1:]] == [f"#{name}" for name in SECTIONS]


def test_no_id_stands_twice_and_every_reference_has_a_target(page):
    ids = Counter(attributes["id"] for _, attributes in page.elements if "id" in attributes)
    assert set(ids.values()) == {1}
    wanted = {attributes.get("aria-labelledby") for _, attributes in page.elements} - {None}
    wanted |= {link["href"].removeprefix("#") for link in page.all("a")}
    assert wanted <= set(ids)


def test_landmarks_and_headings_are_right(page):
    for tag in ("header", "nav", "main", "footer", "h1"):
        assert len(page.all(tag)) == 1
    assert len(page.all("h2")) == len(SECTIONS) + 1  # the appendix
    for table in page.all("table"):
        assert table["id"].endswith("-table")
    assert len(page.all("caption")) == len(page.all("table"))
    scopes = {attributes["scope"] for attributes in page.all("th")}
    assert scopes == {"col", "row"}
    orders = {attributes.get("aria-sort") for attributes in page.all("th")}
    assert orders == {None, "ascending", "descending"}


def test_the_page_asks_for_nothing_outside(html, page):
    for words in ("://", "@import", "url("):
        assert words not in html
    for _, attributes in page.elements:
        assert "src" not in attributes
        assert not any(name.startswith("on") for name in attributes)
    for tag in ("a", "link", "use"):
        assert all(attributes["href"][0] in "#d" for attributes in page.all(tag))


def test_only_the_one_script_may_run(html, page):
    (policy,) = (
        attributes["content"]
        for attributes in page.all("meta")
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    assert len(scripts) == 1
    digest = b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert len(page.all("script")) == 2  # the other holds the figures


def test_names_that_look_like_markup_are_shown_as_text(html, page):
    assert "<img" not in html
    assert EVIL not in html
    shown = "".join(page.texts)
    assert EVIL in shown
    assert harmless(WORSE) in shown


def test_the_figures_inside_are_the_summary(summary, html):
    (inside,) = re.findall(r'<script type="application/json" id="summary">(.*?)</script>', html)
    assert json.loads(inside) == summary
    assert "<" not in inside


@given(name=st.text(min_size=1, max_size=30))
def test_any_name_is_shown_and_changes_nothing_else(summary, page, name):
    other = Page(report(renamed(summary, name)))
    kinds = [tag for tag, _ in other.elements]
    assert Counter(kinds)["script"] == 2
    assert Counter(kinds) == Counter(tag for tag, _ in page.elements)
    assert harmless(name, KEPT) in "".join(other.texts)


def test_the_same_summary_gives_the_same_page_also_through_json(summary, html):
    assert report(json.loads(json.dumps(summary))) == html


@pytest.mark.parametrize(
    ("verdict", "word"), [("pass", "Yes"), ("inconclusive", "Not yet"), ("fail", "No")]
)
def test_the_answer_is_a_word_an_icon_and_a_colour(certificate, verdict, word):
    verdicts = dict.fromkeys(PHRASES, verdict)
    other = replace(certificate, verdict=verdict, verdicts=verdicts, margin=1e-6)
    html = report(other, model="model.json")
    assert f'<section id="verdict" class="verdict {verdict}"' in html
    assert f'<h1 id="verdict-title">Deploy? {word}</h1>' in html
    assert f"<title>Deploy? {word} · model.json · outrule report</title>" in html
    assert html.count('class="icon"') == 1
    assert html.count(f'<li class="{verdict}"><b>{verdict}</b>') == 3


def test_the_first_screen_says_everything_that_a_manager_asks(summary):
    date = datetime.date(2026, 5, 2)
    html = report(summary, model="m.json", table="later.csv", date=date)
    first = Page(html.split("<main>")[1].split("</section>")[0] + "</section>")
    shown = " ".join("".join(first.texts).split())
    found = summary["answer"]
    about = "m.json on later.csv · 2026-05-02 · 300 instances · 2,400 items · 95\N{NO-BREAK SPACE}%"
    assert " ".join(about.split()) in shown
    for words in (found["question"], found["sentence"], found["next_step"], found["margin"][1:]):
        assert " ".join(words.split()) in shown
    for line in (*found["against"], *found["worth"]):
        for words in line.values():
            assert " ".join(words.split()) in shown


def test_a_warning_is_shown_and_clusters_are_counted(summary):
    answer = summary["answer"] | {"warning": "Mind the margin."}
    clusters = summary["verdict"] | {"n_observations": 12, "unit": "day"}
    html = report(summary | {"answer": answer, "verdict": clusters})
    assert "Mind the margin." in html
    assert "· 12 days ·" in html


def test_the_appendix_comes_after_what_supports_the_answer(html):
    places = [html.index(f'<section id="{name}"') for name in SECTIONS]
    assert places == sorted(places)
    assert html.index('id="realised"') < html.index(">Appendix<") < html.index('id="violations"')


def test_a_certificate_alone_gives_the_sections_it_knows(certificate):
    page = Page(report(certificate))
    known = ["verdict", "values", "forest", "realised", "violations", "reading"]
    assert [section["id"] for section in page.all("section")] == known
    assert [link["href"] for link in page.all("a")[1:]] == [f"#{name}" for name in known[1:]]


def test_every_picture_has_a_title_for_its_axis(summary, large):
    value = {"name": "sales", "unit": "<euro>", "observation": None}
    named = summary | {"verdict": summary["verdict"] | {"value": value}}
    html = report(named)
    pictures = re.findall(r'<th scope="col" class="picture">(.*?)</th>', html)
    assert len(pictures) == 5
    assert all(re.match(r'<span class="name">[^<]+</span>', head) for head in pictures)
    assert "sales, &lt;euro&gt; per instance" in html
    for figure in re.findall(r"<figure.*?</figure>", report(large), re.S):
        assert len(re.findall(r'<span class="name">[^<]+</span>', figure)) == 2


def test_bars_and_values_start_at_zero(summary, html):
    part = html.split('id="values-table"')[1].split("</table>")[0]
    assert part.count('<rect class="bar" x="0%"') == len(summary["values"])
    assert '<i class="start" style="left:0%">0.0</i>' in part
    assert "left:0%" in html.split('id="realised-table"')[1].split("</table>")[0]


@given(st.lists(st.floats(-1e6, 1e6).map(lambda x: round(x, 6)), max_size=9))
def test_a_scale_from_zero_holds_zero_and_all_numbers(numbers):
    scale = Scale.from_zero(numbers)
    assert scale.low < scale.high
    for number in (0.0, *numbers):
        assert 0 <= scale.share(number) <= 1
    if min(numbers, default=0.0) >= 0:
        assert scale.low == 0


def test_a_multiplier_shows_what_it_multiplies_beside_its_number(summary, html):
    row = summary["rules"][2]
    assert row["name"] == "multiplier 0"
    assert html.count(f"multiplier 0<small>{row['text']}</small>") >= 2


@pytest.mark.parametrize(
    ("faulty", "name"),
    [({"model": 3}, "model"), ({"table": None}, "table"), ({"date": "x"}, "date")],
)
def test_what_is_no_name_and_no_date_is_refused(summary, faulty, name):
    with pytest.raises(ArgumentError, match=f"'{name}' argument of report must be a"):
        report(summary, **faulty)


def test_every_figure_of_a_rule_stands_in_its_row(summary, html):
    write = figures(summary)
    for row in summary["rules"][2:]:
        (cells,) = re.findall(
            rf'<tr><th scope="row">{row["name"]}<small>.*?</th>(.*?)</tr>',
            html.split('id="forest-table"')[1],
        )[:1]
        near = row["difference"]
        shown = [write.signed(near["mean"]), write.down(near["lower"], "+")]
        shown += [write.signed(near["upper"]), write.plain(row["value"])]
        assert re.findall(r"<td>(.*?)</td>", cells) == shown


def test_a_model_of_a_thousand_rules_stays_below_two_megabytes(large):
    html = report(large)
    assert len(large["rules"]) == 1_000
    assert len(html.encode()) < 2e6
    assert html.count('class="wide long"') >= 3
    assert "All 1,002 rivals at a glance" in html


def test_a_model_without_patches_says_so():
    summary = make([Fixed(0)], epsilon=1.0)
    assert summary["ledger"]["tests"] == []
    html = report(summary)
    Page(html)
    assert "1 round and no patches" in html
    assert "Calibration changes nothing here." in html
    assert 'class="rounds"' not in html


def test_a_long_history_is_thinned_and_the_page_says_so(summary):
    rows = [summary["rounds"][0] | {"round": number} for number in range(5_000)]
    shown = thinned(rows)
    assert len(shown) == ROUNDS
    assert (shown[0], shown[-1]) == (rows[0], rows[-1])
    assert "Shown are 500 of 5,000 rounds." in report(summary | {"rounds": rows})
    assert thinned(rows[:ROUNDS]) == rows[:ROUNDS]


def test_a_patch_of_unknown_worth_is_a_dash(summary):
    tests = [row | {"fall": None, "n_unmeasured": 1} for row in summary["ledger"]["tests"]]
    assert tests
    html = report(summary | {"ledger": summary["ledger"] | {"tests": tests, "fall": 0.0}})
    assert "<td>—</td>" in html


def test_the_figures_of_patches_have_digits_that_say_something(summary):
    row = summary["ledger"]["tests"][0]
    tests = [row | {"test": str(fall), "fall": fall} for fall in (0.00346, 0.000031, -0.000012)]
    html = report(summary | {"ledger": summary["ledger"] | {"tests": tests, "fall": 0.00349}})
    for number, share in (
        ("0.00346", "99"),
        ("0.00003", "0.89"),
        (f"{MINUS}0.00001", f"{MINUS}0.34"),
    ):
        assert f"<td>{number} <small>{share}\N{NO-BREAK SPACE}%</small></td>" in html
    assert "fell most on “0.00346”: by 0.00346." in html


def test_margin_and_tolerance_are_written_as_they_were_given(summary):
    margin, tolerance = 0.01562, 0.00781
    changed = summary | {
        "decimals": 3,
        "verdict": summary["verdict"] | {"margin": margin},
        "model": summary["model"] | {"tolerance": tolerance, "threshold": tolerance},
    }
    html = report(changed)
    assert f"margin, {MINUS}0.01562</li>" in html
    assert "tolerance, ±0.00781</li>" in html
    assert "<dt>Tolerance</dt><dd>0.00781</dd>" in html
    early = changed["model"] | {"threshold": 0.75 * tolerance}
    words = "<dt>Tolerance</dt><dd>0.00781, flagged above 0.005857</dd>"
    assert words in report(changed | {"model": early})


def test_the_gain_has_the_same_percentage_as_the_first_screen(summary):
    tiles = [row for row in summary["answer"]["worth"] if row["figure"].endswith(" %")]
    changed = summary["answer"] | {"worth": [tiles[0] | {"figure": f"{MINUS}0.25 %"}]}
    html = report(summary | {"answer": changed})
    assert "per instance (0.25\N{NO-BREAK SPACE}%) compared with" in html


def test_the_page_says_what_its_bounds_and_differences_are(html):
    assert ">Against every rival</h2>" in html
    assert '<a href="#forest">Rivals</a>' in html
    assert "A pass, and the sentence above, rest on the lower bound for that rival alone" in html
    assert "the difference is predicted minus realised" in html
    assert "Whether any was used in training is not checked" not in html


def test_a_rival_and_the_optimiser_have_one_name_in_all_tables(summary):
    kinds = {"plain": "rule", "isotonic in city = Rome": "rule", "optimiser in a": "optimiser"}
    patched, flagged = summary["ledger"]["tests"][0], summary["rounds"][0]
    tests = [patched | {"test": test, "kind": kind} for test, kind in kinds.items()]
    changed = summary | {
        "ledger": summary["ledger"] | {"tests": tests},
        "rounds": [flagged | {"test": test} for test in kinds],
    }
    html = report(changed)
    names = [row["label"] for row in summary["rivals"]]
    names = [names[0], f"{names[1]} in city = Rome", "the optimiser itself in a"]
    for table in ("rounds", "ledger"):
        part = html.split(f'id="{table}-table"')[1].split("</table>")[0]
        for test, name in zip(kinds, names, strict=True):
            assert f">{name}<" in part
            assert f">{test}<" not in part
    assert f"fell most on “{names[0]}”" in html


@pytest.mark.parametrize("rule", ["plain", "isotonic in winter", "optimiser in winter"])
def test_a_rule_that_is_named_like_a_rival_keeps_its_name(rule):
    for test in (rule, f"{rule} in city = Rome"):
        assert name_of_test(test, ["other", rule]) == test


def test_what_is_no_summary_is_refused():
    with pytest.raises(ArgumentError, match="'summary' argument of report must be the dict"):
        report(["no"])
    with pytest.raises(DataError, match="not a summary"):
        report({})


def test_the_page_has_its_parts_with_it():
    for name in ("page.html", "page.css", "page.js"):
        assert files("outrule.reporting").joinpath(name).is_file()


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def palettes():
    style = files("outrule.reporting").joinpath("page.css").read_text(encoding="utf-8")
    blocks = re.findall(r"color-scheme: \w+;\s+(--paper[^}]*)\}", style)
    return [dict(re.findall(r"--(\w+): (#[0-9a-f]{3,6});", block)) for block in blocks]


def test_light_and_dark_and_print_have_enough_contrast():
    found = palettes()
    assert len(found) == 4
    assert found[1] == found[2]  # as the system says, and as chosen
    for palette in found:
        full = {name: c if len(c) == 7 else "#" + 2 * c[1:] for name, c in palette.items()}
        for name in ("ink", "soft", "accent", "pass", "inconclusive", "fail"):
            for ground in ("paper", "raised"):
                assert contrast(full[name], full[ground]) >= 4.5, (name, ground)
        assert contrast(full["faint"], full["paper"]) >= 3


@given(
    numbers=st.lists(st.floats(-1e6, 1e6).map(lambda x: round(x, 6)), min_size=1, max_size=20),
    most=st.integers(2, 8),
)
def test_a_scale_holds_its_numbers_in_order_and_marks_round_ones(numbers, most):
    scale = Scale.over(numbers)
    shares = [scale.share(number) for number in sorted(numbers)]
    assert shares == sorted(shares)
    assert shares[0] >= 0
    assert shares[-1] <= 1
    ticks = scale.ticks(most)
    assert len(ticks) <= most + 1
    assert len({tick.label for tick in ticks}) == len(ticks)
    for tick in ticks:
        assert -1e-9 <= tick.share <= 1 + 1e-9


def test_the_titles_of_a_chart_cannot_turn_round_its_text():
    scale = Scale(0.0, 1.0)
    page = chart("a\u202eb", "c\u202ed", ("e\u202ef", "g\u202eh"), (scale, scale), [])
    assert "\u202e" not in page
    assert page.count("\\u202e") == 4


def test_large_numbers_are_marked_with_a_power_of_ten():
    labels = [tick.label for tick in Scale(0.0, 4e9).ticks()]
    assert labels == ["0", *(f"{n}\N{MULTIPLICATION SIGN}10\N{SUPERSCRIPT NINE}" for n in "1234")]


def test_rounds_are_marked_with_whole_numbers():
    assert [tick.label for tick in Scale(0, 2).ticks(whole=True)] == ["0", "1", "2"]
