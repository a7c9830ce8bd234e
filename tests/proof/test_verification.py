"""Verification: honest certificates pass, and every kind of tampering is caught."""

import copy
import dataclasses
import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

import outrule
from letter import algorithm_one
from outrule import CertificateError, Instances, certify, kernels, verify
from outrule.calibration.patches import Patch
from outrule.calibration.piecewise import pack
from outrule.data.sketch import Seen
from outrule.errors import DataError
from outrule.model.codec import fingerprint
from outrule.proof.continuation import first_part
from outrule.proof.contrast import OutcomeEnds
from outrule.proof.replay import _along
from sealing import reseal


def draw(n, m, seed, low=0.0, high=1.0, **extra):
    """Predictions that are noisy and tilted, outcomes of any size in the range."""
    generator = np.random.default_rng(seed)
    truth = generator.random((n, m))
    tilt = np.linspace(-0.2, 0.3, m)
    predictions = np.clip(truth + tilt + generator.normal(0, 0.2, (n, m)), 0, 1)
    outcomes = np.clip(truth + generator.normal(0, 0.3, (n, m)), 0, 1)
    return Instances.from_arrays(
        low + (high - low) * predictions,
        low + (high - low) * outcomes,
        value_range=(low, high),
        **extra,
    )


def classes(n, m, seed, problem=None):
    generator = np.random.default_rng(seed)
    truth = generator.dirichlet(np.ones(m), n)
    labels = (generator.random((n, 1)) < truth.cumsum(axis=1)).argmax(axis=1)
    predictions = truth ** np.linspace(0.5, 3, m)
    predictions /= predictions.sum(axis=1, keepdims=True)
    parts = predictions, np.eye(m)[labels]
    if problem is not None:
        parts = tuple(problem.with_reject(part) for part in parts)
    return Instances.from_arrays(*parts)


def table(n, seed):
    """Instances of 2 to 5 items, in clusters, with weights (some zero), rows shuffled."""
    generator = np.random.default_rng(seed)
    sizes = generator.integers(2, 6, n)
    instance = np.repeat(np.arange(n), sizes)
    truth = generator.random(len(instance))
    frame = pl.DataFrame(
        {
            "trip": instance,
            "action": np.concatenate([np.arange(size) for size in sizes]),
            "score": np.clip(truth + generator.normal(0, 0.3, len(truth)), 0, 1),
            "worth": truth,
            "day": instance // 7,
            "weight": (generator.integers(0, 3, n) / 2)[instance],
        }
    )[generator.permutation(len(instance))]
    names = {"instance": "trip", "item": "action", "prediction": "score", "outcome": "worth"}
    return Instances.from_table(frame, cluster="day", weight="weight", **names)


def tilts(m, n_rules=3, seed=0):
    generator = np.random.default_rng(seed)
    return [
        outrule.Multiplier(generator.uniform(0, 1, m), name=f"tilt {i}") for i in range(n_rules)
    ]


REJECTION = outrule.Rejection(cost=0.3)
SIGNED = {"low": -3.0, "high": 2.0}
FAR = {"low": 100.0, "high": 107.0}
GROUPS = {"cluster": np.repeat(np.arange(60), 5), "weight": np.resize([0.0, 1.0, 2.5], 300)}
START = {"start": np.full((300, 4), 0.5)}
LEVELS = dict.fromkeys(range(5), 1.0) | {0: 0.5}
DEFAULT = {"start": outrule.CrossFit(), "rivals": ("plain", "isotonic")}

