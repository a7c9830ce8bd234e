"""MLflow models of calibrators: saved, logged and loaded by MLflow itself."""

import warnings

import numpy as np
import pytest

import outrule
from outrule.integrations.mlflow import log_model, save_model

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of MLflow's own code, here and below
    mlflow = pytest.importorskip("mlflow.pyfunc") and pytest.importorskip("mlflow")
pytestmark = pytest.mark.filterwarnings("ignore")

WORLD = outrule.worlds.Quadratic(4, seed=0)
SPEC = """
[problem]
kind = "best action"
[data]
instance = "trip"
prediction = "score"
outcome = "completed"
[[rules]]
name = "no long pickups"
weight = "CASE WHEN pickup_km > 3 THEN 0.5 * score ELSE score END"
"""


def of_arrays(rule=None):
    predictor = outrule.worlds.brief_predictor(WORLD)
    predictions, outcomes = outrule.worlds.draw(WORLD, predictor, 500, seed=1)
    rules = [*outrule.multipliers(4, limit=10), *([rule] if rule else [])]
    return outrule.DecisionCalibrator(outrule.BestAction(), rules).fit(predictions, outcomes)


@pytest.fixture(scope="module")
def table():
    """A calibrator that was fitted on a table, and the table."""
    from outrule.demos.example import trips

    return trips(500, (0, 0))


@pytest.fixture(scope="module")
def of_table(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("spec") / "spec.toml"
    path.write_text(SPEC)
    spec = outrule.read_spec(path)
    data = spec.instances(table)
    return outrule.DecisionCalibrator.from_spec(spec, data).fit(data)


def test_a_calibrator_of_arrays_predicts_and_decides_the_same_bits(tmp_path):
    calibrator, data = of_arrays(), np.random.default_rng(0).random((20, 4))
    save_model(calibrator, tmp_path / "m", data)
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    np.testing.assert_array_equal(loaded.predict(data), calibrator.predict(data))
    decided = loaded.predict(data, params={"decide": True})
    np.testing.assert_array_equal(decided, calibrator.decide(data))
    assert not list((tmp_path / "m").rglob("*.pkl"))
    assert (tmp_path / "m" / "data" / "model.json").is_file()
    text = (tmp_path / "m" / "requirements.txt").read_text()
    assert f"outrule[mlflow]=={outrule.__version__}" in text.splitlines()


def test_a_calibrator_of_a_table_adds_two_columns(table, of_table, tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(table.to_dict(as_series=False)).sample(frac=1, random_state=0)
    save_model(of_table, tmp_path / "m", frame.head(20))
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    names = loaded.metadata.get_input_schema().input_names()
    assert "completed" not in names
    assert {"trip", "score", "pickup_km"} <= set(names)
    found = loaded.predict(frame.drop(columns="completed"))
    assert list(found.columns) == ["calibrated", "chosen"]
    assert (found.index == frame.index).all()
    assert (found["chosen"].groupby(frame["trip"]).sum() == 1).all()
    expected = of_table.predict(
        outrule.Instances.from_table(frame, instance="trip", prediction="score")
    )
    assert found["calibrated"].tolist() == expected.tolist()
    with pytest.raises(Exception, match="pickup_km"):  # MLflow's own, by the signature
        loaded.predict(frame.drop(columns=["completed", "pickup_km"]))


def test_a_frame_with_lists_gets_lists(table, of_table, tmp_path):
    """One row per instance: whatever cuts such a frame into batches cuts no instance."""
    pytest.importorskip("pandas")
    rows = table.drop("completed")
    nested = rows.group_by("trip", maintain_order=True).all()
    frame = nested.to_pandas()
    save_model(of_table, tmp_path / "m", frame.head(20))
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    found = [one for i in (0, 200) for one in loaded.predict(frame[i : i + 200])["calibrated"]]
    flat = nested[:400].explode(*nested.columns[1:])
    expected = of_table.predict(
        outrule.Instances.from_table(flat, instance="trip", prediction="score")
    )
    assert np.concatenate(found).tolist() == expected.to_list()


def test_a_logged_model_is_loaded_by_its_address(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # the small package has no database
    calibrator, data = of_arrays(), np.random.default_rng(1).random((5, 4))
    mlflow.set_tracking_uri(f"file://{tmp_path}/runs")
    mlflow.set_experiment(
        experiment_id=mlflow.create_experiment("e", artifact_location=(tmp_path / "a").as_uri())
    )
    with mlflow.start_run():
        info = log_model(calibrator, "calibrator", data)
    loaded = mlflow.pyfunc.load_model(info.model_uri)
    np.testing.assert_array_equal(loaded.predict(data), calibrator.predict(data))


def test_a_rule_that_is_a_function_is_refused_before_anything_is_written(tmp_path):
    calibrator = of_arrays(outrule.Reweight("mine", lambda view: view.predictions))
    with pytest.raises(outrule.DataError, match="the rule 'mine' is a Python function"):
        save_model(calibrator, tmp_path / "m", np.zeros((2, 4)))
    assert list(tmp_path.iterdir()) == []
