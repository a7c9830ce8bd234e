"""The files of a command: models and tables are opened."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from outrule.calibration.piecewise import POOLED
from outrule.cli.options import Unseen, check_output
from outrule.cli.talking import printable, say
from outrule.data.addresses import Place
from outrule.data.filled import Flags
from outrule.data.instances import Instances
from outrule.data.nesting import inner_type, is_nested
from outrule.data.origin import ColumnNames
from outrule.data.table_files import (
    TableFile,
    open_table,
    parquet_schema,
    read_columns,
    stack,
    table_kind,
)
from outrule.data.tables import without
from outrule.errors import DataError
from outrule.files import STANDARD, is_address, is_folder, is_special
from outrule.model.codec import FunctionNeededError, load_model
from outrule.model.documents import read_key
from outrule.model.model import Model, unseen_words
from outrule.rules.rules import Fixed, Multiplier
from outrule.types import Integers

PROPENSITY = "propensity"  # the column that `outrule decide --explore` adds


def check_table(output: str, inputs: Sequence[str | None], option: str = "-o") -> None:
    """Raise an error for a table that cannot be written, or whose format is not known."""
    check_output(output, inputs, is_table=True, option=option)
    if output != STANDARD and not is_special(output) and not is_address(output):
        table_kind(output)


def open_key(path: str | None) -> bytes | None:
    """The bytes of a key file, if there is one."""
    return None if path is None else read_key(path)


@dataclass(frozen=True)
class Opened:
    """A model and a table, read as in training."""

    model: Model
    table: TableFile
    names: ColumnNames
    frame: pl.DataFrame  # what rules may see

    def instances(
        self,
        rows: Integers | None = None,
        *,
        unseen: Unseen = Unseen.KEEP,
        original: bool = False,
    ) -> Instances:
        """The instances of some rows; ``original``: for a decision by their predictions alone."""
        frame = self.frame
        if rows is not None and len(rows) < frame.height:
            frame = frame[rows]
        names = replace(self.names, start=None) if original else self.names
        found = Instances.from_table(frame, **asdict(names), value_range=self.model.value_range)
        new = self.model.unseen_items(found)
        if new and unseen is Unseen.ERROR:
            raise DataError(f"{unseen_words(new)} Use --unseen keep to go on.")
        if original:
            self.model.problem.check_data(found)
            return found
        return self.model.instances(found)

    def groups(self) -> Integers:
        """The first row of every row's instance; a row without an instance is alone."""
        keys = pl.DataFrame({"key": self.frame[self.names.instance]}).with_row_index("row")
        first = keys.select(pl.col("row").first().over("key"))["row"].to_numpy().astype(np.int64)
        alone = keys["key"].is_null().to_numpy()
        return np.where(alone, np.arange(len(first)), first)


def open_files(path: str, *tables: str, outcome: bool, key: bytes | None = None) -> Opened:
    """A model file, and a table for it; or some tables, one below the other."""
    return open_tables(open_model(path, key), *tables, outcome=outcome)


def open_tables(model: Model, *tables: str, outcome: bool) -> Opened:
    """The same for a model that is open already."""
    names = columns_of(model)
    read = stack([open_rows(path, names) for path in tables], names.instance)
    kept = read.frame
    if outcome:
        names = with_propensity(names, kept)
    else:  # it is not needed to decide, and no rule may see it
        kept = without(kept, *names.hidden)
        names = replace(names.before_decision(), weight=None, cluster=None)
    with places_in(read):
        return Opened(model, read, names, _items_as_trained(kept, names.item, model))


def columns_of(model: Model) -> ColumnNames:
    """The columns of a model that ``open_model`` has opened."""
    assert model.columns is not None
    return model.columns


def with_propensity(names: ColumnNames, frame: pl.DataFrame) -> ColumnNames:
    """Where outcomes are null, the propensities of `outrule decide --explore` beside them."""
    if _is_explored(names, frame.columns) and has_nulls(frame[str(names.outcome)]):
        return _explored(names, frame.columns)
    return names


def with_propensity_in(names: ColumnNames, paths: Sequence[Place]) -> ColumnNames:
    """The same for a table in many files, of which one with a null is enough."""
    for path in paths:
        if not _is_explored(names, parquet_schema(path)):
            return names
        if has_nulls(read_columns(path, [str(names.outcome)])[str(names.outcome)]):
            return _explored(names, parquet_schema(path))
    return names


def _is_explored(names: ColumnNames, known: Collection[str]) -> bool:
    """Whether it has that column, and not the one that the model was fitted with."""
    own = names.propensity
    lacks_own = own is None or (isinstance(own, str) and own not in known)
    return lacks_own and PROPENSITY in known and names.outcome in known


def _explored(names: ColumnNames, known: Collection[str]) -> ColumnNames:
    """With those exact propensities; without a column of the log's that is not there."""
    observed = names.observed if names.observed in known else None
    return replace(names, propensity=PROPENSITY, observed=observed, propensity_estimated=False)


