"""Segments in the loop: cells add up to the whole, the guarantee holds inside, bits are kept."""

import json

import numpy as np
import polars as pl
import pytest

import outrule
from outrule import DecisionCalibrator, Instances, Segments, certify, verify
from outrule.calibration.audit import OPTIMISER, audit, prepare
from outrule.calibration.segmented import cells_of
from outrule.calibration.sources import CellData
from outrule.data.segments import cut
from outrule.errors import ArgumentError, DataError
from sealing import reseal

BEST = outrule.BestAction()
RULES = (outrule.Fixed(0), *outrule.multipliers(4, limit=6))


def cities(n, seed, **extra):
    predictions, outcomes, city = outrule.worlds.six_cities(n, seed)
    night = np.random.default_rng(seed).random(n) < 0.5
    columns = {"city": city, "night": night}
    return Instances.from_arrays(predictions, outcomes, columns=columns, **extra)


def fitted(data, segments=("city",), epsilon=0.05, **options):
    options = {"start": None, "rivals": ("plain",), **options}
    return DecisionCalibrator(BEST, RULES, epsilon, segments=list(segments), **options).fit(data)


def gaps(calibrator, data):
    """In every city, the value of the calibrated optimiser minus that of the best rule."""
    mine = np.asarray(data.outcome).reshape(-1, 4)[calibrator.decide(data)]
    found = {}
    for name in np.unique(data.origin.columns["city"]):
        rows = np.flatnonzero(data.origin.columns["city"] == name)
        best = max(outrule.metrics.values_of_rules(BEST, RULES, data.take(rows)).values())
        found[str(name)] = float(mine[rows].mean() - best)
    return found


def test_a_segment_that_fails_is_repaired_by_fitting_with_segments():
    """The overall certificate passes, certify(segments=) finds Rome, and segments repair it."""
    training, later = cities(12_000, 0), cities(12_000, 1)
    plain = DecisionCalibrator(BEST, RULES, epsilon=0.05).fit(training)
    assert certify(plain, later).verdict == "pass"
    found = certify(plain, later, segments=["city"])
    assert found.verdict == "fail"
    worst = min(found.segments, key=lambda segment: segment.gap_lower)
    assert (worst.name, worst.best_rival, worst.verdict) == ("city = Rome", "always 0", "fail")
    assert worst.gap < -0.3
    repaired = DecisionCalibrator(BEST, RULES, epsilon=0.05, segments=["city"]).fit(training)
    again = certify(repaired, later)  # in the segments of the model
    assert again.verdict == "pass"
    assert min(segment.gap for segment in again.segments) > -0.05
    assert again.calibrated.mean > found.calibrated.mean + 0.03
    verify(again, repaired, later)
    assert certify(repaired, later, segments=()).segments == ()


