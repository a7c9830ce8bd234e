"""Scales with round tick labels, marks on them, and line charts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from outrule.words import as_html

MINUS = "\N{MINUS SIGN}"
PER_CENT = "\N{NO-BREAK SPACE}%"
TIMES = "\N{MULTIPLICATION SIGN}"
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
LARGE = 6  # labels from 10**6 on are written as a multiple of a power of ten
EDGE = 0.1  # labels in this share of the scale are aligned with its end, so as not to stick out
MARGIN = 0.04  # share of the range left free on either side
SIDE = 1000  # of the square that is stretched to the width of the page


class Tick(NamedTuple):
    """A label at a share of the scale; minor ones are left out on narrow screens."""

    label: str
    share: float
    minor: bool

    def at(self, side: str) -> str:
        """The label as HTML, placed from the left or from the bottom."""
        words = {"minor": self.minor, "start": self.share < EDGE, "end": self.share > 1 - EDGE}
        kind = css_class(" ".join(word for word, holds in words.items() if holds))
        return f'<i{kind} style="{side}:{per_cent(self.share)}%">{self.label}</i>'


@dataclass(frozen=True)
class Scale:
    """A linear scale from ``low`` (share 0) to ``high`` (share 1), and marks on it as SVG."""

    low: float
    high: float

    @classmethod
    def over(cls, numbers: Iterable[float], margin: float = MARGIN) -> Scale:
        """The scale that all these numbers fit on."""
        shown = list(numbers)
        low, high = min(shown), max(shown)
        margin *= high - low
        if high - low <= 1e-9 * max(abs(low), abs(high)):  # one number: any scale around it will do
            margin = abs(high) / 2 or 1.0
        return cls(low - margin, high + margin)

    @classmethod
    def from_zero(cls, numbers: Iterable[float]) -> Scale:
        """The scale that these numbers and zero fit on, so that lengths are in proportion."""
        shown = [0.0, *numbers]
        low, high = min(shown), max(shown)
        margin = MARGIN * (high - low) or 1.0
        return cls(low - margin if low < 0 else 0.0, high + margin if high > 0 or not low else 0.0)

    def share(self, number: float) -> float:
        return (number - self.low) / (self.high - self.low)

    def place(self, number: float) -> str:
        return per_cent(self.share(number))

    def ticks(self, most: int = 5, *, whole: bool = False) -> list[Tick]:
        """About ``most`` round numbers; every other one is minor, zero never."""
        step = _round_step((self.high - self.low) / most)
        step = max(step, 1.0) if whole else step
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        power, unit = math.floor(math.log10(max(abs(self.low), abs(self.high)))), ""
        if power >= LARGE:
            unit = f"{TIMES}10{str(power).translate(RAISED)}"
        else:
            power = 0
        decimals = max(0, -math.floor(math.log10(step) - power + 1e-9))
        return [
            Tick(
                f"{n * step / 10.0**power:,.{decimals}f}".replace("-", MINUS) + (unit if n else ""),
                self.share(n * step),
                minor=n % 2 != 0 and last - first > 2,
            )
            for n in range(first, last + 1)
        ]

    def interval(self, row: Mapping[str, float], y: int = 50) -> str:
        """The mean as a dot on a line from the lower to the upper bound, ``y`` % from the top."""
        return self.line(row["lower"], row["upper"], y=y) + self.dot(row["mean"], y=y)

    def line(self, start: float, end: float, kind: str = "", y: int = 50) -> str:
        ends = f'x1="{self.place(start)}%" x2="{self.place(end)}%"'
        return f'<line{css_class(kind)} {ends} y1="{y}%" y2="{y}%"/>'

    def dot(self, number: float, kind: str = "", y: int = 50) -> str:
        return f'<circle{css_class(kind)} cx="{self.place(number)}%" cy="{y}%" r="4"/>'

    def judged(self, number: float, verdict: str) -> str:
        """A filled dot for a pass, a hollow one where data are too few, a square for a fail."""
        if verdict != "fail":
            return self.dot(number, "" if verdict == "pass" else "hollow")
        # A separate SVG, so that it keeps its shape at any width.
        place = f'x="{self.place(number)}%" y="50%"'
        return f'<svg {place}><rect x="-4" y="-4" width="8" height="8"/></svg>'

    def bar(self, number: float) -> str:
        """A bar from zero."""
        start, end = sorted((self.share(0.0), self.share(number)))
        ends = f'x="{per_cent(start)}%" width="{per_cent(end - start)}%"'
        return f'<rect class="bar" {ends} y="20%" height="60%"/>'


def css_class(kind: str) -> str:
    return f' class="{kind.strip()}"' if kind else ""


def per_cent(share: float) -> str:
    """A share in per cent, without the sign, as short as possible."""
    return f"{100 * share:.2f}".rstrip("0").rstrip(".")


def _round_step(least: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is not below ``least``."""
    power = 10.0 ** math.floor(math.log10(least))
    return float(next(power * times for times in (1, 2, 5, 10) if power * times >= least))


def path(kind: str, points: Iterable[tuple[float, float]], *, dotted: bool = False) -> str:
    """A line through points, given as shares of the width and of the height."""
    places = [f"{SIDE * x:.1f} {SIDE - SIDE * y:.1f}" for x, y in points]
    drawn = "".join(f"M{place}h0" for place in places) if dotted else f"M{'L'.join(places)}"
    return f'<path class="{kind}" d="{drawn}"/>'


def level(kind: str, share: float) -> str:
    return path(kind, [(0.0, share), (1.0, share)])


def chart(
    title: str,
    words: str,
    axes: tuple[str, str],
    scales: tuple[Scale, Scale],
    drawn: Iterable[str],
    attributes: str = "",
    *,
    below: Sequence[Tick] | None = None,
    beside: Sequence[Tick] | None = None,
) -> str:
    """A figure over whole numbers, described by ``words``; its lines stretch, its text does not.

    ``axes`` are the titles of the scales across and up; ``below`` and ``beside`` are ticks to write
    instead of those of the scales.
    """
    across, up = scales
    ticks = up.ticks() if beside is None else beside
    grid = "".join(level("grid", tick.share) for tick in ticks)
    labels = "".join(tick.at("bottom") for tick in ticks)
    width = max(len(tick.label) for tick in ticks)
    under = "".join(tick.at("left") for tick in below or across.ticks(whole=True))
    below_title, up_title = (f'<span class="name">{as_html(name)}</span>' for name in axes)
    return (
        f"<figure{attributes}>\n<figcaption>{as_html(title)}</figcaption>\n{up_title}"
        f'<div class="plot" role="img" aria-label="{as_html(words)}">'
        f'<div class="up" style="width:{width + 1}ch">{labels}</div>'
        f'<div class="canvas"><svg viewBox="0 0 {SIDE} {SIDE}" preserveAspectRatio="none">'
        f'{grid}{"".join(drawn)}</svg></div><div class="across">{under}{below_title}</div></div>\n'
        "</figure>"
    )
