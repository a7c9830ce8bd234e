"""The evaluation behind a certificate: every rival judged, and the values of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import outrule
from outrule import progress, threads
from outrule.calibration.rivals import RIVALS
from outrule.data.instances import Instances
from outrule.data.segments import Segmentation
from outrule.model.codec import fingerprint
from outrule.model.model import Model
from outrule.model.value import Value
from outrule.proof.advice import PHRASES
from outrule.proof.confidence import Estimate, Observations, Range, student
from outrule.proof.judging import Judge, Versus
from outrule.proof.logged import kind_of, sizes_of, support_of
from outrule.proof.novelty import Facts, find_groups, notes_of
from outrule.proof.numbers import Numbers
from outrule.proof.segment_verdicts import needed, segment_judges, segment_results
from outrule.proof.statement import (
    FORMAT,
    Certificate,
    Look,
    Promise,
    SegmentedBy,
    ViolationResult,
    weakest,
)
from outrule.rules.decisions import RULES
from outrule.rules.rules import Rule

TOGETHER = 8  # rules whose decisions are held expanded
Intervals = tuple[Estimate, Estimate]  # valid, and approximate


class Evaluation:
    """The values that a certificate is made of."""

    def __init__(
        self,
        model: Model,
        instances: Instances,
        numbers: Numbers,
        confidence: float,
        max_weight: float | None,
        earlier: tuple[Look, ...] = (),
        found: Segmentation | None = None,
    ):
        self.found, self.numbers, self.logged = found, numbers, numbers.logged
        self.model, self.instances, self.earlier = model, instances, earlier
        self.confidence, self.max_weight = float(confidence), max_weight
        self.plain, self.calibrated = numbers.plain, numbers.calibrated
        self.total = numbers.total
        looks = [look.n_instances for look in earlier]
        self.observations = Observations.from_instances(instances, max_weight, looks)
        kind = kind_of(model, instances, numbers.k, 0.0)
        self.ends = kind.values
        self.margin = float(model.margin)
        self.delta = 1.0 - confidence
        # Any rival can fail it, on the whole or in a segment.
        n_rivals = len(model.rules) + len(RIVALS)
        shared = self.delta / (n_rivals * (1 + (len(found) if found else 0)))
        levels = (self.margin, self.delta, shared)
        self.whole = Judge(self.observations, slice(None), kind.apart, *levels)
        self.segments = segment_judges(found, instances, self.whole, max_weight, earlier)

    def value(self, picks: Any) -> Intervals:
        """Valid and approximate intervals of the value of decisions."""
        bets = self.observations.bets(self.numbers.worth(picks), self.ends)
        return bets.interval(self.delta / 2), bets.approximate(self.delta, self.ends)

    def versus(self, name: str, picks: Any, tolerated: float) -> list[Versus]:
        """Judge a rival: on all data, and in every segment."""
        theirs, gain = self.total("outcome", picks), self.numbers.gain(picks)
        whole = self.whole.versus(name, theirs, gain, tolerated)
        if self.logged:
            rival, never = PHRASES.get(name, name), self.numbers.never(picks)
            support = support_of(rival, *never, self.instances, self.observations)
            whole = whole._replace(unsupported=support)
        inside = [judge.versus(name, theirs, gain, tolerated) for judge in self.segments]
        return [whole, *inside]

    def violation(self, test: str, before: Any, after: Any) -> ViolationResult:
        low, high = self.instances.value_range
        ends = Range(-self.numbers.k * (high - low), self.numbers.k * (high - low))
        delta = self.delta / (2 * len(self.model.rules) + 2)
        estimates = []
        for column, picks in (("residual before", before), ("residual after", after)):
            sums = self.observations.of(self.total(column, picks))
            estimates.append(student(sums, self.observations.total, ends, delta))
        return ViolationResult(test, *estimates)

    def promise(self, column: str, picks: Any) -> Promise:
        return Promise(
            self.observations.mean(self.total(column, picks)),
            self.observations.mean(self.total("outcome", picks)),
        )

    def judged_rules(self) -> Iterator[tuple[list[Versus], ViolationResult, Any]]:
        """Every rule in turn; the decisions of a few rules are held at a time."""
        done = progress.counter("rule", len(self.model.rules))
        for first, last in threads.spans(RULES, len(self.model.rules)):
            rules, decisions = self.model.rules[first:last], self.numbers.decisions(first, last)
            for start, stop in threads.spans(TOGETHER, len(rules)):
                judge = partial(self.judge_rule, rules[start:stop], decisions, start)
                for judged in threads.run(judge, stop - start):
                    done()
                    yield judged

    def judge_rule(
        self, rules: Sequence[Rule], decisions: Callable[[int], Any], start: int, number: int
    ) -> tuple[list[Versus], ViolationResult, Any]:
        name, picks = rules[number].name, decisions(start + number)
        versus = self.versus(name, picks, self.margin)
        return versus, self.violation(name, picks, picks), picks

    def judge_all(self) -> tuple[list[list[Versus]], list[ViolationResult], Intervals]:
        """Rivals, each on the whole and in segments; violations; the value of the best rule."""
        table, violations = [], []
        best = (Estimate(0, 0, 0), Estimate(0, 0, 0))
        for number, (rows, violation, picks) in enumerate(self.judged_rules()):
            table.append(rows)
            violations.append(violation)
            if number == self.model.best_rule:  # its decisions are not held any longer
                best = self.value(picks)
        violations.append(self.violation("optimiser", self.plain, self.calibrated))
        table += [self.versus(name, getattr(self.numbers, name), 0.0) for name in RIVALS]
        return table, violations, best

    def certificate(self, facts: Facts | None) -> Certificate:
        """All that is stated; ``facts`` are what is known of the instances' novelty."""
        model, observations, found = self.model, self.observations, self.found
        unit = unit_of(model.settings.value, self.instances)
        ours, plain = (self.total("outcome", one) for one in (self.calibrated, self.plain))
        groups = find_groups(self.instances, ours - plain)
        table, violations, best = self.judge_all()
        n_rules = len(model.rules)
        every, *inside = ([rows[i] for rows in table] for i in range(1 + len(self.segments)))
        return Certificate(
            **self.conclusion(every, inside),
            **self.values(every, best),
            **self.feedback(every),
            epsilon=model.epsilon,
            confidence=self.confidence,
            margin=self.margin,
            n_instances=len(self.instances),
            n_observations=observations.n,
            unit=unit,
            value=model.settings.value,
            max_weight=self.max_weight,
            heaviest=float(observations.total.max()),
            squared_error_before=observations.mean(self.numbers.squares("before")),
            squared_error_after=observations.mean(self.numbers.squares("after")),
            promise_before=self.promise("before", self.plain),
            promise_after=self.promise("after", self.calibrated),
            rules=tuple(row.result for row in every[:n_rules]),
            rivals=tuple(row.result for row in every[n_rules:]),
            violations=tuple(violations),
            earlier=self.earlier,
            notes=notes_of(facts, groups, unit),
            data=self.numbers.fingerprint,
            model=fingerprint(model),
            library=outrule.__version__,
            format=FORMAT,
            segmented=None if found is None else SegmentedBy(**vars(found.by), note=found.note),
        )

    def conclusion(self, every: list[Versus], inside: list[list[Versus]]) -> dict[str, Any]:
        """The verdicts, the rivals they hang on, and what would decide an open one."""
        observations, names = self.observations, names_of_rivals(self.model)
        n_rules = len(self.model.rules)
        groups = {"rules": every[:n_rules]}
        groups |= {name: [row] for name, row in zip(RIVALS, every[n_rules:], strict=True)}
        verdicts = {kind: self.whole.verdict(rivals) for kind, rivals in groups.items()}
        segments, in_segments = segment_results(
            self.segments, inside, names, declared=observations.declared
        )
        if segments:
            verdicts["segments"] = weakest(in_segments)
        if_declared = None
        if not observations.declared:
            if_declared = weakest(verdicts.values())
            verdicts = dict.fromkeys(verdicts, "inconclusive")
        wanting = list(every)
        for one, rows in zip(self.segments, inside, strict=True):
            n = one.observations.n
            for row in rows:  # the segment's share of all the data is assumed to stay
                count = row.needed and -(-row.needed * observations.n // n)
                wanting.append(row._replace(needed=count))
        headline, lower = weakest(verdicts.values()), [row.result.lower for row in every]
        return {
            "verdict": headline,
            "verdicts": verdicts,
            "if_declared": if_declared,
            "needed": None if if_declared is not None else needed(wanting, headline),
            "gap_lower": min(lower),
            "closest_rival": names[lower.index(min(lower))],
            "closest_rule": names[lower.index(min(lower[:n_rules]))],
            "segments": segments,
        }

    def values(self, every: list[Versus], best: Intervals) -> dict[str, Any]:
        """The gap, the improvement and the values, by betting and approximately."""
        found = {
            "plain": self.value(self.plain),
            "calibrated": self.value(self.calibrated),
            "isotonic": self.value(self.numbers.isotonic),
            "best_rule": best,
        }
        if not self.logged:
            found["oracle"] = self.value(self.numbers.oracle())
        near = min(every, key=lambda row: row.result.difference.mean)
        lowest = min(row.approximate.lower for row in every)
        gain = self.observations.bets(self.numbers.gain(self.plain), self.whole.apart)
        return {
            "gap": near.result.difference.mean,
            "improvement": gain.interval(self.delta / 2),
            "oracle": None,
            **{name: valid for name, (valid, _) in found.items()},
            "best_rule_name": self.model.rules[self.model.best_rule].name,
            "approximate": {
                "gap": near.approximate._replace(lower=lowest),
                "improvement": every[len(self.model.rules)].approximate,
                **{name: approximate for name, (_, approximate) in found.items()},
            },
        }

    def feedback(self, rivals: list[Versus]) -> dict[str, Any]:
        """What a log of chosen items could show."""
        if not self.logged:
            sizes = dict.fromkeys(("effective_n", "largest_weight", "unsupported"))
            return {"feedback": "full", "propensity_estimated": False, **sizes}
        theirs = [row.unsupported for row in rivals if row.unsupported is not None]
        return {
            "feedback": "logged",
            "propensity_estimated": self.instances.propensity_estimated,
            **sizes_of(self.numbers.weights(), self.observations),
            "unsupported": max(theirs, key=lambda support: support.share),
        }


def unit_of(value: Value, instances: Instances) -> str:
    """What to call one observation: the name of the cluster column where it is a plain word."""
    names = instances.origin.names
    if instances.cluster is None:
        return value.observation or "instance"
    # What names the instance, as before there were clusters, is not what a cluster is called.
    if value.observation and (names is None or value.observation != str(names.instance)):
        return value.observation
    word = str(names.cluster) if names is not None else ""
    return word if word.isalpha() and word.islower() else "cluster"


def names_of_rivals(model: Model) -> list[str]:
    """The names of the rules, and what the other rivals are called."""
    return [*(rule.name for rule in model.rules), *(PHRASES[name] for name in RIVALS)]
