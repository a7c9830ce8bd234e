"""The grid of the evaluation: what was asked for enters, units of work leave, or a refusal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from outrule.calibration.check import FixedStep, LineSearch, Step
from outrule.errors import check_number, refuse_argument

OWNER = "reproduce"
REGIMES = ("brief", "converged")
N_ITEMS = {"matching": 45, "rejection": 3, "partition": 15, "graphic": 15}
PROBLEMS = ("best-action", *N_ITEMS)
LARGEST = 2**20  # instances in a round


@dataclass(frozen=True)
class Unit:
    """A world with a trained predictor, on which the whole grid is run."""

    problem: str
    n_items: int
    regime: str
    seed: int

    @property
    def name(self) -> str:
        """For files and for people."""
        return f"{self.problem}-{self.n_items}-{self.regime}-{self.seed}"


@dataclass(frozen=True)
class Line:
    """One point of the grid: a run of the loop."""

    step: Step
    tolerance: float
    batch_size: int


@dataclass(frozen=True)
class Settings:
    """What to run.

    Parameters
    ----------
    problems : names; the paper evaluates best-action and matching
    items : numbers of actions m, for best-action
    regimes : how long the base predictor was trained, brief or converged
    seeds : one world each, of every problem but matching, as in the paper
    matching_seeds : those of matching
    epsilons : a run's tolerance is epsilon / 2, as Theorem 3.1 asks
    batch_sizes : instances that CHECK sees in a round
    rounds : as many as there are; the paper's runs do not exit early
    n_rules : multipliers on the grid of the paper, or a sample of so many
    n_test : instances on which values are measured
    line_batches : batch sizes at which the line search is run beside the fixed step, on one world
    equal_batches : batch sizes whose total of samples the other CHECKs are given, on one world
    equal_epsilons : at which they run
    """

    problems: tuple[str, ...] = PROBLEMS
    items: tuple[int, ...] = (4, 16, 64, 256)
    regimes: tuple[str, ...] = REGIMES
    seeds: tuple[int, ...] = (0,)
    matching_seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    epsilons: tuple[float, ...] = tuple(2.0**-i for i in range(1, 8))
    batch_sizes: tuple[int, ...] = tuple(2**i for i in range(4, 11))
    rounds: int = 1024
    n_rules: int = 1024
    n_test: int = 4000
    line_batches: tuple[int, ...] = (64, 256)
    equal_batches: tuple[int, ...] = (16, 64)
    equal_epsilons: tuple[float, ...] = (1 / 4, 1 / 16)

    def __post_init__(self) -> None:
        _check_words(self.problems, "problem", PROBLEMS)
        _check_words(self.regimes, "regime", REGIMES)
        _check_numbers(self.items, "items", 1, 4096, integer=True)
        for seeds in (self.seeds, self.matching_seeds):
            _check_numbers(seeds, "seed", 0, 2**32 - 1, integer=True)
        _check_numbers(self.epsilons, "epsilon", 2.0**-20, 1, integer=False)
        _check_numbers(self.batch_sizes, "batch-size", 1, LARGEST, integer=True)
        for name in ("rounds", "n_rules", "n_test"):
            check_number(getattr(self, name), name, OWNER, 1, low_open=False, integer=True)

    def units(self) -> list[Unit]:
        """The worlds, small ones first."""
        return [
            Unit(problem, n_items, regime, seed)
            for regime in self.regimes
            for problem in self.problems
            for n_items in ([N_ITEMS[problem]] if problem in N_ITEMS else sorted(self.items))
            for seed in (self.matching_seeds if problem == "matching" else self.seeds)
        ]

    def is_first(self, seed: int) -> bool:
        """Whether the worlds of a seed are the first, on which what the paper lacks is run too."""
        return seed == min(self.seeds + self.matching_seeds)

    def lines(self, batch_size: int, seed: int) -> list[Line]:
        """The runs at one batch size; the line search on the first world only."""
        steps: list[Step] = [FixedStep()]
        if batch_size in self.line_batches and self.is_first(seed):
            steps.append(LineSearch())
        return [Line(step, e / 2, batch_size) for step in steps for e in self.epsilons]


def _check_words(words: Sequence[Any], name: str, known: tuple[str, ...]) -> None:
    expected = f"one of {', '.join(known)}"
    if not words:
        raise refuse_argument(words, name, OWNER, expected)
    for word in words:
        if word not in known:
            raise refuse_argument(word, name, OWNER, expected)
    _check_distinct(words, name)


def _check_numbers(
    values: Sequence[Any], name: str, low: float, high: float, *, integer: bool
) -> None:
    if not values:
        raise refuse_argument(values, name, OWNER, "at least one number")
    for value in values:
        check_number(value, name, OWNER, low, high, low_open=False, integer=integer)
    _check_distinct(values, name)


def _check_distinct(values: Sequence[Any], name: str) -> None:
    if len(set(values)) < len(values):
        raise refuse_argument(values, name, OWNER, "given once each")


QUICK = Settings(
    items=(4, 16),
    matching_seeds=(0,),
    epsilons=(1 / 4, 1 / 16, 1 / 64),
    batch_sizes=(16, 64, 256),
    rounds=64,
    n_rules=64,
    n_test=1000,
    line_batches=(64, 256),
    equal_batches=(64,),
)
FULL = Settings()
PAPER: dict[str, Any] = {  # what changes to leave out all that the paper does not have
    "problems": ("best-action", "matching"),
    "regimes": ("brief",),
    "line_batches": (),
    "equal_batches": (),
}
