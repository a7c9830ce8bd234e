"""Certificates on files one at a time are those on one table, to the last bit."""

import copy
import warnings
from functools import cache

import numpy as np
import partition_tables as tables
import polars as pl
import pytest
from partition_tables import COLUMNS, RULES, cut, stacked

import outrule
from outrule.model.codec import to_text

TWO = [rule for rule in RULES if not isinstance(rule, outrule.Fixed)]
CASES = {
    "best action": (outrule.BestAction(), RULES, {}),
    "top": (outrule.TopK(2), TWO, {}),
    "weights": (outrule.BestAction(), RULES, {"weight": "weight"}),
    "clusters": (outrule.BestAction(), RULES, {"cluster": "day"}),
    "both": (outrule.TopK(3), TWO, {"weight": "weight", "cluster": "day"}),
}


@cache
def once(case):
    problem, rules, more = CASES[case]
    data = outrule.Instances.from_table(tables.offers(seed=8), **COLUMNS, **more)
    return outrule.DecisionCalibrator(problem, rules, epsilon=0.05).fit(data)


def fitted(case):
    return copy.copy(once(case))


@pytest.mark.parametrize("case", CASES)
def test_any_cut_gives_the_certificate_of_one_table(case, tmp_path):
    columns = COLUMNS | CASES[case][2]
    calibrator = fitted(case)
    cuts = {7: None, 1: 1, 3: 2} if case == "best action" else {7: None, 3: 2}  # files: jobs
    folders = [cut(tables.offers(seed=2), tmp_path / str(n), n) for n in cuts]
    whole = outrule.Instances.from_table(stacked(folders[0]), **columns)
    declared = {"max_weight": 40.0} if "weight" in columns or "cluster" in columns else {}
    expected = outrule.certify(calibrator, whole, **declared)
    assert "cluster" in columns or any("'day'" in note for note in expected.notes)
    for folder, n_jobs in zip(folders, cuts.values(), strict=True):
        data = outrule.Partitions(folder, **columns)
        found = outrule.certify(calibrator.set_params(n_jobs=n_jobs), data, **declared)
        assert found.to_json() == expected.to_json()
    outrule.verify(found, calibrator, whole)


def log(seed, *, never=False, unknown=False):
    """A log of shown offers: all at random, without dag, or with some propensities unknown."""
    frame = tables.logged(tables.offers(seed))
    shown = pl.col("outcome").is_not_null()
    if never:  # dag is never shown: instances in which he was become ones that show nobody
        dag, size = pl.col("item") == "dag", pl.len().over("visit")
        frame = frame.with_columns(
            outcome=pl.when(~dag).then(pl.col("outcome")),
            propensity=pl.when(dag).then(0.0).otherwise(1 / size),
        )
    if unknown:
        last = pl.col("visit") == pl.col("visit").last()
        frame = frame.with_columns(propensity=pl.when(shown | ~last).then(pl.col("propensity")))
    return frame


LOGS = {
    "best action": (outrule.BestAction(), RULES, {}, {}),
    "never": (outrule.BestAction(), RULES, {}, {"never": True}),
    "unknown": (outrule.BestAction(), RULES, {}, {"unknown": True}),
    "estimated": (outrule.TopK(2), TWO, {"propensity_estimated": True}, {}),
    "both": (outrule.TopK(3), TWO, {"weight": "weight", "cluster": "day"}, {"never": True}),
    "no items": (outrule.BestAction(), TWO, {"item": None}, {"never": True}),
}


@cache
def once_on_log(case):
    problem, rules, more, _ = LOGS[case]
    columns = COLUMNS | {"propensity": "propensity"} | more
    trained = outrule.Instances.from_table(log(8), **columns)
    return outrule.DecisionCalibrator(problem, rules, epsilon=0.05).fit(trained)


def fitted_on_log(case):
    return copy.copy(once_on_log(case))


@pytest.mark.parametrize("case", LOGS)
def test_logs_are_judged_as_on_one_table(case, tmp_path):
    _, _, more, kind = LOGS[case]
    columns = COLUMNS | {"propensity": "propensity"} | more
    calibrator = fitted_on_log("best action" if case in ("never", "unknown") else case)
    cuts = {7: None, 1: 1, 3: 2} if case == "best action" else {7: None, 3: 2}
    folders = [cut(log(2, **kind), tmp_path / str(n), n) for n in cuts]
    whole = outrule.Instances.from_table(stacked(folders[0]), **columns)
    by = {"segments": outrule.Segments(["city"], 0.02, 20)}
    declared = by | ({"max_weight": 40.0} if "weight" in columns else {})
    expected = outrule.certify(calibrator, whole, **declared)
    assert expected.feedback == "logged"
    assert bool(expected.unsupported.items) == (case in ("never", "both"))
    for folder, n_jobs in zip(folders, cuts.values(), strict=True):
        data = outrule.Partitions(folder, **columns)
        found = outrule.certify(calibrator.set_params(n_jobs=n_jobs), data, **declared)
        assert found.to_json() == expected.to_json()
    outrule.verify(found, calibrator, whole)


