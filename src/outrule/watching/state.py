"""The state of a watch as a frozen value, and as a small, sealed JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, NamedTuple

import numpy as np

from outrule.data.checks import LARGEST, SMALLEST
from outrule.errors import DataError
from outrule.model.codec import fingerprint
from outrule.model.documents import Strict, compact, damaged, read_document, seal
from outrule.model.fitting import MOST_KAPPA
from outrule.model.model import Model
from outrule.types import Floats
from outrule.watching.detectors import FULL, STAKES, Detectors
from outrule.watching.keys import Key, as_key, in_order

FORMAT = 1
HISTORY = 2_000  # batches that are remembered one by one
NOUN = "watch state"
MOST = 1e20 * LARGEST  # of the weight of all instances, and of what one of them is worth

Word = Literal["kept", "undecided", "lost"]
Watched = Literal["rivals", "predicted"]
Feedback = Literal["full", "logged", "chosen"]


class Row(NamedTuple):
    """A batch that was counted; all means are per instance."""

    batch: Key
    content: str  # fingerprint of the instances
    n: int  # observations
    weight: float
    gap: float | None  # to ``rival``, the one with the most evidence before this batch
    rival: int | None
    against_rivals: float | None  # evidence after this batch
    against_predicted: float
    predicted: float
    realised: float
    status: Word
    acknowledged: bool


@dataclass(frozen=True)
class Alarm(Strict):
    """Evidence that reached the level of the alarm; it stays until it is acknowledged."""

    watched: Watched
    batch: Key  # when
    since: Key  # where the change seems to have begun
    name: str  # the rival with the most evidence, or the side on which predictions are wrong
    better: tuple[str, ...]  # the rivals that are better, each shown by itself


@dataclass(frozen=True)
class ClaimState(Strict):
    """A claim: the sum of its differences, and its detectors, one per stake."""

    sum: float
    doubt: tuple[float, ...]
    climb: tuple[float, ...]
    start: tuple[int, ...]
    trust: tuple[float, ...]


@dataclass(frozen=True)
class State(Strict):
    """Everything a watch remembers: sums are since it began, or since the last acknowledgement."""

    format: int
    library: str
    model: str  # fingerprint
    run_length: int
    margin: float
    max_weight: float | None
    k: int | None = None  # these two are known from the first batch on
    full: bool | None = None
    unit: str = "instance"
    n_batches: int = 0  # ever
    n_observations: int = 0
    first: Key | None = None  # batch of the sums
    n: int = 0
    weight: float = 0.0
    predicted: float = 0.0
    realised: float = 0.0
    claims: tuple[ClaimState, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    history: tuple[Row, ...] = ()
    kappa: float | None = None  # of a log with propensities

    @property
    def compares(self) -> bool:
        """Whether rivals are watched."""
        return bool(self.full) or self.kappa is not None

    @property
    def feedback(self) -> Feedback | None:
        """Of which items outcomes are known; None before the first batch."""
        if self.full is None:
            return None
        return "full" if self.full else "chosen" if self.kappa is None else "logged"

    @property
    def size(self) -> int:
        """The size of the largest decision; 0 before the first batch."""
        return self.k or 0

    @property
    def last(self) -> Key | None:
        return self.history[-1].batch if self.history else None

    @property
    def watched(self) -> tuple[Watched, ...]:
        return ("rivals", "predicted") if self.compares else ("predicted",)

    @property
    def level(self) -> float:
        """Evidence at which an alarm is raised: shared, so that the run length holds for all."""
        return float(self.run_length * len(self.watched))

    def key_of(self, number: int) -> Key:
        """The key of a batch by its number; the oldest that is remembered for one before it."""
        return self.history[max(number - self.n_batches - 1, -len(self.history))].batch

    def detectors(self) -> Detectors:
        names = [field.name for field in fields(Detectors)]
        return Detectors(*(np.array([getattr(c, name) for c in self.claims]) for name in names))

    def to_json(self) -> str:
        """One line for every field, and a digest of them all."""
        lines = (f"{compact(name)}: {compact(value)}" for name, value in asdict(self).items())
        return seal("{\n" + ",\n".join(lines) + "\n}")


def claim_states(sums: Floats, detectors: Detectors) -> tuple[ClaimState, ...]:
    """Detectors as plain numbers, one value for every claim."""
    columns = [getattr(detectors, field.name).tolist() for field in fields(Detectors)]
    return tuple(
        ClaimState(total, *map(tuple, rows))
        for total, *rows in zip(sums.tolist(), *columns, strict=True)
    )


def read_state(text: str, model: Model, name: str) -> State:
    """Read what ``State.to_json`` wrote for a model; DataError if it is not.

    ``name`` is what the error calls the text.
    """
    file = read_document(State, text, FORMAT, name=name, noun=NOUN)
    if file.model != fingerprint(model, file.library):
        raise DataError(
            f"{name} watches another model. Pass the model that it began with; or, for a new "
            "model, begin a new watch with a new state, and keep this one as a record."
        )
    n_claims = 0 if not file.history else 2 + (len(model.rules) + 2 if file.compares else 0)
    begun, counted = bool(file.history), file.first is not None
    watched = [alarm.watched for alarm in file.alarms]
    claims = {
        "history": len(file.history) == min(file.n_batches, HISTORY) and _ascends(file.history),
        "run_length": 2 <= file.run_length < 2**63 and file.margin >= 0,
        "max_weight": file.max_weight is None or file.max_weight > 0,
        "full": (file.full is not None) == begun and (file.k or 0) >= begun,
        "kappa": file.kappa is None or (file.full is False and 0 <= file.kappa <= MOST_KAPPA),
        "n": counted <= begun and 0 <= file.n <= file.n_observations and counted == (file.n > 0),
        "weight": SMALLEST <= file.weight <= MOST if counted else file.weight == 0,
        "predicted": max(abs(file.predicted), abs(file.realised)) <= MOST * file.weight,
        "claims": len(file.claims) == n_claims and all(_is_valid(one, file) for one in file.claims),
        "alarms": len({*watched}) == len(watched)
        and {*watched} <= {*(file.watched if counted else ())},
    }
    for part, holds in claims.items():
        if not holds:
            raise damaged(name, NOUN, ValueError(f"{part} does not agree with the rest"))
    return file


def _is_valid(claim: ClaimState, file: State) -> bool:
    """Whether numbers are as ``Detectors`` make them."""
    rows: tuple[Sequence[Any], ...] = (claim.doubt, claim.climb, claim.start, claim.trust)
    return (
        all(len(row) == len(STAKES) for row in rows)
        and abs(claim.sum) <= MOST * file.weight
        and min(claim.doubt) >= 0
        and max(claim.trust) <= FULL
        and 0 <= min(claim.start) <= max(claim.start) <= file.n_batches
    )


def _ascends(history: Sequence[Row]) -> bool:
    try:
        keys = [row.batch for row in history]
        return len({*keys}) == len(keys) and [as_key(key) for key in keys] == keys == in_order(keys)
    except DataError:
        return False
