"""How long data of a size take, and how much memory and disk: measured costs times sizes."""

from __future__ import annotations

from typing import NamedTuple

from outrule import theory
from outrule.errors import check_number, refuse_argument
from outrule.model.costs import COSTS
from outrule.model.recipes import PER_INSTANCE, PER_ROW

OWNER = "plan"
CORES = 2  # of the machine on which the costs were measured
MESSAGE = 0.01  # seconds that a round on a cluster takes besides its work: benchmarks/kills.py


class FitPlan(NamedTuple):
    """What a fit on so many instances takes, and to predict as many; sizes in bytes.

    Seconds by phase: ``read`` and check the files; ``start`` of the loop, on the sample; ``decide``
    all rules, and write the pieces; then each ``round``. ``predict`` reads, predicts and writes.
    """

    instances: int
    rows: int
    read: float
    start: float
    decide: float
    round: float
    predict: float
    memory: float
    disk: float

    def fit(self, rounds: int) -> float:
        """Seconds of a fit of so many rounds."""
        return self.read + self.start + self.decide + rounds * self.round


def plan(
    instances: int,
    *,
    items: int,
    rules: int,
    k: int = 1,
    sample: int = 1_000_000,
    workers: int | None = None,
) -> FitPlan:
    """The costs of ``benchmarks/scale.py``, on two cores, times the sizes.

    Workers of a cluster, of one core each, decide the rules and look at the data, while the driver
    reads the files for the second time; it alone does the rest.

    Examples
    --------
    >>> small, large = (plan(n, items=10, rules=100) for n in (10**7, 10**9))
    >>> large.rows, large.disk / small.disk, large.memory == small.memory
    (10000000000, 100.0, True)
    """
    sizes = {"instances": instances, "items": items, "rules": rules, "k": k}
    for name, value in (sizes | ({} if workers is None else {"workers": workers})).items():
        check_number(value, name, OWNER, 1, low_open=False, integer=True)
    if k > items:
        raise refuse_argument(k, "k", OWNER, f"at most {items}, the number of items")
    rows, sampled = instances * items, min(instances, sample) * items
    read, decide = COSTS["read"] * rows, (COSTS["build"] + COSTS["decide"] * rules) * rows
    share = 1.0 if workers is None else CORES / workers
    return FitPlan(
        instances,
        rows,
        read=read,
        start=COSTS["start"] * sampled,
        decide=decide if workers is None else max(read, share * decide),
        round=share * COSTS["round"] * rows + (0.0 if workers is None else MESSAGE),
        predict=COSTS["predict"] * rows,
        memory=COSTS["memory"] + COSTS["memory_row"] * sampled,
        disk=rows * PER_ROW + instances * (PER_INSTANCE + rules * k),
    )


def instances_needed(*, k: int, epsilon: float, rules: int, delta: float = 0.05) -> int:
    """Instances that show every violation to within half the tolerance, with probability 1 - delta.

    Hoeffding's bound for one look at all tests, ``theory.batch_size``, in units of the value range.

    >>> instances_needed(k=1, epsilon=0.01, rules=100)
    2663555
    """
    check_number(epsilon, "epsilon", OWNER, 0, k)
    tolerance = theory.tolerance(epsilon)
    return theory.batch_size(k=k, tolerance=tolerance, n_tests=rules + 3, rounds=1, delta=delta)