# name: (problem, rules, what makes instances from a seed, more arguments of the calibrator)
CASES = {
    "best action": (outrule.BestAction(), tilts(4), lambda s: draw(300, 4, s), {}),
    "top k": (outrule.TopK(2), tilts(5), lambda s: draw(300, 5, s), {}),
    "matching": (outrule.Matching.complete(4), tilts(6), lambda s: draw(300, 6, s), {}),
    "assignment": (outrule.Assignment(2, 3), tilts(6), lambda s: draw(300, 6, s), {}),
    "greedy matching": (
        outrule.GreedyMatching.complete(4),
        tilts(6),
        lambda s: draw(300, 6, s),
        {},
    ),
    "classification": (
        outrule.Classification(),
        [outrule.Fixed(0), *tilts(3)],
        lambda s: classes(300, 3, s),
        {},
    ),
    "rejection": (
        REJECTION,
        [outrule.Fixed(3), *tilts(4)],
        lambda s: classes(150, 3, s, REJECTION),
        {},
    ),
    "table": (
        outrule.BestAction(),
        [outrule.Fixed(1), outrule.Multiplier(LEVELS, name="less of 0")],
        lambda s: table(300, s),
        {},
    ),
    "clusters and weights": (
        outrule.BestAction(),
        tilts(4),
        lambda s: draw(300, 4, s, **GROUPS),
        {},
    ),
    "declared clusters": (
        outrule.BestAction(),
        tilts(4),
        lambda s: draw(300, 4, s, **GROUPS),
        {},
    ),
    "continued": (outrule.TopK(2), tilts(4), lambda s: draw(300, 4, s), {}),
    "continued clusters": (
        outrule.BestAction(),
        tilts(4),
        lambda s: draw(300, 4, s, **GROUPS),
        {},
    ),
    "isotonic": (
        outrule.BestAction(),
        tilts(4),
        lambda s: draw(300, 4, s),
        {"start": outrule.Isotonic(), "random_state": 0},
    ),
    "by default": (outrule.BestAction(), tilts(4), lambda s: draw(300, 4, s), DEFAULT),
    "rejection by default": (
        REJECTION,
        [outrule.Fixed(3), *tilts(4)],
        lambda s: classes(150, 3, s, REJECTION),
        DEFAULT,
    ),
    "matching by default": (
        outrule.Matching.complete(4),
        tilts(6),
        lambda s: draw(300, 6, s),
        DEFAULT,
    ),
    "table by default": (
        outrule.BestAction(),
        [outrule.Fixed(1), outrule.Multiplier(LEVELS, name="less of 0")],
        lambda s: table(300, s),
        DEFAULT,
    ),
    "isotonic on the simplex": (
        REJECTION,
        tilts(4),
        lambda s: classes(150, 3, s, REJECTION),
        {"start": outrule.Isotonic(per_item=False), "random_state": 0},
    ),
    "start column": (
        outrule.BestAction(),
        tilts(4),
        lambda s: draw(300, 4, s, **START),
        {},
    ),
    "signed range": (outrule.TopK(2), tilts(4), lambda s: draw(300, 4, s, **SIGNED), {}),
    "far range": (
        outrule.BestAction(),
        tilts(4),
        lambda s: draw(300, 4, s, **FAR, **GROUPS),
        {},
    ),
    "tiny range": (outrule.TopK(2), tilts(4), lambda s: draw(300, 4, s, high=1e-9), {}),
    "huge range": (outrule.TopK(2), tilts(4), lambda s: draw(300, 4, s, low=-1e9, high=2e9), {}),
    "fixed step": (
        outrule.BestAction(),
        tilts(4),
        lambda s: draw(300, 4, s),
        {"step": outrule.FixedStep(), "check": outrule.Reuse(validation=0.2), "random_state": 0},
    ),
    "one instance": (
        outrule.BestAction(),
        tilts(4),
        lambda s: draw(300 if s == 0 else 1, 4, s),
        {},
    ),
}

MAX_WEIGHT = {"declared clusters": 20.0, "continued clusters": 25.0}
LOOKS = {"continued": (50, 51, 250), "continued clusters": (100,)}


@pytest.fixture(scope="module")
def made():
    """Every case as (calibrator, hold-out, certificate), made when first asked for."""
    found = {}

    def make(name):
        if name not in found:
            problem, rules, instances, more = CASES[name]
            training = instances(0)
            low, high = training.value_range
            calibrator = algorithm_one(problem, rules, epsilon=0.02 * (high - low), **more)
            calibrator.fit(training)
            hold_out = instances(1)
            settings = {"confidence": 0.9, "max_weight": MAX_WEIGHT.get(name)}
            certificate = None
            for n in (*LOOKS.get(name, ()), len(hold_out)):
                part = first_part(hold_out, n)
                certificate = certify(calibrator, part, previous=certificate, **settings)
            found[name] = calibrator, hold_out, certificate
        return found[name]

    return make


