"""The attributes of a fitted calibrator: a model is kept, what it knows is shown."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from outrule.calibration.isotonic import FittedIsotonic
from outrule.calibration.loop import Round, Status
from outrule.calibration.patches import Patch
from outrule.model.model import Model
from outrule.types import Floats


class Fitted:
    """Keeps one model; every attribute is read from it, so they always belong together."""

    model_: Model

    @property
    def patches_(self) -> list[Patch]:
        return list(self._fitted().patches)

    @property
    def history_(self) -> list[Round]:
        return list(self._fitted().history)

    @property
    def status_(self) -> Status:
        return self._fitted().status

    @property
    def tolerance_(self) -> float:
        return self._fitted().tolerance

    @property
    def k_(self) -> int:
        return self._fitted().k

    @property
    def rule_values_(self) -> Floats:
        return self._fitted().rule_values

    @property
    def best_rule_(self) -> int:
        return self._fitted().best_rule

    @property
    def isotonic_(self) -> FittedIsotonic:
        return self._fitted().isotonic

    @property
    def n_features_in_(self) -> int:
        number = self._fitted().n_items
        if number is None:
            raise AttributeError("a table's instances may offer any number of items")
        return number

    def _fitted(self) -> Model:
        check_is_fitted(self, "model_")
        return self.model_

    def _keep(self, model: Model, names: Any) -> None:
        self.model_ = model
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
