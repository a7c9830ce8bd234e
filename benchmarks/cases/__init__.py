"""Decision problems to compare methods on, on real data and in the world of the paper.

The first six are those that the method was developed on; the others came later.
"""

from cases import bank, coupon, escalate, flights, forms, labels, modes, shopping, trips, worlds
from cases.case import Case, Data

FIRST = (coupon.CASE, flights.CASE, escalate.CASE, forms.CASE, *worlds.CASES)
LATER = (*shopping.CASES, *modes.CASES, *labels.CASES, bank.CASE, trips.CASE)
CASES: dict[str, Case] = {case.name: case for case in (*FIRST, *LATER)}

__all__ = ["CASES", "Case", "Data"]
