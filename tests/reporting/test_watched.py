"""The page of a watch: status first, every number it needs, and nothing that could run."""

import json
import re

import numpy as np
import pytest

import outrule
from outrule import Watch, watch_report

NAMES = ["<b>bold</b>", "second"]
PREDICTIONS = np.array([[0.6, 0.4], [0.4, 0.6]])


def draw(gap, seed, n=400):
    generator = np.random.default_rng(seed)
    predictions = PREDICTIONS[generator.integers(0, 2, n)]
    chance = np.where(predictions > 0.5, 0.6, 0.6 - 2 * gap)
    return predictions, (generator.random((n, 2)) < chance).astype(float)


@pytest.fixture(scope="module")
def watch():
    rules = [outrule.Fixed(item, name) for item, name in enumerate(NAMES)]
    calibrator = outrule.DecisionCalibrator(outrule.BestAction(), rules, 0.05, start=None)
    watch = Watch(calibrator.fit(*draw(0.1, 1_000, n=4_000)))
    for day in range(60):
        status = watch.update(*draw(0.05 if day < 40 or day > 50 else -0.2, day), batch=day)
        if day == 48:
            assert status.status == "lost"
            watch.acknowledge()
    return watch


def sections(page):
    return re.findall(r'<section id="(\w+)"', page)


def test_the_page_shows_status_gap_evidence_and_realised_value(watch):
    page = watch_report(watch)
    names = ["verdict", "gap", "evidence", "realised", "rivals", "reading"]
    assert sections(page) == names
    assert re.findall(r'<a href="#(\w+)">', page) == names[1:]
    assert page.count("<figure") == 4
    assert page.count('class="alarm"') == 2 * 4  # two alarms in every chart
    assert f'<h1 id="verdict-title">{watch.status.status.capitalize()}</h1>' in page
    assert watch.status.sentence.split(" has been")[0].split("“")[0] in page
    assert "alarm at 14,600" in page
    assert "<b>60 batches</b> <span>up to batch 59</span>" in page


def test_names_are_escaped_and_the_same_watch_gives_the_same_page(watch):
    page = watch_report(watch)
    assert "<b>bold</b>" not in page
    assert "&lt;b&gt;bold" in page
    assert page == watch_report(Watch.from_json(watch.to_json(), watch.model))


def test_the_numbers_are_inside_as_json(watch):
    page = watch_report(watch)
    (data,) = re.findall(r'<script type="application/json" id="summary">(.*?)</script>', page)
    content = json.loads(data)
    assert content["status"] == watch.status.status
    assert len(content["history"]) == 60
    assert content["history"][48]["acknowledged"]


def test_a_watch_of_chosen_items_or_of_nothing_yet_has_fewer_sections(watch):
    fresh = Watch(watch.model)
    assert sections(watch_report(fresh)) == ["verdict", "reading"]
    predictions, outcomes = draw(0.1, 1)
    outcomes[predictions < 0.5] = np.nan
    fresh.update(predictions, outcomes)
    assert sections(watch_report(fresh)) == ["verdict", "evidence", "realised", "reading"]
