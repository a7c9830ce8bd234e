"""The grid of runs: which problems, predictors, seeds, epsilons and batch sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any

from outrule.calibration.check import FixedStep, Flagged, LineSearch, Step
from outrule.errors import check_number, refuse_argument

OWNER = "outrule reproduce"
REGIMES = ("brief", "converged")
PAPER_PROBLEMS = ("best-action", "matching")
N_ITEMS = {"matching": 45, "rejection": 3, "partition": 15, "graphic": 15}
PROBLEMS = ("best-action", *N_ITEMS)
LARGEST = 2**20  # instances in a round


@dataclass(frozen=True)
class Unit:
    """Synthetic data with a trained predictor, on which the whole grid is run."""

    problem: str
    n_items: int
    regime: str
    seed: int

    @property
    def name(self) -> str:
        """For files and for people."""
        return f"{self.problem}-{self.n_items}-{self.regime}-{self.seed}"


@dataclass(frozen=True)
class Point:
    """One point of the grid: the settings of one run of the loop."""

    name: str  # of the step, in the tables
    step: Step
    epsilon: float
    tolerance: float
    batch_size: int


@dataclass(frozen=True)
class GivenStep(Step):
    """A step of this length, whatever was flagged."""

    length: float

    def size(self, flagged: Flagged, tolerance: float, k: int) -> float:
        return self.length


@dataclass(frozen=True)
class Grid:
    """What to run; the defaults are the whole evaluation."""

    problems: tuple[str, ...] = PROBLEMS
    items: tuple[int, ...] = (4, 16, 64, 256)  # numbers of actions m, for best-action
    regimes: tuple[str, ...] = REGIMES  # how long the base predictor was trained
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)  # of the paper's problems: each has separate worlds
    other_seeds: tuple[int, ...] = (0,)  # of the other problems
    epsilons: tuple[float, ...] = tuple(2.0**-i for i in range(1, 8))  # twice the tolerance
    batch_sizes: tuple[int, ...] = tuple(2**i for i in range(4, 11))
    rounds: int = 1024  # of every run: like the paper's, they do not stop early
    n_rules: int = 1024  # sampled from the paper's grid of multipliers, if it has more
    n_test: int = 4000  # instances on which values are measured
    other_batches: tuple[int, ...] = (1024,)  # batch sizes of the other steps and readings
    other_epsilons: tuple[float, ...] = (1 / 4, 1 / 16)  # of these runs
    equal_batches: tuple[int, ...] = (16,)  # batch sizes whose total of samples Reuse gets
    equal_epsilons: tuple[float, ...] = (1 / 4, 1 / 16)  # of these runs

    def __post_init__(self) -> None:
        _check_words(self.problems, "--problem", PROBLEMS)
        _check_words(self.regimes, "--regime", REGIMES)
        _check_numbers(self.items, "--items", 1, 4096)
        for seeds in (self.seeds, self.other_seeds):
            _check_numbers(seeds, "--seed", 0, 2**32 - 1)
        _check_numbers(self.epsilons, "--epsilon", 2.0**-20, 1, integer=False)
        _check_numbers(self.batch_sizes, "--batch-size", 1, LARGEST)
        counts = {"--rounds": self.rounds, "n_rules": self.n_rules, "n_test": self.n_test}
        for name, value in counts.items():
            check_number(value, name, OWNER, 1, low_open=False, integer=True)

    def units(self) -> list[Unit]:
        """The units, small ones first."""
        return [
            Unit(problem, n_items, regime, seed)
            for regime in self.regimes
            for problem in self.problems
            for n_items in ([N_ITEMS[problem]] if problem in N_ITEMS else sorted(self.items))
            for seed in (self.seeds if problem in PAPER_PROBLEMS else self.other_seeds)
        ]

    def points(self, batch_size: int, n_items: int, k: int) -> list[Point]:
        """The runs at one batch size, of a problem that chooses k of ``n_items`` items.

        Beside the fixed step are another one, and other readings of the paper's step and tolerance:
        Algorithm 1 has a step of alpha / 2, where alpha is the tolerance divided by sqrt(m). The
        footnote of section 5.3 has alpha = epsilon / k for matchings, and compares violations with
        alpha itself.
        """
        found = [Point("fixed", FixedStep(), e, e / 2, batch_size) for e in self.epsilons]
        for e in self.other_epsilons if batch_size in self.other_batches else ():
            half = GivenStep(e / (4 * sqrt(n_items)))
            found.append(Point("line search", LineSearch(), e, e / 2, batch_size))
            found.append(Point("alpha / 2", half, e, e / 2, batch_size))
            if k > 1:
                found.append(Point("footnote", GivenStep(e / (2 * k)), e, e / k, batch_size))
        return found

    def as_json(self) -> dict[str, Any]:
        """The fields as JSON has them."""
        fields = asdict(self).items()
        return {name: list(v) if isinstance(v, tuple) else v for name, v in fields}


def _check_words(words: Sequence[str], name: str, known: Sequence[str]) -> None:
    if not words or len(set(words)) < len(words) or not set(words) <= set(known):
        expected = f"one or more of {', '.join(known)}, none of them twice"
        raise refuse_argument(", ".join(words), name, OWNER, expected)


def _check_numbers(
    values: Sequence[Any], name: str, low: float, high: float, *, integer: bool = True
) -> None:
    if not values or len(set(values)) < len(values):
        raise refuse_argument(values, name, OWNER, "one or more numbers, none of them twice")
    for value in values:
        check_number(value, name, OWNER, low, high, low_open=False, integer=integer)


FULL = Grid()
QUICK = Grid(
    items=(4, 16),
    seeds=(0, 1),
    epsilons=(1 / 4, 1 / 16, 1 / 64),
    batch_sizes=(16, 64, 256),
    rounds=64,
    n_rules=64,
    n_test=1000,
    other_batches=(256,),
    equal_batches=(16,),
)
PAPER_ONLY: dict[str, Any] = {  # changes that leave out what the paper does not have
    "problems": PAPER_PROBLEMS,
    "regimes": ("brief",),
    "other_batches": (),
    "equal_batches": (),
}
