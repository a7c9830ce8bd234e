"""Certify on partitioned data: numbers per instance and rival on disk, judged as in memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from outrule.data.instances import Instances
from outrule.data.origin import TableOrigin
from outrule.data.partitions import Partitions, naming
from outrule.data.propensities import check_log
from outrule.data.scratch import spill
from outrule.data.segments import Segments, values_of
from outrule.data.sketch import Hashes, hash_all
from outrule.errors import DataError, refuse_argument
from outrule.model.model import Model, unseen_words
from outrule.model.surveying import FileReader, Survey, survey
from outrule.problems.offers import count_without, few_choices_in, no_choices
from outrule.proof.confidence import Estimates, Range, Sides
from outrule.proof.continuation import looks_before
from outrule.proof.contrast import OutcomeEnds
from outrule.proof.evaluation import Evaluation
from outrule.proof.logged import EstimateKind
from outrule.proof.novelty import compare_with, constant_columns
from outrule.proof.numbers import InMemory
from outrule.proof.segment_verdicts import cut_held_out
from outrule.proof.statement import Certificate, Look
from outrule.rules.decisions import RULES
from outrule.rules.log_checks import check_chosen
from outrule.threads import spans
from outrule.types import Floats, Integers, Picks

PER_RULE, OTHERS = 24, 80  # bytes per instance
LOG_PER_RULE, LOG_OTHERS = 128, 640  # and more of a log, of seven kinds of estimates
OF_RULES = ("outcome", "residual before", "residual after")
PLAIN, CALIBRATED, ISOTONIC, ORACLE = -1, -2, -3, -4  # numbers of decisions; rules count from 0


class OnDisk:
    """The numbers of all instances, each kind in a file of its own."""

    plain, calibrated, isotonic = PLAIN, CALIBRATED, ISOTONIC

    def __init__(self, folder: Path, k: int, *, logged: bool) -> None:
        self.folder, self.k, self.logged, self.fingerprint = folder, k, logged, ""
        self.kinds: tuple[EstimateKind, ...] = ()  # of a log
        self.counts: dict[int, Integers] = {}  # how often an item could never be shown

    def oracle(self) -> int:
        return ORACLE

    def decisions(self, first: int, last: int) -> Callable[[int], int]:
        return lambda number: first + number

    def total(self, column: str, picks: int) -> Floats:
        return self.read(f"{column} {picks}")

    def squares(self, column: str) -> Floats:
        return self.read(f"squares {column}")

    def worth(self, picks: int) -> Floats | Estimates:
        if not self.logged:
            return self.total("outcome", picks)
        return self._read(f"worth {picks}", tuple(kind.ends for kind in self.kinds))

    def gain(self, picks: int) -> Floats | Estimates:
        if not self.logged:
            return self.total("outcome", CALIBRATED) - self.total("outcome", picks)
        return self._read(f"gain {picks}", tuple(kind.apart for kind in self.kinds))

    def never(self, picks: int) -> tuple[Floats, Integers]:
        return self.read(f"never {picks}"), self.counts[picks]

    def weights(self) -> Floats:
        return self.read("weights")

    def add(self, numbers: InMemory) -> None:
        """The numbers of the next file."""
        model = numbers.model
        if numbers.log is not None:
            self.kinds = numbers.log.kinds
        for first, last in spans(RULES, len(model.rules)):
            decisions = numbers.decisions(first, last)
            for number in range(last - first):
                self._add(numbers, first + number, decisions(number), OF_RULES)
        for name, picks, columns in (
            (PLAIN, numbers.plain, ("outcome", "before", "residual before")),
            (CALIBRATED, numbers.calibrated, ("outcome", "after", "residual after")),
            (ISOTONIC, numbers.isotonic, ("outcome",)),
        ):
            self._add(numbers, name, picks, columns)
        if not self.logged:
            self._add(numbers, ORACLE, numbers.oracle(), ("outcome",))
        else:
            self.write("weights", numbers.weights())
        for column in ("before", "after"):
            self.write(f"squares {column}", numbers.squares(column))

    def _add(self, numbers: InMemory, name: int, picks: Picks, columns: Sequence[str]) -> None:
        for column in columns:
            self.write(f"{column} {name}", numbers.total(column, picks))
        if not self.logged:
            return
        if name < 0 or name == numbers.model.best_rule:  # the only rule whose value is asked for
            self._write(f"worth {name}", numbers.worth(picks))
        if name != CALIBRATED:
            self._write(f"gain {name}", numbers.gain(picks))
            never, counts = numbers.never(picks)
            self.write(f"never {name}", never)
            self.counts[name] = self.counts.get(name, 0) + counts

    def write(self, name: str, values: Floats) -> None:
        spill(self.folder / name, values)

    def read(self, name: str) -> Floats:
        return np.asarray(np.memmap(self.folder / name, dtype=np.float64, mode="r"))

    def _write(self, name: str, values: Any) -> None:
        """Estimates, in files of their own."""
        self.write(f"{name} middle", values.kinds[0].middle)  # the same for all
        for number, kind in enumerate(values.kinds):
            self.write(f"{name} low {number}", kind.low)
            self.write(f"{name} high {number}", kind.high)

    def _read(self, name: str, ends: tuple[Range, ...]) -> Estimates:
        read, middle = self.read, self.read(f"{name} middle")
        kinds = (
            Sides(read(f"{name} low {number}"), middle, read(f"{name} high {number}"))
            for number in range(len(ends))
        )
        return Estimates(tuple(kinds), ends)


def certify_partitions(
    model: Model,
    data: Partitions,
    confidence: float,
    max_weight: float | None,
    by: Segments | None,
    previous: Certificate | None,
) -> Certificate:
    """The certificate of ``outrule.certify`` for a table in many files."""
    if data.columns.outcome is None:
        raise refuse_argument(None, "outcomes", "certify", "given")
    logged = data.columns.propensity is not None
    found = survey(data, model.problem, sample=None if logged else 2)
    check_log(found.sample, exactly_one=model.problem.exactly_one)
    check_chosen(model.problem, model.rules, found.sample)
    earlier: tuple[Look, ...] = ()
    if previous is not None:
        earlier = _looks_before(previous, model, found, confidence, max_weight)
    needed = found.n * (PER_RULE * len(model.rules) + OTHERS)
    needed += logged * found.n * (LOG_PER_RULE * len(model.rules) + LOG_OTHERS)
    with data.room(needed) as folder:
        seen = _Held(model, found, OnDisk(folder, found.k, logged=logged), by)
        for reader in found.readers:
            seen.add(reader)
        numbers, heads = seen.numbers, seen.heads()
        seen.extent.check(model.problem)
        facts = compare_with(model, numbers.fingerprint, seen.hashes, heads.cluster)
        inside = cut_held_out(heads, by, earlier)
        evaluation = Evaluation(model, heads, numbers, confidence, max_weight, earlier, inside)
        stated = evaluation.certificate(facts)
    seen.extent.check_differences(stated)
    return stated


def _looks_before(
    previous: Certificate, model: Model, found: Survey, confidence: float, max_weight: float | None
) -> tuple[Look, ...]:
    """As ``continued``, where the earlier data are the first files; they are read once more."""
    n, ends = previous.n_instances, found.counts.cumsum().tolist()
    if found.n > n and n not in ends:
        raise DataError(
            f"the {n:,} instances of the earlier certificate end in the middle of a file: give "
            "the files of the earlier data first, and then others with the new data."
        )
    before = found
    if found.n > n:
        files = [one.file for one in found.readers[: ends.index(n) + 1]]
        before = survey(found.data.only(files), model.problem, sample=2)

    def sizes() -> tuple[int, int] | None:
        if found.n <= n or _fingerprint(before) != previous.data:
            return None
        return max(model.k, before.k), max(model.k, found.k)

    return looks_before(previous, model, confidence, max_weight, sizes)


def _fingerprint(found: Survey) -> str:
    digest = found.digest()
    for reader in found.readers:
        found.add_to(digest, reader.read())
    return digest.hexdigest()


class _Held:
    """What is kept of every file: its numbers on disk, and one row per instance."""

    def __init__(self, model: Model, found: Survey, numbers: OnDisk, by: Segments | None) -> None:
        self.model, self.found, self.numbers, self.by = model, found, numbers, by
        self.digest = found.digest()
        self.hashed: list[Sequence[Hashes | None]] = []
        self.rows: list[pl.DataFrame] = []
        self.without, self.unseen, self.extent = 0, dict[Any, None](), OutcomeEnds()

    def add(self, reader: FileReader) -> None:
        """Read the next file."""
        model, found = self.model, self.found
        instances = reader.read()
        with naming(reader.file):
            model.check_alike(instances)
            layout = replace(model.problem.lay(instances), k=found.k)
            for columns in () if self.by is None else self.by.by:
                values_of(instances, columns)  # they must be the same for all items of an instance
            self.numbers.add(InMemory(model, instances, layout, unknown=found.unknown))
        self.unseen |= dict.fromkeys(model.unseen_items(instances))
        self.without += count_without(model.problem, instances)
        self.extent = self.extent.including(instances.require_observed("certify"))
        found.add_to(self.digest, instances)
        self.hashed.append(hash_all(instances))
        kept = [values.alias(name) for name, values in constant_columns(instances)]
        self.rows.append(pl.DataFrame(kept))

    def hashes(self) -> list[Hashes | None]:
        """As ``hash_all`` on all instances."""
        columns: list[Any] = list(zip(*self.hashed, strict=True))
        return [None if one[0] is None else np.concatenate(one) for one in columns]

    def heads(self) -> Instances:
        """All instances with one row each; warns of what certify warns of."""
        found, n = self.found, self.found.n
        if self.without == n:
            raise no_choices(n)
        if (words := few_choices_in(self.without, n)) is not None:
            warnings.warn(words, stacklevel=4)
        if self.unseen:
            warnings.warn(unseen_words(list(self.unseen)), stacklevel=4)
        self.numbers.fingerprint = self.digest.hexdigest()
        common = set.intersection(*(set(rows.columns) for rows in self.rows))
        kept = [name for name in self.rows[0].columns if name in common]
        frame = pl.concat([rows[kept] for rows in self.rows])
        names, every = found.data.columns, np.arange(n)
        labels = frame[str(names.instance)]
        return Instances(
            np.zeros(n),
            np.arange(n + 1),
            TableOrigin(frame, every, labels, names, "polars"),
            weight=None if found.weight is None else np.concatenate(found.weight),
            cluster=None if found.cluster is None else np.concatenate(found.cluster),
            item_names=found.item_names,
            propensity_estimated=names.propensity_estimated,
            value_range=found.data.value_range,
        )