def test_a_model_of_all_outcomes_is_judged_by_a_log_too(tmp_path):
    calibrator = fitted("best action")
    columns = COLUMNS | {"propensity": "propensity"}
    frame = log(2)
    later = log(5).with_columns(visit="n" + pl.col("visit"))
    files = [*sorted(cut(frame, tmp_path / "a", 3).glob("b*"))]
    more = [*files, *sorted(cut(later, tmp_path / "b", 2).glob("b*"))]
    looks = []
    for source in (
        lambda paths: outrule.Partitions(paths, **columns),
        lambda paths: outrule.Instances.from_table(
            pl.concat(map(pl.read_parquet, paths)), **columns
        ),
    ):
        one = outrule.certify(calibrator, source(files))
        looks.append((one.to_json(), outrule.certify(calibrator, source(more), previous=one)))
    assert looks[0][0] == looks[1][0]
    assert looks[0][1].to_json() == looks[1][1].to_json()


def test_a_log_in_files_must_fit_its_propensities(tmp_path):
    columns = COLUMNS | {"propensity": "propensity"}
    calibrator = fitted("best action")
    wrong = log(2).with_columns(propensity=pl.col("propensity") ** 3)
    data = outrule.Partitions(cut(wrong, tmp_path / "sums", 3), **columns)
    with pytest.raises(outrule.DataError, match="propensities sum to"):
        outrule.certify(calibrator, data)
    sure = log(2).with_columns(propensity=pl.col("outcome").is_not_null().cast(float))
    data = outrule.Partitions(cut(sure, tmp_path / "sure", 3), **columns)
    with pytest.raises(outrule.DataError, match="every choice of this log was certain"):
        outrule.certify(calibrator, data)
    high = log(2).with_columns(propensity=pl.col("propensity") + 1)
    data = outrule.Partitions(cut(high, tmp_path / "high", 3), **columns)
    with pytest.raises(outrule.DataError, match=r"propensity is 1.2 .*row 1 of .*b00.parquet"):
        outrule.certify(calibrator, data)


def test_segments_are_judged_as_on_one_table(tmp_path):
    calibrator = fitted("best action")
    folder = cut(tables.offers(seed=2), tmp_path / "in", 3)
    data = outrule.Partitions(folder, **COLUMNS)
    whole = outrule.Instances.from_table(stacked(folder), **COLUMNS)
    by = outrule.Segments(["city", ("city", "rank")], 0.01, 5)  # rank is null in the last visit
    expected = outrule.certify(calibrator, whole, segments=by)
    assert len(expected.segments) > 5
    assert outrule.certify(calibrator, data, segments=by).to_json() == expected.to_json()
    with pytest.raises(outrule.DataError, match=r"'km' changes within the instance .*b00.parquet"):
        outrule.certify(calibrator, data, segments=["km"])


@pytest.mark.parametrize("case", ["best action", "both"])
def test_a_certificate_goes_on_as_on_one_table(case, tmp_path):
    columns, calibrator = COLUMNS | CASES[case][2], fitted(case)
    frame = tables.offers(seed=2)
    rare = pl.col("item").replace("eve", "zoe")  # items and days that the first look has not
    new = frame.with_columns(visit="n" + pl.col("visit"), item=rare, day=pl.col("day") + 50)
    first, second = cut(frame, tmp_path / "a", 3), cut(new, tmp_path / "b", 2)
    files = [*sorted(first.glob("b*")), *sorted(second.glob("b*"))]
    declared = {"max_weight": 40.0} if "weight" in columns else {}
    by = outrule.Segments(["city"], 0.02, 20)
    looks, together = [], [files[:3], files]

    def whole(paths, **columns):
        return outrule.Instances.from_table(pl.concat(map(pl.read_parquet, paths)), **columns)

    for source in (outrule.Partitions, whole):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the new item
            before, after = (source(paths, **columns) for paths in together)
            one = outrule.certify(calibrator, before, **declared, segments=by)
            two = outrule.certify(calibrator, after, previous=one)
        looks.append((one.to_json(), two.to_json()))
    assert looks[0] == looks[1]
    for wrong in (files[:3], files[1:], files[3:] + files[:3]):
        with pytest.raises(outrule.DataError, match="instances"):
            outrule.certify(calibrator, outrule.Partitions(wrong, **columns), previous=one)


