"""The methods that compare.py compares: what each predicts for test items after calibration.

A new method is one more line in METHODS: a function from `Data` to predictions in the order of
`data.test.prediction`. The optimiser then decides on them.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from cases import Data
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

import outrule

Floats = NDArray[np.float64]
Method = Callable[[Data], Floats]


def plain(data: Data) -> Floats:
    """The predictions as they are."""
    return data.test.prediction


def best_rule(data: Data) -> Floats:
    """The decisions of the rule with the largest value on the calibration part, as 0 and 1."""
    values = outrule.metrics.values_of_rules(data.problem, data.rules, data.calibration)
    rule = max(data.rules, key=lambda rule: values[rule.name])
    # On these the optimiser decides as the rule does.
    return _marks(rule, data.test, data.problem).astype(np.float64)


def isotonic(data: Data) -> Floats:
    """Isotonic regression for each item, the one that every model carries to compare with."""
    return outrule.Isotonic().fit(data.calibration).apply(data.test)


def platt(data: Data) -> Floats:
    """Logistic regression of the outcome on the log odds of the prediction, for each item."""
    result = data.test.prediction.copy()
    for item in np.unique(data.test.item):
        seen, new = data.calibration.item == item, data.test.item == item
        x, y = _log_odds(data.calibration.prediction[seen]), data.calibration.outcome[seen]
        if len(x) and np.ptp(x):
            # Platt's targets keep the slope finite where predictions separate the outcomes.
            n_good, n_bad = y.sum(), (1 - y).sum()
            target = y * (n_good + 1) / (n_good + 2) + (1 - y) / (n_bad + 2)
            x, label, weight = _as_labels(x, target)
            curve = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-8)
            curve.fit(x[:, None], label, weight)
            odds = _log_odds(data.test.prediction[new])
            result[new] = curve.predict_proba(odds[:, None])[:, 1]
    return result


def mcgrad(data: Data) -> Floats:
    """MCGrad with the item and the decisions of the rules as categorical features."""
    from mcgrad import methods  # optional, and large

    frame = _features(data, data.calibration)
    names = [name for name in frame if name != "prediction"]
    rows, label, weight = _as_labels(np.arange(len(frame)), data.calibration.outcome)
    model = methods.MCGrad().fit(
        frame.iloc[rows].assign(label=label, weight=weight),
        prediction_column_name="prediction",
        label_column_name="label",
        weight_column_name="weight",
        categorical_feature_column_names=names,
    )
    return np.asarray(
        model.predict(
            _features(data, data.test),
            prediction_column_name="prediction",
            categorical_feature_column_names=names,
        ),
        dtype=np.float64,
    )


def fitted(**settings: Any) -> Method:
    """A DecisionCalibrator with these settings and a fixed seed."""
    settings = {"random_state": 0} | settings

    def predict(data: Data) -> Floats:
        calibrator = outrule.DecisionCalibrator(data.problem, data.rules, **settings)
        return calibrator.fit(data.calibration).model_.predict(data.test)

    return predict


# Algorithm 1 has no tests beyond the rules and the optimiser.
_SETTINGS = inspect.signature(outrule.DecisionCalibrator).parameters
_NO_RIVALS = {"rivals": ()} if "rivals" in _SETTINGS else {}

OURS = "outrule"  # the default, which the others are compared with; names of ours begin with it
METHODS: dict[str, Method] = {
    "plain": plain,
    "best rule": best_rule,
    "isotonic": isotonic,
    "Platt": platt,
    OURS: fitted(),
    "outrule, Algorithm 1": fitted(
        start=None, step=outrule.FixedStep(), epsilon=0.05, **_NO_RIVALS
    ),
    "outrule, isotonic start": fitted(
        start=outrule.Isotonic(), epsilon=0.01, check=outrule.Reuse(validation=0.25)
    ),
}
if importlib.util.find_spec("mcgrad"):
    METHODS["MCGrad"] = mcgrad


def _log_odds(probability: Floats) -> Floats:
    clipped = np.clip(probability, 1e-12, 1 - 1e-12)
    return np.log(clipped) - np.log1p(-clipped)


def _as_labels(x: NDArray[Any], outcome: Floats) -> tuple[NDArray[Any], NDArray[Any], Floats]:
    """Labels 0 and 1 with weights that say the same as outcomes in [0, 1]."""
    label = np.repeat([1, 0], len(x))
    weight = np.concatenate([outcome, 1 - outcome])
    kept = weight > 0
    return np.concatenate([x, x])[kept], label[kept], weight[kept]


def _features(data: Data, instances: outrule.Instances) -> Any:
    """A pandas frame with one row per item, for calibrators that know nothing of instances."""
    import pandas as pd  # only for a method that is optional itself

    columns = {"prediction": instances.prediction, "item": instances.item}
    for number, rule in enumerate(data.rules):
        columns[f"rule{number}"] = _marks(rule, instances, data.problem).astype(np.int64)
    return pd.DataFrame(columns)


def _marks(
    rule: outrule.Rule, instances: outrule.Instances, problem: outrule.Problem
) -> NDArray[np.bool_]:
    return instances.mark(rule.decide(instances, problem, problem.lay(instances)))
