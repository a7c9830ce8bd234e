"""The example: a rule beats the plain optimiser on it, and its spec reads."""

import polars as pl
import pytest

import outrule
from outrule.demos.example import trips, write_example


def test_the_files_are_there_and_the_same_each_time(tmp_path):
    paths = write_example(tmp_path / "a", 50)
    assert [path.name for path in paths] == ["trips.csv", "new_trips.csv", "spec.toml"]
    again = write_example(tmp_path / "b", 50)
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in again]
    assert paths[0].read_bytes() != paths[1].read_bytes()


def test_a_trip_has_two_to_six_drivers_one_of_them_nearest():
    frame = trips(200, (1,), first_day=29)
    sizes = frame.group_by("trip").agg(pl.len(), (pl.col("nearest") == 1).sum().alias("first"))
    assert set(sizes["len"]) == {2, 3, 4, 5, 6}
    assert set(sizes["first"]) == {1}
    assert frame["day"].is_between(29, 56).all()
    assert frame["score"].is_between(0, 1).all()


def test_the_rules_are_worth_having_and_calibration_is_worth_as_much(tmp_path):
    past, later, path = write_example(tmp_path)
    spec = outrule.read_spec(path)
    data = spec.instances(pl.read_csv(past))
    calibrator = outrule.DecisionCalibrator.from_spec(spec, data).fit(data)
    certificate = outrule.certify(calibrator, spec.instances(pl.read_csv(later)))
    assert certificate.verdict == "pass"
    assert certificate.best_rule.mean > certificate.plain.mean + 0.02
    assert certificate.calibrated.mean == pytest.approx(certificate.best_rule.mean, abs=0.02)
