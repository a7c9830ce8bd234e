"""Outcomes only for what was chosen: fits on a log vs on all outcomes, and how bounds hold.

    python benchmarks/logs.py [--cases NAME ...] [--seeds 3] [--holdouts 1000] [--sizes 2000 20000]

The real cases of compare.py, whose outcomes are all known, as a log would show them: a simulated
logger, who knows more than the base model, chooses by a softmax of a noisy score (the mean of
prediction and outcome, plus noise), with a propensity of at least 0.02; the outcomes of all else in
the calibration part are hidden. *Full*
is fitted on all outcomes, *log* on the log with its propensities, *ignored* on the same outcomes
as if all had been equally likely to be seen. Values and the largest violation are those of all
outcomes of the test part; the form reader's are per image. The largest of many violations contains
the noise of the test part: *surely* is the largest lower bound of a violation's size and *at most*
the largest upper one, by t intervals that hold for all tests together with 95 % confidence. *Above*
counts the splits in which the largest violation is above 1.5 times the tolerance, and those in
which it surely is.

Then the discrete world of bounds.py, where the truth is known: how often ``gap_lower`` of logged
certificates is below the true gap (to the rules, plain and isotonic), how often the lower bound of
the truly worst rival alone is, and the mean distance, beside certificates that see all outcomes,
for two sharpnesses of the softmax. *default*: ten calibrators with default settings, each fitted on
another log, in turn; *loop alone*: one with epsilon=0.1, start=None, rivals=(). Same seeds, same
figures on every machine.
"""

from __future__ import annotations

import argparse
import warnings
from contextlib import nullcontext
from dataclasses import replace
from itertools import product
from pathlib import Path
from unittest.mock import patch

import numpy as np
from bounds import N_ACTIONS, DiscreteWorld
from cases import CASES, Data
from numpy.typing import NDArray
from scipy.stats import binomtest
from sklearn.exceptions import ConvergenceWarning

import outrule

HERE = Path(__file__).parent
REAL = ("coupon", "flights", "escalate", "forms")
LEAST, SHARPNESS, NOISE = 0.02, 4.0, 0.3
N_DIGITS = 10
STARTS = ("default", "loop alone")
Floats = NDArray[np.float64]


def softmax(score: Floats, offered: NDArray[np.bool_], sharpness: float = SHARPNESS) -> Floats:
    """Probabilities of the offered items, of at least LEAST each."""
    weight = np.where(offered, np.exp(sharpness * (score - score.max(axis=1, keepdims=True))), 0.0)
    share = weight / weight.sum(axis=1, keepdims=True)
    return np.where(offered, LEAST + share * (1 - LEAST * offered.sum(axis=1, keepdims=True)), 0.0)


def choose(odds: Floats, generator: np.random.Generator) -> NDArray[np.bool_]:
    """One column of every row, with these probabilities."""
    column = (generator.random((len(odds), 1)) < odds.cumsum(axis=1)).argmax(axis=1)
    return np.arange(odds.shape[1]) == column[:, None]


def logged(
    instances: outrule.Instances, name: str, seed: int, sharpness: float = SHARPNESS
) -> outrule.Instances:
    """The instances as a log of chosen items shows them."""
    generator = np.random.default_rng([seed, REAL.index(name) if name in REAL else 9])
    wide = instances.origin.spread(instances.prediction)
    offered = ~np.isnan(wide)
    known = (wide + instances.origin.spread(instances.outcome)) / 2
    noisy = np.nan_to_num(known) + NOISE * generator.normal(size=wide.shape)
    if name == "forms":
        odds, seen = one_of_ten_assignments(noisy, generator)
    else:
        odds = softmax(noisy, offered, sharpness)
        seen = choose(odds, generator)
    if name == "escalate":  # what the expert costs is always known
        odds[:, -1], seen[:, -1] = 1.0, True
    gather = instances.origin.gather
    outcome = np.where(gather(seen), instances.outcome, np.nan)
    found = replace(instances, outcome=outcome, propensity=gather(odds))
    found.check_values()
    return found


def one_of_ten_assignments(
    noisy: Floats, generator: np.random.Generator
) -> tuple[Floats, NDArray[np.bool_]]:
    """The best assignment of digits to images, or all digits moved on by 1 to 9."""
    n = len(noisy)
    best = outrule.Assignment(N_DIGITS, N_DIGITS).solve(np.clip(noisy, 1e-9, None))
    best = best.reshape(n, N_DIGITS, N_DIGITS)
    moved = np.stack([np.roll(best, shift, axis=2) for shift in range(N_DIGITS)], axis=1)
    score = (moved * noisy.reshape(n, 1, N_DIGITS, N_DIGITS)).sum(axis=(2, 3)) / N_DIGITS
    odds = softmax(score, np.ones(score.shape, dtype=bool))
    one = choose(odds, generator)
    flat = moved.reshape(n, N_DIGITS, -1)
    return (odds[:, :, None] * flat).sum(axis=1), (one[:, :, None] & flat).any(axis=1)


def ignored(log: outrule.Instances) -> outrule.Instances:
    """As if every outcome had been equally likely to be observed."""
    assert log.propensity is not None
    same = np.where(log.observed, log.observed.mean(), np.nan)
    return replace(log, propensity=same)


