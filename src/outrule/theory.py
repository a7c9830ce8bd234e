"""The bounds of the paper as functions; docs/theory.md explains them, docs/glossary.md the words.

Predictions and outcomes are in [0, 1]; logarithms are natural.

    argument           paper     meaning
    epsilon            eps       how far below the best rule is acceptable, per instance
    tolerance (tau)    sqrt(m)a  largest |E<w, y - p>| left for any test w; a is the paper's alpha
    ratio                        share of the optimum that the optimiser guarantees
    k                  sqrt(m)   largest size of a decision
    n_items, n_nodes   m, n      items of an instance (edges, actions, elements); nodes of a graph
    rank               r (4)     rank of a matroid (section 4)
    squared_error      r         E||p - E[y|x]||^2 of the start, summed over items
    violation (v)                E<w, y - p> of one test
    mean_size                    E|w|, the mean number of items that the test marks
    step               eta       how far one update moves the marked predictions
    n_rules, n_tests   |C|, |W|  rules; tests: one per rule and the optimiser's
    rounds             T         calls of CHECK
    delta              delta     probability of failure
    alert              1/2       smallest true violation of a flagged test, in units of tau
    margin             1/2       largest error of an estimated violation, in units of tau
    size (s)           n         nodes of a graph, rank of a matroid, 1 for best action
    adaptive                     False: a fresh batch every round; True: the same data every round
    privacy                      epsilon of differential privacy, of all rounds or of one look
"""

import math
from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, NamedTuple, ParamSpec, TypeVar

from outrule.errors import check_number

_UNIT: dict[str, Any] = {"low": 0, "high": 1}
_COUNT: dict[str, Any] = {"low": 1, "low_open": False, "integer": True}
_TWO: dict[str, Any] = _COUNT | {"low": 2}
_RANGES: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("epsilon", "ratio", "margin"), _UNIT),
    "tolerance": {"low": 0},  # decisions of k items can differ by k
    **dict.fromkeys(("k", "n_items", "n_nodes", "n_rules", "n_tests"), _COUNT),
    **dict.fromkeys(("rank", "size", "rounds"), _COUNT),
    "delta": _UNIT | {"high_open": True},
    "squared_error": {"low": 0, "low_open": False},
    "step": {"low": 0, "low_open": False},
    "alert": {"low": 0.25, "high": 1},  # at 1/4 the fixed step may gain nothing
    "violation": {},
    "mean_size": {"low": 0},
    "privacy": {"low": 0},
}
_P = ParamSpec("_P")
_R = TypeVar("_R")


def _checked(**special: dict[str, Any]) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Check every argument that has a range before the function runs."""
    ranges = _RANGES | special

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @wraps(function)
        def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            for name, value in signature(function).bind(*args, **kwargs).arguments.items():
                if name in ranges:
                    check_number(value, name, function.__name__, **ranges[name])
            return function(*args, **kwargs)

        return checked

    return decorate


@_checked(epsilon={"low": 0})
def tolerance(epsilon: float, ratio: float = 1.0) -> float:
    """Tolerance that guarantees a loss of at most epsilon, ``epsilon / (1 + ratio)`` (Theorem 3.1).

    >>> tolerance(0.25), tolerance(0.75, ratio=0.5)
    (0.125, 0.5)
    """
    return epsilon / (1 + ratio)


@_checked()
def guarantee(tolerance: float, ratio: float = 1.0) -> float:
    """Loss that a tolerance guarantees; the inverse of `tolerance` (Theorem 3.1)."""
    return (1 + ratio) * tolerance


@_checked()
def alpha_matching(tolerance: float, n_items: int) -> float:
    """The paper's alpha for matching, ``tau / sqrt(m)`` (Definition 2.1, Theorem 3.1)."""
    return tolerance / math.sqrt(n_items)


@_checked()
def alpha_matroid(tolerance: float, rank: int) -> float:
    """The paper's alpha for a max-weight base, ``tau / rank`` (section 4).

    Section 4 prints epsilon / rank, which guarantees 2 epsilon; epsilon needs half of it.
    """
    return tolerance / rank


@_checked()
def alpha_best_action(tolerance: float) -> float:
    """The paper's alpha for best action, which is the tolerance itself (section 4)."""
    return float(tolerance)


@_checked()
def fixed_step(tolerance: float, k: int) -> float:
    """Step of Algorithm 1, ``tau / (2 k)`` (section 3.2)."""
    return tolerance / (2 * k)


@_checked()
def potential_drop(*, violation: float, step: float, mean_size: float) -> float:
    """Smallest fall of the squared error in one round, ``2 eta |v| - eta^2 E|w|`` (Theorem 3.3).

    Negative when the step is more than twice `line_search_step`.

    >>> potential_drop(violation=-0.5, step=0.25, mean_size=2)
    0.125
    """
    return 2 * step * abs(violation) - step**2 * mean_size


