"""The names of the items in a wide data frame: those of later frames must be those of ``fit``."""

from __future__ import annotations

import warnings
from typing import Any

from outrule.data.arrays import library_of
from outrule.errors import DataError

# Messages end in scikit-learn's words. Its `validate_data` needs an estimator, which certificates
# and reports do not have.


def feature_names(values: Any) -> tuple[str, ...] | None:
    """The names of a frame's columns, where they are strings; None otherwise, as for an array."""
    names = [] if library_of(values) is None else list(values.columns)
    n_strings = sum(isinstance(name, str) for name in names)
    if 0 < n_strings < len(names):
        raise DataError(
            "some columns of the predictions are named by strings, some are not: use strings."
        )
    return tuple(names) if n_strings else None


def check_features(
    values: Any, n_items: int, expected_n: int, expected: tuple[str, ...] | None, owner: str
) -> None:
    """The items must be as many as in ``fit``, and a frame must have the same columns."""
    names = None if expected is None else feature_names(values)
    words = "the columns of the predictions are not those of fit"
    if n_items != expected_n:
        words = f"predictions have {n_items} items, those of fit had {expected_n}"
    if names is not None and expected is not None and names != expected:
        raise DataError(f"{words}: {_difference(names, expected)}")
    if n_items != expected_n:
        raise DataError(
            f"{words}: X has {n_items} features, but {owner} is expecting {expected_n} features "
            "as input."
        )
    if expected is not None and names is None:
        warnings.warn(
            f"X does not have valid feature names, but {owner} was fitted with feature names: "
            "items are taken in their order.",
            stacklevel=6,
        )


def _difference(names: tuple[str, ...], expected: tuple[str, ...]) -> str:
    lines = ["The feature names should match those that were passed during fit."]
    unseen, missing = set(names).difference(expected), set(expected).difference(names)
    if unseen:
        lines += ["Feature names unseen at fit time:", *_some(unseen)]
    if missing:
        lines += ["Feature names seen at fit time, yet now missing:", *_some(missing)]
    if not unseen and not missing:
        lines.append("Feature names must be in the same order as they were in fit.")
    return "\n".join([*lines, ""])


def _some(names: set[str], most: int = 5) -> list[str]:
    shown = [f"- {name}" for name in sorted(names)[:most]]
    return shown if len(names) <= most else [*shown, "- ..."]
