"""The summary: everything that a report shows, as one dict of plain values."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

import outrule
from outrule.calibration.audit import OPTIMISER
from outrule.calibration.check import FreshBatches
from outrule.calibration.loop import Round, Status
from outrule.data.instances import Instances
from outrule.data.origin import ArrayOrigin, TableOrigin
from outrule.errors import DataError, refuse_argument
from outrule.model.codec import fingerprint
from outrule.model.model import Model, column_names, model_of
from outrule.proof.certificate import Certificate, certify
from outrule.proof.confidence import Estimate
from outrule.proof.novelty import check_new
from outrule.proof.statement import RivalResult
from outrule.rules.rules import Fixed, Multiplier, Rule

FORMAT = 1
LONGEST = 120  # characters of a definition; text rules are shown whole
VALUES = {
    "plain": "plain optimiser, original predictions",
    "best_rule": "best rule, picked in training",
    "isotonic": "plain optimiser, isotonic regression",
    "calibrated": "plain optimiser, calibrated by outrule",
    "oracle": "oracle that knows the outcomes",
}
STATUS = {
    Status.CONVERGED: "no violation above the threshold was left",
    Status.MAX_ROUNDS: "the rounds were used up",
    Status.OUT_OF_DATA: "no whole batch of data was left",
    Status.VALIDATION: "the squared error of the validation part no longer fell",
}
READING = {
    "Value": "The sum of the outcomes of the items a decision takes, as a mean per instance, in "
    "the units of the data. More is better.",
    "Verdict": "Pass: with the stated confidence the plain optimiser on the calibrated predictions "
    "is at least as good as every rule, the plain optimiser on the original predictions and "
    "isotonic regression, minus at most the margin, and is not significantly worse than the last "
    "two. Fail: some rule is better by more than the margin, or one of the last two is better. "
    "Inconclusive: there is too little data to say, or sizes vary and no bound on them is "
    "declared.",
    "Margin": "Epsilon times the width of the value range: how far below the best rule is "
    "acceptable.",
    "Gap": "The smallest difference to a rival, and the smallest of their lower bounds. The true "
    "gap is the difference to one rival, so the bound needs no correction for their number.",
    "Difference to a rule": "Value of the calibrated optimiser minus that of the rule, on the same "
    "instances. The interval is shared over all rivals: all lower bounds hold at once, and all "
    "upper bounds. A pass rests on the lower bound for the rule alone; if all rules pass, that "
    "holds for all of them together.",
    "Intervals": "Bounds by betting, valid for any number of independent observations: instances, "
    "or whole clusters where the data have them. Those labelled approximate, and those of the "
    "violations, are the usual cluster-robust t intervals: narrower, and good for many "
    "observations.",
    "Violation": "Outcome minus prediction, summed over what a rule (or the optimiser itself) "
    "chooses, as a mean per instance. Zero means unbiased. If no violation is larger than the "
    "tolerance, no rule can be worth more than the optimiser by more than the margin.",
    "Predicted vs realised": "What the optimiser's own choices were predicted to be worth, and "
    "what they were worth. Choosing the largest predictions favours those that are too large: the "
    "winner's curse. After calibration the two should agree.",
    "Best rule": "Picked by its value in training, as one would pick it in practice; on held-out "
    "data another rule may be better. The verdict compares with every rule.",
    "Oracle": "The optimiser on the outcomes themselves: a ceiling that no prediction reaches.",
    "Limits": "The figures hold for data like these held-out instances. That none of them was used "
    "in training is not checked, except that the exact training data are not accepted.",
}


def summarise(
    calibrator: Any, instances: Instances, certificate: Certificate | None = None
) -> dict[str, Any]:
    """Everything a report shows, as plain values that JSON can hold, without NaN.

    Parameters
    ----------
    calibrator : a fitted DecisionCalibrator
    instances : Instances that ``fit`` never saw, with outcomes
    certificate : Certificate, optional
        Of this model on these instances, by their fingerprints; its figures are taken as they are
        (:func:`outrule.verify` recomputes them). Made here, with confidence 0.95, if not given.

    Returns
    -------
    dict with the keys below; an *interval* is a dict of ``mean``, ``lower`` and ``upper``. All
    values are means per held-out instance in the caller's units, but for those of training, which
    say so.

    format, library : version of this layout, and of the library
    verdict : ``verdict`` ("pass", "inconclusive", "fail"), ``sentence``, ``improvement`` (interval)
        over the plain optimiser, ``approximate`` (its intervals by name) and the other attributes
        of the certificate's verdict, by their names
    values : list of ``name`` (plain, best_rule, isotonic, calibrated, oracle), ``label``, interval
    rules : list of ``name``, ``kind``, ``text``, ``value_in_training``, ``value``, ``difference``
        (interval: the calibrated optimiser minus the rule, shared over all rivals), ``lower`` (the
        bound for this rule alone), ``verdict``; in the model's order
    rivals : the same for plain and isotonic, with ``label``
    violations : list of ``test``, ``kind`` ("rule" or "optimiser"), ``before``, ``after``
        (intervals); the optimiser's own test is the last
    promises : ``before`` and ``after``, each ``predicted`` and ``realised``
    squared_error : ``before`` and ``after``
    rounds : the history of training: ``round``, ``test``, ``violation``, ``step``,
        ``squared_error`` (before the patch) and ``n``
    ledger : ``tests``, a list of the tests that were patched, most worth first, with ``test``,
        ``kind``, ``n_patches``, ``sum_of_steps``, ``sum_of_lengths``, ``fall`` (what the patches
        took off the squared error in training; None where no later round says) and
        ``n_unmeasured``; ``n_patches``, ``fall``, ``n_tests``, ``noisy`` and a ``note``
    data, model : the cards
    reading : list of ``term``, ``text``

    Examples
    --------
    >>> import outrule
    >>> rules = [outrule.Fixed(0), outrule.Fixed(1)]
    >>> calibrator = outrule.DecisionCalibrator(outrule.BestAction(), rules, epsilon=0.05)
    >>> calibrator = calibrator.fit(*outrule.worlds.two_arms(10_000, seed=0, epsilon=0.3))
    >>> new = outrule.worlds.two_arms(10_000, seed=1, epsilon=0.3)
    >>> summary = summarise(calibrator, outrule.Instances.from_arrays(*new))
    >>> summary["verdict"]["verdict"], [row["name"] for row in summary["rules"]]
    ('pass', ['always 0', 'always 1'])
    """
    model = model_of(calibrator, "summarise")
    if not isinstance(instances, Instances):
        expected = "Instances, as Instances.from_table makes them"
        raise refuse_argument(instances, "instances", "summarise", expected)
    if certificate is None:
        certificate = certify(calibrator, instances)
    else:
        _check_origin(certificate, model, instances)
    return {
        "format": FORMAT,
        "library": outrule.__version__,
        "verdict": _verdict(certificate),
        "values": [
            {"name": name, "label": label, **_interval(getattr(certificate, name))}
            for name, label in VALUES.items()
        ],
        "rules": _rules(certificate, model),
        "rivals": [
            {**_rival(result), "label": VALUES[result.name]} for result in certificate.rivals
        ],
        "violations": [
            {
                "test": row.test,
                "kind": "rule" if number < len(model.rules) else "optimiser",
                "before": _interval(row.before),
                "after": _interval(row.after),
            }
            for number, row in enumerate(certificate.violations)
        ],
        "promises": {
            "before": vars(certificate.promise_before).copy(),
            "after": vars(certificate.promise_after).copy(),
        },
        "squared_error": {
            "before": certificate.squared_error_before,
            "after": certificate.squared_error_after,
        },
        "rounds": (rounds := [_round(number, row) for number, row in enumerate(model.history)]),
        "ledger": _ledger(model, rounds),
        "data": _data_card(instances, certificate),
        "model": _model_card(model, certificate),
        "reading": [{"term": term, "text": text} for term, text in READING.items()],
    }


def check_summary(summary: Any, owner: str) -> Mapping[str, Any]:
    """Raise an error for anything but a summary of this version."""
    if not isinstance(summary, Mapping):
        expected = "the dict that summarise returned"
        raise refuse_argument(type(summary).__name__, "summary", owner, expected)
    if summary.get("format") != FORMAT or "verdict" not in summary:
        raise DataError(
            f"this is not a summary of format {FORMAT}, its format is {summary.get('format')!r}. "
            "Make it again with summarise."
        )
    return summary


def _check_origin(certificate: Any, model: Model, instances: Instances) -> None:
    """A certificate must be of this model and these instances, and not of training data."""
    if not isinstance(certificate, Certificate):
        raise refuse_argument(
            type(certificate).__name__, "certificate", "summarise", "a Certificate or None"
        )
    if certificate.data != instances.fingerprint:
        raise DataError(
            f"the certificate is of other data: of {certificate.data[:12]}, and these instances "
            f"are {instances.fingerprint[:12]}. Give the instances it was made from, or none."
        )
    if certificate.model != fingerprint(model, certificate.library):
        raise DataError(
            "the certificate is of another model. Give the calibrator it was made from, or no "
            "certificate."
        )
    check_new(model, instances)


def _interval(estimate: Estimate) -> dict[str, float]:
    return {name: float(value) for name, value in estimate._asdict().items()}


def _verdict(certificate: Certificate) -> dict[str, Any]:
    names = "verdict verdicts if_declared epsilon margin margin_share confidence gap gap_lower"
    names += " closest_rival closest_rule needed more n_instances n_observations unit max_weight"
    names += " heaviest sentence warning notes"
    return {
        **{name: getattr(certificate, name) for name in names.split()},
        "verdicts": dict(certificate.verdicts),
        "improvement": _interval(certificate.improvement),
        "approximate": {
            name: _interval(estimate) for name, estimate in certificate.approximate.items()
        },
    }


def _rules(certificate: Certificate, model: Model) -> list[dict[str, Any]]:
    trained = model.rule_values.tolist()
    return [
        {
            **_rival(result),
            "kind": type(rule).__name__,
            "text": definition(rule),
            "value_in_training": value,
        }
        for rule, value, result in zip(model.rules, trained, certificate.rules, strict=True)
    ]


def _rival(result: RivalResult) -> dict[str, Any]:
    return {
        "name": result.name,
        "value": result.value,
        "difference": _interval(result.difference),
        "lower": result.lower,
        "verdict": result.verdict,
    }


def definition(rule: Rule) -> str:
    """What a rule does, in words or in its own text."""
    if isinstance(rule, Multiplier):
        if isinstance(rule.vector, dict):
            numbers = [f"{factor:g} ({name})" for name, factor in rule.vector.items()]
        else:
            numbers = [f"{factor:g}" for factor in rule.vector]
        return _shorten(f"times {', '.join(numbers)}")
    if isinstance(rule, Fixed):
        return _shorten(f"item {rule.item}")
    function = getattr(rule, "function", rule)
    if callable(function):
        return _shorten(f"function {getattr(function, '__qualname__', type(function).__name__)}")
    return function if isinstance(function, str) else _in_words(function)


def _in_words(thing: Any) -> str:
    """A repr without addresses in memory, so that the same model gives the same text."""
    return _shorten(re.sub(r" at 0x[0-9a-fA-F]+", "", repr(thing)))


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _round(number: int, row: Round) -> dict[str, Any]:
    """A row of the history; DataError if a damaged file brought it in."""
    values = row._asdict()
    numbers = [value for name, value in values.items() if name != "test"]
    good = all(type(value) in (int, float) and math.isfinite(value) for value in numbers)
    if not good or not isinstance(row.test, str | None):
        raise DataError(f"the model's history is damaged at row {number}. Fit it again.")
    return values


def _ledger(model: Model, rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """What the patches of each test did, and took off the squared error."""
    entries: dict[int, dict[str, Any]] = {}
    for patch, fall in zip(model.patches, _falls(len(model.patches), rounds), strict=True):
        own = patch.test == OPTIMISER
        row = entries.setdefault(
            patch.test,
            {
                "test": "optimiser" if own else model.tests[patch.test].name,
                "kind": "optimiser" if own else "rule",
                "n_patches": 0,
                "sum_of_steps": 0.0,
                "sum_of_lengths": 0.0,
                "fall": None,
                "n_unmeasured": 0,
            },
        )
        row["n_patches"] += 1
        row["sum_of_steps"] += patch.step
        row["sum_of_lengths"] += abs(patch.step)
        if fall is None:
            row["n_unmeasured"] += 1
        else:
            row["fall"] = fall + (row["fall"] or 0.0)
    tests = sorted(entries.values(), key=lambda row: -(row["fall"] or 0.0))
    noisy = isinstance(model.settings.check, FreshBatches) or len(model.fingerprints) > 1
    return {
        "tests": tests,
        "n_patches": len(model.patches),
        "n_tests": len(model.tests) + 1,
        "fall": sum(row["fall"] or 0.0 for row in tests),
        "noisy": noisy,
        "note": _note(noisy, sum(row["n_unmeasured"] for row in tests)),
    }


def _falls(n_patches: int, rounds: list[dict[str, Any]]) -> list[float | None]:
    """For every patch the squared error of its round minus that of the next; None without one."""
    errors = [row["squared_error"] for row in rounds]
    falls: list[float | None] = [
        errors[number] - errors[number + 1] if number + 1 < len(errors) else None
        for number, row in enumerate(rounds)
        if row["test"] is not None
    ]
    falls += [None] * n_patches
    return falls[:n_patches]  # rounds whose patches were taken back are at the end


def _note(noisy: bool, n_unmeasured: int) -> str:
    words = (
        "What a patch was worth is the fall of the squared error on the training data from its "
        "round to the next. It says what the patch did after those before it; in another order "
        "the same patches would share the fall differently."
    )
    if noisy:
        words += (
            " Here every round looked at other data, so that the fall also holds the difference "
            "between two batches: single figures are noisy, and can be negative."
        )
    if n_unmeasured:
        words += " The last round's patch has no later round to be measured by."
    return words


def _data_card(instances: Instances, certificate: Certificate) -> dict[str, Any]:
    sizes, origin = np.diff(instances.offsets), instances.origin
    roles = column_names(instances)
    named = {} if roles is None else {role: name for role, name in vars(roles).items() if name}
    shown: list[Any] = []
    if isinstance(origin, TableOrigin):
        shown = [name for name in origin.frame.columns if name not in named.values()]
    elif isinstance(origin, ArrayOrigin):
        shown = list(origin.columns)
    names = instances.names_of_items
    return {
        "source": "table" if isinstance(origin, TableOrigin) else "arrays",
        "n_instances": len(instances),
        "n_items": int(sizes.sum()),
        "mean_items": float(sizes.mean()),
        "least_items": int(sizes.min()),
        "most_items": int(sizes.max()),
        "n_item_names": None if names is None else len(names),
        "n_clusters": None if instances.cluster is None else len(np.unique(instances.cluster)),
        "n_observations": certificate.n_observations,
        "weighted": instances.weight is not None,
        "roles": {role: str(name) for role, name in named.items()},
        "other_columns": [str(name) for name in shown],
        "value_range": [float(end) for end in instances.value_range],
        "fingerprint": instances.fingerprint,
    }


def _model_card(model: Model, certificate: Certificate) -> dict[str, Any]:
    settings = model.settings
    start = "the predictions"
    if settings.start is not None:
        kinds = {"Isotonic": "isotonic regression of the predictions"}
        start = kinds.get(type(settings.start).__name__, "cross-fitted curves")
    return {
        "problem": _in_words(model.problem),
        "k": model.k,
        "ratio": float(model.problem.ratio),
        "n_rules": len(model.rules),
        "kinds_of_rules": dict(Counter(type(rule).__name__ for rule in model.rules)),
        "best_rule": certificate.best_rule_name,
        "epsilon": model.epsilon,
        "tolerance": model.tolerance,
        "threshold": model.tolerance * settings.check.alert,
        "check": _in_words(settings.check),
        "step": _in_words(settings.step),
        "start": "the start column of the data" if model.has_start else start,
        "status": model.status.value,
        "status_sentence": STATUS[model.status],
        "n_rounds": len(model.history),
        "n_patches": len(model.patches),
        "max_rounds": settings.max_rounds,
        "random_state": settings.random_state,
        "weight_seen": model.weight_seen,
        "library": outrule.__version__,
        "fingerprint": certificate.model,
        "training_fingerprints": list(model.fingerprints),
    }
