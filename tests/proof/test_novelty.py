"""Hold-outs that are none: seen instances, copies and clusters are noticed, and nothing else."""

import dataclasses

import numpy as np
import polars as pl
import pytest

import outrule
from letter import algorithm_one
from outrule import DataError, Instances, certify, verify
from outrule.data import sketch as sketching
from outrule.proof.novelty import is_group, named_like_a_group

RULES = [outrule.Fixed(0), outrule.Fixed(1)]


def continuous(n, seed, **more):
    generator = np.random.default_rng(seed)
    predictions = generator.random((n, 3))
    outcomes = (generator.random((n, 3)) < predictions).astype(float)
    return Instances.from_arrays(predictions, outcomes, **more)


def discrete(n, seed, levels=3, m=2):
    generator = np.random.default_rng(seed)
    predictions = generator.integers(1, levels + 1, (n, m)) / (levels + 1)
    outcomes = (generator.random((n, m)) < predictions).astype(float)
    return Instances.from_arrays(predictions, outcomes)


def together(*parts):
    predictions, outcomes = (
        np.concatenate([getattr(part, name).reshape(len(part), -1) for part in parts])
        for name in ("prediction", "outcome")
    )
    return Instances.from_arrays(predictions, outcomes)


def fitted(data):
    return algorithm_one(outrule.BestAction(), RULES, 0.2).fit(data)


def certified(calibrator, data, **more):
    """The notes of a certificate, which the verification must find too."""
    certificate = certify(calibrator, data, **more)
    verify(certificate, calibrator, data)
    for note in certificate.notes:
        assert note in str(certificate)
    return list(certificate.notes)


# Seen by fit


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.take(np.random.default_rng(0).permutation(len(data))),
        lambda data: data.take(np.arange(1, len(data))),
        lambda data: data.slice(0, 20),
        lambda data: together(data.slice(0, 100), continuous(900, 5)),
    ],
    ids=["other order", "one left out", "some", "a tenth of others"],
)
def test_instances_that_fit_has_seen_are_refused_in_any_selection(change):
    training = continuous(200, 0)
    calibrator = fitted(training)
    with pytest.raises(DataError, match=r"fit has seen 1.*0 % of these instances \(the same pred"):
        certify(calibrator, change(training))
    with pytest.raises(DataError, match="drop those that were trained on, or split the data"):
        certify(calibrator, change(training))
    assert certified(calibrator, continuous(300, 1)) == []


def test_a_saved_model_remembers_and_partial_fit_adds(tmp_path):
    first, second = continuous(100, 0), continuous(100, 1)
    calibrator = algorithm_one(outrule.BestAction(), RULES, 0.2, check=outrule.Reuse())
    calibrator.partial_fit(first).partial_fit(second).save(tmp_path / "model.json")
    loaded = outrule.load(tmp_path / "model.json")
    for data in (first, second, together(second, first)):
        with pytest.raises(DataError, match="fit has seen 100 %"):
            certify(loaded, data.take(np.arange(len(data))[::-1]))
    assert certified(loaded, continuous(100, 2)) == []


def test_a_sample_of_the_training_instances_is_enough(monkeypatch):
    monkeypatch.setattr(sketching, "CAPACITY", 64)
    training = continuous(3000, 0)
    calibrator = fitted(training)
    with pytest.raises(DataError, match="fit has seen 100 %"):
        certify(calibrator, training.slice(500, 1500))
    assert certified(calibrator, continuous(1000, 1)) == []


def test_a_few_seen_instances_are_said_and_not_refused():
    training = continuous(1000, 0)
    notes = certified(fitted(training), together(training.slice(0, 5), continuous(995, 1)))
    assert notes == [
        "Fit has seen 0.5 % of these instances (the same predictions and outcomes; by chance it "
        "would be 0 %)."
    ]


@pytest.mark.parametrize("overlap", [1, 2, 3])
def test_a_single_instance_that_fit_has_seen_is_said(overlap):
    training = continuous(1000, 0)
    calibrator = fitted(training)
    notes = certified(calibrator, together(training.slice(0, overlap), continuous(900, 1)))
    share = f"{100 * overlap / (900 + overlap):.2g} % of these instances"
    same = "(the same predictions and outcomes; "
    assert notes == [
        f"Fit has seen {share} {same}by chance it would be 0 %)."
        if overlap == 3
        else f"Fit may have seen {share} {same}up to 0.3 % can be chance)."
    ]
    assert certified(calibrator, continuous(900, 1)) == []


def test_a_single_named_instance_that_fit_has_seen_is_said():
    frame, later = trips(500, 0), trips(500, 1, first=500)
    mixed = Instances.from_table(pl.concat([frame[:2], later]), **ROLES)
    (note,) = certified(fitted_on_table(frame), mixed)
    assert note.startswith("Fit has seen 0.2 % of these instances (the same name, predictions")


