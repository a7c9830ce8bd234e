"""The summary: everything that a report shows, as one dict of plain values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

import outrule
from outrule.calibration.isotonic import Isotonic
from outrule.calibration.loop import Status
from outrule.data.instances import Instances
from outrule.data.origin import ArrayOrigin, TableOrigin
from outrule.errors import DataError, refuse_argument
from outrule.model.codec import fingerprint
from outrule.model.model import Model, model_of
from outrule.proof.answer import LABELS, Answer
from outrule.proof.certificate import Certificate, certify
from outrule.proof.novelty import check_new
from outrule.proof.statement import RivalResult
from outrule.reporting.charts import MINUS
from outrule.reporting.history import ledger_of, round_of
from outrule.reporting.segments import segments_of
from outrule.rules.descriptions import as_in_spec, describe, full_name

FORMAT = 1
VALUES = ("plain", "best_rule", "isotonic", "calibrated", "oracle")
WHEN = ("before", "after")
STATUS = {
    Status.CONVERGED: "no violation above the threshold was left",
    Status.MAX_ROUNDS: "the rounds were used up",
    Status.OUT_OF_DATA: "no whole batch of data was left",
    Status.VALIDATION: "the squared error of the validation part no longer fell",
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
        (``outrule.verify`` recomputes them). Made here, with confidence 0.95, if not given.

    Returns
    -------
    dict with the keys below; an *interval* is a dict of ``mean``, ``lower`` and ``upper``. All
    values are means per held-out instance in the caller's units, but for those of training, which
    say so.

    format, library : version of this layout, and of the library
    answer : what the first screen says: ``question``, ``sentence``, ``against`` (list of ``rival``,
        ``verdict``, ``words``), ``worth`` (list of ``figure``, ``per``, ``more``), ``margin``,
        ``warning``, ``feedback``, ``next_step``, ``instance`` (what one is called)
    decimals : of values and differences, as many as the interval of the improvement supports
    verdict : ``verdict`` ("pass", "inconclusive", "fail"), ``improvement`` (interval) over the
        plain optimiser, ``approximate`` (its intervals by name), ``value`` (its name and unit) and
        the other attributes of the certificate's verdict, by their names
    values : list of ``name`` (plain, best_rule, isotonic, calibrated, oracle), ``label``, interval
    rules : list of ``name``, ``kind``, ``text``, ``value_in_training``, ``value``, ``difference``
        (interval: the calibrated optimiser minus the rule, shared over all rivals), ``lower`` (the
        bound for this rule alone), ``verdict``; in the model's order
    rivals : the same for plain and isotonic, with ``label``
    violations : list of ``test``, ``kind`` ("rule" or "optimiser"), ``before``, ``after``
        (intervals); the optimiser's own test is the last
    promises : ``before`` and ``after``, each ``predicted`` and ``realised``
    squared_error : ``before`` and ``after``
    segments : only if the certificate has some: ``rows``, the attributes of its segments with the
        smallest lower bound first, ``rivals`` (what the ``differences`` are to) and a ``note``
    rounds : the history of training: ``round``, ``test``, ``violation``, ``step``,
        ``squared_error`` (before the patch) and ``n``
    ledger : ``tests``, a list of the tests that were patched, most worth first, with ``test``,
        ``kind``, ``n_patches``, ``sum_of_steps``, ``sum_of_lengths``, ``fall`` (what the patches
        took off the squared error in training; None where no later round says) and
        ``n_unmeasured``; ``n_patches``, ``fall``, ``n_tests``, ``noisy`` and a ``note``
    data, model : the cards

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
    names = {rule.name: full_name(rule, model.feature_names) for rule in model.rules}
    rounds = [round_of(number, row) for number, row in enumerate(model.history)]
    return {
        **of_certificate(certificate, names),
        "rules": _rules(certificate, model),
        "rounds": rounds,
        "ledger": ledger_of(model, rounds),
        "data": _data_card(instances, certificate),
        "model": _model_card(model, certificate),
    }


def of_certificate(
    certificate: Certificate, names: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The part of a summary that a certificate knows; ``names`` are longer names of its rules."""
    answer = Answer(certificate, names or {}, MINUS)
    words = "question sentence margin warning feedback next_step instance"
    return {
        "format": FORMAT,
        "library": outrule.__version__,
        "answer": {
            **{name: getattr(answer, name) for name in words.split()},
            "against": [line._asdict() for line in answer.against],
            "worth": [line._asdict() for line in answer.worth],
        },
        "decimals": answer.figures.decimals,
        "verdict": _verdict(certificate),
        "values": [
            {"name": name, "label": LABELS[name], **getattr(certificate, name)._asdict()}
            for name in VALUES
            if getattr(certificate, name) is not None
        ],
        "rules": [_rival(result) for result in certificate.rules],
        "rivals": [{**_rival(one), "label": LABELS[one.name]} for one in certificate.rivals],
        "violations": [
            {
                "test": row.test,
                "kind": "rule" if number < len(certificate.rules) else "optimiser",
                "before": row.before._asdict(),
                "after": row.after._asdict(),
            }
            for number, row in enumerate(certificate.violations)
        ],
        "promises": {when: vars(getattr(certificate, f"promise_{when}")).copy() for when in WHEN},
        "squared_error": {when: getattr(certificate, f"squared_error_{when}") for when in WHEN},
        **segments_of(certificate, answer),
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
            f"the certificate is for other data ({certificate.data[:12]}) than these instances "
            f"({instances.fingerprint[:12]}). Give those it was made from, or no certificate."
        )
    if certificate.model != fingerprint(model, certificate.library):
        raise DataError(
            "the certificate is for another model. Give the calibrator it was made from, or no "
            "certificate."
        )
    check_new(model, instances)


