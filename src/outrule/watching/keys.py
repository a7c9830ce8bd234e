"""Keys of batches: whole numbers, ISO dates or ISO times, which must ascend."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime
from numbers import Integral
from typing import Any

from outrule.errors import DataError

Key = int | str  # as it is stored: dates and times in ISO format, zoned times in UTC
LARGEST = 2**63


def as_key(given: Any) -> Key:
    """A key as it is stored, from a number, a date, a time, or the text of one.

    Examples
    --------
    >>> as_key("17"), as_key("2026-11-16"), as_key("2026-11-16T18:00+01:00")
    (17, '2026-11-16', '2026-11-16T17:00:00+00:00')
    """
    if isinstance(given, str):
        given = _parse(given.strip())
    if isinstance(given, Integral) and not isinstance(given, bool) and abs(int(given)) < LARGEST:
        return int(given)
    if isinstance(given, datetime):
        plain = datetime.fromisoformat(given.isoformat())  # pandas' time stamps are a subclass
        return (plain if plain.tzinfo is None else plain.astimezone(UTC)).isoformat()
    if isinstance(given, date):
        return given.isoformat()
    raise DataError(
        f"the batch key {given!r} is neither a whole number nor an ISO date or time, such as "
        "2026-11-16 or 2026-11-16T18:00."
    )


def check_ascends(key: Key, last: Key | None) -> None:
    """Raise where a key is of another kind than the last one, or does not come after it."""
    if last is None:
        return
    _check_kinds(key, last)
    if not _order(key) > _order(last):
        raise DataError(
            f"batch {key} does not come after {last}, the last one counted. Batches are counted in "
            "the order of their decisions: pass them in that order."
        )


def in_order(keys: Iterable[Key]) -> list[Key]:
    """Keys of one kind, the first first."""
    found = list(keys)
    for key in found[1:]:
        _check_kinds(key, found[0])
    return sorted(found, key=_order)


def _check_kinds(one: Key, other: Key) -> None:
    if _kind(one) != _kind(other):
        raise DataError(
            f"the batch key {one} is {_kind(one)}, and {other} is {_kind(other)}. The keys of a "
            "watch must be of one kind."
        )


def next_key(last: Key | None) -> int:
    """The number of a batch that comes without a key."""
    if isinstance(last, str):
        raise DataError(
            f"the batch has no key, and the one before has the key {last}: give every batch a key."
        )
    return 1 if last is None else last + 1


def _order(key: Key) -> Any:
    return _parse(key) if isinstance(key, str) else key


def _kind(key: Key) -> str:
    value = _order(key)
    if isinstance(value, int):
        return "a whole number"
    if not isinstance(value, datetime):
        return "a date"
    return "a time" if value.tzinfo is None else "a time with a zone"


def _parse(text: str) -> Any:
    """A number, a date or a time; the text itself where it is none of them."""
    if re.fullmatch(r"-?[0-9]{1,19}", text):
        return int(text)
    for kind in (date, datetime):
        try:
            return kind.fromisoformat(text)
        except ValueError:
            continue
    return text