@pytest.mark.parametrize("levels", [1, 3, 8])
@pytest.mark.parametrize("n", [20, 200, 1000])
def test_discrete_data_that_are_the_same_by_nature_are_new(levels, n):
    for seed in range(6):
        calibrator = fitted(discrete(n, seed, levels))
        notes = certified(calibrator, discrete(150, 100 + seed, levels))
        if n > 20:  # else training has too few twins to know
            assert notes == []
        assert all(note.startswith("Fit may have seen") for note in notes)


def test_a_leak_is_found_among_coincidences():
    training = discrete(400, 0, levels=30)  # one in four has a twin
    calibrator = fitted(training)
    assert certified(calibrator, discrete(400, 1, levels=30)) == []
    with pytest.raises(DataError, match=r"fit has seen \d\d % .* by chance it would be \d\d %"):
        certify(calibrator, together(training.slice(0, 200), discrete(200, 2, levels=30)))


def with_common(n, seed, share=0.3):
    """Instances of which many are the same, as where a score is missing."""
    data = continuous(n, seed)
    common = np.zeros((n, 3))
    common[: round(share * n)] = 1.0
    parts = (
        np.where(common, 0.5, data.prediction.reshape(n, 3)),
        np.where(common, 0.0, data.outcome.reshape(n, 3)),
    )
    return Instances.from_arrays(*parts)


@pytest.mark.parametrize("seed", [86, 87, 88])
def test_few_coarse_instances_are_not_refused_for_a_coincidence(monkeypatch, seed):
    monkeypatch.setattr(sketching, "CAPACITY", 64)
    calibrator = fitted(discrete(2000, 0, levels=300))
    data = discrete(30, seed, levels=300)  # of one or two of them the sketch would know
    notes = certified(calibrator, data)
    assert all(note.startswith("Fit has seen") for note in notes)
    assert any(notes) == (seed == 86)


def test_a_common_instance_that_the_sketch_has_not_is_no_leak_and_no_copy(monkeypatch):
    monkeypatch.setattr(sketching, "CAPACITY", 64)
    training = with_common(1000, 0)
    calibrator = fitted(training)
    assert calibrator.model_.seen.contents.counts.max() == 1
    for n in (30, 1000):
        certify(calibrator, with_common(n, 1))
    with pytest.raises(DataError, match="fit has seen"):
        certify(calibrator, training.take(np.arange(1, 1000)))
    twice = continuous(500, 1).take(np.arange(1000) % 500)
    with pytest.raises(DataError, match="100 % of these instances are copies"):
        certify(calibrator, twice)


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_few_instances_that_fit_has_seen_are_refused_beside_others(share):
    training = with_common(1000, 0, share)
    part = training.take(np.arange(0, 1000, 62))  # 17
    with pytest.raises(DataError, match=r"fit has seen \d\d % of these instances"):
        certify(fitted(training), together(part, with_common(20, 5, share)))


def test_units_that_are_observed_again_with_new_outcomes_are_new():
    training = continuous(400, 0)
    again = np.random.default_rng(1).random((400, 3)) < training.prediction.reshape(400, 3)
    panel = Instances.from_arrays(training.prediction.reshape(400, 3), again.astype(float))
    (note,) = certified(fitted(training), panel)
    assert note.startswith("Fit has seen")


def trips(n, seed, first=0, levels=2):
    generator = np.random.default_rng(seed)
    rows = np.repeat(np.arange(n), 2)
    score = generator.integers(1, levels + 1, 2 * n) / (levels + 1)
    return pl.DataFrame(
        {
            "trip": first + rows,
            "car": np.tile(["x", "y"], n),
            "score": score,
            "won": (generator.random(2 * n) < score).astype(float),
        }
    )


ROLES = {"instance": "trip", "item": "car", "prediction": "score", "outcome": "won"}


def fitted_on_table(frame):
    rules = [outrule.Fixed("x"), outrule.Fixed("y")]
    calibrator = algorithm_one(outrule.BestAction(), rules, 0.2)
    return calibrator.fit(Instances.from_table(frame, **ROLES))


def test_names_tell_a_leak_where_contents_cannot():
    frame = trips(500, 0)
    calibrator = fitted_on_table(frame)
    later = trips(500, 1, first=500)
    assert certified(calibrator, Instances.from_table(later, **ROLES)) == []
    assert certified(calibrator, Instances.from_table(trips(500, 2), **ROLES)) == []  # from 0 again
    few = trips(500, 3).filter(pl.col("trip") < 5)
    assert certified(calibrator, Instances.from_table(few, **ROLES)) == []
    mixed = pl.concat([frame[:100], later])
    with pytest.raises(DataError, match=r"fit has seen 9\.1 % .*\(the same name, predictions"):
        certify(calibrator, Instances.from_table(mixed, **ROLES))