def _verdict(certificate: Certificate) -> dict[str, Any]:
    names = "verdict verdicts if_declared epsilon margin margin_share confidence gap gap_lower"
    names += " closest_rival closest_rule needed more n_instances n_observations unit max_weight"
    names += " heaviest best_rule_name notes feedback propensity_estimated effective_n"
    names += " largest_weight"
    return {
        **{name: getattr(certificate, name) for name in names.split()},
        "verdicts": dict(certificate.verdicts),
        "notes": list(certificate.notes),
        "improvement": certificate.improvement._asdict(),
        "value": vars(certificate.value).copy(),
        "approximate": {name: one._asdict() for name, one in certificate.approximate.items()},
    }


def _rules(certificate: Certificate, model: Model) -> list[dict[str, Any]]:
    trained = model.rule_values.tolist()
    return [
        {
            **_rival(result),
            "kind": type(rule).__name__,
            "text": describe(rule, model.feature_names),
            "value_in_training": value,
        }
        for rule, value, result in zip(model.rules, trained, certificate.rules, strict=True)
    ]


def _rival(result: RivalResult) -> dict[str, Any]:
    return {**vars(result), "difference": result.difference._asdict()}


def _data_card(instances: Instances, certificate: Certificate) -> dict[str, Any]:
    sizes, origin = np.diff(instances.offsets), instances.origin
    roles = origin.names
    named = {} if roles is None else roles.roles
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
    if isinstance(settings.start, Isotonic):
        start = "isotonic regression of the predictions"
    elif settings.start is not None:
        start = f"cross-fitted {'trees and ' if settings.start.max_trees else ''}curves"
    return {
        "problem": as_in_spec(model.problem),
        "k": model.k,
        "ratio": float(model.problem.ratio),
        "n_rules": len(model.rules),
        "kinds_of_rules": dict(Counter(type(rule).__name__ for rule in model.rules)),
        "best_rule": certificate.best_rule_name,
        "epsilon": model.epsilon,
        "tolerance": model.tolerance,
        "reached": model.reached,
        "threshold": model.tolerance * settings.check.alert,
        "check": as_in_spec(settings.check),
        "heuristic": model.heuristic,
        "step": as_in_spec(settings.step),
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
