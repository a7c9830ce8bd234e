"""The sections about held-out data: values, rules, violations, predicted vs realised."""

from collections.abc import Collection, Mapping, Sequence

from outrule.calibration import rivals
from outrule.model.value import Value
from outrule.proof.advice import PHRASES
from outrule.proof.answer import LABELS
from outrule.reporting.charts import MINUS, PER_CENT, Scale, chart, level, path
from outrule.reporting.markup import Facts, figures, legend, section, text, value_title
from outrule.reporting.tables import FOLDED, Column, picture, table
from outrule.rules.rules import OWN_TEST
from outrule.words import Figures, figure

TESTS = {OWN_TEST: "the optimiser itself", **{name: LABELS[name] for name in rivals.RIVALS}}


def _confidence(summary: Facts) -> str:
    return f"{100 * summary['verdict']['confidence']:g}{PER_CENT}"


def values(summary: Facts) -> str:
    """The value of each way to decide, with its interval."""
    write, rows = figures(summary), summary["values"]
    means = {row["name"]: row["mean"] for row in rows}
    best = summary["verdict"]["best_rule_name"]
    rule = next((multiplied(row) for row in summary["rules"] if row["name"] == best), "")

    def label(row: Facts) -> str:
        more = f"<small>{text(best)}</small>{rule}" if row["name"] == "best_rule" else ""
        return text(row["label"]) + more

    scale = Scale.from_zero(end for row in rows for end in _ends(row))

    def draw(row: Facts) -> str:
        return scale.bar(row["mean"]) + scale.interval(row)

    columns = [
        Column("Decided by", label, "text"),
        picture(scale, draw, value_title(summary), guide=means["calibrated"]),
        Column("Value", lambda row: write.plain(row["mean"])),
        Column(f"{_confidence(summary)} interval", write.interval),
    ]
    return section(
        "values",
        "What the decisions are worth",
        _gain(summary, means, write),
        table("values", "Value of each way to decide", columns, rows, marked="calibrated"),
        note="Means over the held-out data. Each line is a separate confidence interval.",
    )


def _gain(summary: Facts, means: Facts, write: Figures) -> str:
    """What calibration brought, and whether something simpler brings more."""
    gain, value = summary["verdict"]["improvement"], Value(**summary["verdict"]["value"])
    mean, clear = gain["mean"], gain["lower"] > 0 or gain["upper"] < 0
    shares = [row["figure"] for row in summary["answer"]["worth"] if row["figure"].endswith(" %")]
    share = "".join(f" ({one.lstrip('+' + MINUS)})" for one in shares).replace(" %", PER_CENT)
    words = (
        f"Calibration {'adds' if mean > 0 else 'costs'} {value.amount(write.plain(abs(mean)))} per "
        f"{summary['answer']['instance']}{share} compared with {PHRASES['plain']}"
    )
    most = means.get("oracle", 0.0) - means["plain"]  # not known where not all outcomes are
    if clear and mean > 0 and most > 0:  # an inexact optimiser may have less
        words += f", {100 * mean / most:.0f}{PER_CENT} of what an oracle would add"
    words += "." if clear else f"; {_unclear(summary, write)}."
    if mean == 0:
        words = "Calibration changes nothing here."
    others = {"best_rule": "The best rule, picked in training,", "isotonic": "Isotonic regression"}
    for name, noun in others.items():
        if means[name] > means["calibrated"]:
            words += f" {noun} is better by {write.plain(means[name] - means['calibrated'])}."
    return words


def _unclear(summary: Facts, write: Figures) -> str:
    """Of an improvement whose interval includes zero; a lower bound alone is tighter than its end.

    That bound is what the verdict against the plain optimiser quotes.
    """
    lower = next(row["lower"] for row in summary["rivals"] if row["name"] == "plain")
    if lower <= 0:
        return "on these data that is not distinguishable from zero"
    return (
        f"the one-sided lower bound, {write.down(lower, '+')}, is above zero, and the two-sided "
        "interval includes zero"
    )


def forest(summary: Facts) -> str:
    """Every rule and rival against the calibrated optimiser, the closest first."""
    write, margin = figures(summary), summary["verdict"]["margin"]
    signed = write.signed
    rivals = [*summary["rivals"], *summary["rules"]]
    rows = sorted(rivals, key=lambda row: row["difference"]["mean"])
    scale = Scale.over([0.0, -margin, *(end for row in rows for end in _ends(row["difference"]))])

    def draw(row: Facts) -> str:
        line = scale.line(*_ends(row["difference"]))
        return line + scale.judged(row["difference"]["mean"], row["verdict"])

    columns = [
        Column("Rival", lambda row: text(_rival(row)) + multiplied(row), "text"),
        picture(scale, draw, _differences(summary), zero=0.0, margin=-margin),
        Column("Difference", lambda row: signed(row["difference"]["mean"]), order="ascending"),
        Column("At least", lambda row: write.down(row["difference"]["lower"], "+")),
        Column("At most", lambda row: signed(row["difference"]["upper"])),
        Column("Its value", lambda row: write.plain(row["value"])),
        Column("Verdict", lambda row: text(row["verdict"]), "word"),
    ]
    signs = {
        "dot": "at least as good, minus the margin",
        "hollow dot": "too little data to decide",
        "square": "the rival is better",
        "dashed": f"margin, {MINUS}{figure(margin)}",
    }
    return section(
        "forest",
        "Against every rival",
        _closest(rows, write),
        legend(signs),
        _overview(rows, scale, margin, _differences(summary)) if len(rows) > FOLDED else "",
        table("forest", "Difference to every rival", columns, rows, "rivals"),
        note="Value of the calibrated optimiser minus that of the rival, on the same instances. "
        f"All lower bounds hold simultaneously with {_confidence(summary)} confidence, and so do "
        "all upper bounds. A pass, and the sentence above, rest on the lower bound for that rival "
        "alone, which is closer to the difference.",
    )