def compare(data: Data, name: str, seed: int) -> list[tuple[str, Floats]]:
    """Value; largest violation, surely, at most; and tolerance of each fit, on the test part."""
    log, rows = logged(data.calibration, name, seed), []
    per = N_DIGITS if name == "forms" else 1
    for kind, training in (("full", data.calibration), ("log", log), ("ignored", ignored(log))):
        calibrator = outrule.DecisionCalibrator(data.problem, data.rules)
        # The package refuses a log whose choices contradict its propensities.
        with patch("outrule.model.fitting.check_chosen") if kind == "ignored" else nullcontext():
            fitted = calibrator.fit(training)
        found = [one.after for one in outrule.certify(fitted, data.test).violations]
        sizes = [(abs(v.mean), max(v.lower, -v.upper, 0.0), max(-v.lower, v.upper)) for v in found]
        value = outrule.metrics.value(data.test, decisions=fitted.decide(data.test))
        numbers = [value, *np.max(sizes, axis=0), fitted.tolerance_]
        rows.append((kind, np.array(numbers) / per))
    return rows


def table(names: list[str], seeds: int, cache: Path) -> None:
    words = "value | difference to full | violation | surely | at most | tolerance | above"
    print(f"| case | base model | fitted on | {words} |")
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    for name in names:
        for model in CASES[name].models:
            found = [compare(CASES[name].load(model, s, cache), name, s) for s in range(seeds)]
            for number, (kind, _) in enumerate(found[0]):
                runs = np.array([run[number][1] for run in found])
                off = runs[:, 0] - [run[0][1][0] for run in found]
                error = f" ± {off.std(ddof=1) / np.sqrt(seeds):.4f}" if seeds > 1 and number else ""
                above = [int((runs[:, i] > 1.5 * runs[:, 4]).sum()) for i in (1, 2)]
                value, *violation = runs.mean(axis=0)
                shown = " | ".join(f"{one:.4f}" for one in violation)
                print(
                    f"| {name} | {model} | {kind} | {value:.4f} | {off.mean():+.4f}{error} "
                    f"| {shown} | {above[0]}, {above[1]} of {seeds} |",
                    flush=True,
                )


def fitted(world: DiscreteWorld, sharpness: float, start: str) -> list[outrule.DecisionCalibrator]:
    """Fitted on logs of 2,000 instances: ten with default settings, or one of the loop alone."""
    rules = (
        *(outrule.Fixed(action) for action in range(N_ACTIONS)),
        outrule.Multiplier([1.3, 1.1, 0.9, 0.7], name="tilt"),
        outrule.Multiplier([0.0, 1.0, 1.0, 1.0], name="never the first"),
    )
    settings = {} if start == "default" else {"epsilon": 0.1, "start": None, "rivals": ()}
    found = []
    for number in range(10 if start == "default" else 1):
        past = world.draw(2_000, "instances", np.random.default_rng([1, number]))
        log = logged(past, "world", 1_000_000 * number, sharpness)
        made = outrule.DecisionCalibrator(outrule.BestAction(), rules, **settings)
        found.append(made.fit(log))
    return found


def coverage(start: str, n: int, holdouts: int, sharpness: float) -> None:
    """Logged certificates beside those that see all outcomes of the same hold-outs."""
    world = DiscreteWorld.make(seed=0)
    calibrators = fitted(world, sharpness, start)
    truths = [world.true_differences(one, "instances") for one in calibrators]
    rows = []
    for number in range(holdouts):
        full = world.draw(n, "instances", np.random.default_rng([number, n]))
        pair = (full, logged(full, "world", number + 1, sharpness))
        which = number % len(calibrators)
        truth, worst = truths[which].min(), truths[which].argmin()
        for data in pair:
            found = outrule.certify(calibrators[which], data)
            alone = (*found.rules, *found.rivals)[worst].lower
            rows.append([found.gap_lower <= truth, alone <= truth, truth - found.gap_lower])
    for kind, which in (("full", 0), ("log", 1)):
        held, alone, far = np.array(rows)[which::2].T
        ratio = far.mean() / np.array(rows)[::2, 2].mean()
        line = f"{start} | {sharpness:g} | {n:,} | {kind} | {holdouts:,} | {share(held)}"
        print(f"| {line} | {share(alone)} | {far.mean():.4f} | {ratio:.2f} |", flush=True)


def share(held: Floats) -> str:
    """How often something held, with its exact 95 % interval."""
    test = binomtest(int(held.sum()), len(held)).proportion_ci()
    return f"{100 * held.mean():.1f} % ({100 * test.low:.1f} to {100 * test.high:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", nargs="*", choices=REAL, default=REAL, metavar="NAME")
    parser.add_argument("--seeds", type=int, default=3, help="splits")
    parser.add_argument("--holdouts", type=int, default=1_000)
    parser.add_argument("--sizes", type=int, nargs="*", default=(2_000, 20_000), metavar="N")
    parser.add_argument("--cache", type=Path, default=HERE / ".cache")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    if options.cases:
        table(options.cases, options.seeds, options.cache)
    if options.holdouts:
        words = "fitted | sharpness | instances | outcomes | hold-outs | gap_lower holds"
        print(f"| {words} | the worst rival's does | below the truth by | times full |")
        print("|---|---|---|---|---|---|---|---|---|", flush=True)
        for n, start, sharpness in product(options.sizes, STARTS, (2.0, SHARPNESS)):
            coverage(start, n, options.holdouts, sharpness)


if __name__ == "__main__":
    main()
