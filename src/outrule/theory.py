"""Every bound of the paper as a function: problem sizes enter, tolerances and counts leave.

Units: predictions and outcomes in [0, 1]; the *tolerance* (tau) bounds the violation
``|E<w, y - p>|`` of every test; *k* is the largest size of a decision; *squared_error* (r) is
``E||p - E[y|x]||^2`` of the start, summed over items; *n_tests* counts the rules and the optimiser.
The glossary is in ``docs/theory.md``.
"""

import math

from outrule.errors import check_number


def tolerance(epsilon: float, ratio: float = 1.0) -> float:
    """Tolerance that guarantees an additive loss of at most epsilon (Theorem 3.1).

    If every violation is at most tau, the optimiser on the calibrated predictions is worth at
    least ``ratio * max_c E[value(c)] - (1 + ratio) tau``, so ``tau = epsilon / (1 + ratio)``.

    Parameters
    ----------
    epsilon : float
        Additive loss against the best rule, in (0, 1].
    ratio : float
        Share of the optimum that the optimiser guarantees, in (0, 1]; 1 if it is exact.

    Returns
    -------
    float

    Examples
    --------
    >>> tolerance(0.25)
    0.125
    >>> tolerance(0.75, ratio=0.5)
    0.5
    """
    check_number(epsilon, "epsilon", "tolerance", 0, 1)
    check_number(ratio, "ratio", "tolerance", 0, 1)
    return epsilon / (1 + ratio)


def guarantee(tolerance: float, ratio: float = 1.0) -> float:
    """Additive loss that a tolerance guarantees: the inverse of `tolerance` (Theorem 3.1).

    Parameters
    ----------
    tolerance : float
        Largest violation, in (0, 1].
    ratio : float
        Share of the optimum that the optimiser guarantees, in (0, 1].

    Returns
    -------
    float

    Examples
    --------
    >>> guarantee(0.125)
    0.25
    """
    check_number(tolerance, "tolerance", "guarantee", 0, 1)
    check_number(ratio, "ratio", "guarantee", 0, 1)
    return (1 + ratio) * tolerance


def alpha_matching(tolerance: float, n_items: int) -> float:
    """The paper's alpha for matching, ``tau / sqrt(m)`` (Definition 2.1, Theorem 3.1).

    Parameters
    ----------
    tolerance : float
        In (0, 1].
    n_items : int
        Number of edges m.

    Returns
    -------
    float

    Examples
    --------
    >>> alpha_matching(0.125, 64)
    0.015625
    """
    check_number(tolerance, "tolerance", "alpha_matching", 0, 1)
    _check_count(n_items, "n_items", "alpha_matching")
    return tolerance / math.sqrt(n_items)


def alpha_matroid(tolerance: float, rank: int) -> float:
    """The paper's alpha for a max-weight base, ``tau / rank`` (section 4).

    Section 4 prints ``epsilon / rank``; Theorem 3.1 then gives a loss of 2 epsilon. With
    ``tau = epsilon / 2`` the alpha for a loss of epsilon is ``epsilon / (2 rank)``.

    Parameters
    ----------
    tolerance : float
        In (0, 1].
    rank : int
        Rank of the matroid.

    Returns
    -------
    float

    Examples
    --------
    >>> alpha_matroid(0.125, 5)
    0.025
    """
    check_number(tolerance, "tolerance", "alpha_matroid", 0, 1)
    _check_count(rank, "rank", "alpha_matroid")
    return tolerance / rank


def alpha_best_action(tolerance: float) -> float:
    """The paper's alpha for best action, which is the tolerance itself (section 4).

    Parameters
    ----------
    tolerance : float
        In (0, 1].

    Returns
    -------
    float

    Examples
    --------
    >>> alpha_best_action(0.125)
    0.125
    """
    return check_number(tolerance, "tolerance", "alpha_best_action", 0, 1)


def fixed_step(tolerance: float, k: int) -> float:
    """Step of Algorithm 1 (section 3.2), ``eta = tau / (2 k)``.

    Parameters
    ----------
    tolerance : float
        In (0, 1].
    k : int
        Largest size of a decision.

    Returns
    -------
    float

    Examples
    --------
    >>> fixed_step(0.125, 5)
    0.0125
    """
    check_number(tolerance, "tolerance", "fixed_step", 0, 1)
    _check_count(k, "k", "fixed_step")
    return tolerance / (2 * k)