def test_after_convergence_the_guarantee_holds_inside_every_segment():
    data = cities(6_000, 0)
    model = fitted(data, ["city", ("night", "city")], 0.06)
    assert model.status_ == "converged"
    assert min(gaps(model, data).values()) >= -0.06
    assert min(gaps(fitted(data, []), data).values()) < -0.3
    prepared = prepare(data, BEST, model.model_.tests)
    for segment, inside in zip(
        model.model_.segmentation.segments, model.model_.segmentation.inside(data), strict=True
    ):
        rows = np.flatnonzero(inside)
        some = prepare(data.take(rows), BEST, model.model_.tests)
        found = audit(some, np.asarray(model.predict(data))[rows].ravel(), BEST)
        assert np.abs(found.violations).max() <= 0.03 * (1 + 1e-9), segment
    whole = audit(prepared, np.asarray(model.predict(data)).ravel(), BEST)
    assert np.abs(whole.violations).max() <= 0.03 * (1 + 1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_cells_add_up_to_the_audits_of_the_whole_and_of_every_segment(weighted):
    weight = np.random.default_rng(0).integers(0, 3, 2_000) if weighted else None
    data = cities(2_000, 0, weight=weight)
    found = cut(data, Segments(["city", "night"], 0.02, 30))
    part = prepare(data, BEST, RULES)
    source = CellData(part, data.prediction, BEST, found)
    source.tolerate(0.03, noisy=False)
    seen = source.next_audit([])
    whole = audit(part, data.prediction, BEST)
    n_tests = len(RULES) + 1
    np.testing.assert_allclose(seen.violations[:n_tests], whole.violations, atol=1e-12)
    np.testing.assert_allclose(seen.sizes[:n_tests], whole.sizes, atol=1e-12)
    assert seen.squared_error == pytest.approx(whole.squared_error, rel=1e-12)
    normal = data.normalised_weight()
    for number, inside in enumerate(found.inside(data)):
        residual = (data.outcome - data.prediction).reshape(-1, 4)
        block = slice((number + 1) * n_tests, (number + 2) * n_tests)
        marks = [rule.decide(data, BEST, part.layout)[:, 0] for rule in RULES]
        marks.append(data.prediction.reshape(-1, 4).argmax(axis=1))
        expected = [
            (normal * inside * residual[np.arange(len(data)), mark]).sum() / len(data)
            for mark in marks
        ]
        np.testing.assert_allclose(seen.violations[block], expected, atol=1e-11)
        share = (normal * inside).sum() / len(data)
        np.testing.assert_allclose(seen.sizes[block], share, atol=1e-11)
        np.testing.assert_allclose(seen.scale[block], share, atol=1e-11)
        assert seen.place(block.start + 2) == (2, number)
        assert seen.place(block.stop - 1) == (OPTIMISER, number)
    assert len(cells_of(data, found)) == 12


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"check": outrule.FreshBatches(1_000)},
        {"check": outrule.Reuse(validation=0.3)},
        {"step": outrule.FixedStep(), "max_rounds": 40},
        {"epsilon": None, "start": outrule.Isotonic()},
        {"start": outrule.CrossFit(), "rivals": ("plain", "isotonic")},
    ],
)
@pytest.mark.filterwarnings("ignore:the loop stopped")
def test_every_way_to_fit_has_segments_and_its_file_keeps_the_bits(options, tmp_path):
    data, later = cities(4_000, 0), cities(1_500, 1)
    model = fitted(data, ["city"], **options)
    assert any(patch.segment >= 0 for patch in model.patches_)
    assert any(row.test and row.test.endswith("in city = Rome") for row in model.history_)
    model.save(tmp_path / "model.json")
    loaded = outrule.load(tmp_path / "model.json")
    assert loaded.model_.segmentation == model.model_.segmentation
    assert loaded.segments == Segments(["city"])
    np.testing.assert_array_equal(loaded.predict(later), model.predict(later))
    order = np.random.default_rng(0).permutation(len(later))
    shuffled = np.asarray(model.predict(later.take(order)))
    np.testing.assert_array_equal(shuffled, np.asarray(model.predict(later))[order])
    one = later.slice(7, 8)
    np.testing.assert_array_equal(model.predict(one), np.asarray(model.predict(later))[7:8])
    verify(certify(loaded, later), model, later)


def test_the_replay_has_the_bits_of_fit_for_any_number_of_threads():
    data = cities(5_000, 0)
    models = [fitted(data, ["city", "night"], n_jobs=jobs) for jobs in (1, 2)]
    assert models[0].patches_ == models[1].patches_
    found = models[0].model_.segmentation
    source = CellData(prepare(data, BEST, models[0].model_.tests), data.prediction, BEST, found)
    source.tolerate(models[0].tolerance_, noisy=False)
    for patch in models[0].patches_:
        source.apply(patch, source.next_audit([]))
    replayed = np.asarray(models[0].predict(data)).ravel()
    np.testing.assert_array_equal(source._prediction(), replayed)
    # The last word is a fresh audit, from the predictions alone.
    seen = source.audit_afresh()
    assert (np.abs(seen.violations) <= models[0].tolerance_ * seen.scale).all()


def test_batches_one_by_one_keep_the_segments_of_the_first():
    model = DecisionCalibrator(BEST, RULES, 0.05, segments=["city"], start=None, rivals=("plain",))
    for seed in range(4):
        model.partial_fit(cities(4_000, seed))
    assert any(patch.segment >= 0 for patch in model.patches_)
    names = [segment.name for segment in model.model_.segmentation.segments]
    assert names == ["city = Bern", "city = Lyon", "city = Oslo", "city = Rome", "city = Turin"]


