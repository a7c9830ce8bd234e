"""The sections about held-out data: verdict, values, rules, violations, predicted vs realised."""

from collections.abc import Sequence

from outrule.reporting.charts import PER_CENT, Scale, chart, level, path
from outrule.reporting.markup import Facts, Figures, Html, legend, section, terms, text
from outrule.reporting.tables import FOLDED, Column, picture, table
from outrule.words import count

ICONS = {  # a tick, a question mark, a cross
    "pass": '<path d="M15 25l7 7 12-15"/>',
    "inconclusive": '<path d="M18.5 19.5a5.5 5.5 0 1 1 8 4.9q-2.5 1.3-2.5 4M24 33.5v.1"/>',
    "fail": '<path d="M17 17l14 14M31 17l-14 14"/>',
}
OPTIMISER = "the optimiser itself"


def verdict(summary: Facts) -> str:
    """The verdict, large, with the numbers it is based on."""
    found, write = summary["verdict"], Figures.of(summary)
    word, gap, gain = found["verdict"], write.signed(found["gap"]), found["improvement"]
    added = write.signed(gain["mean"])
    observations = count(found["n_observations"], "observation")
    if found["n_observations"] != found["n_instances"]:
        observations += f" of {count(found['n_instances'], 'instance')}"
    tiles = {
        "Gap to the closest rival": tile(gap, f"at least {write.signed(found['gap_lower'])}"),
        "Gain over the plain optimiser": tile(added, write.interval(gain, "+")),
        "Tolerated margin": tile(write.plain(found["margin"]), f"epsilon {found['epsilon']:g}"),
        "Confidence": tile(_confidence(summary), f"on {observations}"),
    }
    return (
        f'<section id="verdict" class="verdict {word}" aria-labelledby="verdict-title">\n'
        f'<svg class="icon" viewBox="0 0 48 48" aria-hidden="true"><circle cx="24" cy="24" '
        f'r="22"/>{ICONS[word]}</svg>\n'
        f'<div><h1 id="verdict-title">{word.capitalize()}</h1>\n'
        f"<p>{text(found['sentence'])}</p></div>\n{terms(tiles, 'tiles')}\n</section>"
    )


def tile(figure: str, more: str) -> Html:
    """A number, large, and what belongs to it."""
    return Html(f"<b>{figure}</b> <span>{more}</span>")


def _confidence(summary: Facts) -> str:
    return f"{100 * summary['verdict']['confidence']:g}{PER_CENT}"


def values(summary: Facts) -> str:
    """The value of each way to decide, with its interval."""
    write, rows = Figures.of(summary), summary["values"]
    means = {row["name"]: row["mean"] for row in rows}

    def label(row: Facts) -> str:
        rule = f"<small>{text(summary['model']['best_rule'])}</small>"
        return text(row["label"]) + (rule if row["name"] == "best_rule" else "")

    scale = Scale.over(end for row in rows for end in _ends(row))
    columns = [
        Column("Decided by", label, "text"),
        picture(scale, scale.interval, guide=means["calibrated"]),
        Column("Value", lambda row: write.plain(row["mean"])),
        Column(f"{_confidence(summary)} interval", write.interval),
    ]
    return section(
        "values",
        "What the decisions are worth",
        _gain(summary["verdict"]["improvement"], means, write),
        table("values", "Value of each way to decide", columns, rows, marked="calibrated"),
        note="Mean value per held-out instance. Each line is a separate confidence interval.",
    )


def _gain(gain: Facts, means: Facts, write: Figures) -> str:
    """What calibration brought, and whether something simpler brings more."""
    mean, clear = gain["mean"], gain["lower"] > 0 or gain["upper"] < 0
    share = f" ({100 * abs(mean) / means['plain']:.1f}{PER_CENT})" if means["plain"] > 0 else ""
    words = (
        f"Calibration {'adds' if mean > 0 else 'costs'} {write.plain(abs(mean))} per instance"
        f"{share} compared with the plain optimiser on the original predictions"
    )
    most = means["oracle"] - means["plain"]
    if clear and mean > 0 and most > 0:  # an inexact optimiser may have less
        words += f", {100 * mean / most:.0f}{PER_CENT} of what an oracle would add"
    words += "." if clear else "; on these data that is not distinguishable from zero."
    if mean == 0:
        words = "Calibration changes nothing here."
    others = {"best_rule": "The best rule, picked in training,", "isotonic": "Isotonic regression"}
    for name, noun in others.items():
        if means[name] > means["calibrated"]:
            words += f" {noun} is better by {write.plain(means[name] - means['calibrated'])}."
    return words