@pytest.mark.parametrize("name", CASES)
def test_an_honest_certificate_passes(made, name):
    calibrator, hold_out, certificate = made(name)
    assert calibrator.patches_ or calibrator.model_.members
    verify(certificate, calibrator, hold_out)
    verify(certificate.to_json(), calibrator, hold_out)


@pytest.mark.parametrize("name", ["best action", "top k", "rejection", "isotonic"])
def test_a_saved_and_loaded_model_verifies_too(made, name, tmp_path):
    calibrator, hold_out, certificate = made(name)
    calibrator.save(tmp_path / "model.json")
    verify(certificate, outrule.load(tmp_path / "model.json"), hold_out)


@pytest.mark.parametrize("kind", ["words", "categories", "dates", "numbers", "none"])
def test_names_of_any_type_are_put_in_the_same_order(kind):
    words = ["z", "Ä", "a", "B", "€", "\U0001f600", "", "aa", "10", "9"]
    names = pl.Series([words[i % 10] for i in range(60)])
    if kind == "categories":
        names = names.cast(pl.Categorical)
    elif kind == "dates":
        names = pl.Series([20_000 - i * 7 % 11 for i in range(60)]).cast(pl.Date)
    elif kind == "numbers":
        names = pl.Series([(-1.5, 0.0, float("inf"), 3.25)[i % 4] for i in range(60)])
    frame = pl.DataFrame(
        {
            "trip": [f"trip {words[i // 6]}{i}" for i in range(60) for _ in range(2)],
            "action": np.tile([0, 1], 60),
            "score": np.random.default_rng(0).random(120),
            "worth": np.random.default_rng(1).random(120),
            "group": names.gather(np.repeat(np.arange(60), 2)),
        }
    )
    roles = {"instance": "trip", "item": "action", "prediction": "score", "outcome": "worth"}
    roles |= {} if kind == "none" else {"cluster": "group"}
    calibrator = outrule.DecisionCalibrator(outrule.BestAction(), [outrule.Fixed(1)], 0.3)
    other = frame[:40].with_columns(score=1 - pl.col("score"))
    calibrator.fit(Instances.from_table(other, **roles))
    hold_out = Instances.from_table(frame, **roles)
    verify(certify(calibrator, hold_out, max_weight=60), calibrator, hold_out)


def test_arrays_with_unavailable_items_and_weights_verify():
    generator = np.random.default_rng(0)
    predictions, outcomes = generator.random((2, 200, 4))
    available = generator.random((200, 4)) < 0.7
    available[:, 0] = True
    calibrator = algorithm_one(outrule.BestAction(), [outrule.Fixed(0)], 0.05)
    calibrator.fit(outcomes[::-1], predictions, available=available)
    more = {"available": available, "sample_weight": generator.random(200)}
    certificate = certify(calibrator, predictions, outcomes, **more)
    verify(certificate, calibrator, predictions, outcomes, **more)
    with pytest.raises(CertificateError):
        verify(certificate, calibrator, predictions, outcomes, available=available)
    with pytest.raises(CertificateError):
        verify(certificate, calibrator, predictions, outcomes)


@pytest.mark.parametrize("seed", range(8))
def test_predictions_and_outcomes_on_a_coarse_grid_with_many_ties_verify(seed):
    generator = np.random.default_rng(seed)
    problem = outrule.Rejection(cost=0.5)
    rules = [outrule.Fixed(j) for j in range(4)]

    def grid(n):
        thirds = generator.multinomial(10, [0.3, 0.3, 0.4], n) / 10
        labels = np.eye(3)[generator.integers(3, size=n)]
        return problem.with_reject(thirds), problem.with_reject(labels)

    calibrator = algorithm_one(problem, rules, epsilon=0.02).fit(*grid(200))
    predictions, outcomes = grid(150)
    verify(certify(calibrator, predictions, outcomes), calibrator, predictions, outcomes)
    best = algorithm_one(outrule.BestAction(), rules[:3], epsilon=0.02)
    training, hold_out = generator.integers(0, 11, (2, 2, 200, 3)) / 10
    best.fit(*training)
    verify(certify(best, *hold_out), best, *hold_out)


