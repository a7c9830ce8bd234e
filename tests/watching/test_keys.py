"""Keys of batches: what is one, and in which order they are."""

from datetime import date, datetime, timedelta, timezone

import numpy as np
import pytest

from outrule import DataError
from outrule.watching.keys import as_key, check_ascends, in_order, next_key

EAST = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("given", "key"),
    [
        (3, 3),
        (np.int64(3), 3),
        ("17", 17),
        ("-4", -4),
        ("2026-11-16", "2026-11-16"),
        (date(2026, 11, 16), "2026-11-16"),
        ("2026-W47-1", "2026-11-16"),
        (datetime(2026, 11, 16, 8), "2026-11-16T08:00:00"),
        ("2026-11-16 08:00", "2026-11-16T08:00:00"),
        (datetime(2026, 11, 16, 8, tzinfo=EAST), "2026-11-16T06:00:00+00:00"),
        ("2026-11-16T08:00+02:00", "2026-11-16T06:00:00+00:00"),
    ],
)
def test_a_key_is_stored_in_one_way(given, key):
    assert as_key(given) == key
    assert as_key(as_key(given)) == key


@pytest.mark.parametrize("given", [1.5, True, None, "monday", "", "2026-13-01", 2**63])
def test_anything_else_is_no_key(given):
    with pytest.raises(DataError, match="neither a whole number nor an ISO date or time"):
        as_key(given)


@pytest.mark.parametrize(
    ("key", "last"),
    [(10, 9), ("2026-11-16", "2026-02-28"), ("2026-11-16T10:00:00", "2026-11-16T09:30:00")],
)
def test_keys_ascend_by_their_type_and_not_as_strings(key, last):
    check_ascends(key, last)
    check_ascends(key, None)
    for later in (key, last):
        with pytest.raises(DataError, match="does not come after"):
            check_ascends(last, later)


@pytest.mark.parametrize(
    ("key", "last"),
    [
        (20261116, "2026-11-15"),
        ("2026-11-16", "2026-11-15T00:00:00"),
        ("2026-11-16T10:00:00", "2026-11-15T00:00:00+00:00"),
    ],
)
def test_keys_of_two_kinds_cannot_be_compared(key, last):
    with pytest.raises(DataError, match="must be of one kind"):
        check_ascends(key, last)
    with pytest.raises(DataError, match="must be of one kind"):
        in_order([last, key])


def test_batches_without_keys_are_numbered():
    assert (next_key(None), next_key(7)) == (1, 8)
    with pytest.raises(DataError, match="give every batch a key"):
        next_key("2026-11-16")
