"""outrule: predictions on which the plain optimiser beats hand-written rules, with a certificate.

The public names, in the order in which data goes through the package. They are listed once, here:
type checkers read the imports; at run time a name is imported when it is first used, so that
``import outrule`` takes milliseconds.
"""

import ast as _ast
from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any as _Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    # What comes in, and the errors for bad input
    from outrule.errors import ArgumentError as ArgumentError, DataError as DataError
    from outrule.data.instances import Instances as Instances
    from outrule.data.view import View as View
    from outrule.data.segments import Segments as Segments
    from outrule.data.partitions import Partitions as Partitions

    # What can be decided
    from outrule.problems.contract import Problem as Problem
    from outrule.problems.one_item import (
        BestAction as BestAction,
        Classification as Classification,
        Rejection as Rejection,
    )
    from outrule.problems.matroids import (
        GraphicMatroid as GraphicMatroid,
        LaminarMatroid as LaminarMatroid,
        LinearMatroid as LinearMatroid,
        PartitionMatroid as PartitionMatroid,
        TopK as TopK,
        TransversalMatroid as TransversalMatroid,
    )
    from outrule.problems.matchings import (
        Assignment as Assignment,
        GreedyMatching as GreedyMatching,
        Matching as Matching,
    )
    from outrule.problems.given import (
        LinearProblem as LinearProblem,
        Matroid as Matroid,
        Oracle as Oracle,
    )

    # What people decide by today
    from outrule.rules.rules import (
        Choose as Choose,
        Fixed as Fixed,
        Multiplier as Multiplier,
        Reweight as Reweight,
        Rule as Rule,
        multipliers as multipliers,
    )

    # The loop: where it starts, CHECK, step, patch
    from outrule.calibration.isotonic import Isotonic as Isotonic
    from outrule.calibration.cross_fit import CrossFit as CrossFit
    from outrule.calibration.check import (
        FixedStep as FixedStep,
        FreshBatches as FreshBatches,
        LineSearch as LineSearch,
        PrivateReuse as PrivateReuse,
        Reuse as Reuse,
    )
    from outrule.calibration.patches import Patch as Patch
    from outrule.calibration.loop import Round as Round, Status as Status

    # What describes a fit, runs it, and reads it back
    from outrule.model.value import Value as Value
    from outrule.model.spec import Spec as Spec
    from outrule.model.spec_file import read_spec as read_spec
    from outrule.estimators.calibrator import DecisionCalibrator as DecisionCalibrator, load as load
    from outrule.estimators.predictor import CalibratedPredictor as CalibratedPredictor
    from outrule.model.stability import Stability as Stability, stability as stability

    # The proof
    from outrule.proof.certificate import certify as certify
    from outrule.proof.statement import (
        Certificate as Certificate,
        CertificateError as CertificateError,
    )
    from outrule.proof.verification import verify as verify

    # After deployment
    from outrule.watching.watch import Watch as Watch
    from outrule.watching.status import WatchStatus as WatchStatus

    # For colleagues
    from outrule.reporting.summary import summarise as summarise
    from outrule.reporting import report as report
    from outrule.reporting.watched import watch_report as watch_report

    # Pictures, bounds, measures, and worlds to try it in
    from outrule import metrics as metrics, plots as plots, theory as theory, worlds as worlds


def _list_names() -> dict[str, str]:
    """The module of every public name, read from the imports above."""
    source = __loader__.get_source(__name__)  # type: ignore[name-defined] # set by the import system
    block = next(node for node in _ast.parse(source).body if isinstance(node, _ast.If))
    imports = [node for node in block.body if isinstance(node, _ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


_PLACES = _list_names()
__all__ = sorted(_PLACES)


def __getattr__(name: str) -> _Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'outrule' has no attribute {name!r}")
    if _PLACES[name] == "outrule":
        value = _import_module(f"outrule.{name}")
    else:
        value = getattr(_import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