@pytest.mark.parametrize(
    ("problem", "low", "high", "seed"),
    [
        (outrule.BestAction(), 0.0, 1.0, 5),  # two rivals with the same gap, up to rounding
        (outrule.BestAction(), 1.0, 2.0, 1),
        (outrule.BestAction(), 1e-12, 2e-12, 11),
        (outrule.BestAction(), -2.0, -1.0, 15),
        (outrule.PartitionMatroid([0, 0, 0, 1, 1, 2]), 5.0, 5.5, 1),
        (outrule.PartitionMatroid([0, 0, 0, 1, 1, 2]), 999_999.0, 1_000_000.0, 0),
    ],
)
def test_values_in_any_range_verify(problem, low, high, seed):
    generator = np.random.default_rng(seed)

    def thirds(n):
        predictions, outcomes = low + (high - low) * generator.integers(0, 4, (2, n, 6)) / 3
        parts = [np.clip(part, low, high) for part in (predictions, outcomes)]
        cluster = generator.integers(0, 3, n)
        return Instances.from_arrays(*parts, value_range=(low, high), cluster=cluster)

    rules = [outrule.Multiplier(generator.choice([0.1, 0.5, 1], 6), f"{i}") for i in range(3)]
    calibrator = algorithm_one(problem, rules, epsilon=0.05 * (high - low)).fit(thirds(20))
    hold_out = thirds(9)
    verify(certify(calibrator, hold_out, max_weight=100), calibrator, hold_out)


def test_steps_that_move_far_out_of_the_simplex_verify():
    rules = [outrule.Fixed(0), outrule.Fixed(1)]
    calibrator = algorithm_one(outrule.Classification(), rules, epsilon=0.5)
    calibrator = with_model(
        calibrator.fit(classes(100, 3, 0)), patches=(Patch(0, 7.0), Patch(-1, -6.0), Patch(1, 0.3))
    )
    verify(certify(calibrator, classes(100, 3, 1)), calibrator, classes(100, 3, 1))


def test_rules_that_are_equally_close_may_both_be_called_the_closest():
    predictions = np.tile([0.3, 0.1, 0.1], (30, 1))
    outcomes = np.column_stack([np.full(30, 0.3), np.arange(30) / 30, np.arange(30) / 30])
    rules = [outrule.Fixed(1), outrule.Fixed(2)]
    calibrator = algorithm_one(outrule.BestAction(), rules, epsilon=1.0)
    calibrator.fit(predictions[:29], outcomes[:29] / 2)
    certificate = certify(calibrator, predictions, outcomes)
    for name in ("always 1", "always 2"):
        claim = dataclasses.replace(certificate, closest_rule=name, closest_rival=name)
        verify(claim, calibrator, predictions, outcomes)
    for field in ("closest_rule", "closest_rival"):
        claim = dataclasses.replace(certificate, **{field: "always 0"})
        with pytest.raises(CertificateError, match=field):
            verify(claim, calibrator, predictions, outcomes)


def test_a_count_needed_that_hangs_on_the_last_bits_verifies():
    # The mean difference is a hair above -margin, so the count is in the billions.
    noise = np.random.default_rng(1).uniform(-0.05, 0.05, 1_000)
    outcomes = np.column_stack([0.3 + noise - noise.mean(), np.full(1_000, 0.5 - 2e-6)])
    predictions = np.tile([0.9, 0.5], (1_000, 1))
    calibrator = algorithm_one(outrule.BestAction(), [outrule.Fixed(1)], 0.2)
    calibrator.fit(np.array([[0.9, 0.5]]), np.array([[0.9, 0.5]]))
    certificate = certify(calibrator, predictions, outcomes)
    assert certificate.needed > 10**8
    verify(certificate, calibrator, predictions, outcomes)
    claim = dataclasses.replace(certificate, needed=int(certificate.needed * 1.001))
    with pytest.raises(CertificateError, match="needed"):
        verify(claim, calibrator, predictions, outcomes)


