"""The certificate as a frozen value: its numbers, its words, and its JSON."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Literal

from outrule import files
from outrule.model.documents import STRICT, damaged, read_document
from outrule.proof.confidence import Estimate

FORMAT = 1
Verdict = Literal["pass", "inconclusive", "fail"]
OURS = "the plain optimiser on the calibrated predictions"
RIVALS = {
    "rules": "every rule",
    "plain": "the plain optimiser on the original predictions",
    "isotonic": "isotonic regression",
}


@dataclass(frozen=True)
class RivalResult:
    """A rival against the calibrated optimiser, whose value minus the rival's is the difference.

    The bounds of ``difference`` are shared over all rivals: all lower ones hold at once, and all
    upper ones. ``lower`` is the bound for this rival alone, on which ``pass`` rests.
    """

    __pydantic_config__: ClassVar = STRICT

    name: str
    value: float
    difference: Estimate
    lower: float
    verdict: Verdict


@dataclass(frozen=True)
class ViolationResult:
    """The violation of one test, on the original predictions and on the calibrated ones."""

    __pydantic_config__: ClassVar = STRICT

    test: str
    before: Estimate
    after: Estimate


@dataclass(frozen=True)
class Promise:
    """What the optimiser's decisions were predicted to be worth, and what they were worth."""

    __pydantic_config__: ClassVar = STRICT

    predicted: float
    realised: float


