"""The methods that compare.py compares: what each predicts for test items after calibration.

A new method is one more line in METHODS: a function from `Data` to predictions in the order of
`data.test.prediction`. The optimiser then decides on them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from cases import Data
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression

import outrule
from outrule.calibration.isotonic import draw_folds

N_FOLDS = 5
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
    known, asked = _items(data.calibration), _items(data.test)
    for item in np.unique(asked):
        seen, new = known == item, asked == item
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


def boosted(data: Data) -> Floats:
    """Boosted trees fitted again on the calibration part, with all columns that rules see."""
    past, new, codes = columns_of(data)
    every = np.ones(len(past), dtype=bool)
    return _within(_grow(past, every, data, codes).predict(new), data.test, data.problem)


def from_boosted(data: Data) -> Floats:
    """The default settings, with the predictions of such trees as start: both together.

    The start of a calibration instance comes from trees that have not seen its cluster.
    """
    past, new, codes = columns_of(data)
    given, start = data.calibration, np.empty(len(past))
    fold = draw_folds(given, N_FOLDS, np.random.default_rng(0))[given.instance]
    for number in range(fold.max() + 1):
        out = fold == number
        start[out] = _grow(past, ~out, data, codes).predict(past[out])
    later = _grow(past, np.ones(len(past), dtype=bool), data, codes).predict(new)
    parts = (
        replace(one, start=_within(column, one, data.problem))
        for one, column in ((given, start), (data.test, later))
    )
    return fitted()(Data(data.problem, data.rules, *parts))


def _grow(
    features: Floats, rows: NDArray[np.bool_], data: Data, codes: list[int]
) -> HistGradientBoostingRegressor:
    trees = HistGradientBoostingRegressor(
        max_iter=150, learning_rate=0.05, categorical_features=codes, random_state=0
    )
    given = data.calibration
    weight = None if given.weight is None else given.weight[given.instance][rows]
    return trees.fit(features[rows], given.outcome[rows], weight)


def _within(predictions: Floats, instances: outrule.Instances, problem: outrule.Problem) -> Floats:
    """Inside the value range; what is known, as the value of the reject item, stays as it is."""
    inside = np.clip(predictions, *instances.value_range)
    frozen = problem.lay(instances).per_item.get("frozen")
    return inside if frozen is None else np.where(frozen, instances.prediction, inside)


def columns_of(data: Data) -> tuple[Floats, Floats, list[int]]:
    """The features of the calibration part and of the test part, and which of them are codes.

    That is the prediction, the item, what rules look at, and everything else that the table has,
    but for dates, which do not come again.
    """
    past, new = data.calibration.origin, data.test.origin
    names = getattr(past, "names", None)
    left_out = () if names is None else (names.instance, names.cluster, names.weight)
    features, codes = [], []
    if names is None:  # arrays; in a table these are columns
        features += [(data.calibration.prediction, data.test.prediction)]
        features += [(data.calibration.item, data.test.item)]
        codes.append(1)
    for name, _ in past.all_columns():
        before, after = (pl.Series(origin.flat_column(name)) for origin in (past, new))
        if name in left_out or before.dtype.is_temporal():
            continue
        if before.dtype == pl.String:
            codes.append(len(features))
            kinds = pl.Enum(before.unique().sort())
            before, after = before.cast(kinds).to_physical(), after.cast(kinds, strict=False)
            after = after.to_physical()
        features.append((before.cast(pl.Float64), after.cast(pl.Float64)))
    columns = [np.column_stack(list(part)) for part in zip(*features, strict=True)]
    return columns[0].astype(np.float64), columns[1].astype(np.float64), codes


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

TREES = "trees"  # fitted again, on all columns
MCGRAD = "MCGrad"  # optional: it is run where it is installed
OURS = "outrule"  # the default, which the others are compared with; names of ours begin with it
METHODS: dict[str, Method] = {
    "plain": plain,
    "best rule": best_rule,
    "isotonic": isotonic,
    "Platt": platt,
    TREES: boosted,
    OURS: fitted(),
    "outrule, curves": fitted(start=outrule.CrossFit(max_trees=0, max_patches=100)),
    "outrule, Algorithm 1": fitted(
        start=None, step=outrule.FixedStep(), epsilon=0.05, **_NO_RIVALS
    ),
    "outrule, isotonic start": fitted(
        start=outrule.Isotonic(), epsilon=0.01, check=outrule.Reuse(validation=0.25)
    ),
    MCGRAD: mcgrad,
}


def _items(instances: outrule.Instances) -> NDArray[Any]:
    """The name of every item; the same for all where a table does not name them."""
    if instances.item is None:
        return np.zeros(len(instances.prediction))
    return np.asarray(instances.names_of_items)[instances.item]


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
