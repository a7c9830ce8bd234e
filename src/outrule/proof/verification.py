"""Verification: recomputes every number of a certificate through independent code.

Nothing here uses the audit, the patches, the kernels' sums or the confidence bounds of the rest of
the package: decisions are computed again (`replay`), and so is every number of the certificate
(`recount`), which is compared.
"""

from __future__ import annotations

import json
import math
import reprlib
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from outrule.data.instances import Instances
from outrule.errors import DataError
from outrule.model.codec import fingerprint
from outrule.model.model import Model, model_of
from outrule.proof.continuation import first_part, largest_decision
from outrule.proof.recount import Recount
from outrule.proof.recount_bets import unit_of_rounding
from outrule.proof.recount_notes import recount_notes
from outrule.proof.replay import Decisions, decide_again
from outrule.proof.segment_recount import SegmentRecount, groups_of, last_or_first, near_claim
from outrule.proof.statement import FORMAT, Certificate, CertificateError, RivalResult
from outrule.types import Booleans, Floats

RIVALS = {  # besides the rules, in the order of a certificate
    "plain": "the plain optimiser on the original predictions",
    "isotonic": "isotonic regression",
}


def verify(
    certificate: Certificate | str,
    calibrator: Any,
    predictions: ArrayLike | Instances,
    outcomes: ArrayLike | None = None,
    *,
    available: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> None:
    """Recompute every number of a certificate; raise CertificateError at the first that differs.

    Parameters
    ----------
    certificate : Certificate, or its JSON text
    calibrator, predictions, outcomes : what it was made from

    Notes
    -----
    Numbers must agree to 1e-9, of their own size or of the value range; words exactly.
    """
    text = certificate if isinstance(certificate, str) else certificate.to_json()
    certificate = Certificate.from_json(text)
    model = model_of(calibrator, "verify")
    instances = model.instances(predictions, outcomes, available, sample_weight)
    claimed = json.loads(text)
    derived = json.loads(json.dumps(_derive(model, instances, certificate)))
    derived["model"] = fingerprint(model, certificate.library)  # of the version it names
    span = unit_of_rounding(*instances.value_range)
    units = dict.fromkeys(("epsilon", "confidence", "heaviest", "max_weight"), 0.0)
    units |= dict.fromkeys(("squared_error_before", "squared_error_after"), span**2)
    for name, value in derived.items():
        if name not in claimed:
            raise CertificateError(f"{name}: it is missing from the certificate.")
        _compare(claimed[name], value, name, 1e-9 * units.get(name, span))


def _compare(claimed: Any, derived: Any, path: str, tolerance: float) -> None:
    if isinstance(derived, dict) and isinstance(claimed, dict) and set(claimed) == set(derived):
        for name in derived:
            _compare(claimed[name], derived[name], f"{path}.{name}", tolerance)
    elif isinstance(derived, list) and isinstance(claimed, list) and len(claimed) == len(derived):
        for number, pair in enumerate(zip(claimed, derived, strict=True)):
            _compare(*pair, f"{path}[{number}]", tolerance)
    elif isinstance(derived, float) and type(claimed) in (int, float):
        if not math.isclose(claimed, derived, rel_tol=1e-9, abs_tol=tolerance):
            raise _differs(path, str(claimed), str(derived))
    elif type(claimed) is not type(derived) or claimed != derived:
        raise _differs(path, reprlib.repr(claimed), reprlib.repr(derived))


def _differs(path: str, claimed: str, derived: str) -> CertificateError:
    return CertificateError(f"{path}: the certificate says {claimed}, the data say {derived}.")


def _derive(model: Model, instances: Instances, certificate: Certificate) -> dict[str, Any]:
    """Every entry of the certificate but the fingerprint of the model."""
    instances.require_observed("verify")
    decided = decide_again(model, instances)
    try:
        groups, note = groups_of(instances, certificate)
        shares = (len(model.rules) + len(RIVALS)) * (1 + len(groups))
        data = Recount(model, instances, decided.after, certificate, shares)
    except ValueError as error:
        raise CertificateError(f"{str(error).rstrip('.')}.") from None
    before, after = instances.prediction, decided.after
    names, n = [*(rule.name for rule in model.rules), *RIVALS.values()], len(decided.rules)
    theirs = [*decided.rules, *(getattr(decided, name) for name in RIVALS)]
    tolerated = [data.margin] * n + [0.0] * len(RIVALS)
    rivals = [
        data.rival(name, decided.calibrated, marks, claim, most)
        for name, marks, claim, most in zip(
            [*names[:n], *RIVALS],
            theirs,
            _claims(certificate, n),
            tolerated,
            strict=True,
        )
    ]
    segments = SegmentRecount(model, instances, after, groups, certificate, shares)
    inside = segments.rows(decided.calibrated, theirs, tolerated)
    named, by = dict(zip(names, theirs, strict=True)), certificate.segmented
    gained = data.outcome * decided.calibrated - data.outcome * decided.plain
    return {
        **_conclusion(data, rivals, segments.counts, inside, certificate),
        **_values(model, data, decided, rivals, names, certificate),
        "epsilon": model.epsilon,
        "confidence": certificate.confidence,
        "margin": data.margin,
        "n_instances": len(instances),
        "n_observations": data.n,
        "unit": _unit(model, instances),
        "value": vars(model.settings.value),
        "max_weight": certificate.max_weight,
        "heaviest": float(data.weight.max()),
        "squared_error_before": data.squared_error(before),
        "squared_error_after": data.squared_error(after),
        "promise_before": data.promise(before, decided.plain),
        "promise_after": data.promise(after, decided.calibrated),
        "rules": [rival["result"] for rival in rivals[:n]],
        "rivals": [rival["result"] for rival in rivals[n:]],
        "violations": _violations(model, instances, data, decided),
        "data": instances.fingerprint,
        "library": certificate.library,
        "format": FORMAT,
        "earlier": _earlier(model, instances, data, certificate),
        "notes": _notes(model, instances, gained),
        **data.feedback(decided.calibrated, named, certificate.unsupported),
        "segmented": None if by is None else {**vars(by), "note": note},
        "segments": segments.results(inside, names, declared=data.declared),
    }


def _conclusion(
    data: Recount,
    rivals: list[dict[str, Any]],
    counts: list[Recount],
    inside: list[list[dict[str, Any]]],
    certificate: Certificate,
) -> dict[str, Any]:
    """The verdicts, and what would decide an open one."""
    order = ("fail", "inconclusive", "pass")
    n = len(rivals) - len(RIVALS)
    groups = {"rules": rivals[:n]}
    groups |= {name: [rival] for name, rival in zip(RIVALS, rivals[n:], strict=True)}
    provisional = {name: data.verdict(group) for name, group in groups.items()}
    if inside:
        found = [one.verdict(rows) for one, rows in zip(counts, inside, strict=True)]
        provisional["segments"] = min(found, key=order.index)
    verdicts = provisional if data.declared else dict.fromkeys(provisional, "inconclusive")
    headline = min(verdicts.values(), key=order.index)
    needed = None
    if data.declared and headline == "inconclusive":
        undecided = [rival for rival in rivals if rival["open"]]
        for one, rows in zip(counts, inside, strict=True):
            for row in filter(itemgetter("open"), rows):
                of_all = row["needed"] and -(-row["needed"] * data.n // one.n)
                undecided.append({**row, "needed": of_all})
        needed = last_or_first(undecided)
    return {
        "verdict": headline,
        "verdicts": verdicts,
        "if_declared": None if data.declared else min(provisional.values(), key=order.index),
        "needed": near_claim(needed, certificate.needed),
    }


def _values(
    model: Model,
    data: Recount,
    decided: Decisions,
    rivals: list[dict[str, Any]],
    names: list[str],
    certificate: Certificate,
) -> dict[str, Any]:
    """The gap, whose it is, and the values of all decisions, by betting and approximately."""
    best, n = int(np.argmax(model.rule_values)), len(model.rules)
    values = {name: getattr(decided, name) for name in ("plain", "calibrated", "isotonic")}
    values["best_rule"] = decided.rules[best]
    if decided.oracle is not None:
        values["oracle"] = decided.oracle
    gain = data.difference(decided.calibrated, decided.plain)
    near = data.nearest(rivals, certificate.approximate.get("gap"))
    lowest = min(rival["approximate"][1] for rival in rivals)
    return {
        "gap": near["mean"],
        "gap_lower": min(rival["lower"] for rival in rivals),
        "closest_rival": data.closest(rivals, names, certificate.closest_rival),
        "closest_rule": data.closest(rivals[:n], names[:n], certificate.closest_rule),
        "improvement": data.interval(gain, data.bet_apart, data.delta / 2, certificate.improvement),
        "oracle": None,
        **{
            name: data.worth(marks, getattr(certificate, name) or (math.nan,) * 3)
            for name, marks in values.items()
        },
        "best_rule_name": model.rules[best].name,
        "approximate": {
            "gap": [near["mean"], lowest, near["approximate"][2]],
            "improvement": data.student(gain.middle, *data.apart, data.delta),
            **{name: data.roughly(marks) for name, marks in values.items()},
        },
    }


def _violations(
    model: Model, instances: Instances, data: Recount, decided: Decisions
) -> list[dict[str, Any]]:
    """The violation of every test before and after."""
    low, high = instances.value_range
    spread = model.problem.lay(instances).k * (high - low)
    residuals = data.outcome - instances.prediction, data.outcome - decided.after
    pairs = [(marks, marks) for marks in decided.rules] + [(decided.plain, decided.calibrated)]
    names = [*(rule.name for rule in model.rules), "optimiser"]
    per_test = data.delta / len(pairs) / 2

    def found(residual: Floats, marks: Booleans) -> list[float]:
        return data.student(data.sums(residual * marks), -spread, spread, per_test)

    return [
        {"test": name, "before": found(residuals[0], b), "after": found(residuals[1], a)}
        for name, (b, a) in zip(names, pairs, strict=True)
    ]


def _earlier(
    model: Model, instances: Instances, data: Recount, certificate: Certificate
) -> list[dict[str, Any]]:
    """The looks before this one: their data, and that the range of a bet stayed the same."""
    looks = []
    for number, look in enumerate(certificate.earlier):
        part = first_part(instances, look.n_instances)
        if largest_decision(model, part) != largest_decision(model, instances):
            raise CertificateError("earlier: decisions have become larger since that look.")
        counts = {"n_instances": len(part), "n_observations": data.counts[number]}
        looks.append({**counts, "data": part.fingerprint})
    return looks


def _claims(certificate: Certificate, n_rules: int) -> list[RivalResult | None]:
    """What is said of every rival; nothing where a row is missing."""
    rules = [*certificate.rules, *[None] * n_rules][:n_rules]
    return [*rules, *[*certificate.rivals, None, None][:2]]


def _notes(model: Model, instances: Instances, difference: Floats) -> list[str]:
    per_instance = np.bincount(instances.instance, weights=difference).astype(np.float64)
    try:
        return list(recount_notes(model, instances, per_instance, _unit(model, instances)))
    except DataError as error:
        raise CertificateError(f"data: {error}") from None


def _unit(model: Model, instances: Instances) -> str:
    own, names = model.settings.value.observation, getattr(instances.origin, "names", None)
    if instances.cluster is None:
        return own or "instance"
    if own and own != str(getattr(names, "instance", None)):
        return own
    word = str(getattr(names, "cluster", ""))
    return word if word.isalpha() and word.islower() else "cluster"
