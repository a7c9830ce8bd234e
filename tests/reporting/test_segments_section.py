"""The report's section about segments: rows, heat map, patches, and names that are data."""

import json

import numpy as np
import pytest

import outrule
from outrule import Instances, certify, report, summarise
from outrule.reporting import SECTIONS

EVIL = "<b>'\u202e;url(x)"


def cities(n, seed, rename=EVIL):
    predictions, outcomes, city = outrule.worlds.six_cities(n, seed)
    city = np.where(city == "Rome", rename, city)
    return Instances.from_arrays(predictions, outcomes, columns={"city": city})


@pytest.fixture(scope="module")
def calibrator():
    rules = [outrule.Fixed(0), *outrule.multipliers(4, limit=40)]
    made = outrule.DecisionCalibrator(
        outrule.BestAction(), rules, 0.05, start=None, segments=["city"]
    )
    return made.fit(cities(3_000, 0))


@pytest.fixture(scope="module")
def summary(calibrator):
    return summarise(calibrator, cities(3_000, 1))


def test_the_numbers_are_those_of_the_certificate_worst_first(calibrator, summary):
    certificate = certify(calibrator, cities(3_000, 1))
    found = summary["segments"]
    lowers = [row["gap_lower"] for row in found["rows"]]
    assert lowers == sorted(segment.gap_lower for segment in certificate.segments)
    assert len(found["rivals"]) == len(found["rows"][0]["differences"]) == 43
    assert "1 value of city" in found["note"]
    json.dumps(summary, allow_nan=False)
    assert any(" in city = " in row["test"] for row in summary["ledger"]["tests"])
    assert summary["ledger"]["n_tests"] == 44 * 6


def test_the_page_shows_every_segment_and_the_heat_map(summary):
    page = report(summary)
    assert page.count('<table class="heat">') == 1
    assert "30 of 43 rivals" in page
    assert 'href="#segments"' in page
    places = [page.index(f'<section id="{name}"') for name in SECTIONS]
    assert places == sorted(places)
    for row in summary["segments"]["rows"][1:]:
        assert row["name"].split("= ")[1][:2] in page
    assert "<b>'" not in page
    assert "\u202e" not in page.split("<script")[0]
    assert report(json.loads(json.dumps(summary))) == page
    assert "all rivals in 5 segments, worst city" in page
    assert '<th scope="row">plain optimiser, original predictions</th>' in page
    for short in summary["segments"]["rivals"][-2:]:
        assert f">{short}<" not in page


def test_a_segment_that_fails_is_marked_and_without_segments_there_is_no_section(calibrator):
    broken = outrule.DecisionCalibrator(outrule.BestAction(), calibrator.rules, 0.05, start=None)
    later = cities(3_000, 1, "Rome")
    broken.fit(cities(3_000, 0, "Rome"))
    page = report(summarise(broken, later, certify(broken, later, segments=["city"])))
    assert '<g class="fail">' in page
    assert "4 of 5 segments pass, 1 fails: city = Rome." in page
    plain = summarise(broken, later)
    assert "segments" not in plain
    assert 'id="segments"' not in report(plain)