@dataclass(frozen=True)
class Certificate:
    """What held-out data say of a model; all values per instance, in the caller's units.

    Attributes
    ----------
    verdict : "pass", "inconclusive" or "fail"
        ``pass``: with the given confidence the calibrated optimiser is at least as good as every
        rival (the rules, plain, isotonic), minus at most ``margin``; and it is not significantly
        worse than plain or isotonic. ``fail``: with the same confidence some rule is better by more
        than the margin, or plain or isotonic is better.
    verdicts : the verdicts against "rules", "plain" and "isotonic"; ``verdict`` is the weakest
    if_declared : the verdict if no observation can weigh more than ``heaviest``
        Not None where weights or cluster sizes vary and no ``max_weight`` was declared; then the
        verdict is inconclusive.
    gap, gap_lower : the smallest difference to a rival, and the smallest lower bound of one
        The true gap is that of one rival, so the bounds need not share the confidence (Berger
        1982): the smallest holds with the given confidence.
    closest_rival, closest_rule : those with the smallest lower bounds
    needed : about how many observations would decide an inconclusive verdict
    margin : epsilon times the width of the value range
    n_observations, unit : clusters, or instances; and what to call one
    improvement : value over that of the plain optimiser on the original predictions
    plain, calibrated, oracle, isotonic, best_rule : values; ``best_rule`` was picked in training
    approximate : cluster-robust t intervals of gap, improvement and values; not for finite n
    rules, rivals : one result for every rule; those of plain and isotonic
    violations : one for every rule, the optimiser's own test last; approximate intervals
    promise_before, promise_after : predicted and realised value of the optimiser (winner's curse)
    notes : what to mind of the data: instances seen by fit, copies, clusters that are not named
    """

    __pydantic_config__: ClassVar = STRICT

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
    max_weight: float | None
    heaviest: float
    improvement: Estimate
    plain: Estimate
    calibrated: Estimate
    isotonic: Estimate
    best_rule: Estimate
    best_rule_name: str
    oracle: Estimate
    approximate: dict[str, Estimate]
    squared_error_before: float
    squared_error_after: float
    promise_before: Promise
    promise_after: Promise
    rules: tuple[RivalResult, ...]
    rivals: tuple[RivalResult, ...]
    violations: tuple[ViolationResult, ...]
    notes: tuple[str, ...]
    data: str
    model: str
    library: str
    format: int

    @property
    def more(self) -> int | None:
        """About how many further observations would decide it."""
        return None if self.needed is None else max(self.needed - self.n_observations, 1)

    @property
    def margin_share(self) -> float | None:
        """The margin as a share of the best rule's value."""
        return self.margin / abs(self.best_rule.mean) if self.best_rule.mean else None

    @property
    def warning(self) -> str | None:
        """What to mind about the margin, if anything."""
        stake = abs(self.best_rule.mean - self.plain.mean)
        if self.margin <= stake:
            return None
        return (
            f"The margin of {self.margin:g} is larger than what is at stake: the best rule and the "
            f"plain optimiser on the original predictions differ by {stake:.2g}. A smaller epsilon "
            "makes the verdict mean more."
        )

    @property
    def sentence(self) -> str:
        """What the verdict means, in one or two sentences."""
        sure, margin = f"With {100 * self.confidence:g} % confidence", f"{self.margin:g}"
        if self.verdict == "pass":
            rivals = f"{_every(self)}, {RIVALS['plain']} and {RIVALS['isotonic']}"
            return f"{sure}, {OURS} is at least as good as {rivals}, minus at most {margin}."
        if self.verdict == "fail":
            return f"{sure}, {_better(self)} than {OURS}."
        if self.if_declared is not None:
            return _ask(self)
        words = [_every(self) if name == "rules" else RIVALS[name] for name in _open(self)]
        return (
            f"There is too little data to say whether {OURS} is at least as good as "
            f"{_listed(words, 'and')}, minus at most {margin}. {_next(self)}"
        )

    def __str__(self) -> str:
        share = "" if self.margin_share is None else f", {_percent(self.margin_share)} of the best"
        share += " rule's value" if share else ""
        near = self.approximate["gap"]
        least = f"at least {self.gap_lower:+.4f}"
        if self.if_declared is not None:
            least += f" if no {self.unit} can weigh more than {self.heaviest:g}"
        lines = [
            f"{self.verdict}: {self.sentence[0].lower()}{self.sentence[1:]}",
            f"gap {self.gap:+.4f} ({least}; approximately {near.lower:+.4f} "
            f"to {near.upper:+.4f}) on {counted(self.n_observations, self.unit)}; closest rival: "
            f"{self.closest_rival}",
            f"margin {self.margin:g}{share}",
        ]
        return "\n".join([*lines, *([self.warning] if self.warning else []), *self.notes])

    def _repr_html_(self) -> str:
        rows = [
            (RIVALS[name].removeprefix("the "), verdict) for name, verdict in self.verdicts.items()
        ]
        cells = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{verdict}</td></tr>" for name, verdict in rows
        )
        gap = f"{self.gap:+.4f}, at least {self.gap_lower:+.4f}"
        return (
            f"<table><caption><b>{self.verdict}</b>: {html.escape(self.sentence)}</caption>"
            f"<tr><th>against</th><th>verdict</th></tr>{cells}<tr><td>gap</td><td>{gap}</td></tr>"
            "</table>"
        )

    def to_json(self) -> str:
        """The certificate as a JSON string."""
        return json.dumps(asdict(self), indent=1, allow_nan=False)

    def save(self, path: str | Path) -> None:
        """Write the JSON; the file is complete, or it is not there."""
        files.write_text(Path(path), self.to_json())

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Read what :meth:`to_json` wrote; DataError if it is anything else."""
        certificate = read_document(cls, text, FORMAT, name="this", noun="certificate")
        if not 0 < certificate.confidence < 1:
            raise damaged("this", "certificate", ValueError("confidence: not in (0, 1)"))
        return certificate


def weakest(verdicts: Iterable[Verdict]) -> Verdict:
    """Fail if one fails; pass if all pass."""
    return min(verdicts, key=["fail", "inconclusive", "pass"].index)


def counted(number: int, noun: str) -> str:
    """1 day, 2 days."""
    if number == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2:-1] not in ("a", "e", "o", "u"):
        noun = f"{noun[:-1]}ie"
    elif noun.endswith(("s", "x", "ch", "sh")):
        noun += "e"
    return f"{number:,} {noun}s"


def _every(certificate: Certificate) -> str:
    n = len(certificate.rules)
    return "the rule" if n == 1 else f"every one of the {n:,} rules"


def _better(certificate: Certificate) -> str:
    failed = [name for name, verdict in certificate.verdicts.items() if verdict == "fail"]
    words = [RIVALS[name] for name in failed if name != "rules"]
    parts = []
    if "rules" in failed:
        some = "the rule" if len(certificate.rules) == 1 else "some rule"
        parts.append(f"{some} is better by more than {certificate.margin:g}")
    if words:
        parts.append(f"{_listed(words, 'and')} {'is' if len(words) == 1 else 'are'} better")
    return ", and ".join(parts)


def _open(certificate: Certificate) -> list[str]:
    return [name for name, found in certificate.verdicts.items() if found == "inconclusive"]


def _next(certificate: Certificate) -> str:
    """What would decide an inconclusive verdict."""
    enough = _round_up(max(-certificate.gap_lower, 0.0))
    accept = f"accept a margin of {enough:g}" if enough > certificate.margin else ""
    if certificate.more is None:
        words = "How many more observations would decide it cannot be said from these."
        return f"{words} To pass on these, {accept}." if accept else words
    more = _about(certificate.more, certificate.unit)
    return f"{more} would decide it{', or ' + accept if accept else ''}."


def _ask(certificate: Certificate) -> str:
    """The request for a bound on weights that vary."""
    unit, heaviest = certificate.unit, certificate.heaviest
    what = "weight of one" if unit == "instance" else f"size (or total weight) of one {unit}"
    return (
        f"Nothing can be certified before the largest possible {what} is declared, because rare "
        f"large ones could change everything: set max_weight. The largest seen is {heaviest:g}; if "
        f"that is the largest possible, the verdict is {certificate.if_declared}."
    )


def _about(number: int, unit: str) -> str:
    digits = max(0, len(str(number)) - 2)
    rounded = -(-number // 10**digits) * 10**digits
    more = counted(rounded, unit).split(" ", 1)
    return f"About {more[0]} more {more[1]}"


def _round_up(number: float) -> float:
    """To two significant digits."""
    if number <= 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(number)) - 1)
    return float(f"{math.ceil(number / unit - 1e-9) * unit:.2g}")


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def _listed(words: list[str], last: str) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"
