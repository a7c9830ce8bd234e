"""The first screen: deploy or not, against whom, how much it is worth, and what to do next."""

from outrule.proof.advice import PHRASES
from outrule.reporting.charts import PER_CENT
from outrule.reporting.markup import Facts, terms, text, tile
from outrule.words import begun, count

ICONS = {  # a tick, a question mark, a cross
    "pass": '<path d="M15 25l7 7 12-15"/>',
    "inconclusive": '<path d="M18.5 19.5a5.5 5.5 0 1 1 8 4.9q-2.5 1.3-2.5 4M24 33.5v.1"/>',
    "fail": '<path d="M17 17l14 14M31 17l-14 14"/>',
}


def answer(summary: Facts, about: list[str]) -> str:
    """The answer, large, with what it is based on; ``about`` says what was judged, and when."""
    found, word = summary["answer"], summary["verdict"]["verdict"]
    lines = "".join(
        f'<li class="{line["verdict"]}"><b>{line["verdict"]}</b>'
        f"<span>{text(line['rival'])}</span> <em>{text(line['words'])}</em></li>"
        for line in found["against"]
    )
    tiles = {line["per"]: tile(line["figure"], line["more"]) for line in found["worth"]}
    margin = f"{begun(found['margin'])}. {found['warning'] or ''}"
    seen = found["feedback"]
    facts = [margin, *([f"{begun(seen)}."] if seen else [])]
    notes = "".join(f"<p>{text(words)}</p>\n" for words in facts + summary["verdict"]["notes"])
    judged = f'<p class="about">{" · ".join(map(text, [*about, *_judged(summary)]))}</p>\n'
    rest = (
        f'<ul class="against" aria-label="Against whom">{lines}</ul>\n'
        f'<p class="than">Compared with {PHRASES["plain"]}:</p>\n{terms(tiles, "tiles")}\n'
        f'<div class="notes">{notes}<p class="next">{text(found["next_step"])}</p></div>'
    )
    return first_screen(word, found["question"], found["sentence"], rest, judged)


def first_screen(verdict: str, title: str, sentence: str, rest: str, about: str = "") -> str:
    """An icon, a word or two and a sentence, large; then the rest, and ``about`` above all."""
    return (
        f'<section id="verdict" class="verdict {verdict}" aria-labelledby="verdict-title">\n{about}'
        f'<svg class="icon" viewBox="0 0 48 48" aria-hidden="true"><circle cx="24" cy="24" '
        f'r="22"/>{ICONS[verdict]}</svg>\n'
        f'<div><h1 id="verdict-title">{text(title)}</h1>\n'
        f"<p>{text(sentence)}</p></div>\n{rest}\n</section>"
    )


def _judged(summary: Facts) -> list[str]:
    """On how much data, and how surely."""
    found, data = summary["verdict"], summary.get("data", {})
    facts = [count(found["n_instances"], summary["answer"]["instance"])]
    if "n_items" in data:
        facts.append(count(data["n_items"], "item"))
    if found["n_observations"] != found["n_instances"]:
        facts.append(count(found["n_observations"], found["unit"]))
    return [*facts, f"{100 * found['confidence']:g}{PER_CENT} confidence"]
