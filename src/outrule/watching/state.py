"""The state of a watch as a frozen value, and as a small, sealed JSON document."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from outrule.model.documents import STRICT, damaged, read_document, seal
from outrule.types import Floats
from outrule.watching.detectors import STAKES, Detectors
from outrule.watching.keys import Key

FORMAT = 1
HISTORY = 2_000  # batches that are remembered one by one
NOUN = "watch state"

Word = Literal["kept", "undecided", "lost"]
Watched = Literal["rivals", "predicted"]


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
class Alarm:
    """Evidence that reached the level of the alarm; it stays until it is acknowledged."""

    __pydantic_config__: ClassVar = STRICT

    watched: Watched
    batch: Key  # when
    since: Key  # where the change seems to have begun
    name: str  # the rival with the most evidence, or the side on which predictions are wrong
    better: tuple[str, ...]  # the rivals that are better, each shown by itself


@dataclass(frozen=True)
class ClaimState:
    """A claim: the sum of its differences, and its detectors, one per stake."""

    __pydantic_config__: ClassVar = STRICT

    sum: float
    doubt: tuple[float, ...]
    climb: tuple[float, ...]
    start: tuple[int, ...]
    trust: tuple[float, ...]


@dataclass(frozen=True)
class State:
    """Everything a watch remembers: sums are since it began, or since the last acknowledgement."""

    __pydantic_config__: ClassVar = STRICT

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

    @property
    def last(self) -> Key | None:
        return self.history[-1].batch if self.history else None

    @property
    def watched(self) -> tuple[Watched, ...]:
        return ("rivals", "predicted") if self.full else ("predicted",)

    @property
    def level(self) -> float:
        """Evidence at which an alarm is raised: shared, so that the run length holds for all."""
        return float(self.run_length * len(self.watched))

    def key_of(self, number: int) -> Key:
        """The key of a batch by its number; the oldest that is remembered for one before it."""
        return self.history[max(number - self.n_batches - 1, -len(self.history))].batch

    def detectors(self) -> Detectors:
        columns = {
            field.name: np.array([getattr(claim, field.name) for claim in self.claims])
            for field in fields(Detectors)
        }
        return Detectors(**columns)

    def to_json(self) -> str:
        """One line for every field, and a digest of them all."""
        lines = (f"{json.dumps(name)}: {_line(value)}" for name, value in asdict(self).items())
        return seal("{\n" + ",\n".join(lines) + "\n}")


def claim_states(sums: Floats, detectors: Detectors) -> tuple[ClaimState, ...]:
    """Detectors as plain numbers, one value for every claim."""
    columns = [getattr(detectors, field.name).tolist() for field in fields(Detectors)]
    return tuple(
        ClaimState(total, *map(tuple, rows))
        for total, *rows in zip(sums.tolist(), *columns, strict=True)
    )


def read_state(text: str, n_rules: int, name: str) -> State:
    """Read what :meth:`State.to_json` wrote for a model of so many rules; DataError if it is not.

    ``name`` is what the error calls the text.
    """
    file = read_document(State, text, FORMAT, name=name, noun=NOUN)
    n_claims = 0 if not file.history else 2 + (n_rules + 2 if file.full else 0)
    claims = {
        "claims": len(file.claims) == n_claims and all(map(_complete, file.claims)),
        "history": len(file.history) == min(file.n_batches, HISTORY),
        "run_length": file.run_length >= 2 and file.margin >= 0,
    }
    for part, holds in claims.items():
        if not holds:
            raise damaged(name, NOUN, ValueError(f"{part} does not agree with the rest"))
    return file


def _complete(claim: ClaimState) -> bool:
    rows: tuple[Sequence[Any], ...] = (claim.doubt, claim.climb, claim.start, claim.trust)
    return all(len(row) == len(STAKES) for row in rows)


def _line(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