def multiplied(row: Facts) -> str:
    """What a multiplier multiplies, in small."""
    shown = row.get("kind") == "Multiplier"
    return f"<small>{text(row['text'])}</small>" if shown else ""


def _differences(summary: Facts) -> str:
    return f"difference in {value_title(summary)}"


def _rival(row: Facts) -> str:
    return str(row.get("label", row["name"]))


def _ends(row: Facts) -> tuple[float, float]:
    return row["lower"], row["upper"]


def _overview(rows: Sequence[Facts], up: Scale, margin: float, name: str) -> str:
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
    words, names = f"{title}; the table has the numbers.", ("rivals, the closest first", name)
    return chart(title, words, names, (across, up), drawn)


def _closest(rows: Sequence[Facts], write: Figures) -> str:
    rival = min(rows, key=lambda row: row["lower"])
    near, name = rival["difference"], _rival(rival)
    size = write.plain(abs(near["mean"]))
    more = f"{size} {'more' if near['mean'] > 0 else 'less'}" if size.strip("0.") else "the same"
    words = (
        f"The closest rival, by its lower bound, is “{name}”: the calibrated optimiser is worth "
        f"{more}; the difference is at least "
        f"{write.down(min(rival['lower'], near['mean']), '+')}."
    )
    others = {"fail": "that are better", "inconclusive": "with too little data"}
    for word, kind in others.items():
        number = sum(row["verdict"] == word for row in rows)
        words += f" Rivals {kind}: {number:,} of {len(rows):,}." if number else ""
    return words


def violations(summary: Facts) -> str:
    """The bias on what each rule chooses, before and after."""
    write, tolerance = figures(summary), summary.get("model", {}).get("tolerance")
    names = {row["name"]: multiplied(row) for row in summary["rules"]}
    rows = sorted(summary["violations"], key=lambda row: -abs(row["before"]["mean"]))
    ends = [end for row in rows for when in ("before", "after") for end in _ends(row[when])]
    guides = {} if tolerance is None else {"margin": -tolerance, "other": tolerance}
    scale = Scale.over([0.0, *ends, *guides.values()])

    def draw(row: Facts) -> str:  # page.css has the colours
        return scale.interval(row["before"], y=32) + scale.interval(row["after"], y=68)

    columns = [
        Column("Chosen by", lambda row: cell_of_test(row, names), "text"),
        picture(scale, draw, _differences(summary), zero=0.0, **guides),
        Column("Before", lambda row: write.signed(row["before"]["mean"]), "size", "descending"),
        Column("Interval before", lambda row: write.interval(row["before"], "+")),
        Column("After", lambda row: write.signed(row["after"]["mean"]), "size"),
        Column("Interval after", lambda row: write.interval(row["after"], "+")),
    ]
    signs = {"hollow soft dot": "before", "ours dot": "after"}
    if tolerance is not None:
        signs["dashed"] = f"tolerance, ±{figure(tolerance)}"
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


def name_of_test(test: str, rules: Collection[str]) -> str:
    """A rule's name, or what a rival or the optimiser is called; also inside a segment."""
    name, inside, segment = test.partition(" in ")
    if name not in TESTS or any(f"{test} in ".startswith(f"{rule} in ") for rule in rules):
        return test
    return f"{TESTS[name]}{inside}{segment}"


def cell_of_test(row: Facts, rules: Mapping[str, str]) -> str:
    """The name of a test, and what it multiplies; ``rules`` has that of every rule."""
    name = text(name_of_test(row["test"], rules))
    name = f"<em>{name}</em>" if row["kind"] == "optimiser" else name
    return name + rules.get(row["test"], "")


def _largest(rows: Sequence[Facts], tolerance: float | None, write: Figures) -> str:
    before, after = ([abs(row[when]["mean"]) for row in rows] for when in ("before", "after"))
    words = (
        f"The largest violation is {write.plain(max(before))} before calibration and "
        f"{write.plain(max(after))} after it."
    )
    if tolerance is None:
        return words
    above = [sum(size > tolerance for size in sizes) for sizes in (before, after)]
    return f"{words} Above the tolerance: {above[0]:,} of {len(rows):,} before, {above[1]:,} after."


def realised(summary: Facts) -> str:
    """What the optimiser's choices were predicted to be worth, and what they were worth."""
    write, pairs = figures(summary), summary["promises"]
    rows = [{"when": when, **pair} for when, pair in pairs.items()]
    scale = Scale.from_zero(x for pair in pairs.values() for x in pair.values())

    def draw(row: Facts) -> str:
        ours = "ours" if row["when"] == "after" else ""
        line = scale.line(row["realised"], row["predicted"], f"thick {ours}")
        predicted = scale.dot(row["predicted"], f"hollow {ours}")
        return line + predicted + scale.dot(row["realised"], ours)

    columns = [
        Column("Predictions", lambda row: text(f"{row['when']} calibration"), "text"),
        picture(scale, draw, value_title(summary)),
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
        "worth, per held-out instance; the difference is predicted minus realised. Choosing the "
        "largest predictions favours those that are too large: the winner's curse.",
    )


def _curse(pairs: Facts, write: Figures) -> str:
    parts = []
    for when, pair in pairs.items():
        short = pair["predicted"] - pair["realised"]
        than = "less" if short >= 0 else "more"
        parts.append(f"{write.plain(abs(short))} {than} than predicted {when} calibration")
    return f"The optimiser's choices were worth {' and '.join(parts)}."