@_checked()
def line_search_step(violation: float, mean_size: float) -> float:
    """Step with the largest `potential_drop`, ``|v| / E|w|``; the drop is ``v^2 / E|w|``.

    On the simplex of c classes ``1 - 1/c`` takes the place of 1 in the mean size, as the projection
    takes the rest of a step back: the step is longer, and the drop at least as large.
    """
    return abs(violation) / mean_size


@_checked()
def rounds(*, squared_error: float, k: int, tolerance: float, alert: float = 0.5) -> int:
    """Largest number of updates with `fixed_step`, ``4 k r / ((4 alert - 1) tau^2)`` (Theorem 3.3).

    One more CHECK, without an update, ends the loop.

    >>> rounds(squared_error=45, k=5, tolerance=0.125)
    57600
    """
    return _whole(4 * k * squared_error / ((4 * alert - 1) * tolerance**2))


@_checked(alert=_UNIT)
def rounds_line_search(
    *, squared_error: float, k: int, tolerance: float, alert: float = 0.5
) -> int:
    """Largest number of updates with `line_search_step`, ``k r / (alert tau)^2``."""
    return _whole(k * squared_error / (alert * tolerance) ** 2)


@_checked()
def batch_size(
    *, k: int, tolerance: float, n_tests: int, rounds: int, delta: float, margin: float = 0.5
) -> int:
    """Fresh batch that estimates every test in every round to within margin (Theorem 3.3).

    ``2 k^2 ln(2 T |W| / delta) / (margin tau)^2``, by Hoeffding and a union bound. The paper has
    margin 1/2 and flags at 1/2; the sound pair is 1/4 and 3/4, at four times the instances.

    >>> batch_size(k=1, tolerance=0.125, n_tests=1025, rounds=1024, delta=0.05)
    8988
    """
    return _whole(2 * k**2 * math.log(2 * rounds * n_tests / delta) / (margin * tolerance) ** 2)


@_checked()
def fresh_samples(
    *,
    squared_error: float,
    k: int,
    tolerance: float,
    n_tests: int,
    delta: float,
    alert: float = 0.5,
    margin: float = 0.5,
) -> int:
    """Instances for all rounds with a fresh batch each: `rounds` times `batch_size` (Theorem 3.3).

    >>> fresh_samples(squared_error=4, k=1, tolerance=0.125, n_tests=1025, delta=0.05)
    9203712
    """
    n_rounds = max(1, rounds(squared_error=squared_error, k=k, tolerance=tolerance, alert=alert))
    return n_rounds * batch_size(
        k=k, tolerance=tolerance, n_tests=n_tests, rounds=n_rounds, delta=delta, margin=margin
    )


@_checked()
def adaptive_samples(
    *, squared_error: float, size: int, epsilon: float, n_rules: int, delta: float
) -> int:
    """Instances when every round uses the same data, without its constant (section 3.3).

    ``s^2.5 sqrt(r) log(s |C| / epsilon) log^1.5(s / (epsilon delta)) / epsilon^3``; the paper
    gives no constant, so only ratios of this number mean anything.

    >>> adaptive_samples(squared_error=45, size=10, epsilon=0.25, n_rules=1024, delta=0.05)
    24919504
    """
    logs = math.log(size * n_rules / epsilon) * math.log(size / (epsilon * delta)) ** 1.5
    return _whole(size**2.5 * math.sqrt(squared_error) * logs / epsilon**3)


class Budget(NamedTuple):
    """What reusing the same data may cost, so that what is found on it is true (section 3.3)."""

    privacy: float  # epsilon of all rounds together
    privacy_delta: float  # and its delta
    noise: float  # the largest error that noise may cause, in units of the violation
    failure: float  # the probability that it causes a larger one


@_checked()
def private_budget(*, k: int, tolerance: float, delta: float, margin: float = 0.25) -> Budget:
    """Budget with which violations found on the same data are within margin of the truth.

    By the transfer theorem of Jung, Ligett, Neel, Roth, Sharifi-Malvajerdi and Shenfeld (ITCS
    2020): what an (e, d')-private analysis says of its sample to within a, but for a probability b,
    holds for the population to within ``a + (exp(e) - 1) + c + 2 d`` of the range, but for
    ``b / c + d' / d``. The range of a violation is 2 k. Noise and privacy get 44 % of the margin
    each, c and d 4 % each, which only costs logarithms.

    >>> private_budget(k=1, tolerance=0.125, delta=0.05).privacy
    0.00685...
    """
    share = margin * tolerance / (2 * k)
    each = 0.04 * share * delta / 2
    return Budget(math.log1p(0.44 * share), each, 0.44 * margin * tolerance, each)