def potential_drop(*, violation: float, step: float, mean_size: float) -> float:
    """Least fall of ``E||p - E[y|x]||^2`` in one round (proof of Theorem 3.3).

    ``2 eta |v| - eta^2 E|w|``, with the sign of the step right; the projection only adds to it.
    Negative when the step is more than twice `line_search_step`.

    Parameters
    ----------
    violation : float
        ``E<w, y - p>`` of the test.
    step : float
        Size of the step, at least 0.
    mean_size : float
        ``E|w|``, the mean number of items that the test marks.

    Returns
    -------
    float

    Examples
    --------
    >>> potential_drop(violation=-0.5, step=0.25, mean_size=2)
    0.125
    """
    check_number(violation, "violation", "potential_drop")
    check_number(step, "step", "potential_drop", 0, low_open=False)
    check_number(mean_size, "mean_size", "potential_drop", 0)
    return 2 * step * abs(violation) - step**2 * mean_size


def line_search_step(violation: float, mean_size: float) -> float:
    """Step with the largest `potential_drop`, ``eta = |v| / E|w|``; the drop is ``v^2 / E|w|``.

    Parameters
    ----------
    violation : float
        ``E<w, y - p>`` of the test.
    mean_size : float
        ``E|w|``, the mean number of items that the test marks.

    Returns
    -------
    float

    Examples
    --------
    >>> line_search_step(-0.5, 2)
    0.25
    """
    check_number(violation, "violation", "line_search_step")
    check_number(mean_size, "mean_size", "line_search_step", 0)
    return abs(violation) / mean_size


def rounds(*, squared_error: float, k: int, tolerance: float, alert: float = 0.5) -> int:
    """Largest number of updates with the fixed step (Theorem 3.3).

    A round whose test has a true violation of at least ``alert * tau`` lowers the potential by at
    least ``2 eta alert tau - eta^2 k = (4 alert - 1) tau^2 / (4 k)`` at ``eta = tau / (2 k)``, and
    the potential starts at r: ``4 k r / ((4 alert - 1) tau^2)`` rounds, ``4 k r / tau^2`` at 1/2.
    One more CHECK, without an update, ends the loop.

    Parameters
    ----------
    squared_error : float
        ``E||p - E[y|x]||^2`` of the start, at least 0; at most the number of items.
    k : int
        Largest size of a decision.
    tolerance : float
        In (0, 1].
    alert : float
        Least true violation of a returned test as a share of the tolerance, in (1/4, 1]: at 1/4
        the fixed step may gain nothing.

    Returns
    -------
    int

    Examples
    --------
    >>> rounds(squared_error=45, k=5, tolerance=0.125)
    57600
    >>> rounds(squared_error=45, k=5, tolerance=0.125, alert=1.0)
    19200
    """
    _check_loop("rounds", squared_error, k, tolerance)
    check_number(alert, "alert", "rounds", 0.25, 1)
    return _whole(4 * k * squared_error / ((4 * alert - 1) * tolerance**2))


def rounds_line_search(
    *, squared_error: float, k: int, tolerance: float, alert: float = 0.5
) -> int:
    """Largest number of updates with the line search, ``k r / (alert tau)^2``.

    The drop ``v^2 / E|w|`` is at least ``(alert tau)^2 / k``. At ``alert = 1/2`` this is the bound
    of the fixed step; above, it is smaller. The step is taken from the true violation v; one from
    an estimate u of it drops ``u (2 v - u) / E|w|``, which is positive while u is below 2 v.

    Parameters
    ----------
    squared_error : float
        ``E||p - E[y|x]||^2`` of the start, at least 0.
    k : int
        Largest size of a decision.
    tolerance : float
        In (0, 1].
    alert : float
        Least true violation of a returned test as a share of the tolerance, in (0, 1].

    Returns
    -------
    int

    Examples
    --------
    >>> rounds_line_search(squared_error=45, k=5, tolerance=0.125)
    57600
    >>> rounds_line_search(squared_error=45, k=5, tolerance=0.125, alert=1.0)
    14400
    """
    _check_loop("rounds_line_search", squared_error, k, tolerance)
    check_number(alert, "alert", "rounds_line_search", 0, 1)
    return _whole(k * squared_error / (alert * tolerance) ** 2)


