"""Count a batch: the next state of a watch from the last one, and what the state says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from outrule.types import Floats
from outrule.watching.claims import SIDES, Batch
from outrule.watching.detectors import Detectors, refuted
from outrule.watching.keys import Key
from outrule.watching.state import HISTORY, Alarm, Row, State, Watched, Word, claim_states
from outrule.watching.status import WatchedClaim, WatchStatus, weakest


def add_batch(
    state: State, batch: Batch, key: Key, content: str, leading: int, names: list[str]
) -> State:
    """The state after a batch; ``leading`` is the rival to show where no evidence tells them apart.

    ``names`` are those of the rivals.
    """
    detectors = state.detectors() if state.claims else Detectors.fresh(len(batch.sums))
    sums = np.array([claim.sum for claim in state.claims]) if state.claims else 0.0
    evidence = detectors.evidence()[: len(batch.sums) - 2]
    if state.compares and evidence.any():
        leading = int(np.argmax(evidence))
    detectors = detectors.after(batch.growth, state.n_batches + 1)
    row = Row(
        batch=key,
        content=content,
        n=batch.n,
        weight=batch.weight,
        gap=batch.sums[leading] / batch.weight if state.compares else None,
        rival=leading if state.compares else None,
        against_rivals=None,
        against_predicted=0.0,
        predicted=batch.predicted / batch.weight,
        realised=batch.realised / batch.weight,
        status="undecided",
        acknowledged=False,
    )
    state = replace(
        state,
        n_batches=state.n_batches + 1,
        n_observations=state.n_observations + batch.n,
        first=key if state.first is None else state.first,
        n=state.n + batch.n,
        weight=state.weight + batch.weight,
        predicted=state.predicted + batch.predicted,
        realised=state.realised + batch.realised,
        claims=claim_states(sums + batch.sums, detectors),
        history=(*state.history, row)[-HISTORY:],
    )
    return _with_alarms(state, detectors, names)


def _with_alarms(state: State, detectors: Detectors, names: list[str]) -> State:
    """Raise alarms where evidence has reached its level, and write the row of the last batch."""
    found = {watched: part.evidence() for watched, part in _split(state, detectors).items()}
    alarms = list(state.alarms)
    for watched, evidence in found.items():
        raised = any(alarm.watched == watched for alarm in alarms)
        if not raised and evidence.mean() >= state.level:
            alarms.append(_alarm(state, detectors, watched, evidence, names))
    state = replace(state, alarms=tuple(alarms))
    row = state.history[-1]._replace(
        against_rivals=float(found["rivals"].mean()) if state.compares else None,
        against_predicted=float(found["predicted"].mean()),
        status=weakest([part.status for part in parts_of(state, names)]),
    )
    return replace(state, history=(*state.history[:-1], row))


def _alarm(
    state: State, detectors: Detectors, watched: Watched, evidence: Floats, names: list[str]
) -> Alarm:
    top = int(np.argmax(evidence))
    better = refuted(evidence, state.level) if watched == "rivals" else []
    since = _split(state, detectors)[watched].since(top)
    said = names if watched == "rivals" else SIDES
    assert state.last is not None
    ahead = tuple(names[one] for one in better)
    return Alarm(watched, state.last, state.key_of(since), said[top], ahead)


def _split(state: State, detectors: Detectors) -> dict[Watched, Detectors]:
    """The detectors of what is watched; the two sides of "predicted" are behind the rivals."""
    parts: dict[Watched, Detectors] = {"predicted": detectors.part(slice(-2, None))}
    return {"rivals": detectors.part(slice(-2)), **parts} if state.compares else parts


def parts_of(state: State, names: list[str]) -> tuple[WatchedClaim, ...]:
    """How what is watched stands; nothing before the first batch."""
    if not state.n:
        return ()
    alarms = {alarm.watched: alarm for alarm in state.alarms}
    parts = []
    for watched, detectors in _split(state, state.detectors()).items():
        evidence, alarm = detectors.evidence(), alarms.get(watched)
        mean = float(evidence.mean())
        if alarm is not None:
            said = (alarm.since, alarm.batch, alarm.name, alarm.better)
            parts.append(WatchedClaim(watched, "lost", mean, *said))
            continue
        word: Word = "kept" if detectors.shown().all() else "undecided"
        name = (names if watched == "rivals" else SIDES)[int(np.argmax(evidence))]
        parts.append(WatchedClaim(watched, word, mean, None, None, name, ()))
    return tuple(parts)


def status_of(state: State, names: list[str]) -> WatchStatus:
    """What the batches so far say; ``names`` are those of the rivals."""
    parts = parts_of(state, names)
    lost = [part for part in parts if part.status == "lost"]
    rival, gap = _closest(state, lost, names)
    return WatchStatus(
        status=weakest([part.status for part in parts]),
        parts=parts,
        feedback=state.feedback,
        batch=state.last,
        n_batches=state.n_batches,
        first=state.first,
        n=state.n,
        unit=state.unit,
        gap=gap,
        rival=rival,
        predicted=state.predicted / state.weight if state.n else None,
        realised=state.realised / state.weight if state.n else None,
        evidence=max((part.evidence for part in parts), default=0.0),
        level=state.level,
        since=lost[0].since if lost else None,
        better=tuple(name for part in lost for name in part.better),
        margin=state.margin,
        run_length=state.run_length,
    )


def _closest(
    state: State, lost: list[WatchedClaim], names: list[str]
) -> tuple[str | None, float | None]:
    """The rival that is better, else the one with the smallest difference, and the difference."""
    if not state.compares or not state.n:
        return None, None
    sums = [claim.sum for claim in state.claims[:-2]]
    number = int(np.argmin(sums))
    if lost and lost[0].watched == "rivals":
        number = names.index(lost[0].name)
    return names[number], sums[number] / state.weight
