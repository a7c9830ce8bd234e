"""What a watch says after a batch, in numbers and in words."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from outrule.watching.keys import Key
from outrule.watching.state import Feedback, Watched, Word
from outrule.words import count, listed

ORDER = ("lost", "undecided", "kept")


@dataclass(frozen=True)
class WatchedClaim:
    """One of the two things that are watched."""

    watched: Watched
    status: Word
    evidence: float  # against it; an alarm at ``level``
    since: Key | None  # where the change seems to have begun, if it is lost
    alarm: Key | None  # the batch that raised the alarm
    name: str  # the rival or the side with the most evidence
    better: tuple[str, ...]


@dataclass(frozen=True)
class WatchStatus:
    """What a watch says; all values per instance, in the caller's units.

    Attributes
    ----------
    status : "kept", "undecided" or "lost"
        ``lost``: the evidence against something watched has reached ``level``; it stays so until it
        is acknowledged. ``kept``: not lost, and the batches since ``first`` show with 95 %
        confidence what is watched. ``undecided``: neither.
    parts : what is watched
        "rivals": decisions are at least as good as every rival's, minus the margin; needs the
        outcomes of all items, or a log with propensities. "predicted": they are worth what was
        predicted, within the margin; the outcomes of chosen items are enough.
    feedback : "full", "logged" or "chosen"
        Of which items outcomes are known: of all; of some, with propensities, so that values are
        estimates of what the model decides; of the chosen ones. None before the first batch.
    batch, n_batches : the last batch that was counted, and how many there were
    first : the first batch since the watch began, or since the last acknowledgement
    n, unit : observations since then, and what to call one
    gap, rival : difference to the closest rival since then; None where rivals are not watched
    predicted, realised : mean value of the decisions since then
    evidence, level : of the part with the most evidence
    since : of the first part that is lost
    better : the rivals that are better by more than the margin, each shown by itself
    run_length : batches until a false alarm, on average, at least
    """

    status: Word
    parts: tuple[WatchedClaim, ...]
    feedback: Feedback | None
    batch: Key | None
    n_batches: int
    first: Key | None
    n: int
    unit: str
    gap: float | None
    rival: str | None
    predicted: float | None
    realised: float | None
    evidence: float
    level: float
    since: Key | None
    better: tuple[str, ...]
    margin: float
    run_length: int

    @property
    def sentence(self) -> str:
        """What is watched and how it stands, in a few sentences."""
        if not self.parts:
            return "No batch has been counted since the watch began or an alarm was acknowledged."
        words = ["There is no alarm."] if self.status == "undecided" else []
        parts = sorted(self.parts, key=lambda part: part.status != "lost")  # what is lost first
        words += [_say(part, f"{self.margin:g}") for part in parts]
        if len(self.parts) == 1:
            words.append(
                "Rivals are not watched: that needs the outcomes of items that were not chosen, or "
                "a log with propensities."
            )
        return " ".join(words)

    def __str__(self) -> str:
        lines = [f"{self.status}: {self.sentence}"]
        if self.parts:
            gap = "" if self.gap is None else f"gap {self.gap:+.4f} to {self.rival}; "
            lines.append(
                f"{gap}predicted {self.predicted:.4f}, realised {self.realised:.4f}; "
                f"{count(self.n, self.unit)} since batch {self.first}"
                f"{'; estimated from a log' if self.feedback == 'logged' else ''}"
            )
            lines.append(
                f"evidence {self.evidence:.3g} that something has changed, alarm at "
                f"{self.level:,.0f}: it stays low while nothing is wrong and grows quickly once "
                f"something is; on average at most one false alarm in {self.run_length:,} batches"
            )
        return "\n".join(lines)

    def to_json(self) -> str:
        """The status as a JSON string."""
        return json.dumps({**asdict(self), "sentence": self.sentence}, indent=1, allow_nan=False)


def weakest(words: list[Word]) -> Word:
    """Lost if one is lost; kept if all are kept."""
    return min(words, key=ORDER.index, default="undecided")


def _say(part: WatchedClaim, margin: str) -> str:
    if part.status == "lost":
        since = f"batch {part.since}" if str(part.since).isdigit() else part.since
        when = f"since {since} (alarm in batch {part.alarm})"
        if part.watched == "predicted":
            return f"Decisions have been {part.name}, by more than {margin}, {when}."
        names = listed([f"“{name}”" for name in part.better]) if part.better else "Some rival"
        verb = "have" if len(part.better) > 1 else "has"
        likely = "" if part.better else f", most likely “{part.name}”"
        return f"{names} {verb} been better by more than {margin} {when}{likely}."
    claim = {
        "rivals": f"at least as good as every rival's, minus at most {margin}",
        "predicted": f"worth what was predicted, within {margin}",
    }[part.watched]
    if part.status == "kept":
        return f"Decisions are {claim}."
    return f"The batches so far do not yet show that decisions are {claim}."
