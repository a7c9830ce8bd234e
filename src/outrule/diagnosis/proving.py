"""What so much data can prove: the margin of a certificate, and the support of a log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from outrule.calibration.check import Reuse
from outrule.diagnosis.decisions import RuleDecisions
from outrule.diagnosis.findings import Finding, Severity, note, warning
from outrule.model.fitting import first_batch
from outrule.proof.advice import LEAST_EFFECTIVE
from outrule.proof.confidence import Bets, Range, observations_needed
from outrule.proof.evaluation import unit_of
from outrule.proof.logged import Log, sizes_of, support_of
from outrule.words import count, listed, plural, round_up

DELTA = 0.05


@dataclass(frozen=True)
class Provable:
    """Which margin so many observations can prove with 95 % confidence, and what is at stake.

    It is that of the formula behind "observations that would decide it", for a difference whose
    mean is zero and whose variance is the largest of a rule's against plain. ``stake`` is the
    value of the best rule here minus that of plain.
    """

    observations: int
    unit: str
    margin: float
    margin_of_half: float
    rule: str
    stake: float
    best_rule: str


def examine_proof(
    decided: RuleDecisions, epsilon: float | None
) -> tuple[Provable | None, list[Finding]]:
    """What can be certified on these data, if they are held out; None where it cannot be said."""
    if decided.outcome is None or not decided.rules:
        return None, []
    findings: list[Finding] = []
    noisiest = int(np.argmax([variance for _, variance in decided.gains]))
    best = int(np.argmax([mean for mean, _ in decided.gains]))
    log = _open_log(decided)
    if log is not None:
        findings += _support(decided, log)
    bets = _bets(decided, log, noisiest)
    if not np.ptp(bets.below.value):  # every rule decides as plain does
        return None, findings
    n = decided.observations.n
    unit = "instance" if decided.instances.cluster is None else "cluster"
    found = Provable(
        n,
        unit,
        provable_margin(bets, n),
        provable_margin(bets, n // 2),
        decided.rules[noisiest].name,
        decided.gains[best][0],
        decided.rules[best].name,
    )
    if log is not None and decided.instances.cluster is None:
        full = provable_margin(_all_known(decided, noisiest), n)
        findings += _price_of_a_log(decided, found, full)
    return found, [*findings, *_judged(decided, found, epsilon)]


def _bets(decided: RuleDecisions, log: Log | None, rule: int) -> Bets:
    ours, theirs = decided.plain_marks, decided.marks(rule)
    if log is not None:
        return decided.observations.bets(log.difference(ours, theirs), log.kinds[-1].apart)
    width = _width(decided)
    difference = decided.worth(ours) - decided.worth(theirs)
    return decided.observations.bets(difference, Range(-width, width))


def _all_known(decided: RuleDecisions, rule: int) -> Bets:
    """As if a log knew all outcomes, at worst: differences as large as can be, in turns."""
    differs = np.logical_or.reduceat(
        decided.plain_marks != decided.marks(rule), decided.layout.offsets[:-1]
    )
    width, turn = _width(decided), 2 * (np.cumsum(differs) % 2) - 1
    return decided.observations.bets(width * np.where(differs, turn, 0), Range(-width, width))


def _width(decided: RuleDecisions) -> float:
    """How far the values of two decisions can be apart."""
    low, high = decided.instances.value_range
    if decided.settings.problem.exactly_one:
        return high - low
    return decided.layout.k * (max(high, 0.0) - min(low, 0.0))


def provable_margin(bets: Bets, n: int, delta: float = DELTA) -> float:
    """The margin that n such observations prove, where both decisions are worth the same."""
    value, weights, width = bets.below.value, bets.below.weight, bets.ends.width
    ratio, weight = value.sum() / weights.sum(), float(weights.mean())
    variance, room = float(((value - ratio * weights) ** 2).mean()), bets.below.room(0.5)

    def enough(margin: float) -> bool:
        # A difference of zero is in the middle of its range. So is the level, for the limit of the
        # stakes: at lower ones the formula would stake more than its two terms can describe.
        needed = observations_needed(margin / width * weight, variance, room, delta)
        return needed is not None and needed <= n

    low, high = 0.0, width / 2
    if not enough(high):
        return high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _says_nothing(decided: RuleDecisions, margin: float) -> bool:
    """Whether no two decisions can be further apart than such a margin."""
    return margin >= _width(decided) * (1 - 1e-9)


def _price_of_a_log(decided: RuleDecisions, found: Provable, full: float) -> Iterator[Finding]:
    if full < found.margin and not _says_nothing(decided, full):
        instead = f" instead of {round_up(found.margin):g}"
        yield note(
            "support",
            f"with all of their outcomes, {count(found.observations, _unit(decided))} like these "
            f"could prove a margin of {round_up(full):g} or less"
            f"{'' if _says_nothing(decided, found.margin) else instead}",
            "Random choices bring a log closer to that: see docs/logs.md.",
        )


def _judged(decided: RuleDecisions, found: Provable, epsilon: float | None) -> Iterator[Finding]:
    if _says_nothing(decided, found.margin):
        yield _proves_nothing(decided, found)
    else:
        yield _proves(decided, found)
        yield from _too_large(decided, found, epsilon)
    if found.stake <= 0:
        yield note(
            "proof",
            "no rule is better than the plain optimiser here",
            "There is nothing to catch up with; calibration may still improve on plain.",
        )


def _proves_nothing(decided: RuleDecisions, found: Provable) -> Finding:
    more = f"collect more {plural(_unit(decided))}"
    if decided.instances.propensity is not None:
        more += ", with more random choices (see docs/logs.md)"
    return warning(
        "proof",
        f"{count(found.observations, _unit(decided))} like these cannot prove any margin: it would "
        f"be no smaller than the whole range of a decision's value, {_width(decided):g}",
        f"The certificate would be inconclusive: {more}.",
    )


def _proves(decided: RuleDecisions, found: Provable) -> Finding:
    unit, half = _unit(decided), f"and half of them {round_up(found.margin_of_half):g}"
    if _says_nothing(decided, found.margin_of_half):
        half = "but half of them cannot prove any"
    words = (
        f"if {count(found.observations, unit)} like these are held out, they can prove a "
        f"margin of about {round_up(found.margin):g} with 95 % confidence, {half}. "
        "This assumes that the calibrated decisions differ from those of the closest rival as "
        f"much as rule {found.rule!r} differs from plain"
    )
    if not decided.observations.declared:
        heavy = "is larger than the largest"
        if decided.instances.weight is not None:
            heavy = "weighs more than the heaviest"
        words += f", and that no {unit} {heavy} here"
    remedy = f"To halve the margin, collect up to four times as many {plural(unit)}."
    return note("proof", words, remedy)


def _too_large(decided: RuleDecisions, found: Provable, epsilon: float | None) -> Iterator[Finding]:
    """Where the margin is more than what is asked for, or at stake."""
    margin = round_up(found.margin)
    if epsilon is not None and epsilon < found.margin:
        yield warning(
            "proof",
            f"epsilon = {epsilon:g} is less than {margin:g}, the margin that as many held-out "
            f"{plural(_unit(decided))} can prove",
            "The certificate will probably be inconclusive: hold out more, or accept a larger "
            "epsilon.",
        )
    if 0 < found.stake < found.margin:
        yield warning(
            "proof",
            f"the best rule here ({found.best_rule!r}) and plain differ by {found.stake:.2g}, less "
            f"than the margin of {margin:g} that can be proven",
            "With so little at stake a pass would mean little: collect more data, or leave the "
            "rules as they are.",
        )


def _unit(decided: RuleDecisions) -> str:
    """What a certificate would call an observation."""
    return unit_of(decided.settings.value, decided.instances)


def _open_log(decided: RuleDecisions) -> Log | None:
    """The estimates of a certificate, with the predictions as they are."""
    if decided.instances.propensity is None:
        return None
    quick = replace(
        decided.settings, rules=decided.rules, start=None, rivals=(), check=Reuse(), epsilon=None
    )
    model = first_batch(quick, decided.instances)
    return Log.of(model, decided.instances, decided.layout.k, decided.instances.prediction)


def _support(decided: RuleDecisions, log: Log) -> Iterator[Finding]:
    weights, observations = log.weights(decided.plain_marks), decided.observations
    size = sizes_of(weights, observations)["effective_n"]
    few = size < LEAST_EFFECTIVE
    yield Finding(
        Severity.WARNING if few else Severity.NOTE,
        "support",
        f"for the plain decisions the log is worth about {size:,.0f} of {len(decided.instances):,} "
        "instances with all outcomes",
        "Explore more: see docs/logs.md."
        if few
        else "For differences to rules, which certify judges, it is usually worth less.",
    )
    for number, rule in enumerate(decided.rules):
        never = log.never(decided.plain_marks, decided.marks(number))
        found = support_of(rule.name, *never, decided.instances, observations)
        if found.share > 0:
            names = [repr(item) for item in found.items]
            items = f" (most often {listed(names)})" if names else ""
            yield warning(
                "support",
                f"the log could never show {found.share:.2g} items per instance{items} by which "
                f"rule {rule.name!r} and plain differ",
                "They count with their worst outcome: explore over the decisions of the rules "
                "(outrule decide --explore SHARE --explore-over rules).",
            )
