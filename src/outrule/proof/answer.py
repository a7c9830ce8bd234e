"""The answer to "Deploy?" in words, the same in certificate, terminal and report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from outrule.proof.advice import OURS, PHRASES, Advice, about
from outrule.words import Figures, begun, count, figure, listed, percent, plural, round_up

if TYPE_CHECKING:
    from outrule.proof.statement import Certificate, RivalResult, SegmentResult

LABELS = {  # of the values, wherever they are shown
    "plain": "plain optimiser, original predictions",
    "best_rule": "best rule in training",
    "isotonic": "plain optimiser, isotonic regression",
    "calibrated": "plain optimiser, outrule",
    "paper": "plain optimiser, the paper's algorithm",
    "oracle": "oracle that knows the outcomes",
}
ANSWERS = {"pass": "Yes", "inconclusive": "Not yet", "fail": "No"}


class Line(NamedTuple):
    """The verdict against one rival, or against all rules."""

    rival: str
    verdict: str
    words: str


class Worth(NamedTuple):
    """A way to say how much the calibrated optimiser adds to the plain one."""

    figure: str
    per: str
    more: str


@dataclass(frozen=True)
class Answer:
    """What a certificate says, in words; ``names`` are longer names of rules, by their names."""

    certificate: Certificate
    names: Mapping[str, str] = field(default_factory=dict)
    minus: str = "-"

    @property
    def question(self) -> str:
        word, advice = ANSWERS[self.certificate.verdict], self._advice
        if self.certificate.verdict == "pass" and (advice.margin_warning or advice.better_rule):
            word = "Only if the margin is acceptable"
        return f"Deploy? {word}"

    @property
    def figures(self) -> Figures:
        """For values and their differences."""
        return Figures.for_width(self._width, self.minus)

    @property
    def _width(self) -> float:
        """Of the interval of the improvement that people act on: the narrower one."""
        found = self.certificate
        near, valid = found.approximate["improvement"], found.improvement
        return near.upper - near.lower or valid.upper - valid.lower

    @property
    def _gap_figures(self) -> Figures:
        """For the difference to the closest rival; it must show that a rule is better, if one is.

        The interval of that difference can be far narrower than that of the improvement.
        """
        near, usual = self.certificate.approximate["gap"], self.figures
        if self._advice.better_rule is None:
            return usual
        fine = Figures.for_width(near.upper - near.lower, self.minus)
        return max(usual, fine, key=lambda figures: figures.decimals)

    @property
    def confidence(self) -> str:
        return f"{100 * self.certificate.confidence:g} %"

    @property
    def instance(self) -> str:
        """What an instance is called: an observation, unless observations are clusters."""
        found = self.certificate
        return found.unit if found.n_observations == found.n_instances else "instance"

    @property
    def sentence(self) -> str:
        """What the verdict means."""
        found = self.certificate
        sure, margin = f"With {self.confidence} confidence", self.amount(found.margin)
        if found.propensity_estimated:
            sure += ", if the propensities are right"
        if found.verdict == "pass":
            rivals = f"{self._every}, {PHRASES['plain']} and {PHRASES['isotonic']}"
            words = f"{sure}, {OURS} is at least as good as {rivals}, minus at most {margin}."
            if found.segments:
                words = f"{words[:-1]}, overall and in each of {self._n_segments}."
            return words + (" It passes without that margin, too." if found.lowest >= 0 else "")
        if found.verdict == "fail":
            return f"{sure}, {self._advice.better} than {OURS}."
        if found.if_declared is not None:
            return (
                "Nothing can be certified until the largest possible "
                f"{self.size} is declared, because rare heavy ones could change everything."
            )
        if self.no_support:
            return f"no support: {self._never_shown}. More such instances would not decide it."
        opened = [name for name, verdict in found.verdicts.items() if verdict == "inconclusive"]
        kinds = [name for name in opened if name != "segments"] or list(PHRASES)
        words = listed([self._every if name == "rules" else PHRASES[name] for name in kinds])
        where = "" if opened != ["segments"] else f" in {self.named('inconclusive')}"
        return (
            f"There is too little data to say whether {OURS} is at least as good as {words}"
            f"{where}, minus at most {margin}."
        )

    @property
    def no_support(self) -> bool:
        """Whether what the log could never show is enough to keep the verdict open."""
        found = self.certificate.unsupported
        open_ = self.certificate.verdict == "inconclusive"
        return open_ and found is not None and found.worst > self.certificate.margin

    @property
    def _never_shown(self) -> str:
        found = self.certificate.unsupported
        assert found is not None
        items = ""
        if found.items:
            items = f" (most often {listed([repr(item) for item in found.items])})"
        shown = f"{figure(found.share, 2)} {'item' if found.share == 1 else 'items'}"
        return (
            f"the log could never show {shown} per {self.instance}{items} by which "
            f"our decisions and those of {self.name(found.rival)} differ, and their worst outcomes "
            f"would cost {self.amount(found.worst, 2)}"
        )

    @property
    def feedback(self) -> str | None:
        """What the log of a certificate on chosen items could show; None for all outcomes."""
        found = self.certificate
        if found.effective_n is None or found.largest_weight is None:
            return None
        words = (
            f"outcomes of chosen items only, worth about {found.effective_n:,.0f} "
            f"{plural(found.unit)} (effective sample size); the heaviest has "
            f"{percent(found.largest_weight)} of the weight"
        )
        if found.propensity_estimated:
            words += "; all of this holds only if the propensities are right"
        if found.unsupported is not None and found.unsupported.share == 0:
            words += "; the log could have shown every item compared"
        elif not self.no_support:
            words += f"; {self._never_shown}"
        return words

    @property
    def against(self) -> list[Line]:
        """One line for the best rule, plain and isotonic each."""
        found = self.certificate
        rules = "the rule" if len(found.rules) == 1 else f"best of {len(found.rules):,} rules"
        best, _ = self.closest_rule
        words = self._compare("rules", *found.rules)
        lines = [Line(f"{rules} ({best})", found.verdicts["rules"], words)]
        for rival in found.rivals:
            words = self._compare(rival.name, rival)
            lines.append(Line(LABELS[rival.name], found.verdicts[rival.name], words))
        if found.segments:
            verdict = found.verdicts["segments"]
            worst = next((s for s in self.by_segment if s.verdict == verdict), self.by_segment[0])
            n = count(len(found.segments), "segment")
            lines.append(Line(f"all rivals in {n}, worst {worst.rival}", verdict, worst.words))
        return lines

    @property
    def closest_rule(self) -> tuple[str, str | None]:
        """The rule that is best by the estimates; and that with the lowest bound, if another."""
        rules = [(rule.name, rule) for rule in self.certificate.rules]
        return self._closest(rules, self.certificate.closest_rule)

    @property
    def closest_rival(self) -> tuple[str, str | None]:
        """The same of all rivals."""
        found = self.certificate
        every = [(rule.name, rule) for rule in found.rules]
        every += [(PHRASES[rival.name], rival) for rival in found.rivals]
        return self._closest(every, found.closest_rival)

    def _closest(
        self, rivals: list[tuple[str, RivalResult]], lowest: str
    ) -> tuple[str, str | None]:
        least = min(rival.difference.mean for _, rival in rivals)
        best = [name for name, rival in rivals if rival.difference.mean == least]
        if lowest in best:
            return self.name(lowest), None
        return self.name(best[0]), self.name(lowest)

    @property
    def by_segment(self) -> list[Line]:
        """One line for every segment, the smallest lower bound first."""
        return [
            Line(segment.name, segment.verdict, self._inside(segment))
            for segment in sorted(self.certificate.segments, key=lambda one: one.gap_lower)
        ]

    def _inside(self, segment: SegmentResult) -> str:
        """What is known of one segment."""
        unit, rival = self.certificate.unit, self.name(segment.best_rival)
        differ, bound = self._differ(segment.gap, segment.gap_lower, self.figures)
        words = f"{differ} compared with {rival}, {bound} compared with any rival"
        n = count(segment.n_observations, unit)
        more = "" if segment.more is None else f"; {about(segment.more, unit)} would decide it"
        return f"{words} ({n}{more})"

    @property
    def segments_note(self) -> str | None:
        """How to read the list of segments; None where none were asked for."""
        found = self.certificate
        if found.segmented is None:
            return None
        n_marked = sum(segment.together for segment in found.segments)
        words = "each line is about that segment alone"
        if found.verdict != "pass":
            words += f"; {n_marked} of {self._n_segments} pass simultaneously (Holm)"
        return f"{words}. {begun(found.segmented.note or '')}".rstrip()

    @property
    def _n_segments(self) -> str:
        return f"the {count(len(self.certificate.segments), 'segment')}"

    def named(self, verdict: str) -> str:
        """The segments of a verdict, the worst first; of many only the first."""
        names = [line.rival for line in self.by_segment if line.verdict == verdict]
        if not names:  # only all rivals together show it
            return "some segment"
        rest = f" and {len(names) - 1} more" if len(names) > 1 else ""
        return f"the segment '{names[0]}'{rest}"

    def _differ(self, mean: float, lower: float, write: Figures) -> tuple[str, str]:
        """A difference in words, and its lower bound.

        At low confidence a bound can be above the estimate: the smaller one is said.
        """
        size, lower = write.plain(abs(mean)), min(lower, mean)
        word = ("better" if mean > 0 else "worse") if size.strip("0.,") else "about equal"
        words = word if word == "about equal" else f"{word} by {size}"
        if lower >= 0:
            return words, f"by at least {write.down(lower)}"
        worst = "at worst by" if word == "worse" else "possibly worse by up to"
        return words, f"{worst} {write.down(lower).removeprefix(self.minus)}"

    def _compare(self, kind: str, *rivals: RivalResult) -> str:
        found = self.certificate
        mean = min(rival.difference.mean for rival in rivals)
        lower = min(rival.lower for rival in rivals)
        verdict = found.verdicts[kind]
        write = self._gap_figures if kind == "rules" else self.figures
        words, bound = self._differ(mean, lower, write)
        if verdict == "fail":
            limit = self.amount(found.margin)
            return f"{words}, by more than the margin of {limit}" if kind == "rules" else words
        words = f"{words}, {bound}"
        if kind == "rules" and (other := self.closest_rule[1]) is not None:
            words += f" (lowest bound: {other})"
        if verdict == "pass":
            return words if min(lower, mean) >= 0 else f"{words}, which is within the margin"
        if found.if_declared is not None:
            return f"{words}, if no {found.unit} can weigh more than {self.heaviest}"
        return f"{words}: too little data"

    @property
    def worth(self) -> list[Worth]:
        """What it adds to the plain optimiser: per instance, per 1,000, in percent, in total."""
        found, gain = self.certificate, self.certificate.improvement
        interval = f"{self.confidence} interval {self.figures.interval(gain._asdict(), '+')}"
        if gain.lower <= 0 <= gain.upper:
            words = "not significant:"
            if found.rivals[0].lower > 0:  # plain's: one bound is tighter than an interval's end
                words = "above zero by the one-sided bound, but not by the two-sided"
            interval = f"{words} {interval}"
        if found.if_declared is not None:
            interval += f", if no {found.unit} can weigh more than {self.heaviest}"
        noun, one = f"{found.value.noun} ".lstrip(), self.instance
        over = f"{noun}over the {count(found.n_instances, f'held-out {one}')}"
        lines = [
            Worth(self._scaled(1), f"{noun}per {one}", interval),
            Worth(self._scaled(1_000), f"{noun}per {count(1_000, one)}", ""),
            Worth(self._scaled(found.n_instances), over, ""),
        ]
        if found.plain.mean > 0:
            figure = f"{self._scaled(100 / found.plain.mean)} %"
            lines.insert(2, Worth(figure, "of the plain optimiser's value", ""))
        return lines

    def _scaled(self, times: float) -> str:
        """The improvement times a number, with the digits that its interval supports.

        Zero has no sign: one that is rounded to it could contradict that of another multiple.
        """
        write = Figures.for_width(times * self._width, self.minus)
        figure = write.signed(times * self.certificate.improvement.mean)
        return figure if figure.strip("+0.") else figure.removeprefix("+")

    @property
    def worth_sentence(self) -> str:
        parts = [
            f"{figure} {per} ({more})" if more else f"{figure} {per}"
            for figure, per, more in self.worth
        ]
        return f"compared with {PHRASES['plain']}: {', '.join(parts)}"

    @property
    def margin(self) -> str:
        """The margin, and what share of the best rule's value it is."""
        share = self.certificate.margin_share
        part = "" if share is None else f" ({percent(share)} of the best rule's value)"
        return f"margin {self.amount(self.certificate.margin)}{part}"

    @property
    def _advice(self) -> Advice:
        return Advice(self)

    @property
    def warning(self) -> str | None:
        """What to mind about the margin and the log, if anything."""
        return self._advice.warning

    @property
    def next_step(self) -> str:
        """What to do now."""
        return self._advice.next_step

    @property
    def text(self) -> str:
        """All of it, for a terminal."""
        found, write = self.certificate, self._gap_figures
        near = found.approximate["gap"]
        least = f"at least {write.down(min(found.gap_lower, found.gap), '+')}"
        if found.if_declared is not None:
            least += f" if no {found.unit} can weigh more than {self.heaviest}"
        best, other = self.closest_rival
        closest, new = f"closest rival: {best}", ""
        if found.earlier:
            more = found.n_observations - found.earlier[-1].n_observations
            new = f", {more:,} of them new since the last look"
        if other is not None:
            closest = f"smallest difference: {best}; lowest bound: {other}"
        lines = [
            self.question,
            f"{found.verdict}: {self.sentence[0].lower()}{self.sentence[1:]}",
            *(f"  {verdict} against {rival}: {words}" for rival, verdict, words in self.against),
            *(f"  {verdict} in {segment}: {words}" for segment, verdict, words in self.by_segment),
            *([f"segments: {self.segments_note}"] if self.segments_note else []),
            self.worth_sentence,
            f"gap {write.signed(found.gap)} ({least}; approximately "
            f"{write.interval(near._asdict(), '+')}) on "
            f"{count(found.n_observations, found.unit)}{new}; {closest}",
            self.margin,
            *([self.feedback] if self.feedback else []),
            *([self.warning] if self.warning else []),
            *found.notes,
            self.next_step,
        ]
        return "\n".join(lines)

    def amount(self, number: float, digits: int = 4) -> str:
        """So much per instance."""
        value, size = self.certificate.value, figure(number, digits)
        if not value.noun:
            return size
        # Nouns are the user's, mostly plurals, and "1.0 points" is right where "1 points" is not.
        return f"{value.amount('1.0' if size == '1' else size)} per {self.instance}"

    @property
    def heaviest(self) -> str:
        """The largest weight seen, rounded up, so that it can be declared as it is printed."""
        return f"{round_up(self.certificate.heaviest, 4):.15g}"

    def name(self, rule: str) -> str:
        """How a rule is shown; plain and isotonic as they are."""
        return self.names.get(rule, rule)

    @property
    def _every(self) -> str:
        n = len(self.certificate.rules)
        return "the rule" if n == 1 else f"each of the {n:,} rules"

    @property
    def size(self) -> str:
        unit = self.certificate.unit
        if unit == "instance":
            return "weight of an instance"
        return f"size (or total weight) of one {unit}"
