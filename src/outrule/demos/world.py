"""The synthetic demos of `outrule demo`: fit on one draw of data, certify on another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from outrule import worlds
from outrule.estimators.calibrator import DecisionCalibrator
from outrule.problems.contract import Problem
from outrule.problems.matchings import Matching
from outrule.problems.one_item import BestAction
from outrule.proof.certificate import Certificate, certify
from outrule.rules.rules import Fixed, Multiplier, Rule, multipliers
from outrule.types import Floats

Draw = Callable[[int], tuple[Floats, Floats]]


@dataclass(frozen=True, eq=False)
class WorldDemo:
    """A problem with rules and a source of data; ``draw(seed)`` gives predictions and outcomes."""

    title: str
    problem: Problem
    rules: tuple[Rule, ...]
    epsilon: float  # of the paper's algorithm, which needs one
    draw: Draw


@dataclass(frozen=True, eq=False)
class DemoResult:
    """What a demo found, with the default settings and with the paper's algorithm."""

    demo: WorldDemo
    calibrator: DecisionCalibrator
    certificate: Certificate
    paper: Certificate


def best_action() -> WorldDemo:
    """The paper's best-action evaluation, m = 16, with a briefly trained linear predictor."""
    draw = _quadratic(16, 20_000)
    title = "choose one of 16 actions, 20,000 instances, 256 rules of multipliers"
    return WorldDemo(title, BestAction(), multipliers(16, limit=256), 1 / 32, draw)


def matching() -> WorldDemo:
    """The paper's matching evaluation on the complete graph with 10 nodes, fewer rules."""
    draw = _quadratic(45, 5_000)
    title = "match 10 nodes, 45 edges, 5,000 instances, 128 rules of multipliers"
    return WorldDemo(title, Matching.complete(10), multipliers(45, limit=128), 1 / 8, draw)


def two_arms() -> WorldDemo:
    """The paper's introduction: an unbiased predictor on which argmax is nearly always wrong."""
    title = "the two arms of the paper's introduction, 20,000 instances"
    rules = (Fixed(0), Fixed(1), Multiplier([1.0, 1.0], "plain optimiser"))
    return WorldDemo(title, BestAction(), rules, 0.02, lambda seed: worlds.two_arms(20_000, seed))


DEMOS = {"best-action": best_action, "matching": matching, "two-arms": two_arms}


def run(name: str) -> DemoResult:
    """Fit on one draw of the demo's data and certify on another."""
    demo = DEMOS[name]()
    training, held_out = demo.draw(1), demo.draw(2)
    ours = DecisionCalibrator(demo.problem, demo.rules)
    paper = DecisionCalibrator(demo.problem, demo.rules, demo.epsilon, start=None, rivals=())
    certificates = [certify(one.fit(*training), *held_out) for one in (ours, paper)]
    return DemoResult(demo, ours, *certificates)


def _quadratic(n_items: int, n: int) -> Draw:
    world = worlds.Quadratic(n_items, seed=0)
    predictor = worlds.brief_predictor(world, seed=0)
    return lambda seed: worlds.draw(world, predictor, n, seed)
