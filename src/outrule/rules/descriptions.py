"""What a rule does, in words or in its own text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from outrule.rules.rules import Fixed, Multiplier, Rule

LONGEST = 120  # characters of a description; text rules are shown whole
FEW = 3  # items that a multiplier's description names, and entries that are listed
NUMBERED = re.compile(r"multiplier (\d+|[0-9a-f]{8})")  # names that were not given by a person


def describe(rule: Rule, items: Sequence[Any] | None = None) -> str:
    """What the rule does; ``items`` are the names of an array's columns, where they have any.

    >>> describe(Multiplier({"A": 0.5, "B": 1, "C": 0.25, "D": 1}))
    'A x0.5, C x0.25, others x1'
    """
    if isinstance(rule, Multiplier):
        return shorten(_factors(rule, items))
    if isinstance(rule, Fixed):
        return shorten(f"always item {rule.item}")
    function = getattr(rule, "function", rule)
    if callable(function):
        return shorten(f"function {getattr(function, '__qualname__', type(function).__name__)}")
    return function if isinstance(function, str) else as_in_spec(function)


def full_name(rule: Rule, items: Sequence[Any] | None = None) -> str:
    """The name of a rule, with what it multiplies where the name is only a number."""
    if isinstance(rule, Multiplier) and NUMBERED.fullmatch(rule.name):
        return f"{rule.name}: {describe(rule, items)}"
    return rule.name


def as_in_spec(thing: Any) -> str:
    """A problem or a setting as a spec says it, with what is not the default.

    >>> import outrule
    >>> as_in_spec(outrule.Assignment("rider", "driver"))
    'assignment, rows = rider, columns = driver'
    """
    words = [re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(thing).__name__).lower()]
    for name, field in getattr(thing, "__dataclass_fields__", {}).items():
        value = getattr(thing, name)
        value = getattr(value, "__qualname__", value)  # of a function
        if isinstance(value, str | int | float | tuple) and value != field.default:
            if isinstance(value, tuple) and len(value) > FEW:
                words.append(f"{len(value):,} {name}")
            else:
                words.append(f"{name} = {value}")
    return shorten(", ".join(words))


def shorten(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _factors(rule: Multiplier, items: Sequence[Any] | None) -> str:
    """The items whose factors are furthest from the most common one, and the others together."""
    names, factors = items, rule.vector
    if isinstance(factors, dict):
        names, factors = list(factors), list(factors.values())
    elif names is None or len(names) != len(factors):
        names = [f"item {number}" for number in range(len(factors))]
    pairs = [(str(name), float(factor)) for name, factor in zip(names, factors, strict=True)]
    counts = Counter(factor for _, factor in pairs)
    # Of several, the one closest to 1.
    common = min(counts, key=lambda factor: (-counts[factor], abs(factor - 1), -factor))
    unusual = [number for number, (_, factor) in enumerate(pairs) if factor != common]
    if not unusual:
        return f"every item x{common:g}"
    unusual = sorted(unusual, key=lambda number: -abs(pairs[number][1] - common))[:FEW]
    others = sorted({pairs[n][1] for n in range(len(pairs)) if n not in unusual})
    if len(pairs) - len(unusual) == 1:  # it has a name too
        unusual, others = list(range(len(pairs))), []
    shown = [f"{pairs[number][0]} x{pairs[number][1]:g}" for number in sorted(unusual)]
    if len(others) == 1:
        shown.append(f"others x{others[0]:g}")
    elif others:
        number = len(pairs) - len(unusual)
        shown.append(f"{number:,} others x{others[0]:g} to x{others[-1]:g}")
    return ", ".join(shown)