def mutants(value, path=""):
    """Every single change: (what was done, the value with that one change)."""
    if isinstance(value, dict):
        for name in value:
            rest = {key: entry for key, entry in value.items() if key != name}
            yield f"{path}.{name} dropped", rest
            yield f"{path}.{name} renamed", rest | {f"{name}x": value[name]}
            for what, changed in mutants(value[name], f"{path}.{name}"):
                yield what, value | {name: changed}
        yield f"{path} with an entry more", value | {"more": 0}
    elif isinstance(value, list):
        for number, entry in enumerate(value):
            before, after = value[:number], value[number + 1 :]
            yield f"{path}[{number}] dropped", before + after
            yield f"{path}[{number}] twice", [*before, entry, entry, *after]
            for what, changed in mutants(entry, f"{path}[{number}]"):
                yield what, [*before, changed, *after]
        if value[::-1] != value:
            yield f"{path} reversed", value[::-1]
            yield f"{path} rotated", value[1:] + value[:1]
        yield f"{path} as an object", {str(i): entry for i, entry in enumerate(value)}
        yield f"{path} {'emptied' if value else 'filled'}", [] if value else ["more"]
    elif isinstance(value, str):
        yield f"{path} longer", f"{value}x"
        yield f"{path} shorter", value[:-1]
        if value.swapcase() != value:
            yield f"{path} in the other case", value.swapcase()
        yield f"{path} as null", None
        yield f"{path} as a number", 1
    elif value is None:
        yield f"{path} as zero", 0
        yield f"{path} as a number", 12.5
        yield f"{path} as text", "none"
    else:
        yield f"{path} a little more", value + (1 if isinstance(value, int) else 1e-3)
        yield f"{path} a little less", value - (1 if isinstance(value, int) else 1e-3)
        if abs(value) > 1e-6:
            yield f"{path} with the other sign", -value
        yield f"{path} as text", str(value)
        yield f"{path} as null", None
        yield f"{path} as true", True


def is_caught(claim, calibrator, hold_out):
    try:
        verify(reseal(claim), calibrator, hold_out)
    except (CertificateError, DataError):
        return True
    return False


CHANGED = ["best action", "rejection", "clusters and weights", "declared clusters", "isotonic"]
CHANGED += ["continued clusters"]


def missed_changes(case, first=0, step=1):
    calibrator, hold_out, certificate = case
    claim = json.loads(certificate.to_json())
    del claim["digest"]
    changes = list(mutants(claim))
    assert len(changes) > 500
    return [what for what, new in changes[first::step] if not is_caught(new, calibrator, hold_out)]


@pytest.mark.parametrize("name", CHANGED)
def test_single_changes_are_caught(made, name):
    calibrator, hold_out, _ = made(name)
    few, previous = first_part(hold_out, 60), None
    for part in ([first_part(few, 30)] if name in LOOKS else []) + [few]:
        settings = {"confidence": 0.9, "max_weight": MAX_WEIGHT.get(name), "previous": previous}
        previous = certify(calibrator, part, **settings)
    # Eleven is prime to the number of changes of an entry: all kinds and all entries have their
    # turn; and other ones in every case, half of all changes together.
    first = 2 * CHANGED.index(name)
    assert missed_changes((calibrator, few, previous), first, step=11) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGED)
def test_every_single_change_is_caught(made, name):
    assert missed_changes(made(name)) == []


def test_a_count_needed_is_checked_like_the_rest():
    rules = [outrule.Fixed(1)]
    calibrator = algorithm_one(outrule.BestAction(), rules, epsilon=0.05)
    calibrator.fit(draw(400, 2, 0))
    hold_out = draw(30, 2, 1)
    claim = json.loads(certify(calibrator, hold_out).to_json())
    assert claim["verdict"] == "inconclusive"
    assert is_caught(claim, calibrator, hold_out) is False
    for needed in (None, claim["needed"] + 1, claim["needed"] - 1, 0, -claim["needed"]):
        assert is_caught(claim | {"needed": needed}, calibrator, hold_out)
    for verdict in ("pass", "fail", "", None):
        assert is_caught(claim | {"verdict": verdict}, calibrator, hold_out)


@pytest.mark.parametrize("name", ["tiny range", "huge range"])
def test_changes_are_caught_in_the_units_of_the_values(made, name):
    calibrator, hold_out, certificate = made(name)
    claim = json.loads(certificate.to_json())
    for field in ("epsilon", "confidence", "margin", "gap", "gap_lower", "squared_error_after"):
        for factor in (1.001, 1 + 1e-6, -1):
            changed = claim | {field: claim[field] * factor}
            assert is_caught(changed, calibrator, hold_out), (field, factor)
    for field in ("improvement", "plain", "calibrated", "isotonic", "best_rule", "oracle"):
        for number in range(3):
            changed = copy.deepcopy(claim)
            changed[field][number] *= 1.001
            assert is_caught(changed, calibrator, hold_out), (field, number)