@_checked()
def budget_per_look(privacy: float, delta: float, rounds: int) -> float:
    """The epsilon of one look, such that two looks in every round cost ``privacy`` in all.

    Advanced composition (Dwork, Rothblum and Vadhan 2010) in the form
    ``privacy = e * sqrt(2 T ln(1/delta)) + T e (exp(e) - 1)``, solved by bisection.
    """
    looks = 2 * rounds
    # Above one, T e (exp(e) - 1) is at least exp(e) - 1: no larger e can be paid.
    low, high = 0.0, min(privacy, 1 + math.log1p(privacy))
    for _ in range(200):
        middle = (low + high) / 2
        cost = middle * math.sqrt(2 * looks * math.log(1 / delta))
        cost += looks * middle * math.expm1(middle)
        low, high = (middle, high) if cost <= privacy else (low, middle)
    return max(low, privacy / looks)  # plain composition is better for large budgets


@_checked()
def private_samples(
    *, k: int, tolerance: float, n_tests: int, rounds: int, delta: float, margin: float = 0.25
) -> int:
    """Instances for `private_budget`, with its constants; compare `adaptive_samples`.

    A look has sensitivity ``2 k / n``. In each round the exponential mechanism draws one of 2 |W|
    tests and signs, and Laplace noise is added to its violation; both must be small in all rounds.

    >>> private_samples(k=1, tolerance=0.125, n_tests=1025, rounds=62, delta=0.05)
    69991364
    """
    budget = private_budget(k=k, tolerance=tolerance, delta=delta, margin=margin)
    look = budget_per_look(budget.privacy, budget.privacy_delta, rounds)
    logs = 3 * math.log(2 * rounds / budget.failure) + 2 * math.log(2 * n_tests)
    return _whole(2 * k * logs / (look * budget.noise))


@_checked()
def commit_samples(*, k: int, epsilon: float, n_rules: int, delta: float) -> int:
    """Instances to estimate every rule within epsilon / 2 and commit to the best (section 1.1).

    ``2 k^2 ln(2 |C| / delta) / epsilon^2``, by Hoeffding; the predictions stay as they are.

    >>> commit_samples(k=5, epsilon=0.25, n_rules=1024, delta=0.05)
    8497
    """
    return _whole(2 * k**2 * math.log(2 * n_rules / delta) / epsilon**2)


# Orders without constants (sections 1.1, 3.3 and 4; docs/theory.md says which ones are printed).


@_checked(n_rules=_TWO)
def worst_case_samples_matching(
    n_nodes: int, epsilon: float, n_rules: int, *, adaptive: bool = False
) -> float:
    """Matching: n^5 / epsilon^4 log |C| instances; n^3.5 / epsilon^3 log |C| if adaptive.

    >>> round(worst_case_samples_matching(10, 1 / 4, 1024))
    177445678
    """
    order: float = n_nodes**3.5 / epsilon**3 if adaptive else n_nodes**5.0 / epsilon**4
    return math.log(n_rules) * order


@_checked(n_rules=_TWO)
def worst_case_samples_best_action(
    n_items: int, epsilon: float, n_rules: int, *, adaptive: bool = False
) -> float:
    """Best action: m / epsilon^4 log |C| instances; sqrt(m) / epsilon^3 log |C| if adaptive."""
    order = math.sqrt(n_items) / epsilon**3 if adaptive else n_items / epsilon**4
    return math.log(n_rules) * order


@_checked(n_rules=_TWO)
def worst_case_samples_rejection(epsilon: float, n_rules: int, *, adaptive: bool = False) -> float:
    """Two classes and rejection: log |C| / epsilon^4 instances; log |C| / epsilon^3 if adaptive."""
    return math.log(n_rules) * (1 / epsilon ** (3 if adaptive else 4))


@_checked(n_rules=_TWO)
def worst_case_samples_matroid(
    *, n_items: int, rank: int, epsilon: float, n_rules: int, adaptive: bool = False
) -> float:
    """Matroid: n rank^3 / epsilon^4 log |C|; sqrt(n) rank^2.5 / epsilon^3 log |C| if adaptive."""
    fresh: float = n_items * rank**3.0 / epsilon**4
    reused: float = math.sqrt(n_items) * rank**2.5 / epsilon**3
    return math.log(n_rules) * (reused if adaptive else fresh)


@_checked(n_rules=_TWO)
def worst_case_commit_samples(size: int, epsilon: float, n_rules: int) -> float:
    """Order of `commit_samples`: s^2 / epsilon^2 log |C| (section 1.1).

    >>> round(worst_case_commit_samples(10, 1 / 4, 1024))
    11090
    """
    return size**2 * math.log(n_rules) / epsilon**2


def _whole(count: float) -> int:
    # The last bits of a float product must not add one to a count that is whole on paper.
    return math.ceil(count * (1 - 1e-12))