def has_nulls(column: pl.Series) -> bool:
    """Whether values are missing, also in lists."""
    column = column.alias("")  # a name like ^x$ would be taken for a pattern
    return bool((column.explode() if is_nested(column) else column).null_count())


def open_rows(path: str, names: ColumnNames) -> TableFile:
    """A table that knows its lines; names in text files are not read as numbers."""
    if is_folder(path) and not is_address(path):
        raise DataError(f"{path} is a folder: this command needs one table. Name a file.")
    identifiers = (names.instance, names.item, names.cluster)
    return open_table(path, [name for name in identifiers if name is not None])


def name_places(table: TableFile, words: str, rows: Integers | None = None) -> str:
    """Words that speak of lines of the file; ``rows`` are those that the table was cut down to."""

    def where(row: str) -> str:
        return table.where(int(row) if rows is None else int(rows[int(row)]))

    words = re.sub(r"row (\d+) of the table", lambda found: where(found[1]), words)
    return re.sub(
        r"\brows \[([\d, ]+)\]",
        lambda found: "; ".join(where(row) for row in found[1].split(", ")),
        words,
    )


@contextmanager
def places_in(
    table: TableFile, rows: Integers | None = None, other: str | None = None
) -> Iterator[None]:
    """Errors speak of lines of the file; they name it, unless they are about an ``other`` one."""
    try:
        yield
    except DataError as error:
        words = name_places(table, str(error), rows)
        known = [part.name for part in table.parts or (table,)] + ([other] if other else [])
        if not words.startswith("--") and all(name not in words for name in known):
            words = f"{table.name}: {words}"
        raise DataError(words, error.faults) from None


def warn_of_unseen(model: Model, *some: Instances) -> None:
    """One warning about the items that training did not have."""
    warn_of_items([item for one in some for item in model.unseen_items(one)])


def warn_of_filled(flags: Flags) -> None:
    """A warning for every column beside which outcomes look filled in."""
    for words in flags.warnings():
        say(f"Warning: {printable(words)}", err=True)


def warn_of_items(unseen: Iterable[Any]) -> None:
    """The same for items, of which each is named once."""
    if found := list(dict.fromkeys(unseen)):
        say(f"Warning: {printable(unseen_words(found))}", err=True)


def read_as_trained(model: Model, frame: pl.DataFrame, names: ColumnNames) -> Instances:
    """The instances of a table, whose columns have these names."""
    frame = _items_as_trained(frame, names.item, model)
    instances = Instances.from_table(frame, **asdict(names), value_range=model.value_range)
    return model.instances(instances)


def open_model(path: str, key: bytes | None = None) -> Model:
    """A model that knows its columns and needs no Python function."""
    try:
        model = load_model(path, key=key)
    except FunctionNeededError as error:
        raise DataError(
            f"{path} needs the Python function of {error.name!r}, which the command line does not "
            "have: use the model from Python, or write the rule as an expression and fit again."
        ) from None
    if model.columns is None:
        raise DataError(
            f"{path} was fitted on arrays, which have no column names: fit it again on a table, "
            "or use it from Python."
        )
    return model


def _items_as_trained(frame: pl.DataFrame, name: str | None, model: Model) -> pl.DataFrame:
    """Items of the type that the model knows: text files do not say whether 7 is a number."""
    if name is None or name not in frame.columns:
        return frame
    known: list[object] = [item for item in model.isotonic.curves if item is not POOLED]
    for rule in model.rules:
        if isinstance(rule, Multiplier) and isinstance(rule.vector, dict):
            known.extend(rule.vector)
        elif isinstance(rule, Fixed):
            known.append(rule.item)
    column, trained_text = frame[name], all(isinstance(item, str) for item in known)
    dtype = inner_type(column)
    if known and trained_text and dtype.is_integer():
        text = pl.List(pl.String) if is_nested(column) else pl.String
        return frame.with_columns(column.cast(text))  # a Series: its name is no pattern
    is_text = dtype in (pl.String, pl.Categorical, pl.Enum)
    if known and is_text != trained_text and column.null_count() < len(column):
        number = isinstance(known[0], int | float)
        words = "text" if trained_text else "numbers" if number else f"{type(known[0]).__name__}s"
        raise _unlike_training(name, dtype, words)
    return frame


def check_item_type(model: Model, path: Place) -> None:
    """Raise for a Parquet file whose items are of another type than in training."""
    name = columns_of(model).item
    if name is None or name not in parquet_schema(path):
        return
    items = read_columns(path, [name]).head(1)
    if items.height and _items_as_trained(items, name, model).schema != items.schema:
        raise _unlike_training(name, items.dtypes[0], "text")


def _unlike_training(name: str, dtype: pl.DataType, trained: str) -> DataError:
    return DataError(
        f"the item column {name!r} holds {dtype}, but held {trained} when the model was fitted, so "
        "that no item would be recognised. Write the items as in training."
    )
