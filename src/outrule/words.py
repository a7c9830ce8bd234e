"""Wording that messages, terminal output and the report share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

MOST_DECIMALS = 12
KEPT = "\n\t\N{NO-BREAK SPACE}"  # characters of ours that do no harm in a page


def count(number: int, noun: str) -> str:
    """A number with its noun: 1 round, 2 patches, no days."""
    return f"{f'{number:,}' if number else 'no'} {noun if number == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """More than one of it: days, cities, boxes."""
    if noun.endswith("y") and noun[-2:-1] not in ("a", "e", "o", "u"):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"


def byte_size(n_bytes: float) -> str:
    """A number of bytes in the unit that fits.

    >>> byte_size(20), byte_size(3_000), byte_size(1_240_000), byte_size(1.5e12)
    ('20 bytes', '3.0 kB', '1.2 MB', '1,500.0 GB')
    """
    for unit, one in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= one:
            return f"{n_bytes / one:,.1f} {unit}"
    return f"{n_bytes:.0f} bytes"


def listed(words: Sequence[str]) -> str:
    """A, b and c."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def round_up(number: float, digits: int = 2) -> float:
    """To so many significant digits, and not below zero; an infinite one stays.

    >>> round_up(0.00351)
    0.0036
    """
    if not 0 < number < math.inf:
        return max(number, 0.0)
    unit = 10.0 ** (math.floor(math.log10(number)) + 1 - digits)
    return float(f"{math.ceil(number / unit - 1e-9) * unit:.{digits}g}")


def figure(number: float, digits: int = 4) -> str:
    """So many significant digits, and large numbers not as 1.5e+04.

    >>> figure(15_000), figure(0.015625)
    ('15,000', '0.01562')
    """
    return f"{float(f'{number:.{digits}g}'):,.15g}"


def percent(share: float) -> str:
    """A share with two significant digits, and never as 1.5e+02 %.

    >>> percent(1.4912), percent(0.0588), percent(12)
    ('150 %', '5.9 %', '1,200 %')
    """
    rounded = float(f"{100 * share:.2g}")
    whole, _, rest = f"{rounded:,.{MOST_DECIMALS}f}".partition(".")
    rest = rest.rstrip("0")
    return f"{whole}.{rest} %" if rest else f"{whole} %"


@dataclass(frozen=True)
class Figures:
    """Writes numbers with so many decimals; ``minus`` is the sign of negative ones."""

    decimals: int
    minus: str = "-"

    @classmethod
    def for_width(cls, width: float, minus: str = "-") -> Figures:
        """No more digits than an interval of this width supports: two of its own.

        >>> Figures.for_width(0.027).plain(0.04283)
        '0.043'
        """
        decimals = 1 - math.floor(math.log10(width)) if 0 < width < math.inf else 4
        return cls(min(max(decimals, 0), MOST_DECIMALS), minus)

    def plain(self, number: float, sign: str = "") -> str:
        rounded = round(number, self.decimals) + 0.0  # no minus zero
        return f"{rounded:{sign},.{self.decimals}f}".replace("-", self.minus)

    def signed(self, number: float) -> str:
        return self.plain(number, "+")

    def down(self, number: float, sign: str = "") -> str:
        """A lower bound, which is never rounded up."""
        unit = 10.0**self.decimals
        return self.plain(math.floor(number * unit + 1e-6) / unit, sign)

    def interval(self, row: Mapping[str, float], sign: str = "") -> str:
        return f"{self.plain(row['lower'], sign)} to {self.plain(row['upper'], sign)}"


def begun(text: str) -> str:
    """A sentence with a large first letter; units such as EUR keep theirs."""
    return text[:1].upper() + text[1:]


def harmless(text: str, keep: str = "") -> str:
    """Names from the data, with escapes for what could steer a terminal or turn round a line."""
    return "".join(
        letter if letter.isprintable() or letter in keep else ascii(letter)[1:-1] for letter in text
    )


def as_html(text: str) -> str:
    """Any text as HTML: what could be markup is escaped, and so is what could turn round a line."""
    return escape(harmless(text, KEPT))
