"""outrule: predictions on which the plain optimiser beats hand-written rules, with a certificate.

The rooms, in the order data walks through them. A name is imported when it is first used, so
``import outrule`` takes milliseconds.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from outrule import metrics, plots, theory, worlds
    from outrule.arguments import ArgumentError, DataError
    from outrule.boosting import Round, Status
    from outrule.calibrator import DecisionCalibrator
    from outrule.certificate import Certificate, certify
    from outrule.check import FixedStep, FreshBatches, LineSearch, PrivateReuse, Reuse
    from outrule.instances import Instances, View
    from outrule.model_file import load
    from outrule.patches import Patch
    from outrule.predictor import CalibratedPredictor
    from outrule.problems import (
        Assignment,
        BestAction,
        Classification,
        GraphicMatroid,
        GreedyMatching,
        LaminarMatroid,
        LinearMatroid,
        LinearProblem,
        Matching,
        Matroid,
        Oracle,
        PartitionMatroid,
        Problem,
        Rejection,
        TopK,
        TransversalMatroid,
    )
    from outrule.reporting import report
    from outrule.rules import Choose, Fixed, Multiplier, Reweight, Rule, multipliers
    from outrule.spec import Spec, read_spec
    from outrule.start import Isotonic
    from outrule.summary import summarise
    from outrule.verification import CertificateError, verify

_ROOMS = {
    # what comes in, and what is said to bad input
    "arguments": ("ArgumentError", "DataError"),
    "instances": ("Instances", "View"),
    # what can be decided
    "problems": (
        "Problem",
        "BestAction",
        "Classification",
        "Rejection",
        "TopK",
        "PartitionMatroid",
        "GraphicMatroid",
        "LaminarMatroid",
        "TransversalMatroid",
        "LinearMatroid",
        "Matroid",
        "Matching",
        "GreedyMatching",
        "Assignment",
        "LinearProblem",
        "Oracle",
    ),
    # what people decide by today
    "rules": ("Rule", "Multiplier", "multipliers", "Reweight", "Choose", "Fixed"),
    # the loop: audit, CHECK, patch
    "check": ("FreshBatches", "PrivateReuse", "Reuse", "FixedStep", "LineSearch"),
    "patches": ("Patch",),
    "boosting": ("Round", "Status"),
    "start": ("Isotonic",),
    "calibrator": ("DecisionCalibrator",),
    "predictor": ("CalibratedPredictor",),
    "spec": ("Spec", "read_spec"),
    "model_file": ("load",),
    # the proof
    "certificate": ("Certificate", "certify"),
    "verification": ("CertificateError", "verify"),
    # for colleagues
    "summary": ("summarise",),
    "reporting": ("report",),
    "plots": (),
    # the theory, the measures, and worlds to try it in
    "theory": (),
    "metrics": (),
    "worlds": (),
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = [
    "ArgumentError",
    "Assignment",
    "BestAction",
    "CalibratedPredictor",
    "Certificate",
    "CertificateError",
    "Choose",
    "Classification",
    "DataError",
    "DecisionCalibrator",
    "Fixed",
    "FixedStep",
    "FreshBatches",
    "GraphicMatroid",
    "GreedyMatching",
    "Instances",
    "Isotonic",
    "LaminarMatroid",
    "LineSearch",
    "LinearMatroid",
    "LinearProblem",
    "Matching",
    "Matroid",
    "Multiplier",
    "Oracle",
    "PartitionMatroid",
    "Patch",
    "PrivateReuse",
    "Problem",
    "Rejection",
    "Reuse",
    "Reweight",
    "Round",
    "Rule",
    "Spec",
    "Status",
    "TopK",
    "TransversalMatroid",
    "View",
    "certify",
    "load",
    "metrics",
    "multipliers",
    "plots",
    "read_spec",
    "report",
    "summarise",
    "theory",
    "verify",
    "worlds",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f"outrule.{_HOME[name]}"), name)
    elif name in _ROOMS:
        value = import_module(f"outrule.{name}")
    else:
        raise AttributeError(f"module 'outrule' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