@pytest.mark.parametrize(("name", "unit"), [("day", "day"), ("Day", "cluster"), ("日", "cluster")])
def test_clusters_may_be_named_in_any_script(name, unit):
    def read(seed):
        data = table(300, seed)
        frame = data.origin.frame.rename({"day": name}).with_columns(worth=data.outcome)
        roles = {"instance": "trip", "item": "action", "prediction": "score", "outcome": "worth"}
        return Instances.from_table(frame, cluster=name, **roles)

    train, hold_out = read(0), read(1)
    calibrator = outrule.DecisionCalibrator(outrule.BestAction(), [outrule.Fixed(1)])
    certificate = certify(calibrator.fit(train), hold_out, max_weight=7)
    assert certificate.unit == unit
    verify(certificate, calibrator, hold_out)


def test_a_name_that_stands_twice_is_caught(made):
    calibrator, hold_out, certificate = made("best action")
    text = certificate.to_json().replace('"gap":', '"gap": 0.5, "gap":')
    with pytest.raises(DataError, match="'gap' occurs twice"):
        verify(reseal(text), calibrator, hold_out)


def test_a_tampered_certificate_object_is_caught_as_well(made):
    calibrator, hold_out, certificate = made("best action")
    for change in (
        {"verdict": "pass" if certificate.verdict != "pass" else "fail"},
        {"confidence": 0.99},
        {"confidence": 2.0},
        {"rules": certificate.rules[::-1]},
        {"rules": certificate.rules[1:]},
        {"library": "9.9.9"},
        {"format": 2},
    ):
        with pytest.raises((CertificateError, DataError)):
            verify(dataclasses.replace(certificate, **change), calibrator, hold_out)


def test_the_message_names_the_place_and_both_numbers(made):
    calibrator, hold_out, certificate = made("best action")
    claim = json.loads(certificate.to_json())
    claim["rules"][1]["difference"][2] = 0.125
    with pytest.raises(CertificateError, match=r"rules\[1\]\.difference\[2\]: .* says 0\.125, the"):
        verify(reseal(claim), calibrator, hold_out)


def test_a_message_stays_short_whatever_the_certificate_says(made):
    calibrator, hold_out, certificate = made("best action")
    claim = json.loads(certificate.to_json())
    claim["violations"] *= 500
    with pytest.raises(CertificateError, match="violations: the certificate says") as caught:
        verify(reseal(claim), calibrator, hold_out)
    assert len(str(caught.value)) < 2000


def with_model(calibrator, **changes):
    other = copy.copy(calibrator)
    other.model_ = dataclasses.replace(calibrator.model_, **changes)
    return other


def test_another_model_is_caught(made):
    calibrator, hold_out, certificate = made("best action")
    patches = calibrator.model_.patches
    changes = [
        {"patches": (*patches[:number], Patch(test, step * (1 + 1e-12)), *patches[number + 1 :])}
        for number, (test, step) in enumerate(patches)
    ]
    changes += [
        {"patches": patches[:-1]},
        {"patches": patches[::-1]},
        {"settings": dataclasses.replace(calibrator.model_.settings, epsilon=0.03)},
    ]
    changes += [{"rule_values": calibrator.rule_values_ + 1e-9}]
    for change in changes:
        with pytest.raises(CertificateError):
            verify(certificate, with_model(calibrator, **change), hold_out)


def test_a_wrong_model_is_caught_by_its_numbers_even_with_its_own_fingerprint(made):
    calibrator, hold_out, certificate = made("best action")
    other = with_model(calibrator, patches=())
    claim = dataclasses.replace(certificate, model=fingerprint(other.model_))
    with pytest.raises(CertificateError):
        verify(claim, other, hold_out)


