"""Certificates on tables, or on a folder of Parquet files, and what is said of them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from outrule.cli.talking import drawn, printable, say
from outrule.cli.work.files import (
    check_item_type,
    columns_of,
    open_files,
    open_model,
    places_in,
    warn_of_filled,
    warn_of_unseen,
    with_propensity_in,
)
from outrule.data.filled import Flags
from outrule.data.instances import Instances
from outrule.data.partitions import Partitions, find_files, naming
from outrule.data.segments import Segments
from outrule.data.table_files import parquet_schema, read_columns
from outrule.errors import ArgumentError, DataError
from outrule.files import is_folder
from outrule.model.documents import read_file
from outrule.model.model import Model
from outrule.problems.offers import few_choices
from outrule.proof import certificate
from outrule.proof.answer import LABELS, Answer
from outrule.proof.confidence import Estimate
from outrule.proof.statement import Certificate
from outrule.rules.descriptions import full_name


class Asked(NamedTuple):
    """What to judge by."""

    confidence: float
    max_weight: float | None
    segments: list[str] | None
    min_share: float | None
    previous: str | None = None  # the file of an earlier certificate

    def segments_in(self, columns: Sequence[str], model: Model) -> Segments | None:
        """The segments; a name with + is a crossing, unless there is a column of that name."""
        fitted = model.settings.segments
        if self.segments is None and (fitted is None or self.min_share is None):
            if self.min_share is not None:
                raise DataError("--min-share needs --segments COLUMN: add it.")
            return None
        by: list[Any] = list(fitted.by if fitted and not self.segments else ())
        for name in self.segments or ():
            by.append(name if name in columns else tuple(name.split("+")))
        more: dict[str, Any] = {} if self.min_share is None else {"min_share": self.min_share}
        try:
            return Segments(tuple(by), **more)
        except ArgumentError:
            if self.min_share is not None and not 0 < self.min_share <= 1:
                words = f"--min-share must be a number in (0, 1]. Got {self.min_share:g} instead."
                raise DataError(words) from None
            raise DataError("--segments names a column twice, or none.") from None

    def earlier(self, key: bytes | None) -> Certificate | None:
        """The certificate to continue."""
        return None if self.previous is None else open_certificate(self.previous, key)

    def certify(
        self,
        model: Model,
        data: Instances | Partitions,
        columns: Sequence[str],
        previous: Certificate | None,
    ) -> Certificate:
        try:
            return certificate.certify(
                model,
                data,
                confidence=self.confidence,
                max_weight=self.max_weight,
                previous=previous,
                segments=self.segments_in(columns, model),
            )
        except DataError as error:
            words = str(error).replace("the earlier certificate", str(self.previous))
            raise DataError(words, error.faults) from None


def certify_tables(
    model: str,
    tables: list[str],
    asked: Asked,
    key: bytes | None,
) -> tuple[Model, Instances, Certificate]:
    """A model, the data it was judged on, and the certificate."""
    earlier = asked.earlier(key)
    opened = open_files(model, *tables, outcome=True, key=key)
    fitted = opened.model
    with places_in(opened.table, other=asked.previous):
        instances = opened.instances()
        flags = Flags.of(instances)
        flags.check()
        found = asked.certify(fitted, instances, opened.frame.columns, earlier)
    if (words := few_choices(fitted.problem, instances)) is not None:
        say(f"Warning: {words}", err=True)
    warn_of_unseen(fitted, instances)
    warn_of_filled(flags)
    return fitted, instances, found


def certify_folder(
    model: str,
    tables: list[str],
    asked: Asked,
    key: bytes | None,
    scratch: str | None,
) -> tuple[Model, Certificate]:
    """The same for a folder of Parquet files, which need not fit into memory."""
    earlier = asked.earlier(key)
    fitted = open_model(model, key)
    columns = columns_of(fitted)
    source = tables[0] if len(tables) == 1 else _all_files(tables)
    about: dict[str, Any] = {"value_range": fitted.value_range, "scratch": scratch}
    data = Partitions(source, **asdict(columns), **about)
    names = with_propensity_in(columns, [file.path for file in data.files])
    if names != columns:
        data = Partitions(source, **asdict(names), **about)
    first = data.files[0]
    with naming(first):
        check_item_type(fitted, first.path)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = asked.certify(fitted, data, list(parquet_schema(first.path)), earlier)
    flags = _flags_in(data)
    flags.check()
    for one in said:
        say(f"Warning: {printable(str(one.message))}", err=True)
    warn_of_filled(flags)
    return fitted, found


def _flags_in(data: Partitions) -> Flags:
    """The flags of all files, which have been checked; only what is needed is read."""
    flags, names = Flags(), data.columns
    outcome, roles = str(names.outcome), set(names.roles.values())
    for file in data.files if names.propensity is None else ():
        kinds = parquet_schema(file.path)
        nested = kinds[outcome].is_nested()  # then lists have one entry per item
        others = [name for name, kind in kinds.items() if kind.is_nested() == nested]
        others = [name for name in others if name not in roles and flags.may_be(name, kinds[name])]
        if not others:
            continue
        read = read_columns(file.path, [outcome, *others])
        columns = {name: read[name].alias("") for name in read.columns}
        if nested:
            columns = {name: column.explode() for name, column in columns.items()}
        known = columns.pop(outcome).cast(pl.Float64).fill_null(np.nan)
        flags.add(columns.items(), known.to_numpy())
    return flags


def _all_files(tables: list[str]) -> list[str]:
    """The files of some folders, and single ones, in this order."""
    found = [find_files(one) if is_folder(one) else [one] for one in tables]
    return [one if isinstance(one, str) else str(one.path) for some in found for one in some]


def open_certificate(path: str, key: bytes | None) -> Certificate:
    """A certificate that was written; an error names its file."""
    text = read_file(path, "certificate")
    try:
        return Certificate.from_json(text, key)
    except ValueError as error:
        raise DataError(f"{path}: {error}") from None


def answer_of(model: Model, certificate: Certificate) -> Answer:
    """What a certificate says, with the full names of the rules."""
    names = {rule.name: full_name(rule, model.feature_names) for rule in model.rules}
    return Answer(certificate, names)


def shown(answer: Answer, *, err: bool) -> str:
    """What the first screen of the report says, and the values."""
    return f"{printable(answer.text)}\n{values_table(answer, err=err)}"


def values_table(answer: Answer, paper: Estimate | None = None, *, err: bool = False) -> str:
    """The value of the calibrated optimiser, and of all that it is compared with."""
    title = f"{answer.certificate.value.title} on held-out data"
    titles = ("decisions by", title, f"{answer.confidence} interval")
    return drawn(titles, values_of(answer, paper), err=err)


def values_of(answer: Answer, paper: Estimate | None = None) -> list[tuple[str, str, str]]:
    """Labels, values and intervals."""
    write, found, cells = answer.figures, answer.certificate, []
    for name, label in LABELS.items():
        value = paper if name == "paper" else getattr(found, name)
        label += f" ({answer.name(found.best_rule_name)})" if name == "best_rule" else ""
        if name == "oracle" and value is None:  # not all outcomes are known
            cells.append((label, "-", "-"))
        elif value is not None:
            cells.append((label, write.plain(value.mean), write.interval(value._asdict())))
    return cells