def batch_size(
    *, k: int, tolerance: float, n_tests: int, rounds: int, delta: float, margin: float = 0.5
) -> int:
    """Size of a fresh batch that estimates every test in every round (proof of Theorem 3.3).

    Hoeffding for ``<w, y - p>`` in [-k, k] and a union bound: with
    ``2 k^2 ln(2 T |W| / delta) / (margin tau)^2`` instances, all estimates of all rounds are within
    ``margin * tau`` of the truth with probability 1 - delta. At ``margin = 1/2`` this is the
    paper's ``8 k^2 ln(.) / tau^2``.

    Parameters
    ----------
    k : int
        Largest size of a decision.
    tolerance : float
        In (0, 1].
    n_tests : int
        Number of tests: the rules and the optimiser.
    rounds : int
        Number of calls of CHECK.
    delta : float
        Probability of failure, in (0, 1).
    margin : float
        Deviation allowed to an estimate as a share of the tolerance, in (0, 1].

    Returns
    -------
    int

    Notes
    -----
    A test flagged above ``a tau`` has a true violation above ``(a - margin) tau``; if none is
    flagged, all are at most ``(a + margin) tau``. The paper flags at 1/2 with margin 1/2: what it
    returns at the end is right, but a flagged test may have a true violation near 0, where
    Requirements 3.2 and the count of rounds ask for 1/2. Flagging at 3/4 with margin 1/4 gives
    both, for four times the instances: ``32 k^2 ln(.) / tau^2``.

    Examples
    --------
    >>> batch_size(k=1, tolerance=0.125, n_tests=1025, rounds=1024, delta=0.05)
    8988
    >>> batch_size(k=1, tolerance=0.125, n_tests=1025, rounds=1024, delta=0.05, margin=0.25)
    35949
    """
    _check_count(k, "k", "batch_size")
    check_number(tolerance, "tolerance", "batch_size", 0, 1)
    _check_count(n_tests, "n_tests", "batch_size")
    _check_count(rounds, "rounds", "batch_size")
    check_number(delta, "delta", "batch_size", 0, 1, high_open=True)
    check_number(margin, "margin", "batch_size", 0, 1)
    return _whole(2 * k**2 * math.log(2 * rounds * n_tests / delta) / (margin * tolerance) ** 2)


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
    """Instances for all rounds with a fresh batch each, ``rounds * batch_size`` (Theorem 3.3).

    As in the proof, the last CHECK, which ends the loop, is not counted apart.

    Parameters
    ----------
    squared_error : float
        ``E||p - E[y|x]||^2`` of the start, at least 0.
    k : int
        Largest size of a decision.
    tolerance : float
        In (0, 1].
    n_tests : int
        Number of tests: the rules and the optimiser.
    delta : float
        Probability of failure, in (0, 1).
    alert : float
        Least true violation of a returned test as a share of the tolerance; see `rounds`.
    margin : float
        Deviation allowed to an estimate as a share of the tolerance; see `batch_size`. The
        defaults are the paper's; ``margin = 1/4``, flagging at 3/4, is the sound pair.

    Returns
    -------
    int

    Examples
    --------
    >>> fresh_samples(squared_error=4, k=1, tolerance=0.125, n_tests=1025, delta=0.05)
    9203712
    """
    check_number(delta, "delta", "fresh_samples", 0, 1, high_open=True)
    _check_loop("fresh_samples", squared_error, k, tolerance)
    _check_count(n_tests, "n_tests", "fresh_samples")
    check_number(alert, "alert", "fresh_samples", 0.25, 1)
    check_number(margin, "margin", "fresh_samples", 0, 1)
    n_rounds = max(1, rounds(squared_error=squared_error, k=k, tolerance=tolerance, alert=alert))
    return n_rounds * batch_size(
        k=k, tolerance=tolerance, n_tests=n_tests, rounds=n_rounds, delta=delta, margin=margin
    )


