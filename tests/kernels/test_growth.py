"""The growth of bets against sums of logarithms."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from outrule.kernels.growth import log_growth

STAKES = np.array([0.5, 0.25, 0.01])


@given(st.lists(st.floats(-1.5, 1.5), max_size=300))
def test_growth_is_the_sum_of_logarithms(numbers):
    x = np.array(numbers, dtype=float)
    found = log_growth(x, x, STAKES)
    for column, stake in enumerate(STAKES):
        assert found[0, column] == pytest.approx(np.log1p(-stake * x).sum(), abs=1e-9)
        assert found[1, column] == pytest.approx(np.log1p(stake * x).sum(), abs=1e-9)


@pytest.mark.parametrize("end", [-1.5, 1.5])
def test_long_runs_at_the_ends_neither_vanish_nor_overflow(end):
    x = np.full(100_000, end)
    found = log_growth(x, x, STAKES)
    expected = [100_000 * np.log1p(sign * STAKES * end) for sign in (-1, 1)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_rare_large_gains_do_not_overflow():
    x = np.where(np.arange(1_000) % 3, -0.5, 1e6)
    found = log_growth(-x, x, STAKES)
    expected = [np.log1p(stake * x).sum() for stake in STAKES]
    np.testing.assert_allclose(found, [expected, expected], rtol=1e-12)