def test_looks_that_were_never_taken_are_caught(made):
    calibrator, hold_out, certificate = made("continued")
    assert [look.n_instances for look in certificate.earlier] == [50, 51, 250]
    again = certify(calibrator, hold_out, confidence=0.9)
    assert again.gap_lower != certificate.gap_lower  # other bets
    for earlier in (
        (),
        certificate.earlier[1:],
        certificate.earlier[::-1],
        (*certificate.earlier, dataclasses.replace(certificate.earlier[-1], n_instances=300)),
        (*certificate.earlier, dataclasses.replace(certificate.earlier[-1], n_instances=999)),
        (dataclasses.replace(certificate.earlier[0], n_instances=-1), *certificate.earlier[1:]),
        (dataclasses.replace(certificate.earlier[0], n_instances=49), *certificate.earlier[1:]),
    ):
        claim = dataclasses.replace(certificate, earlier=earlier)
        with pytest.raises(CertificateError):
            verify(claim, calibrator, hold_out)


def test_a_look_that_divides_a_cluster_is_caught(made):
    calibrator, hold_out, certificate = made("continued clusters")
    inside = dataclasses.replace(certificate.earlier[0], n_instances=102)
    with pytest.raises(CertificateError, match="a cluster belongs to two looks"):
        verify(dataclasses.replace(certificate, earlier=(inside,)), calibrator, hold_out)


def test_other_data_are_caught(made):
    calibrator, hold_out, certificate = made("best action")
    n, m = 300, 4
    predictions, outcomes = (flat.reshape(n, m) for flat in (hold_out.prediction, hold_out.outcome))
    for part, (row, column) in ((0, (0, 0)), (1, (299, 3)), (1, (17, 2))):
        arrays = [predictions.copy(), outcomes.copy()]
        arrays[part][row, column] = np.nextafter(arrays[part][row, column], 0.5)
        with pytest.raises(CertificateError):
            verify(certificate, calibrator, *arrays)
    for rows in (slice(0, n - 1), np.roll(np.arange(n), 1)):
        with pytest.raises(CertificateError):
            verify(certificate, calibrator, predictions[rows], outcomes[rows])
    weights = np.ones(n)
    weights[5] = 1.001
    with pytest.raises(CertificateError):
        verify(certificate, calibrator, predictions, outcomes, sample_weight=weights)


def test_a_certificate_on_the_training_data_is_caught(made):
    calibrator, _, _ = made("best action")
    training = CASES["best action"][2](0)
    forgetful = with_model(calibrator, fingerprints=(), seen=Seen.of(CASES["best action"][2](7)))
    claim = certify(forgetful, training)
    with pytest.raises(CertificateError, match="data: fit has seen these instances"):
        verify(claim, calibrator, training)
    order = np.random.default_rng(0).permutation(len(training))[1:]
    shuffled = training.take(order)
    claim = certify(forgetful, shuffled)
    with pytest.raises(CertificateError, match="data: fit has seen 100 % of these instances"):
        verify(claim, calibrator, shuffled)


def test_another_version_of_the_library_can_verify(made, monkeypatch):
    calibrator, hold_out, certificate = made("best action")
    monkeypatch.setattr(outrule, "__version__", "99.0")
    verify(certificate, calibrator, hold_out)


def test_a_certificate_on_outcomes_that_are_all_the_same_does_not_verify(monkeypatch):
    calibrator = outrule.DecisionCalibrator(outrule.BestAction(), [outrule.Fixed(1)])
    calibrator.fit(*outrule.worlds.two_arms(200, seed=0, epsilon=0.3))
    held = np.random.default_rng(1).random((50, 2)), np.zeros((50, 2))
    with monkeypatch.context() as patched:
        patched.setattr(OutcomeEnds, "check", lambda *_: None)
        patched.setattr(OutcomeEnds, "check_differences", lambda *_: None)
        found = certify(calibrator, *held)
    with pytest.raises(CertificateError, match="data: every outcome is 0"):
        verify(found, calibrator, *held)


@given(seed=st.integers(0, 10_000))
def test_curves_are_replayed_to_the_last_bit_so_that_the_same_predictions_tie(seed):
    generator = np.random.default_rng(seed)
    n = int(generator.integers(1, 9))
    x = np.unique(generator.random(n).round(int(generator.integers(1, 17))))
    y = np.sort(generator.integers(0, 6, len(x)) / 5)  # with levels
    (points,), p = pack([(x, y)])[1:], np.concatenate([x, generator.random(50)])
    kernel = [kernels.curves.value_at(points, 0, len(points), one) for one in p]
    assert _along(p, x, y).tolist() == kernel