def adaptive_samples(
    *, squared_error: float, size: int, epsilon: float, n_rules: int, delta: float
) -> int:
    """Instances when the same data serve every round, by adaptive data analysis (section 3.3).

    ``n^2.5 sqrt(r) log(n |C| / epsilon) log^1.5(n / (epsilon delta)) / epsilon^3``, as printed,
    with natural logarithms. The paper states an order: its constant is taken as 1, so only
    ratios of this number mean anything.

    Parameters
    ----------
    squared_error : float
        ``E||p - E[y|x]||^2`` of the start, at least 0.
    size : int
        The paper's n: the number of nodes for matching. With the rank of a matroid, or 1 for best
        action, the leading factor is the one of section 4.
    epsilon : float
        Additive loss, in (0, 1].
    n_rules : int
        Number of rules.
    delta : float
        Probability of failure, in (0, 1).

    Returns
    -------
    int

    Examples
    --------
    >>> adaptive_samples(squared_error=45, size=10, epsilon=0.25, n_rules=1024, delta=0.05)
    24919504
    """
    owner = "adaptive_samples"
    check_number(squared_error, "squared_error", owner, 0, low_open=False)
    _check_count(size, "size", owner)
    check_number(epsilon, "epsilon", owner, 0, 1)
    _check_count(n_rules, "n_rules", owner)
    check_number(delta, "delta", owner, 0, 1, high_open=True)
    logs = math.log(size * n_rules / epsilon) * math.log(size / (epsilon * delta)) ** 1.5
    return _whole(size**2.5 * math.sqrt(squared_error) * logs / epsilon**3)


def commit_samples(*, k: int, epsilon: float, n_rules: int, delta: float) -> int:
    """Instances to estimate the value of every rule and commit to the best (section 1.1).

    Hoeffding for a value in [0, k], every estimate within ``epsilon / 2``, and a union bound:
    ``2 k^2 ln(2 |C| / delta) / epsilon^2``. Fewer than calibration needs; it leaves the predictions
    as they are, and the rule in production.

    Parameters
    ----------
    k : int
        Largest size of a decision.
    epsilon : float
        Additive loss against the best rule, in (0, 1].
    n_rules : int
        Number of rules.
    delta : float
        Probability of failure, in (0, 1).

    Returns
    -------
    int

    Examples
    --------
    >>> commit_samples(k=5, epsilon=0.25, n_rules=1024, delta=0.05)
    8497
    """
    _check_count(k, "k", "commit_samples")
    check_number(epsilon, "epsilon", "commit_samples", 0, 1)
    _check_count(n_rules, "n_rules", "commit_samples")
    check_number(delta, "delta", "commit_samples", 0, 1, high_open=True)
    return _whole(2 * k**2 * math.log(2 * n_rules / delta) / epsilon**2)


def worst_case_samples_matching(
    n_nodes: int, epsilon: float, n_rules: int, *, adaptive: bool = False
) -> float:
    """Order of the instances for matching (sections 1.1 and 3.3).

    ``n^5 / epsilon^4 log |C|`` or ``n^3.5 / epsilon^3 log |C|``: no constants, and none of the
    logarithms that the paper hides.

    Parameters
    ----------
    n_nodes : int
        Number of nodes of the complete graph.
    epsilon : float
        Additive loss, in (0, 1].
    n_rules : int
        Number of rules, at least 2.
    adaptive : bool
        Fresh batches (False), or the same data in every round (True).

    Returns
    -------
    float

    Examples
    --------
    >>> round(worst_case_samples_matching(10, 1 / 4, 1024))
    177445678
    >>> round(worst_case_samples_matching(10, 1 / 4, 1024, adaptive=True))
    1402831
    """
    _check_count(n_nodes, "n_nodes", "worst_case_samples_matching")
    fresh, reused = n_nodes**5.0, n_nodes**3.5
    return _order("worst_case_samples_matching", fresh, reused, epsilon, n_rules, adaptive)


def worst_case_samples_best_action(
    n_items: int, epsilon: float, n_rules: int, *, adaptive: bool = False
) -> float:
    """Order of the instances for best action (section 4).

    ``m / epsilon^4 log |C|`` or ``sqrt(m) / epsilon^3 log |C|``. The paper prints the second; the
    first follows from Theorem 3.3 with k = 1 and r = m.

    Parameters
    ----------
    n_items : int
        Number of actions m.
    epsilon : float
        Additive loss, in (0, 1].
    n_rules : int
        Number of rules, at least 2.
    adaptive : bool
        Fresh batches (False), or the same data in every round (True).

    Returns
    -------
    float

    Examples
    --------
    >>> round(worst_case_samples_best_action(256, 1 / 16, 1024, adaptive=True))
    454261
    """
    _check_count(n_items, "n_items", "worst_case_samples_best_action")
    fresh, reused = float(n_items), math.sqrt(n_items)
    return _order("worst_case_samples_best_action", fresh, reused, epsilon, n_rules, adaptive)


