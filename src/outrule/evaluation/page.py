"""The page: results, judged claims and figures enter; one HTML document leaves, to be read alone.

It loads nothing but the figures beside it, and needs neither a network nor scripts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from outrule.evaluation.claims import CONFIRMED, DEPENDS, MEASURED, NOT_CONFIRMED, NOT_RUN, Claim
from outrule.evaluation.figures import Figure
from outrule.evaluation.reading import fraction
from outrule.evaluation.tables import Results, as_plain

TITLE = "The evaluation of “Multicalibration Yields Better Matchings”, reproduced"
ABSTRACT = (
    "A predictor gives every item a weight, and an optimiser decides on these predictions. A "
    "hand-written rule, which scales the predictions before it decides, can do better than the "
    "optimiser. The paper's loop looks for decisions whose outcomes differ from their "
    "predictions, and patches the predictions until it finds none; then no rule should do better "
    "than the plain optimiser. Compared here, on synthetic worlds, are the optimiser on the "
    "original predictions, the best rule, the optimiser on the patched predictions, and the "
    "optimiser that knows the outcomes."
)
READING = {
    "Utility gap": "Value of the optimiser on the patched predictions, minus the value of the "
    "rule that is best on the test instances. The theory promises at least -ε; above zero the "
    "optimiser does better than every rule.",
    "Utility improvement": "The same value, minus the value of the optimiser on the original "
    "predictions. In one world it differs from the gap by a constant, so both are axes of the "
    "same lines.",
    "ε": "In every round a run patches the largest violation above its tolerance. Theorem 3.1 of "
    "the paper asks for a tolerance of ε/2, and runs are named after this ε. The paper's worked "
    "examples take a tolerance of ε instead. A run depends on its tolerance alone: to read a "
    "figure in that way, look up twice the ε.",
    "Brief and converged": "How the predictor was trained: for 1,000 steps of gradient descent, "
    "or until it is the best linear predictor. In the problem of rejection, the brief one is "
    "overconfident and the converged one is Bayes' own.",
    "Bars": "From the smallest to the largest over seeds, each of which is a world of its own; "
    "with one seed, a standard error over test instances up and down. Bars of different lines "
    "stand beside each other so as not to overlap.",
}
SIGNS = {
    CONFIRMED: "yes",
    NOT_CONFIRMED: "no",
    DEPENDS: "mixed",
    MEASURED: "other",
    NOT_RUN: "other",
}
COLUMNS = {  # by name: title, and how its numbers are written
    "problem": ("problem", ""),
    "n_items": ("m", ","),
    "regime": ("predictor", ""),
    "seed": ("seed", "d"),
    "n_rules": ("rules", ","),
    "plain": ("plain optimiser", ".4f"),
    "best_rule": ("best rule", ".4f"),
    "oracle": ("oracle", ".4f"),
    "squared_error": ("squared error", ".4f"),
    "seconds": ("seconds", ",.1f"),
}
STYLE = """
:root { color-scheme: light dark; --line: #ccc; --soft: #666; --yes: #17692f; --no: #a8201a;
  --mixed: #8a5a00; }
body { margin: 0 auto; padding: 1rem; max-width: 64rem; font: 1rem/1.5 system-ui, sans-serif; }
p, dd, figcaption { max-width: 44rem; }
h1 { font-size: 1.6rem; line-height: 1.25; }
h2 { margin-top: 2.5rem; font-size: 1.25rem; }
table { border-collapse: collapse; font-size: .875rem; }
caption { text-align: left; color: var(--soft); padding-bottom: .5rem; }
tbody th { font-weight: inherit; }
.claims th { width: 30%; }
th, td { border-bottom: 1px solid var(--line); padding: .4rem .6rem; text-align: left;
  vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.wide { overflow-x: auto; }
.source { color: var(--soft); }
.verdict { font-weight: 600; }
.yes { color: var(--yes); } .no { color: var(--no); } .mixed { color: var(--mixed); }
.other { color: var(--soft); }
figure { margin: 2rem 0; }
figure img { display: block; max-width: 100%; height: auto; background: #fff; padding: .5rem;
  box-sizing: border-box; border-radius: .25rem; }
figcaption { margin-top: .5rem; font-size: .875rem; }
dt { font-weight: 600; } dd { margin: 0 0 .75rem; overflow-wrap: anywhere; }
@media (prefers-color-scheme: dark) {
  :root { --line: #444; --soft: #a5a5a5; --yes: #6cc886; --no: #ff8f87; --mixed: #e3b04b; }
}
@media (max-width: 44rem) {
  .claims th { width: auto; }
  .claims thead { position: absolute; left: -100vw; }
  .claims tr, .claims td, .claims th { display: block; border: 0; padding: .1rem 0; }
  .claims tr { border-bottom: 1px solid var(--line); padding: .6rem 0; }
}
@media print {
  :root { color-scheme: light; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  figure, tr { break-inside: avoid; }
  h2 { break-after: avoid; }
  figure img { padding: 0; max-height: 88vh; }
}
"""


def render(results: Results, claims: Sequence[Claim], figures: Sequence[Figure]) -> str:
    """Write the page; links to figures are relative, to files beside it."""
    body = [
        f"<h1>{_text(TITLE)}</h1>",
        f"<p>{_text(ABSTRACT)}</p>",
        _section("claims", "What the paper says, and what was measured", _claims(claims)),
        _section("reading", "How to read the figures", _terms(READING)),
        _section("figures", "Figures", "\n".join(map(_figure, figures)) or "<p>None.</p>"),
        _section("worlds", "Worlds", _worlds(results)),
        _section("settings", "Settings", _terms(_settings(results))),
        _section("machine", "Versions, machine and time", _terms(_provenance(results))),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(TITLE)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(body)
        + "\n</main>\n</body>\n</html>\n"
    )


def _text(value: object) -> str:
    return escape(str(value))


def _section(name: str, title: str, content: str) -> str:
    return f'<section id="{name}">\n<h2>{_text(title)}</h2>\n{content}\n</section>'


def _claims(claims: Sequence[Claim]) -> str:
    rows = "\n".join(map(_claim, claims))
    head = "".join(f'<th scope="col">{name}</th>' for name in ("Claim", "Verdict", "Measured"))
    tally = Counter(claim.verdict for claim in claims)
    counts = ", ".join(f"{tally[verdict]} {verdict}" for verdict in SIGNS if tally[verdict])
    return (
        f'<table class="claims">\n<caption>{_text(counts or "none")}.</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>"
    )


def _claim(claim: Claim) -> str:
    measured = "".join(
        f"<div><em>{_text(regime)}:</em> {_text(sentence)}</div>"
        for regime, sentence in claim.measured.items()
    )
    return (
        f'<tr><th scope="row">{_text(claim.statement)} '
        f'<span class="source">({_text(claim.source)})</span></th>'
        f'<td><span class="verdict {SIGNS.get(claim.verdict, "other")}">{_text(claim.verdict)}'
        f"</span></td><td>{measured}</td></tr>"
    )


def _figure(figure: Figure) -> str:
    svg, png = _text(figure.svg.name), _text(figure.png.name)
    return (
        f'<figure id="{_text(figure.name)}">\n<img src="{svg}" alt="{_text(figure.title)}">\n'
        f"<figcaption><strong>{_text(figure.title)}.</strong> {_text(figure.caption)} "
        f'<a href="{png}">PNG</a>, <a href="{svg}">SVG</a></figcaption>\n</figure>'
    )


def _worlds(results: Results) -> str:
    head = "".join(f'<th scope="col">{title}</th>' for title, _ in COLUMNS.values())
    rows = "\n".join(map(_world, results.units.select(*COLUMNS).iter_rows()))
    return (
        '<div class="wide" role="region" aria-label="Table of worlds" tabindex="0">\n<table>\n'
        "<caption>Mean value of a decision on test instances, of the optimiser on the original "
        "predictions, the best rule, and an oracle that knows the outcomes; squared error of the "
        "original predictions per entry; seconds for all runs in the world.</caption>\n"
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>\n</div>"
    )


def _world(row: tuple[Any, ...]) -> str:
    cells = [
        f'<td class="number">{value:{kind}}</td>' if kind else f"<td>{_text(value)}</td>"
        for value, (_, kind) in zip(row, COLUMNS.values(), strict=True)
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _terms(terms: Mapping[str, object]) -> str:
    pairs = (f"<dt>{_text(name)}</dt><dd>{_text(words)}</dd>" for name, words in terms.items())
    return "<dl>\n" + "\n".join(pairs) + "\n</dl>"


def _settings(results: Results) -> dict[str, str]:
    return {
        name.replace("_", " "): _words(value) for name, value in as_plain(results.settings).items()
    }


def _provenance(results: Results) -> dict[str, str]:
    terms = {name: _words(value) for name, value in results.provenance.items()}
    if isinstance(seconds := results.provenance.get("seconds"), int | float):
        del terms["seconds"]
        terms["wall time"] = _duration(seconds)
    return terms


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_words(one)}" for name, one in value.items())
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ", ".join(map(_words, value))
    if isinstance(value, float):
        return fraction(value) if value < 1 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _duration(seconds: float) -> str:
    """Hours and minutes, or seconds where these say more."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