def test_a_file_that_does_not_count_is_read_like_others(tmp_path):
    """Nor need the instances that are looked at together have a weight."""
    frame = tables.offers(seed=2).with_columns(
        weight=(pl.col("visit").str.tail(-1).cast(int) > 400).cast(float)
    )
    columns = COLUMNS | {"weight": "weight"}
    folder = cut(frame, tmp_path / "in", 5)
    calibrator, data = fitted("weights"), outrule.Partitions(folder, **columns)
    whole = outrule.Instances.from_table(frame, **columns)
    expected = outrule.certify(calibrator, whole, max_weight=1)
    assert outrule.certify(calibrator, data, max_weight=1).to_json() == expected.to_json()
    calibrator = outrule.DecisionCalibrator(outrule.BestAction(), RULES, epsilon=0.05)
    assert to_text(calibrator.fit(data).model_) == to_text(calibrator.fit(whole).model_)
    cut(frame.with_columns(weight=0.0), tmp_path / "none", 2)
    with pytest.raises(outrule.DataError, match="all weights are zero"):
        outrule.certify(calibrator, outrule.Partitions(tmp_path / "none", **columns))


def test_large_decisions_are_summed_in_the_same_order(tmp_path):
    """Files whose largest decisions differ: sums of nine and more terms depend on the padding."""
    generator = np.random.default_rng(0)
    sizes = np.where(np.arange(80) < 40, 9, 17)
    frame = pl.DataFrame(
        {
            "visit": np.repeat(np.arange(80), sizes),
            "item": np.concatenate([np.arange(size) for size in sizes]),
            "score": generator.random(sizes.sum()),
            "outcome": generator.random(sizes.sum()),
        }
    )
    rules = [outrule.Reweight("squares", "score * score")]
    calibrator = outrule.DecisionCalibrator(outrule.TopK(16), rules, epsilon=0.5)
    calibrator.fit(
        outrule.Instances.from_table(frame.with_columns(pl.col("outcome") * 0.9), **COLUMNS)
    )
    folder = cut(frame, tmp_path / "in", 2)
    expected = outrule.certify(calibrator, outrule.Instances.from_table(frame, **COLUMNS))
    found = outrule.certify(calibrator, outrule.Partitions(folder, **COLUMNS))
    assert found.to_json() == expected.to_json()


def test_training_files_prove_nothing(tmp_path):
    folder = cut(tables.offers(seed=8), tmp_path / "in", 3)
    data = outrule.Partitions(folder, **COLUMNS)
    calibrator = outrule.DecisionCalibrator(outrule.BestAction(), RULES).fit(data)
    with pytest.raises(outrule.DataError, match="these are the instances that fit has seen"):
        outrule.certify(calibrator, data)
    with pytest.raises(outrule.DataError, match="these are the instances that fit has seen"):
        outrule.certify(calibrator, outrule.Instances.from_table(stacked(folder), **COLUMNS))
    some = outrule.Partitions([folder / "b01.parquet"], **COLUMNS)
    with pytest.raises(outrule.DataError, match="fit has seen 100 % of these instances"):
        outrule.certify(calibrator, some)


def test_files_whose_outcomes_are_all_the_same_prove_nothing(tmp_path):
    frame = tables.offers(seed=2).with_columns(outcome=pl.lit(1))
    last = frame["visit"] == frame["visit"][-1]
    broken = outrule.Partitions(cut(frame, tmp_path / "broken", 3), **COLUMNS)
    with pytest.raises(outrule.DataError, match=r"every outcome is 1\. No decision can then"):
        outrule.certify(fitted("best action"), broken)
    nearly = frame.with_columns(outcome=pl.Series(np.where(last, 0, 1)))
    data = outrule.Partitions(cut(nearly, tmp_path / "nearly", 3), **COLUMNS)
    assert outrule.certify(fitted("best action"), data).n_instances == 420


def test_what_is_not_supported_is_refused_before_any_file_is_read(tmp_path):
    calibrator = fitted("best action")
    (tmp_path / "a.parquet").write_bytes(b"not Parquet at all")
    data = outrule.Partitions(tmp_path, **COLUMNS)
    given = {"outcomes": np.ones(2), "available": np.ones(2), "sample_weight": np.ones(2)}
    for name, value in given.items():
        with pytest.raises(outrule.ArgumentError, match=f"'{name}' argument of certify"):
            outrule.certify(calibrator, data, **{name: value})
    blind = outrule.Partitions(tmp_path, **COLUMNS | {"outcome": None})
    with pytest.raises(outrule.ArgumentError, match="'outcomes' argument of certify"):
        outrule.certify(calibrator, blind)


def test_warnings_are_those_of_one_table(tmp_path):
    frame = tables.offers(seed=2)
    new = frame.with_columns(pl.col("item").replace("eve", "zoe"))
    data = outrule.Partitions(cut(new, tmp_path / "new", 3), **COLUMNS)
    with pytest.warns(match=r"1 item not seen in training \('zoe'\)"):
        outrule.certify(fitted("best action"), data)
    single = frame.filter(pl.col("item") == "ann")
    data = outrule.Partitions(cut(single, tmp_path / "single", 2), **COLUMNS)
    with pytest.raises(outrule.DataError, match="no instance offers a choice"):
        outrule.certify(fitted("best action"), data)
