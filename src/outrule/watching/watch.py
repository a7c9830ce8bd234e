"""Watch: count batches after deployment, and say whether the guarantee still holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import outrule
from outrule import threads
from outrule.data.arrays import numeric, read_arrays
from outrule.data.instances import Instances
from outrule.data.propensities import check_log
from outrule.errors import DataError, check_integer, check_number
from outrule.model.codec import fingerprint
from outrule.model.documents import damaged
from outrule.model.model import Model, model_of
from outrule.proof.evaluation import names_of_rivals, unit_of
from outrule.proof.novelty import check_batch
from outrule.types import Floats
from outrule.watching.claims import SIDES, add_up, begun
from outrule.watching.counting import add_batch, status_of
from outrule.watching.detectors import Detectors
from outrule.watching.keys import Key, as_key, check_ascends, next_key
from outrule.watching.state import FORMAT, NOUN, State, claim_states, read_state
from outrule.watching.status import WatchStatus


class CountedError(DataError):
    """The batch has been counted before, with the same content."""


class Watch:
    """Watch a model after deployment, batch by batch.

    It watches whether decisions are still at least as good as every rival's (rules, plain,
    isotonic), minus the margin; and whether they are worth what was predicted, within the margin.
    The first needs the outcomes of all items, or a log with propensities (of explored decisions).
    For the second those of chosen items are enough: leave the others NaN, and it alone is watched.
    The first batch decides which.

    Parameters
    ----------
    calibrator : a fitted DecisionCalibrator, or its Model
    run_length : int
        Batches until a false alarm, on average, at least: 7,300 is one in 20 years of days. It
        holds while both statements are true, for any number of observations in a batch.
    margin : float, optional
        In the units of the value; the model's, if left out.
    max_weight : float, optional
        The largest total weight that a cluster can have (its size, without weights), or an instance
        that has a weight. Needed where there are clusters or weights.

    Notes
    -----
    Evidence is an e-detector (Shiryaev-Roberts form), the mean over rivals. Its memory is one small
    row of numbers per rival. Observations must be independent: whole clusters must be in one batch.

    Examples
    --------
    >>> import outrule
    >>> rules = [outrule.Fixed(0), outrule.Fixed(1)]
    >>> calibrator = outrule.DecisionCalibrator(outrule.BestAction(), rules, epsilon=0.05)
    >>> calibrator = calibrator.fit(*outrule.worlds.two_arms(10_000, seed=0, epsilon=0.3))
    >>> watch = Watch(calibrator)
    >>> for day in range(1, 6):
    ...     status = watch.update(*outrule.worlds.two_arms(1_000, seed=day, epsilon=0.3), batch=day)
    >>> status.status, status.n_batches
    ('kept', 5)
    >>> Watch.from_json(watch.to_json(), calibrator).status == status
    True
    """

    def __init__(
        self,
        calibrator: Any,
        run_length: int = 7300,
        margin: float | None = None,
        max_weight: float | None = None,
    ) -> None:
        self.model: Model = model_of(calibrator, "Watch")
        self._n_jobs = getattr(calibrator, "n_jobs", None)
        run_length = check_integer(run_length, "run_length", "Watch", 2)
        margin = self.model.margin if margin is None else margin
        margin = check_number(margin, "margin", "Watch", 0, low_open=False)
        if max_weight is not None:
            max_weight = check_number(max_weight, "max_weight", "Watch", 0)
        self.state = State(
            FORMAT, outrule.__version__, fingerprint(self.model), run_length, margin, max_weight
        )

    @classmethod
    def from_json(cls, text: str, calibrator: Any, *, name: str = "this") -> Watch:
        """Continue a watch from what ``to_json`` wrote; ``name`` is what errors call it."""
        model = model_of(calibrator, "Watch")
        state = read_state(text, model, name)
        watch = cls(calibrator, state.run_length, state.margin, state.max_weight)
        known = {"rivals": watch.rivals, "predicted": SIDES}
        for alarm in state.alarms:
            if alarm.name not in known[alarm.watched] or not {*alarm.better} <= {*watch.rivals}:
                raise damaged(name, NOUN, ValueError("an alarm names a rule that does not exist"))
        watch.state = state
        return watch

    def to_json(self) -> str:
        """The state as a JSON string; the same batches give the same string."""
        return self.state.to_json()

    def update(
        self,
        predictions: ArrayLike | Instances,
        outcomes: ArrayLike | None = None,
        *,
        batch: Any = None,
        available: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> WatchStatus:
        """Count a batch.

        Parameters
        ----------
        predictions, outcomes : as in ``certify``
            Outcomes may be NaN for items that were not chosen. Next to Instances without outcomes,
            ``outcomes`` is a column in the order of the rows. A boolean column ``chosen`` says what
            was done; without it the model decides again.
        batch : int, or ISO date or time (or the string of one), optional
            Keys must ascend. Without one, batches are numbered.

        Notes
        -----
        DataError, and nothing is counted, if the batch was counted before, is out of order, is part
        of the training data, or has mostly copies of its own instances.
        """
        threads.check_jobs(self._n_jobs, "DecisionCalibrator")
        with threads.using(self._n_jobs):
            instances, outcome = self._read(predictions, outcomes, available, sample_weight)
            key = self._key_of(batch, instances.fingerprint)
            state = begun(self.state, self.model, instances, outcome)
            found = add_up(self.model, instances, outcome, state)
            if instances.propensity is not None or not np.isnan(outcome).any():
                check_batch(self.model, instances)  # by chance, more are alike without outcomes
        unit = unit_of(self.model.settings.value, instances)
        content, best = instances.fingerprint, self.model.best_rule
        state = add_batch(state, found, key, content, best, self.rivals)
        self.state = replace(state, unit=unit)
        return self.status

    def acknowledge(self) -> WatchStatus:
        """Take note of an alarm: the detectors and sums start again, the history stays."""
        if not self.state.alarms:
            raise DataError("there is no alarm to acknowledge.")
        *rows, last = self.state.history
        n_claims = len(self.state.claims)
        self.state = replace(
            self.state,
            first=None,
            n=0,
            weight=0.0,
            predicted=0.0,
            realised=0.0,
            claims=claim_states(np.zeros(n_claims), Detectors.fresh(n_claims)),
            alarms=(),
            history=(*rows, last._replace(acknowledged=True)),
        )
        return self.status

    @property
    def status(self) -> WatchStatus:
        """What the batches so far say."""
        return status_of(self.state, self.rivals)

    @property
    def rivals(self) -> list[str]:
        """The names of all that decisions are compared with."""
        return names_of_rivals(self.model)

    def _read(
        self, predictions: Any, outcomes: Any, available: Any, sample_weight: Any
    ) -> tuple[Instances, Floats]:
        """The instances, with outcomes that may be NaN, and these outcomes."""
        model = self.model
        instances = model.instances(predictions, None, available, sample_weight)
        if outcomes is None and instances.propensity is not None:
            outcome = instances.require_observed("Watch.update")
        elif outcomes is None:
            outcome = instances.require_outcome("Watch.update")
        elif instances.outcome is not None:
            raise DataError("outcomes were given next to Instances that already contain them.")
        elif isinstance(predictions, Instances):
            outcome = instances.origin.flatten(numeric(outcomes, "outcomes"))
        else:
            outcome = read_arrays(predictions, outcomes, available=available)["outcome"]
        instances = replace(instances, outcome=np.where(np.isnan(outcome), np.nan, outcome))
        instances = self._as_begun(instances)
        if not np.isnan(outcome).any():
            model.problem.check_data(instances)
        check_log(instances, exactly_one=model.problem.exactly_one)
        if instances.fingerprint in model.fingerprints:
            raise DataError("these are the instances that fit has seen. Watch needs later ones.")
        return instances, outcome

    def _as_begun(self, instances: Instances) -> Instances:
        """With propensities if this is a watch of logs, without them if it is not."""
        feedback = self.state.feedback
        if feedback == "logged" and instances.propensity is None:
            unknown = ~instances.observed
            if unknown.any():
                raise instances.fault(
                    "outcome is missing",
                    ", and there are no propensities. This watch compares with rivals by a log's "
                    "propensities: give them as in the first batch, or begin a new watch.",
                    np.flatnonzero(unknown),
                )
            return replace(instances, propensity=np.ones(len(unknown)))
        if feedback in ("full", "chosen"):
            return replace(instances, propensity=None, propensity_estimated=False)
        return instances

    def _key_of(self, given: Any, content: str) -> Key:
        """The key of a new batch; raises where it is not new, or not in order."""
        by_content = {row.content: row.batch for row in self.state.history}
        if given is None:
            if content in by_content:
                raise CountedError(f"this batch is already counted, as {by_content[content]}.")
            return next_key(self.state.last)
        key = as_key(given)
        if by_content.get(content) == key:
            raise CountedError(f"batch {key} is already counted.")
        if any(row.batch == key for row in self.state.history):
            raise DataError(
                f"batch {key} is already counted, with other content. A batch is counted once: "
                "give corrected rows to a new watch."
            )
        check_ascends(key, self.state.last)
        if content in by_content:
            raise DataError(
                f"batch {key} has the same rows as batch {by_content[content]}, which has been "
                "counted."
            )
        return key
