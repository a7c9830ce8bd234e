"""Findings about decisions: rules that cannot decide or decide the same, ties, and weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outrule import threads
from outrule.data.instances import Instances
from outrule.diagnosis.findings import Finding, Severity, error_of, note, warning
from outrule.errors import DataError
from outrule.model.settings import Settings
from outrule.problems.contract import Layout
from outrule.proof.confidence import Observations
from outrule.proof.evaluation import unit_of
from outrule.proof.logged import sizes_of
from outrule.proof.novelty import find_groups, group_note
from outrule.rules.decisions import RULES, compact, decide_all, expand
from outrule.rules.rules import Rule
from outrule.types import Booleans, Floats, Picks, computed_once
from outrule.words import count, listed

MANY_TIES = 0.01
HEAVY = 0.1  # of all weight


@dataclass(frozen=True, eq=False)
class RuleDecisions:
    """What the plain optimiser and every rule decide on some instances."""

    settings: Settings
    instances: Instances
    layout: Layout
    plain: Picks
    rules: tuple[Rule, ...]  # those that can decide
    decisions: NDArray[Any]  # (n_rules, k, n)

    @classmethod
    def of(cls, settings: Settings, instances: Instances) -> tuple[RuleDecisions, list[Finding]]:
        """The decisions, and an error for every rule that cannot decide."""
        problem, layout = settings.problem, settings.problem.lay(instances)
        rules: list[Rule] = []
        parts, faults = [], []
        for first, last in threads.spans(RULES, len(settings.rules)):
            some = settings.rules[first:last]
            try:
                parts.append(decide_all(some, instances, problem, layout))
                rules.extend(some)
            except DataError:
                for rule in some:
                    try:
                        parts.append(decide_all([rule], instances, problem, layout))
                        rules.append(rule)
                    except DataError as error:
                        faults.append(error_of("rules", error))
        empty = np.empty((0, layout.k, len(layout)), dtype=layout.small_type)
        plain = problem.pick_on_threads(instances.prediction, layout)
        found = np.concatenate([empty, *parts])
        return cls(settings, instances, layout, plain, tuple(rules), found), faults

    @computed_once
    def outcome(self) -> Floats | None:
        """Outcomes, or estimates of them where a log knows only some."""
        if self.instances.outcome is None:
            return None
        return self.instances.filled(self.instances.prediction).outcome

    def worth(self, marks: Booleans) -> Floats:
        """The value of a decision per instance, shape (n,)."""
        assert self.outcome is not None
        return np.asarray(np.add.reduceat(self.outcome * marks, self.layout.offsets[:-1]))

    def marks(self, rule: int) -> Booleans:
        return self.instances.mark(expand(self.decisions[rule], self.layout))

    @computed_once
    def plain_marks(self) -> Booleans:
        return self.instances.mark(self.plain)

    @computed_once
    def observations(self) -> Observations:
        return Observations.from_instances(self.instances)

    @computed_once
    def gains(self) -> list[tuple[float, float]]:
        """For every rule the mean of its value minus that of plain, and the variance."""
        found, plain = [], self.worth(self.plain_marks)
        for rule in range(len(self.rules)):
            sums = self.observations.of(self.worth(self.marks(rule)) - plain)
            mean = float(sums.sum() / self.observations.total.sum())
            spread = sums - mean * self.observations.total
            found.append((mean, float((spread**2).mean())))
        return found


def examine_decisions(decided: RuleDecisions, named: int) -> Iterator[Finding]:
    """Findings that need decisions; the first ``named`` rules are those that a person wrote."""
    yield from _ties(decided)
    yield from _same(decided, named)
    yield from _groups(decided)
    yield from _heaviest(decided)


def _ties(decided: RuleDecisions) -> Iterator[Finding]:
    """Instances in which the plain decision is that of a tie, or could be."""
    instances = decided.instances
    order = np.lexsort((-instances.prediction, instances.instance))
    ordered, offsets = instances.prediction[order], instances.offsets
    same = np.append(ordered[1:] == ordered[:-1], False)
    same[offsets[1:] - 1] = False  # from the last item of an instance to the next one's first
    if decided.settings.problem.exactly_one:
        tied = same[offsets[:-1]]
    else:
        tied = np.logical_or.reduceat(same, offsets[:-1])
    n = int(tied.sum())
    if n > MANY_TIES * len(instances):
        which = "largest predictions" if decided.settings.problem.exactly_one else "predictions"
        yield Finding(
            Severity.WARNING if 5 * n > len(instances) else Severity.NOTE,
            "ties",
            f"{n:,} of {len(instances):,} instances have {which} that are equal",
            "A tie goes to the first item by name, or by row where no item is named. Are the "
            "predictions rounded, or the same for several items?",
            instances.where(int(np.argmax(tied))),
        )


def _same(decided: RuleDecisions, named: int) -> Iterator[Finding]:
    plain = compact(decided.plain, decided.layout)
    kept = [n for n, rule in enumerate(decided.rules) if rule in decided.settings.rules[:named]]
    groups: dict[bytes, list[str]] = {}
    for number in kept:
        groups.setdefault(decided.decisions[number].tobytes(), []).append(
            decided.rules[number].name
        )
    for decision, names in groups.items():
        shown, one = listed([repr(name) for name in names]), len(names) == 1
        if decision == plain.tobytes():
            yield warning(
                "rules",
                f"{'rule' if one else 'rules'} {shown} never "
                f"{'differs' if one else 'differ'} from the plain optimiser on the predictions",
                "Plain is a rival anyway. Is a condition never true, or a column in other units?",
            )
        elif not one:
            yield warning(
                "rules",
                f"rules {shown} decide the same in all {count(len(decided.layout), 'instance')}",
                "One of them is enough. Is a condition never true, or one written twice?",
            )
    rest = len(decided.rules) - len(kept)
    if rest:
        multipliers = np.delete(decided.decisions, kept, axis=0)
        distinct = len({one.tobytes() for one in multipliers})
        yield note(
            "rules",
            f"{count(rest, 'multiplier')} make {count(distinct, 'different decision')}",
            "Those that decide the same cost no more than one.",
        )


def _groups(decided: RuleDecisions) -> Iterator[Finding]:
    instances, difference = decided.instances, np.zeros(len(decided.instances))
    if decided.outcome is not None and decided.rules:
        best = int(np.argmax([mean for mean, _ in decided.gains]))
        difference = decided.worth(decided.marks(best)) - decided.worth(decided.plain_marks)
    for name, number in find_groups(instances, difference):
        what, _, remedy = group_note(name, number).partition(". ")
        yield warning("clusters", what, remedy)


def _heaviest(decided: RuleDecisions) -> Iterator[Finding]:
    """An observation that has so much of the weight that the others hardly count."""
    instances, observations = decided.instances, decided.observations
    effective, share = sizes_of(np.ones(len(instances)), observations).values()
    if share > HEAVY and effective < observations.n / 2:
        unit, first = unit_of(decided.settings.value, instances), observations.total.argmax()
        yield warning(
            "weights",
            f"one {unit} has at least {int(100 * share)} % of all weight, so that "
            f"{count(observations.n, unit)} tell as much as {count(round(effective), unit)} of "
            "equal weight",
            "It decides what is fitted, and a certificate on such data proves little: correct its "
            f"weight if it is wrong, or else limit it, or let every {unit} count the same.",
            instances.where(int(np.argmax(observations.group == first))),
        )