def test_an_unseen_value_gets_the_patches_of_the_whole_and_of_the_pool():
    data = cities(6_000, 0)
    new = Instances.from_arrays(np.full((1, 4), 0.5), columns={"city": ["Paris"], "night": [True]})
    named = fitted(data, ["city"])
    assert not any(named.model_.segmentation.inside(new))
    whole = [patch for patch in named.patches_ if patch.segment < 0]
    moved = np.asarray(named.predict(new)) - 0.5
    assert abs(moved).sum() > 0 or not whole
    pooled = DecisionCalibrator(
        BEST, RULES, 0.05, segments=Segments(["city"], min_share=0.11), start=None
    ).fit(data)
    assert pooled.model_.segmentation.inside(new)[:, 0].tolist() == [False] * 4 + [True]
    words = "in each of 5 segments, within 0.05 of its own best rule. segments below 11 % and 200"
    assert pooled.model_.inside.startswith(words)
    assert "2 values of city" in pooled.model_.inside


def test_without_segments_the_file_says_nothing_of_them(tmp_path):
    fitted(cities(1_000, 0), []).save(tmp_path / "model.json")
    content = json.loads((tmp_path / "model.json").read_text())
    assert "segments" not in content
    assert all(len(patch) == 2 for patch in content["patches"])


def test_damaged_segments_of_a_file_are_refused(tmp_path):
    path = tmp_path / "model.json"
    fitted(cities(3_000, 0)).save(path)
    content = json.loads(path.read_text())
    rome = content["segments"]["segments"][3]
    for change in (
        lambda c: c["segments"]["segments"].clear(),
        lambda c: c["segments"]["segments"].append(rome),
        lambda c: c["segments"]["segments"][0].__setitem__(0, ["town"]),
        lambda c: c["segments"]["segments"][0].__setitem__(1, ["a", "b"]),
        lambda c: c["segments"]["segments"][0].__setitem__(2, 2.0),
        lambda c: c["segments"]["segments"][0].__setitem__(4, None),
        lambda c: c["segments"].__setitem__("min_share", 0),
        lambda c: c["patches"].append([0, 0.1, 99]),
        lambda c: c.pop("segments"),
    ):
        changed = json.loads(json.dumps(content))
        change(changed)
        path.write_text(reseal(changed))
        with pytest.raises(DataError, match="not a model file of outrule, or it is damaged"):
            outrule.load(path)


def test_bad_segments_are_refused_before_any_work():
    data = cities(1_000, 0)
    with pytest.raises(DataError, match="column 'town' is missing"):
        fitted(data, ["town"])
    with pytest.raises(ArgumentError, match="'segments' argument of Segments must be"):
        fitted(data, [3])
    with pytest.raises(ArgumentError, match="'segments' argument of DecisionCalibrator must be N"):
        fitted(data, check=outrule.PrivateReuse(1.0), max_rounds=2, rivals=())
    model = fitted(data)
    with pytest.raises(DataError, match="column 'city' is missing"):
        model.predict(np.full((3, 4), 0.5))


def test_segments_that_overlap_in_too_many_ways_are_refused(monkeypatch):
    monkeypatch.setattr("outrule.calibration.segmented.MOST_CELLS", 5)
    with pytest.raises(DataError, match="overlap in 12 ways, but at most 5 are supported"):
        fitted(cities(2_500, 0), ["city", "night"])


def test_a_table_is_fitted_by_a_spec_with_segments(tmp_path):
    predictions, outcomes, city = outrule.worlds.six_cities(3_000, 0)
    frame = pl.DataFrame(
        {
            "trip": np.repeat(np.arange(3_000), 4),
            "item": np.tile(np.arange(4), 3_000),
            "score": predictions.ravel(),
            "worth": outcomes.ravel(),
            "city": np.repeat(city, 4),
        }
    )
    spec = """
    epsilon = 0.05
    problem = {kind = "best action"}
    data = {instance = "trip", item = "item", prediction = "score", outcome = "worth"}
    rules = [{name = "first", always = 0}]
    [fit]
    start = "none"
    """
    path = tmp_path / "spec.toml"

    def settings(lines):
        path.write_text(spec + lines)
        read = outrule.read_spec(path)
        return read.settings(read.instances(frame)).segments

    assert settings('segments = ["city", ["city", "trip"]]').by == (("city",), ("city", "trip"))
    assert settings('segments = ["city"]\nmin_share = 0.1') == Segments(["city"], 0.1)
    for lines, words in (
        ('segments = ["town"]', r"\[fit\] segments: there is no column 'town'"),
        ("segments = []", "'segments' must be a list of columns"),
        ('segments = ["city", "city"]', "'segments' argument of Segments must be without"),
        ("min_share = 0.1", "'min_share' is for segments, and there are none"),
        ('segments = ["city"]\nmin_share = 2', "'min_share' argument of Segments must be"),
    ):
        with pytest.raises(DataError, match=words):
            settings(lines)