def forest(summary: Facts) -> str:
    """Every rule and rival against the calibrated optimiser, the closest first."""
    write, margin = Figures.of(summary), summary["verdict"]["margin"]
    signed = write.signed
    rivals = [*summary["rivals"], *summary["rules"]]
    rows = sorted(rivals, key=lambda row: row["difference"]["mean"])
    scale = Scale.over([0.0, -margin, *(end for row in rows for end in _ends(row["difference"]))])

    def draw(row: Facts) -> str:
        line, mean = scale.line(*_ends(row["difference"])), row["difference"]["mean"]
        if row["verdict"] == "fail":
            return line + scale.square(mean)
        return line + scale.dot(mean, "" if row["verdict"] == "pass" else "hollow")

    columns = [
        Column("Rival", lambda row: text(_rival(row)), "text"),
        picture(scale, draw, zero=0.0, margin=-margin),
        Column("Difference", lambda row: signed(row["difference"]["mean"]), order="ascending"),
        Column("At least", lambda row: signed(row["difference"]["lower"])),
        Column("At most", lambda row: signed(row["difference"]["upper"])),
        Column("Its value", lambda row: write.plain(row["value"])),
        Column("Verdict", lambda row: text(row["verdict"]), "word"),
    ]
    signs = {
        "dot": "at least as good, minus the margin",
        "hollow dot": "too little data to decide",
        "square": "the rival is better",
        "dashed": f"margin, {write.signed(-margin)}",
    }
    return section(
        "forest",
        "Against every rule and rival",
        _closest(rows, write),
        legend(signs),
        _overview(rows, scale, margin) if len(rows) > FOLDED else "",
        table("forest", "Difference to every rival", columns, rows, "rivals"),
        note="Value of the calibrated optimiser minus that of the rival, on the same instances. "
        f"All lower bounds hold simultaneously with {_confidence(summary)} confidence, and so do "
        "all upper bounds.",
    )


def _rival(row: Facts) -> str:
    return str(row.get("label", row["name"]))


def _ends(row: Facts) -> tuple[float, float]:
    return row["lower"], row["upper"]


def _overview(rows: Sequence[Facts], up: Scale, margin: float) -> str:
    """All rules in one picture, where the table would be long."""
    across = Scale(0, len(rows))
    lower, mean, upper = (
        [(across.share(i + 0.5), up.share(row["difference"][name])) for i, row in enumerate(rows)]
        for name in ("lower", "mean", "upper")
    )
    drawn = [
        path("band", [*lower, *reversed(upper)]),
        level("zero", up.share(0.0)),
        level("dashed", up.share(-margin)),
        path("curve", mean),
    ]
    title = f"All {len(rows):,} rivals at a glance, the closest first"
    return chart(title, f"{title}; the table has the numbers.", across, up, drawn)


def _closest(rows: Sequence[Facts], write: Figures) -> str:
    rival = min(rows, key=lambda row: row["lower"])
    near, name = rival["difference"], _rival(rival)
    size = write.plain(abs(near["mean"]))
    more = f"{size} {'more' if near['mean'] > 0 else 'less'}" if size.strip("0.") else "the same"
    words = (
        f"The closest rival, by its lower bound, is “{name}”: the calibrated optimiser is worth "
        f"{more}; the difference is at least {write.signed(rival['lower'])}."
    )
    others = {"fail": "that are better", "inconclusive": "with too little data"}
    for word, kind in others.items():
        number = sum(row["verdict"] == word for row in rows)
        words += f" Rivals {kind}: {number:,} of {len(rows):,}." if number else ""
    return words


