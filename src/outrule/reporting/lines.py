"""Line charts: scales and paths enter; a figure leaves whose lines stretch, but not its text."""

from __future__ import annotations

from collections.abc import Iterable

from outrule.reporting.markup import text
from outrule.reporting.scale import Scale

SIDE = 1000  # of the square that is stretched to the width there is


def path(kind: str, points: Iterable[tuple[float, float]], *, dotted: bool = False) -> str:
    """A line through points whose coordinates are shares of the width and of the height."""
    places = [f"{SIDE * x:.1f} {SIDE - SIDE * y:.1f}" for x, y in points]
    drawn = "".join(f"M{place}h0" for place in places) if dotted else f"M{'L'.join(places)}"
    return f'<path class="{kind}" d="{drawn}"/>'


def level(kind: str, share: float) -> str:
    """A line from the left to the right."""
    return path(kind, [(0.0, share), (1.0, share)])


def chart(
    title: str,
    words: str,
    across: Scale,
    up: Scale,
    drawn: Iterable[str],
    attributes: str = 'class="lines"',
) -> str:
    """The figure; ``words`` say what it shows to those who do not see it."""
    ticks = up.ticks()
    grid = "".join(level("grid", tick.share) for tick in ticks)
    labels = "".join(tick.at("bottom") for tick in ticks)
    width = max(len(tick.label) for tick in ticks)
    below = "".join(tick.at("left") for tick in across.ticks(whole=True))  # rounds and ranks
    return (
        f"<figure {attributes}>\n<figcaption>{text(title)}</figcaption>\n"
        f'<div class="plot" role="img" aria-label="{text(words)}">'
        f'<div class="up" style="width:{width + 1}ch">{labels}</div>'
        f'<div class="canvas"><svg viewBox="0 0 {SIDE} {SIDE}" preserveAspectRatio="none">'
        f'{grid}{"".join(drawn)}</svg></div><div class="across">{below}</div></div>\n</figure>'
    )
