"""The certificate as a frozen value: its numbers, its words, and its JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import outrule
from outrule import files
from outrule.calibration.rivals import RIVALS
from outrule.data.segments import segment_name
from outrule.model.documents import LARGEST_SHOWN, Strict, damaged, read_document, seal
from outrule.model.value import Value
from outrule.proof.answer import Answer
from outrule.proof.confidence import Estimate
from outrule.words import as_html

FORMAT = 1
LEAST_CONFIDENCE = 1e-9  # with hardly less, one minus it is one
Verdict = Literal["pass", "inconclusive", "fail"]


class CertificateError(ValueError):
    """A certificate says something that the data and the model do not."""


@dataclass(frozen=True)
class RivalResult(Strict):
    """A rival against the calibrated optimiser, whose value minus the rival's is the difference.

    The bounds of ``difference`` are shared over all rivals: all lower ones hold at once, and all
    upper ones. ``lower`` is the bound for this rival alone, on which ``pass`` rests.
    """

    name: str
    value: float
    difference: Estimate
    lower: float
    verdict: Verdict


@dataclass(frozen=True)
class ViolationResult(Strict):
    """The violation of one test, on the original predictions and on the calibrated ones."""

    test: str
    before: Estimate
    after: Estimate


@dataclass(frozen=True)
class Promise(Strict):
    """What the optimiser's decisions were predicted to be worth, and what they were worth."""

    predicted: float
    realised: float


@dataclass(frozen=True)
class Look(Strict):
    """An earlier certificate that this one continues: how much data it covered, and which."""

    n_instances: int
    n_observations: int
    data: str


@dataclass(frozen=True)
class Support(Strict):
    """What a log could never show, of the items by which our decisions and a rival's differ.

    ``share`` is how many such items there are per instance. They get their worst outcome in the
    bounds, which can cost up to ``worst`` per instance. ``items`` are the most frequent ones.
    """

    rival: str
    share: float
    worst: float
    items: tuple[str, ...]


@dataclass(frozen=True)
class SegmentedBy(Strict):
    """By which columns the verdict was asked for, and what was too small for a segment."""

    by: tuple[tuple[str, ...], ...]
    min_share: float
    min_instances: int
    note: str | None


@dataclass(frozen=True)
class SegmentResult(Strict):
    """What the data say inside one segment; ``value`` is None for small values, pooled.

    ``gap`` is the difference to ``best_rival``, the best of all rivals in this segment.
    ``gap_lower`` and ``verdict`` are those of this segment alone, as if no other had been asked
    for; only ``fail``, and being significantly worse than plain or isotonic, are shared with all.
    ``together`` marks passes that hold all at once, by Holm's procedure: these may be picked from
    the list. ``needed`` counts observations of the segment. ``differences`` are those to the rules,
    to plain and to isotonic.
    """

    columns: tuple[str, ...]
    value: tuple[str | None, ...] | None
    pooled: int
    share: float
    n_instances: int
    n_observations: int
    gap: float
    gap_lower: float
    best_rival: str
    verdict: Verdict
    together: bool
    needed: int | None
    differences: tuple[float, ...]

    @property
    def name(self) -> str:
        return segment_name(self.columns, self.value)

    @property
    def more(self) -> int | None:
        """About how many further observations of the segment would decide it."""
        return None if self.needed is None else max(self.needed - self.n_observations, 1)


