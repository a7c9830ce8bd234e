"""Scales: numbers enter; places in per cent of a width, and round numbers to mark them, leave."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

MINUS = "\N{MINUS SIGN}"
TIMES = "\N{MULTIPLICATION SIGN}"
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
LARGE = 6  # the power of ten from which labels are written with it
EDGE = 0.1  # of the scale, where a label in the middle of its mark would stand out
ROOM = 0.04  # of the range, left free on either side


def per_cent(share: float) -> str:
    """A share in per cent, without the sign, as short as it can be."""
    return f"{100 * share:.2f}".rstrip("0").rstrip(".")


class Tick(NamedTuple):
    """A number to mark; where there is little room, minor ones are left out."""

    number: float
    label: str
    share: float  # of the scale
    minor: bool

    def at(self, side: str) -> str:
        """The label as HTML, measured from the left or the bottom; at an end it leans inwards."""
        words = {"minor": self.minor, "start": self.share < EDGE, "end": self.share > 1 - EDGE}
        kinds = " ".join(word for word, holds in words.items() if holds)
        kind = f' class="{kinds}"' if kinds else ""
        return f'<i{kind} style="{side}:{per_cent(self.share)}%">{self.label}</i>'


@dataclass(frozen=True)
class Scale:
    """A linear scale from ``low`` (0 per cent) to ``high`` (100 per cent)."""

    low: float
    high: float

    @classmethod
    def over(cls, numbers: Iterable[float], room: float = ROOM) -> Scale:
        """The scale that all these numbers fit on."""
        shown = list(numbers)
        low, high = min(shown), max(shown)
        room *= high - low
        if high - low <= 1e-9 * max(abs(low), abs(high)):  # one number: any scale around it will do
            room = abs(high) / 2 or 1.0
        return cls(low - room, high + room)

    def place(self, number: float) -> str:
        """Where a number stands, in per cent."""
        return per_cent(self.share(number))

    def share(self, number: float) -> float:
        """Where a number stands, from 0 to 1."""
        return (number - self.low) / (self.high - self.low)

    def ticks(self, most: int = 5, *, whole: bool = False) -> list[Tick]:
        """Round numbers on the scale, about so many; every other one is minor, zero is not."""
        step = _round_step((self.high - self.low) / most)
        step = max(step, 1.0) if whole else step
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        power = math.floor(math.log10(max(abs(self.low), abs(self.high))))
        power, unit = (
            (power, f"{TIMES}10{str(power).translate(RAISED)}") if power >= LARGE else (0, "")
        )
        decimals = max(0, -math.floor(math.log10(step) - power + 1e-9))
        return [
            Tick(
                n * step,
                f"{n * step / 10.0**power:,.{decimals}f}".replace("-", MINUS) + (unit if n else ""),
                self.share(n * step),
                minor=n % 2 != 0 and last - first > 2,
            )
            for n in range(first, last + 1)
        ]


def _round_step(least: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is not below ``least``."""
    power = 10.0 ** math.floor(math.log10(least))
    return float(next(power * times for times in (1, 2, 5, 10) if power * times >= least))
