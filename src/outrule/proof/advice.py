"""What to mind about a verdict, and what to do now, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from outrule.words import count, listed, percent, plural, round_up

if TYPE_CHECKING:  # it imports this module
    from outrule.proof.answer import Answer

OURS = "the plain optimiser on the calibrated predictions"
PHRASES = {  # what a sentence calls those that we are compared with
    "rules": "every rule",
    "plain": "the plain optimiser on the original predictions",
    "isotonic": "isotonic regression",
}
LEAST_EFFECTIVE = 100
FAR = 20  # times as many observations as there are


@dataclass(frozen=True)
class Advice:
    """What to mind, and what to do."""

    answer: Answer

    @property
    def better_rule(self) -> str | None:
        """The rule that is best of all rivals, and better than ours by the approximate interval."""
        found = self.answer.certificate
        best = min(found.rules, key=lambda rule: rule.difference.mean)
        near = found.approximate["gap"]
        is_closest = best.difference.mean == found.gap and near.upper < 0
        return best.name if is_closest else None

    @property
    def warning(self) -> str | None:
        """What to mind about the margin and the log, if anything."""
        parts = (self.margin_warning, self._rule_warning, self._log_warning)
        return " ".join(filter(None, parts)) or None

    @property
    def _rule_warning(self) -> str | None:
        """A pass says nothing about which is better: this does."""
        found, rule = self.answer.certificate, self.better_rule
        if found.verdict != "pass" or rule is None:
            return None
        size, value = self.answer.amount(-found.gap, 2), found.calibrated.mean - found.gap
        if value > 0:
            size += f" ({percent(-found.gap / value)} of its value)"
        return (
            f"The rule {self.answer.name(rule)!r} is better by about {size}, and the pass only "
            "says that it is not better by more than the margin."
        )

    @property
    def _log_warning(self) -> str | None:
        size, unit = self.answer.certificate.effective_n, self.answer.certificate.unit
        if size is None or size >= LEAST_EFFECTIVE:
            return None
        return (
            f"The observed outcomes are worth only about {size:.0f} {plural(unit)}: few of the "
            "logged choices are the decisions judged here. Explore more."
        )

    @property
    def margin_warning(self) -> str | None:
        """None where the verdict does not hang on the margin."""
        found, stake = self.answer.certificate, self._stake
        if found.verdict == "fail" or found.lowest >= 0 or found.margin <= stake[0]:
            return None
        size = self.answer.amount(stake[0], 2)
        return (
            f"The margin of {self.answer.amount(found.margin)} is larger than what is at stake: "
            f"{stake[1]} {size}. With this margin a pass means little."
        )

    @property
    def _stake(self) -> tuple[float, str]:
        """The smaller of what rules change, and what calibration changes."""
        found = self.answer.certificate
        best = abs(found.best_rule.mean - found.plain.mean)
        gain = abs(found.improvement.mean)
        words = f"the best rule and {PHRASES['plain']} differ by"
        return min((best, words), (gain, f"calibration changes the value of {PHRASES['plain']} by"))

    @property
    def next_step(self) -> str:
        """What to do now."""
        found, answer = self.answer.certificate, self.answer
        if found.verdict == "pass":
            return f"Next: {self._after_pass}"
        if found.verdict == "fail":
            return f"Next: {self._after_fail}"
        if found.if_declared is not None:
            return (
                f"Next: set max_weight (--max-weight) to the largest possible {answer.size}, and "
                f"certify again. The largest seen is {answer.heaviest}; if that is the largest "
                f"possible, the verdict is {found.if_declared}.{self._alike}"
            )
        if answer.no_support:
            return (
                "Next: explore over the rules' own decisions (explore with over='rules', outrule "
                "decide --explore SHARE --explore-over rules), and certify on that log."
            )
        return f"Next: {self._wanted}."

    @property
    def _after_pass(self) -> str:
        if self.margin_warning is not None and not self._stake[0] > 0:
            return (
                "there is nothing to gain here: keep what you have, or fit again on more data or "
                "with other rules."
            )
        if self.margin_warning is not None:
            limit = self.answer.amount(self._stake[0], 2)
            return (
                f"before you deploy, fit with an epsilon below {limit}, which may take more data, "
                "and certify on data that nobody has looked at yet."
            )
        if self.better_rule is not None:
            return (
                "keep that rule, or fit again on more data or with a smaller epsilon, and certify "
                "on data that nobody has looked at yet."
            )
        return f"deploy {OURS}, and certify it again on later data."

    @property
    def _after_fail(self) -> str:
        verdicts = self.answer.certificate.verdicts
        if [name for name, verdict in verdicts.items() if verdict == "fail"] == ["segments"]:
            return (
                f"use it only outside {self.answer.named('fail')}, or fit again with "
                "segments, and certify that."
            )
        return (
            f"keep {self._leader}. Fit again on more data, or with a smaller epsilon, and certify "
            "that."
        )

    @property
    def _wanted(self) -> str:
        """What would decide an inconclusive verdict."""
        found, enough = self.answer.certificate, round_up(-self.answer.certificate.lowest)
        accept = f"accept a margin of {self.answer.amount(enough)}"
        # No margin makes up for being worse than plain or isotonic.
        gains = found.improvement.upper, found.approximate["improvement"].upper
        worse = min(gains) < 0 or min(rival.difference.mean for rival in found.rivals[1:]) < 0
        helps = found.margin < enough < max(found.best_rule.mean, found.plain.mean) and not worse
        if found.more is not None:
            words = f"{about(found.more, found.unit)} would decide it"
            if found.more > FAR * found.n_observations:
                words = f"these data are far from deciding it; {words}"
            return f"{words}, or {accept}" if helps else words
        words = f"collect more {plural(found.unit)}; these cannot say how many would decide it"
        return f"{words}. To pass on these, {accept}" if helps else words

    @property
    def _alike(self) -> str:
        """Another way out where sizes of clusters vary."""
        unit = self.answer.certificate.unit
        if unit == self.answer.instance:
            return ""
        return f" Or let every {unit} count the same: weights of 1 / size, and --max-weight 1."

    @property
    def better(self) -> str:
        """Who is better, where the verdict is fail."""
        found = self.answer.certificate
        failed = [name for name, verdict in found.verdicts.items() if verdict == "fail"]
        parts = []
        if "rules" in failed:
            parts.append(
                f"{self._worst_rule} is better by more than {self.answer.amount(found.margin)}"
            )
        if words := [PHRASES[name] for name in failed if name in ("plain", "isotonic")]:
            parts.append(f"{listed(words)} {'is' if len(words) == 1 else 'are'} better")
        if "segments" in failed:
            parts.append(f"in {self.answer.named('fail')}, {self._better_inside} is better")
        return ", and ".join(parts)

    @property
    def _better_inside(self) -> str:
        """Who is better in the worst segment that fails."""
        failed = [one for one in self.answer.certificate.segments if one.verdict == "fail"]
        if not failed:
            return "some rival"
        return f"'{self.answer.name(min(failed, key=lambda one: one.gap).best_rival)}'"

    @property
    def _worst_rule(self) -> str:
        """The rule that is furthest ahead; unnamed if only all of them together are."""
        failed = [rule for rule in self.answer.certificate.rules if rule.verdict == "fail"]
        if not failed:
            return "the rule" if len(self.answer.certificate.rules) == 1 else "some rule"
        first = min(failed, key=lambda rule: rule.difference.mean)
        return f"the rule '{self.answer.name(first.name)}'"

    @property
    def _leader(self) -> str:
        """What to go on with, where the verdict is fail."""
        found = self.answer.certificate
        ahead = {rival.name: rival.difference.mean for rival in found.rivals}
        ahead["rules"] = min(rule.difference.mean for rule in found.rules)
        failed = [name for name in ahead if found.verdicts[name] == "fail"]
        first = min(failed or ahead, key=ahead.__getitem__)
        if first != "rules":
            return PHRASES[first]
        return "the rules" if self._worst_rule == "some rule" else self._worst_rule


def about(number: int, unit: str) -> str:
    """About so many more, rounded up to two digits."""
    digits = max(0, len(str(number)) - 2)
    rounded = -(-number // 10**digits) * 10**digits
    figure, noun = count(rounded, unit).split(" ", 1)
    return f"about {figure} more {noun}"