@dataclass(frozen=True)
class Certificate(Strict):
    """What held-out data say of a model; all values per instance, in the caller's units.

    Attributes
    ----------
    verdict : "pass", "inconclusive" or "fail"
        ``pass``: with the given confidence the calibrated optimiser is at least as good as every
        rival (the rules, plain, isotonic), minus at most ``margin``; and it is not significantly
        worse than plain or isotonic. ``fail``: with the same confidence some rule is better by more
        than the margin, or plain or isotonic is better.
    verdicts : the verdicts against "rules", "plain" and "isotonic"; ``verdict`` is the weakest
        Where segments were asked for, "segments" is the weakest of theirs. It is a minimum, so that
        ``pass`` in every segment holds with the given confidence as it is.
    if_declared : the verdict if no observation can weigh more than ``heaviest``
        Not None where weights or cluster sizes vary and no ``max_weight`` was declared; then the
        verdict is inconclusive.
    gap, gap_lower : the smallest difference to a rival, and the smallest lower bound of one
        The true gap is that of one rival, so the bounds need not share the confidence (Berger
        1982): the smallest holds with the given confidence.
    closest_rival, closest_rule : those with the smallest lower bounds
    needed : about how many observations would decide an inconclusive verdict
    margin : the model's epsilon, given or reached
    n_observations, unit : clusters, or instances; and what to call one
    value : what the value and its unit are called
    improvement : value over that of the plain optimiser on the original predictions
    plain, calibrated, oracle, isotonic, best_rule : values; ``best_rule`` was picked in training
    approximate : cluster-robust t intervals of gap, improvement and values; not for finite n
    rules, rivals : one result for every rule; those of plain and isotonic
    violations : one for every rule, the optimiser's own test last; approximate intervals
    promise_before, promise_after : predicted and realised value of the optimiser (winner's curse)
    earlier : the certificates that this one continues, the first one first
        ``verdict`` and the bounds hold for all of them together: it does no harm to look, and to go
        on only if the verdict was not decided.
    notes : what to mind of the data: instances seen by fit, copies, clusters that are not named
    feedback : "full", or "logged" where only some outcomes were observed
        Then means are doubly robust estimates, and bounds hold at finite n whatever the
        propensities, if these are right; ``oracle`` is None, as it cannot be known.
    propensity_estimated : whether the propensities are estimates themselves
    effective_n : how many instances with all outcomes the observed ones are worth, about
    largest_weight : the share of the heaviest instance in the value of our decisions
    unsupported : Support; what the log could never show, for the rival with the most of it
    segmented, segments : what was asked for, and one result for every segment
    """

    verdict: Verdict
    verdicts: dict[str, Verdict]
    if_declared: Verdict | None
    epsilon: float
    confidence: float
    margin: float
    gap: float
    gap_lower: float
    closest_rival: str
    closest_rule: str
    needed: int | None
    n_instances: int
    n_observations: int
    unit: str
    value: Value
    max_weight: float | None
    heaviest: float
    improvement: Estimate
    plain: Estimate
    calibrated: Estimate
    isotonic: Estimate
    best_rule: Estimate
    best_rule_name: str
    oracle: Estimate | None
    approximate: dict[str, Estimate]
    squared_error_before: float
    squared_error_after: float
    promise_before: Promise
    promise_after: Promise
    rules: tuple[RivalResult, ...]
    rivals: tuple[RivalResult, ...]
    violations: tuple[ViolationResult, ...]
    earlier: tuple[Look, ...]
    notes: tuple[str, ...]
    data: str
    model: str
    library: str
    format: int
    feedback: Literal["full", "logged"]
    propensity_estimated: bool
    effective_n: float | None
    largest_weight: float | None
    unsupported: Support | None
    segmented: SegmentedBy | None
    segments: tuple[SegmentResult, ...]

    @property
    def lowest(self) -> float:
        """The smallest lower bound, of the whole and of every segment."""
        return min([self.gap_lower, *(segment.gap_lower for segment in self.segments)])

    @property
    def more(self) -> int | None:
        """About how many further observations would decide it."""
        return None if self.needed is None else max(self.needed - self.n_observations, 1)

    @property
    def margin_share(self) -> float | None:
        """The margin as a share of the best rule's value."""
        best = abs(self.best_rule.mean)
        return self.margin / best if best > self.margin / LARGEST_SHOWN else None

    @property
    def sentence(self) -> str:
        """What the verdict means."""
        return Answer(self).sentence

    @property
    def warning(self) -> str | None:
        """What to mind about the margin, if anything."""
        return Answer(self).warning

    @property
    def next_step(self) -> str:
        """What to do now."""
        return Answer(self).next_step

    def __str__(self) -> str:
        return Answer(self).text

    def _repr_html_(self) -> str:
        answer = Answer(self)
        cells = "".join(
            f"<tr><td><b>{verdict}</b></td><td style='text-align:left'>{as_html(rival)}</td>"
            f"<td style='text-align:left'>{as_html(words)}</td></tr>"
            for rival, verdict, words in answer.against
        )
        notes = [answer.worth_sentence, answer.margin, answer.warning, *self.notes]
        notes.append(answer.next_step)
        return (
            f"<b>{answer.question}</b><br>{as_html(answer.sentence)}<table>{cells}</table>"
            f"{'<br>'.join(as_html(words) for words in notes if words)}"
        )

    def to_json(self, key: bytes | None = None) -> str:
        """The certificate as a JSON string with a digest, signed if there is a key."""
        content = asdict(self)
        return seal(json.dumps(content, indent=1, allow_nan=False), key).rstrip()

    def save(self, path: str | Path, key: bytes | None = None) -> None:
        """Write the JSON; the file is complete, or it is not there."""
        files.write_text(Path(path), self.to_json(key))

    def report(self, path: str | Path) -> None:
        """Write an HTML page of what the certificate knows; the file is complete, or not there.

        ``outrule.summarise`` and ``outrule.report`` also show the rules and the training.
        """
        files.write_text(Path(path), outrule.report(self))  # a layer above, so by its public name

    @classmethod
    def from_json(cls, text: str, key: bytes | None = None) -> Certificate:
        """Read what ``to_json`` wrote; DataError if it is anything else.

        With a key, it must also be signed with that key.
        """
        certificate = read_document(cls, text, FORMAT, name="this", noun="certificate", key=key)
        for part, holds in _claims(certificate).items():
            if not holds:
                raise damaged("this", "certificate", ValueError(f"{part}: out of range"))
        return certificate


def _claims(found: Certificate) -> dict[str, bool]:
    """What is true of every certificate, so that each can be shown, whoever wrote it."""
    return {
        "confidence": LEAST_CONFIDENCE <= found.confidence < 1,
        "verdicts": {*found.verdicts} - {"segments"} == {"rules", *RIVALS},
        "segments": all(
            "segments" in found.verdicts
            and (segment.value is None or len(segment.value) == len(segment.columns))
            for segment in found.segments
        ),
        "unsupported": found.effective_n is None or found.unsupported is not None,
        "approximate": {"gap", "improvement"} <= {*found.approximate},
        "rules": len(found.rules) > 0,
        "violations": len(found.violations) > 0,
        "rivals": tuple(rival.name for rival in found.rivals) == RIVALS,
        "numbers": max(map(abs, _numbers(asdict(found)))) <= LARGEST_SHOWN,
    }


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _numbers(part)
    elif isinstance(value, int | float):
        yield value


def weakest(verdicts: Iterable[Verdict]) -> Verdict:
    """Fail if one fails; pass if all pass."""
    return min(verdicts, key=["fail", "inconclusive", "pass"].index)