def test_a_file_of_an_older_version_is_said_to_remember_nothing():
    model = fitted(continuous(100, 0)).model_
    older = outrule.DecisionCalibrator.from_model(dataclasses.replace(model, seen=None))
    (note,) = certified(older, continuous(100, 1))
    assert "does not remember the training instances" in note
    with pytest.raises(DataError, match="these are the instances that fit has seen"):
        certify(older, continuous(100, 0))


# Copies


def test_copies_in_a_hold_out_are_refused_unless_they_are_one_cluster():
    calibrator, few = fitted(continuous(500, 0)), continuous(50, 1)
    places = np.repeat(np.arange(50), 20)
    copies = few.take(places)
    with pytest.raises(DataError, match=r"100 % of these instances are copies .* as cluster"):
        certify(calibrator, copies)
    parts = (part.reshape(50, 3)[places] for part in (few.prediction, few.outcome))
    assert certified(calibrator, Instances.from_arrays(*parts, cluster=places), max_weight=20) == []


def test_one_copy_is_said():
    calibrator = fitted(continuous(2000, 0))
    hold_out = continuous(400, 1).take(np.append(np.arange(400), 7))
    assert certified(calibrator, hold_out) == [
        "0.5 % of these instances are copies of others; each counts as a separate instance."
    ]


# Clusters that are not named


def test_a_column_that_looks_like_a_cluster_is_said_unless_it_is_one():
    calibrator = fitted(continuous(300, 0))
    day, km = np.arange(120) // 4, np.random.default_rng(0).random(120)
    columns = {"day": day, "km": km, "new_customer": day % 2 == 0}
    (note,) = certified(calibrator, continuous(120, 1, columns=columns))
    assert note.startswith("Column 'day' has 30 different values, which instances share.")
    assert "name it as cluster" in note
    named = continuous(120, 1, columns={"day": day}, cluster=day)
    assert certified(calibrator, named, max_weight=4) == []
    alone = continuous(120, 1, columns={"day": np.arange(120)})
    assert certified(calibrator, alone) == []


def test_a_column_whose_instances_go_together_is_said_whatever_its_name():
    generator = np.random.default_rng(0)
    place = np.repeat(np.arange(40), 10)
    predictions = np.array([0.7, 0.4, 0.1]) + 0.2 * generator.random((400, 3))
    outcomes = np.zeros((400, 3))
    outcomes[:, 1] = (generator.random(40) < 0.5)[place]  # the same in a whole place
    other = generator.integers(0, 40, 400)
    calibrator = algorithm_one(outrule.BestAction(), [outrule.Fixed(1)], 0.2).fit(
        generator.random((200, 3)), np.tile([0.0, 1.0, 0.0], (200, 1))
    )
    data = Instances.from_arrays(predictions, outcomes, columns={"place": place, "colour": other})
    notes = certified(calibrator, data)
    assert notes == [
        "Column 'place' has 40 different values, which instances share. If instances with the same "
        "value depend on each other, the bounds are too narrow: name it as cluster."
    ]


def test_a_table_is_searched_for_columns_that_are_the_same_within_an_instance():
    calibrator = fitted_on_table(trips(100, 0))
    frame = trips(100, 1, first=100).with_columns(
        customer_id=pl.Series(np.repeat(np.arange(100) % 30, 2)),
        driver_id=pl.Series(np.arange(200) % 7),  # differs within an instance
        new_customer=pl.Series(np.repeat(np.arange(100) % 2 == 0, 2)),  # a flag is no cluster
        tags=pl.Series([["a"]] * 200),
        empty=pl.Series([None] * 200, dtype=pl.Int64),
    )
    (note,) = certified(calibrator, Instances.from_table(frame, **ROLES))
    assert note.startswith("Column 'customer_id' has 30 different values")


def test_a_null_and_the_text_none_are_different_values_of_an_instance():
    values = [f"customer {row // 2 % 30}" for row in range(200)]
    frame = trips(100, 1, first=100)
    given = frame.with_columns(customer_id=pl.Series([None, "None", *values[2:]]))
    calibrator = fitted_on_table(trips(100, 0))
    assert certified(calibrator, Instances.from_table(given, **ROLES)) == []


def test_a_column_of_few_values_is_no_cluster_by_its_name_alone():
    calibrator = fitted(continuous(120, 0))
    part = np.arange(120) % 3
    found = certified(calibrator, continuous(120, 1, columns={"part_of_day": part}))
    assert found == []
    assert is_group("day", 14, 1_400, between=1_000.0, within=2_000.0, squares=3_000.0)
    assert not is_group("day", 14, 1_400, between=26.0, within=2_800.0, squares=2_826.0)
    assert not is_group("city", 14, 1_400, between=1_000.0, within=2_000.0, squares=3_000.0)


@pytest.mark.parametrize("name", ["day", "Date", "customerId", "user_id", "household.no", "ID"])
def test_names_of_groups(name):
    assert named_like_a_group(name)


@pytest.mark.parametrize("name", ["km", "holiday", "update", "idle", "city", "weekend"])
def test_names_of_other_things(name):
    assert not named_like_a_group(name)