def violations(summary: Facts) -> str:
    """The bias on what each rule chooses, before and after."""
    write, tolerance = Figures.of(summary), summary["model"]["tolerance"]
    rows = sorted(summary["violations"], key=lambda row: -abs(row["before"]["mean"]))
    ends = [end for row in rows for when in ("before", "after") for end in _ends(row[when])]
    scale = Scale.over([*ends, tolerance, -tolerance])

    def draw(row: Facts) -> str:  # page.css has the colours
        return scale.interval(row["before"], y=32) + scale.interval(row["after"], y=68)

    columns = [
        Column("Chosen by", name_of_test, "text"),
        picture(scale, draw, zero=0.0, margin=-tolerance, other=tolerance),
        Column("Before", lambda row: write.signed(row["before"]["mean"]), "size", "descending"),
        Column("Interval before", lambda row: write.interval(row["before"], "+")),
        Column("After", lambda row: write.signed(row["after"]["mean"]), "size"),
        Column("Interval after", lambda row: write.interval(row["after"], "+")),
    ]
    signs = {
        "hollow soft dot": "before",
        "ours dot": "after",
        "dashed": f"tolerance, ±{write.plain(tolerance)}",
    }
    return section(
        "violations",
        "Violations before and after",
        _largest(rows, tolerance, write),
        legend(signs),
        table("violations", "Violation of every test", columns, rows, "tests"),
        note="Outcome minus prediction, summed over what a rule or the optimiser itself chooses, "
        "per held-out instance. All intervals hold simultaneously with approximately "
        f"{_confidence(summary)} confidence.",
    )


def name_of_test(row: Facts) -> str:
    """The name of a rule, or what the optimiser is called."""
    return f"<em>{OPTIMISER}</em>" if row["kind"] == "optimiser" else text(row["test"])


def _largest(rows: Sequence[Facts], tolerance: float, write: Figures) -> str:
    before, after = ([abs(row[when]["mean"]) for row in rows] for when in ("before", "after"))
    above = [sum(size > tolerance for size in sizes) for sizes in (before, after)]
    return (
        f"The largest violation is {write.plain(max(before))} before calibration and "
        f"{write.plain(max(after))} after it. Above the tolerance: {above[0]:,} of {len(rows):,} "
        f"before, {above[1]:,} after."
    )


def realised(summary: Facts) -> str:
    """What the optimiser's choices were predicted to be worth, and what they were worth."""
    write, pairs = Figures.of(summary), summary["promises"]
    rows = [{"when": when, **pair} for when, pair in pairs.items()]
    scale = Scale.over([x for pair in pairs.values() for x in pair.values()], 0.12)

    def draw(row: Facts) -> str:
        ours = "ours" if row["when"] == "after" else ""
        line = scale.line(row["realised"], row["predicted"], f"thick {ours}")
        predicted = scale.dot(row["predicted"], f"hollow {ours}")
        return line + predicted + scale.dot(row["realised"], ours)

    columns = [
        Column("Predictions", lambda row: text(f"{row['when']} calibration"), "text"),
        picture(scale, draw),
        Column("Predicted", lambda row: write.plain(row["predicted"])),
        Column("Realised", lambda row: write.plain(row["realised"])),
        Column("Difference", lambda row: write.signed(row["predicted"] - row["realised"]), "size"),
    ]
    return section(
        "realised",
        "Predicted vs realised",
        _curse(pairs, write),
        legend({"hollow dot": "predicted", "dot": "realised"}),
        table("realised", "Predicted and realised value", columns, rows),
        note="What the optimiser's own choices were predicted to be worth, and what they were "
        "worth, per held-out instance. Choosing the largest predictions favours those that are too "
        "large: the winner's curse.",
    )


def _curse(pairs: Facts, write: Figures) -> str:
    parts = []
    for when, pair in pairs.items():
        short = pair["predicted"] - pair["realised"]
        than = "less" if short >= 0 else "more"
        parts.append(f"{write.plain(abs(short))} {than} than predicted {when} calibration")
    return f"The optimiser's choices were worth {' and '.join(parts)}."
