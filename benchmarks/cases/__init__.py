"""Decision problems to compare methods on: four on real data, two in the world of the paper."""

from cases import coupon, escalate, flights, forms, worlds
from cases.case import Case, Data

CASES: dict[str, Case] = {
    case.name: case
    for case in (coupon.CASE, flights.CASE, escalate.CASE, forms.CASE, *worlds.CASES)
}

__all__ = ["CASES", "Case", "Data"]