def worst_case_samples_rejection(epsilon: float, n_rules: int, *, adaptive: bool = False) -> float:
    """Order of the instances for binary classification with rejection (section 4).

    ``log |C| / epsilon^4`` or ``log |C| / epsilon^3``. The paper prints the second; the first
    follows from Theorem 3.3 with k = 1 and a constant r.

    Parameters
    ----------
    epsilon : float
        Additive loss, in (0, 1].
    n_rules : int
        Number of rules, at least 2.
    adaptive : bool
        Fresh batches (False), or the same data in every round (True).

    Returns
    -------
    float

    Examples
    --------
    >>> round(worst_case_samples_rejection(1 / 16, 1024, adaptive=True))
    28391
    """
    return _order("worst_case_samples_rejection", 1.0, 1.0, epsilon, n_rules, adaptive)


def worst_case_samples_matroid(
    *, n_items: int, rank: int, epsilon: float, n_rules: int, adaptive: bool = False
) -> float:
    """Order of the instances for a max-weight base of a matroid (section 4).

    ``n rank^3 / epsilon^4 log |C|`` or ``sqrt(n) rank^2.5 / epsilon^3 log |C|``. The paper prints
    the second; the first follows from Theorem 3.3 with k = rank and r = n.

    Parameters
    ----------
    n_items : int
        Number of elements n.
    rank : int
        Rank of the matroid.
    epsilon : float
        Additive loss, in (0, 1].
    n_rules : int
        Number of rules, at least 2.
    adaptive : bool
        Fresh batches (False), or the same data in every round (True).

    Returns
    -------
    float

    Examples
    --------
    >>> round(
    ...     worst_case_samples_matroid(
    ...         n_items=64, rank=4, epsilon=1 / 4, n_rules=1024, adaptive=True
    ...     )
    ... )
    113565
    """
    _check_count(n_items, "n_items", "worst_case_samples_matroid")
    _check_count(rank, "rank", "worst_case_samples_matroid")
    fresh, reused = n_items * rank**3.0, math.sqrt(n_items) * rank**2.5
    return _order("worst_case_samples_matroid", fresh, reused, epsilon, n_rules, adaptive)


def worst_case_commit_samples(size: int, epsilon: float, n_rules: int) -> float:
    """Order of the instances of `commit_samples`, ``n^2 / epsilon^2 log |C|`` (section 1.1).

    Parameters
    ----------
    size : int
        Number of nodes for matching; the rank of a matroid; 1 for best action and rejection.
    epsilon : float
        Additive loss, in (0, 1].
    n_rules : int
        Number of rules, at least 2.

    Returns
    -------
    float

    Examples
    --------
    >>> round(worst_case_commit_samples(10, 1 / 4, 1024))
    11090
    """
    owner = "worst_case_commit_samples"
    _check_count(size, "size", owner)
    check_number(epsilon, "epsilon", owner, 0, 1)
    check_number(n_rules, "n_rules", owner, 2, low_open=False, integer=True)
    return size**2 * math.log(n_rules) / epsilon**2


def _order(
    owner: str, fresh: float, reused: float, epsilon: float, n_rules: int, adaptive: bool
) -> float:
    check_number(epsilon, "epsilon", owner, 0, 1)
    check_number(n_rules, "n_rules", owner, 2, low_open=False, integer=True)
    return math.log(n_rules) * (reused / epsilon**3 if adaptive else fresh / epsilon**4)


def _check_count(value: int, name: str, owner: str) -> None:
    check_number(value, name, owner, 1, low_open=False, integer=True)


def _check_loop(owner: str, squared_error: float, k: int, tolerance: float) -> None:
    check_number(squared_error, "squared_error", owner, 0, low_open=False)
    _check_count(k, "k", owner)
    check_number(tolerance, "tolerance", owner, 0, 1)


def _whole(count: float) -> int:
    # The last bits of a float product must not add one to a count that is whole on paper.
    return math.ceil(count * (1 - 1e-12))
