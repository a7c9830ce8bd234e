"""Betting against a ratio of means, and the largest ratio that the bets rule out.

An observation has a weight w in [0, 1] and a value d in [0, w]; the question is E[d] / E[w]. To
test "the ratio is at most s", bet on ``d - s w``: its mean would not be positive, and it is never
below ``-s w``. The capital, the product of ``1 + stake (d - s w)``, is then a supermartingale, so
that it ever reaches 1/delta with probability at most delta (Ville's inequality), at any n.

Where d is an estimate there are several *kinds* of it, all with the same mean: kind k is never
below ``least[k] * w``, and the nearer that is to the mean, the noisier it is. Which kind a bet is
on is chosen by the observations before it, so that the bets are as fair as with one kind.

Bets on kinds also *strive*: each stake is what it takes to get from the capital so far to 1/delta
with the bets that are left (STaR-Bets, Voracek and Orabona 2025). That brings the bound nearer to
the mean than stakes that aim at the whole way from the start, and is as fair: a stake still depends
on nothing but the observations before it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from outrule.kernels.compiling import njit
from outrule.types import Floats, Integers

CAP = 0.9  # the largest share of the capital that one bet can lose
LARGE = 1e100  # beyond it a capital is rescaled
CLOSE = 2.0**-42  # width of the last bracket; ratios are between 0 and 1
TINY = 1e-300  # a variance that is not zero
STEPS = 200  # of the search for the root; about ten are needed
FIRST_CHOICE = 64  # bets on the first kind; kinds are compared then, and when n has doubled
USUAL_LEVEL = 3.0  # the logarithm of 1 / delta at which kinds are compared, for any delta
BEYOND = 0.1  # so many more bets than planned, as a share, are assumed: the last must not risk all
LEAST_GOAL = 0.5  # what a bet strives for at least: see log_capital_striving

# Value, weight, stake and kind of every bet, the least value of each kind, and whether they strive.
Bets = tuple[Any, ...]


@njit(nogil=True, cache=True)
def stakes(value: Floats, weight: Floats, planned: Integers) -> Floats:
    """The stake of every bet, from the observations before it only; divided by sqrt(log_level).

    It is ``sqrt(2 log_level / (n variance))``, the predictable plug-in of Waudby-Smith and Ramdas
    (2024), where n is the number of bets that was ``planned`` before this one was made. The
    variance is that of ``d - r w``, r being the ratio so far; it starts at a quarter of the mean
    squared weight. It is the same for ``w - d`` in the place of d.
    """
    found = np.empty(len(value))
    sum_d = sum_w = sum_dd = sum_dw = sum_ww = 0.0
    for i in range(len(value)):
        squares, prior = 0.0, 0.25
        if sum_w > 0:
            ratio = sum_d / sum_w
            squares = max(sum_dd - 2 * ratio * sum_dw + ratio * ratio * sum_ww, 0.0)
            prior = max(0.25 * sum_ww / i, TINY)
        found[i] = np.sqrt(2.0 * (i + 1) / (planned[i] * (prior + squares)))
        sum_d += value[i]
        sum_w += weight[i]
        sum_dd += value[i] * value[i]
        sum_dw += value[i] * weight[i]
        sum_ww += weight[i] * weight[i]
    return found


@njit(nogil=True, cache=True)
def stakes_on_kinds(
    values: Floats,
    weight: Floats,
    planned: Integers,
    least: Floats,
) -> tuple[NDArray[np.int8], Floats]:
    """The kind of estimate that every bet is on, and its stake, from the observations before it.

    ``values`` has one row per kind. Stakes are divided by the root of what the logarithm of the
    capital still has to grow by: ``sqrt(2 / (left variance))``, where ``left`` is the number of
    planned bets from this one on, and some more. The variance is that of :func:`stakes` on the row,
    but that it starts at a quarter of the width of the kind times that of the narrowest one. At the
    first bet and whenever the number of bets has doubled, the kind is chosen that would give the
    bound nearest to the mean: ``log_level / (n stake) + stake variance / 2``.
    """
    n_kinds, n = values.shape
    kind, found = np.empty(n, dtype=np.int8), np.empty(n)
    sum_d, sum_dd, sum_dw = np.zeros(n_kinds), np.zeros(n_kinds), np.zeros(n_kinds)
    width = 1 - 2 * least
    narrowest = width.min()
    sum_w = sum_ww = 0.0
    now, next_choice = 0, 0
    variance = np.empty(n_kinds)
    for i in range(n):
        chooses = i == next_choice
        mean_square = sum_ww / i if i > 0 else 1.0
        for k in range(n_kinds):
            if k == now or chooses:
                ratio = sum_d[k] / sum_w if sum_w > 0 else 0.0
                squares = max(sum_dd[k] - 2 * ratio * sum_dw[k] + ratio * ratio * sum_ww, 0.0)
                prior = max(0.25 * width[k] * narrowest * mean_square, TINY)
                variance[k] = (prior + squares) / (i + 1)
        if chooses:
            next_choice, nearest = max(FIRST_CHOICE, 2 * i), np.inf
            for k in range(n_kinds):
                stake = np.sqrt(2 * USUAL_LEVEL / (planned[i] * variance[k]))
                stake = min(stake, 2 * CAP / width[k])
                distance = USUAL_LEVEL / (planned[i] * stake) + stake * variance[k] / 2
                if distance < nearest:
                    nearest, now = distance, k
        left = (1 + BEYOND) * planned[i] - i
        kind[i], found[i] = now, np.sqrt(2.0 / (left * variance[now]))
        sum_w += weight[i]
        sum_ww += weight[i] * weight[i]
        for k in range(n_kinds):
            sum_d[k] += values[k, i]
            sum_dd[k] += values[k, i] * values[k, i]
            sum_dw[k] += values[k, i] * weight[i]
    return kind, found


@njit(nogil=True, cache=True)
def caps_of(least: Floats, s: float) -> Floats:
    """The largest stake against s on every kind, none where its values cannot be below s."""
    caps = np.full(len(least), np.inf)
    for k in range(len(least)):
        if s > least[k]:
            caps[k] = CAP / (s - least[k])
    return caps


@njit(nogil=True, cache=True)
def log_capital(bets: Bets, s: float, stop: float) -> tuple[float, float]:
    """Logarithms of the largest and of the last capital; play ends once it is ``stop`` or more."""
    value, weight, stake, kind, least, _ = bets
    caps = caps_of(least, s)
    best = scale = 0.0
    now = top = 1.0
    limit = np.exp(stop)
    for i in range(len(value)):
        now *= 1 + min(stake[i], caps[kind[i]]) * (value[i] - s * weight[i])
        top = max(top, now)
        if now >= limit:
            break
        if now >= LARGE or now <= 1 / LARGE:
            best = max(best, scale + np.log(top))
            scale += np.log(now)
            now = top = 1.0
            limit = np.exp(min(stop - scale, 700.0))
    return max(best, scale + np.log(top)), scale + np.log(now)


@njit(nogil=True, cache=True)
def log_capital_striving(
    bets: Bets, s: float, log_level: float, stop: float
) -> tuple[float, float]:
    """The same where a stake is multiplied by the root of what the logarithm has to grow by.

    Here, too, capitals fall as s grows, because the larger of two capitals stays the larger in
    every bet. With g to go, capital times stake has the derivative ``stake (1 - 1 / (2 g))`` in the
    capital: it is not negative for g >= LEAST_GOAL, below which the stake is constant, and it is at
    most the stake, which risks a share of CAP.
    """
    value, weight, stake, kind, least, _ = bets
    caps = caps_of(least, s)
    best = now = 0.0
    for i in range(len(value)):
        goal = max(log_level - now, LEAST_GOAL)
        size = min(np.sqrt(goal) * stake[i], caps[kind[i]])
        now += np.log1p(size * (value[i] - s * weight[i]))
        best = max(best, now)
        if now >= stop:
            break
    return best, now


@njit(nogil=True, cache=True)
def play(bets: Bets, s: float, log_level: float, stop: float) -> tuple[float, float]:
    """The bets of either sort; stakes that do not strive are multiplied by sqrt(log_level)."""
    if bets[5]:
        return log_capital_striving(bets, s, log_level, stop)
    return log_capital(bets, s, stop)


@njit(nogil=True, cache=True)
def evidence(bets: Bets, s: float, log_level: float) -> float:
    """Log of the e-value against "the ratio is at most s": the capital, stopped at the level."""
    value, weight, stake, kind, least, strives = bets
    if not strives:
        bets = (value, weight, np.sqrt(log_level) * stake, kind, least, strives)
    return min(play(bets, s, log_level, log_level)[1], log_level)


@njit(nogil=True, cache=True)
def lower_bound(bets: Bets, log_level: float) -> float:
    """A lower bound for the ratio: the s up to which the capital reaches exp(``log_level``).

    The largest capital falls as s grows, because every factor does: below the cap as ``d - s w``
    falls, at the cap as ``(d - s w) / (s - least)`` does. So there is one such s; it is bracketed
    around the normal approximation, then found by the regula falsi (Illinois).
    """
    value, weight, stake, kind, least, strives = bets
    if not weight.sum() > 0:
        return 0.0
    if not strives:
        bets = (value, weight, np.sqrt(log_level) * stake, kind, least, strives)
    ratio = value.sum() / weight.sum()
    spread = np.sqrt(np.sum((value - ratio * weight) ** 2))
    step = np.sqrt(2 * log_level) * spread / weight.sum() + 1.0 / len(value)
    if not np.isfinite(step):  # nothing can be said of numbers that are none
        return 0.0
    low, high, at_low, at_high = 0.0, 1.0, np.inf, -log_level  # nothing is won against s = 1
    s, step, is_low = ratio - step, 0.1 * step, False
    for _ in range(STEPS):  # one end of the bracket is not tried yet
        s = min(max(s, 0.0), 1.0)
        at_s = play(bets, s, log_level, np.inf)[0] - log_level
        if at_s >= 0:
            low, at_low, is_low = s, at_s, True
            s += step
        elif s == 0:
            return 0.0
        else:
            high, at_high = s, at_s
            s -= step
        if is_low and (high < 1 or s >= 1):
            break
        step *= 4
    last = 0
    for _ in range(STEPS):
        if high - low <= CLOSE:
            break
        s = high - at_high * (high - low) / (at_high - at_low)
        s = min(max(s, low + 0.5 * CLOSE), high - 0.5 * CLOSE)
        at_s = play(bets, s, log_level, np.inf)[0] - log_level
        if at_s >= 0:
            low, at_low = s, at_s
            at_high *= 0.5 if last == 1 else 1.0
            last = 1
        else:
            high, at_high = s, at_s
            at_low *= 0.5 if last == -1 else 1.0
            last = -1
    return low
