"""Rules: multipliers, new weights, decisions and fixed items, for arrays and for tables."""

import json
import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

import outrule
from outrule import (
    ArgumentError,
    BestAction,
    Choose,
    DataError,
    Fixed,
    Instances,
    Multiplier,
    Reweight,
    TopK,
    multipliers,
)
from outrule.rules.rules import check_rules, to_picks
from sealing import reseal

PREDICTIONS = np.array([[0.5, 0.4, 0.3], [0.1, 0.2, 0.6], [0.3, 0.3, 0.3]])
MASK = np.array([[True, True, True], [True, False, True], [False, True, True]])
TABLE = pl.DataFrame(
    {
        "trip": ["b", "a", "b", "a", "c"],
        "car": ["red", "red", "blue", "blue", "red"],
        "score": [0.5, 0.4, 0.6, 0.1, 0.2],
        "bought": [1, 0, 0, 1, 1],
        "km": [1.0, 2.0, 5.0, 1.0, 9.0],
    }
)


def arrays(available=None, **columns):
    return Instances.from_arrays(PREDICTIONS, available=available, columns=columns)


def table(item="car", frame=TABLE):
    return Instances.from_table(
        frame, instance="trip", prediction="score", outcome="bought", item=item
    )


def decide(rule, data, problem=None):
    """A rule's decisions, as the caller would want them back."""
    problem = problem or BestAction()
    picks = rule.decide(data, problem, problem.lay(data))
    assert picks.dtype == np.int32
    return data.origin.restore(data.mark(picks), False)


def refused(message):
    return pytest.raises(DataError, match=re.escape(message))


# Multipliers


@pytest.mark.parametrize("available", [None, MASK])
@pytest.mark.parametrize("problem", [BestAction(), TopK(2), outrule.Matching.complete(3)])
def test_a_multiplier_decides_as_the_optimiser_on_multiplied_predictions(available, problem):
    vector = np.array([0.5, 1.0, 0.75])
    expected = problem.solve(PREDICTIONS * vector, available)
    np.testing.assert_array_equal(decide(Multiplier(vector), arrays(available), problem), expected)
    mapping = dict(enumerate(vector.tolist()))
    np.testing.assert_array_equal(decide(Multiplier(mapping), arrays(available), problem), expected)


def test_a_multiplier_of_zero_means_never():
    chosen = decide(Multiplier([0.0, 0.0, 1.0]), arrays(), TopK(3))
    np.testing.assert_array_equal(chosen, [[False, False, True]] * 3)


def test_a_mapping_multiplies_the_items_of_a_table_by_their_names():
    chosen = decide(Multiplier({"red": 1.0, "blue": 0.5}), table())
    assert chosen.to_list() == [True, True, False, False, True]
    chosen = decide(Multiplier({"red": 0.1, "blue": 1.0, "green": 3.0}), table())
    assert chosen.to_list() == [False, False, True, True, True]


def test_a_vector_multiplies_the_items_of_a_table_by_their_numbers():
    frame = TABLE.with_columns(car=pl.Series([0, 0, 1, 1, 0]))
    assert decide(Multiplier([1.0, 0.5]), table(frame=frame)).to_list() == [
        True,
        True,
        False,
        False,
        True,
    ]


def test_a_multiplier_of_a_table_needs_its_items():
    with refused("rule 'half' needs items: name the column of the 'item'."):
        decide(Multiplier([0.5], name="half"), table(item=None))


def test_in_training_an_item_without_a_multiplier_is_refused():
    with refused("rule 'half' has no multiplier for item 'blue'."):
        Multiplier({"red": 0.5}, name="half").check_training(table())
    frame = TABLE.with_columns(car=pl.Series([0, 0, 7, 7, 0]))
    with refused("rule 'half' has no multiplier for item 7."):
        Multiplier([0.5, 1.0], name="half").check_training(table(frame=frame))


def test_an_item_that_training_has_not_seen_is_multiplied_by_one():
    known = Multiplier({"red": 0.5, "blue": 1.0, "green": 1.0}, name="half")
    some = Multiplier({"red": 0.5}, name="half")
    assert some.per_item(table()).tolist() == known.per_item(table()).tolist()
    assert (decide(some, table()) == decide(known, table())).all()


@pytest.mark.parametrize("length", [1, 2, 4])
def test_a_multiplier_of_another_length_is_refused(length):
    with refused(
        f"rule 'half' has {length} multiplier{'s'[: length != 1]}, but the predictions have 3"
    ):
        decide(Multiplier([0.5] * length, name="half"), arrays())


@pytest.mark.parametrize(
    "vector",
    [
        [],
        [np.nan],
        [1.0, np.inf],
        [10**400],
        1.0,
        [[1.0]],
        ["a"],
        None,
        {},
        {"a": None},
        {"a": np.inf},
    ],
)
def test_a_vector_without_finite_numbers_is_refused(vector):
    message = (
        "The 'vector' argument of Multiplier must be a non-empty vector (or a mapping) "
        f"of finite numbers. Got {vector!r} instead."
    )
    with pytest.raises(ArgumentError, match=re.escape(message)):
        Multiplier(vector)


def test_a_multiplier_keeps_its_own_copy():
    vector = np.array([1.0, 2.0])
    rule = Multiplier(vector)
    vector[0] = 9.0
    np.testing.assert_array_equal(rule.vector, [1.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        rule.vector[0] = 3.0


def test_equal_multipliers_have_equal_names_and_others_do_not():
    assert Multiplier([1.0, 0.5]).name == Multiplier((1, 0.5)).name
    assert Multiplier([1.0, 0.5]).name != Multiplier([0.5, 1.0]).name
    assert Multiplier({"a": 1, "b": 2}).name == Multiplier({"b": 2, "a": 1}).name
    assert Multiplier({1: 1.0, "a": 2.0}).name.startswith("multiplier ")
    numbers = Multiplier({"a": np.float32(1), "b": 2})
    assert repr(numbers.vector) == "{'a': 1.0, 'b': 2.0}"
    assert numbers.name == Multiplier({"a": 1.0, "b": 2.0}).name


# The paper's class


def test_the_whole_grid_is_used_where_it_fits():
    rules = multipliers(3, levels=(0, 0.5, 1), limit=27)
    vectors = {tuple(rule.vector) for rule in rules}
    assert len(rules) == len(vectors) == 19  # 26 without zero, 7 of them the half of another
    directions = {tuple(vector / max(vector)) for vector in map(np.array, vectors)}
    grid = np.array(np.meshgrid(*[[0, 0.5, 1]] * 3)).reshape(3, -1).T[1:]
    assert directions == {tuple(row / row.max()) for row in grid}


@settings(max_examples=40)
@given(
    st.integers(1, 6),
    st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 3.0]), min_size=1, unique=True),
    st.integers(1, 60),
    st.integers(0, 5),
)
def test_multipliers_are_distinct_directions_on_the_grid(n_items, levels, limit, seed):
    if max(levels) == 0:
        return
    rules = multipliers(n_items, levels, limit, seed)
    vectors = np.array([rule.vector for rule in rules])
    assert 1 <= len(rules) <= limit
    assert vectors.shape[1] == n_items
    assert np.isin(vectors, levels).all()
    assert (vectors > 0).any(axis=1).all()
    cosines = vectors @ vectors.T / np.outer(*[np.linalg.norm(vectors, axis=1)] * 2)
    np.fill_diagonal(cosines, 0)
    assert cosines.max(initial=0) < 1 - 1e-9
    assert len({rule.name for rule in rules}) == len(rules)


def test_a_large_grid_is_sampled_up_to_the_limit():
    rules = multipliers(45)
    assert len(rules) == 1024
    vectors = np.array([rule.vector for rule in rules])
    shares = [(vectors == level).mean() for level in (0, 0.25, 0.5, 0.75, 1)]
    np.testing.assert_allclose(shares, 0.2, atol=0.01)


def test_a_sample_depends_on_its_seed_alone():
    one, same, other = (multipliers(20, limit=50, seed=seed) for seed in (1, 1, 2))
    for a, b in zip(one, same, strict=True):
        np.testing.assert_array_equal(a.vector, b.vector)
        assert a.name == b.name
    assert any((a.vector != b.vector).any() for a, b in zip(one, other, strict=True))


def test_a_grid_with_few_directions_gives_what_there_is():
    assert len(multipliers(1)) == 1
    assert len(multipliers(1, levels=np.linspace(0, 1, 2000).tolist(), limit=10)) == 1
    assert [rule.vector.tolist() for rule in multipliers(3, levels=(2.0,))] == [[2.0, 2.0, 2.0]]


@pytest.mark.parametrize(
    "levels", [(), (0,), (0, 0), (-1, 1), (1, 1), (np.nan, 1), (np.inf, 1), 1.0, "ab", None]
)
def test_wrong_levels_are_refused(levels):
    message = (
        "The 'levels' argument of multipliers must be distinct finite numbers from 0, not only 0. "
        f"Got {levels!r} instead."
    )
    with pytest.raises(ArgumentError, match=re.escape(message)):
        multipliers(2, levels)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"n_items": 0}, "'n_items' argument of multipliers must be an int of at least 1"),
        ({"n_items": 2**62}, "'n_items' argument of multipliers must be at most 16,777,216"),
        (
            {"n_items": 2, "limit": 0},
            "'limit' argument of multipliers must be an int of at least 1",
        ),
        ({"n_items": 2, "seed": -1}, "'seed' argument of multipliers must be an int of at least 0"),
        (
            {"n_items": 2, "seed": 0.5},
            "'seed' argument of multipliers must be an int of at least 0",
        ),
    ],
)
def test_wrong_numbers_of_multipliers_are_refused(arguments, words):
    with pytest.raises(ArgumentError, match=re.escape(words)):
        multipliers(**arguments)


# New weights


@pytest.mark.parametrize("available", [None, MASK])
def test_new_weights_may_come_from_any_column_of_arrays(available):
    km = np.array([[1, 9, 1], [9, 9, 1], [1, 1, 9]])
    data = arrays(available, km=km, busy=[False, True, False])
    rule = Reweight(
        "near", lambda view: np.where(view["busy"], 1.0, view.predictions) * (view["km"] < 5)
    )
    weights = np.where([[False], [True], [False]], 1.0, PREDICTIONS) * (km < 5)
    np.testing.assert_array_equal(decide(rule, data), BestAction().solve(weights, available))


def test_new_weights_may_come_from_any_column_of_a_table():
    rule = Reweight("near", lambda view: view.predictions * (view["km"] < 3))
    assert decide(rule, table()).to_list() == [True, True, False, False, True]
    assert decide(rule, table(), TopK(2)).to_list() == [True, True, False, True, False]
    rule = Reweight("near", lambda view: view.frame["score"] * (view.frame["km"] < 3))
    assert decide(rule, table()).to_list() == [True, True, False, False, True]


def test_new_weights_may_be_given_for_all_items_at_once():
    np.testing.assert_array_equal(
        decide(Reweight("last", lambda view: view["item"]), arrays()), [[False, False, True]] * 3
    )
    for shape in ((1, 1), (3, 1)):
        rule = Reweight("any", lambda _, shape=shape: np.ones(shape))
        assert decide(rule, arrays()).sum() == 3


def test_weights_where_no_item_is_on_offer_are_nobodys_business():
    rule = Reweight("same", lambda view: view.predictions)
    np.testing.assert_array_equal(decide(rule, arrays(MASK)), BestAction().solve(PREDICTIONS, MASK))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_new_weights_that_are_not_finite_are_refused(bad):
    rule = Reweight("odd", lambda view: np.where(view["item"] == 2, bad, view.predictions))
    with refused(
        f"rule 'odd' gave the weight {bad} at instance 0, item 2. Weights must be finite."
    ):
        decide(rule, arrays())
    rule = Reweight("odd", lambda view: np.where(view["km"] == 9, bad, 1.0))
    with refused(f"rule 'odd' gave the weight {bad} at instance 'c', row 4 of the table."):
        decide(rule, table())


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (np.zeros((3, 2)), "float64 of shape (3, 2)"),
        (np.zeros(4), "float64 of shape (4,)"),
        (np.full((3, 3), "0.5"), "<U3 of shape (3, 3)"),
        (np.full((3, 3), 1j), "complex128 of shape (3, 3)"),
        (None, "object of shape ()"),
        (1.0, "float64 of shape ()"),
        ([1.0, 2.0, 3.0], "float64 of shape (3,)"),
        ([[1.0], [2.0, 3.0]], "rows of several lengths"),
    ],
)
def test_new_weights_of_another_shape_or_type_are_refused(answer, words):
    with refused(
        f"rule 'odd' returned {words}. It must return weights of shape (3, 3), "
        "like the predictions it was given."
    ):
        decide(Reweight("odd", lambda _: answer), arrays())


# Decisions


@pytest.mark.parametrize("available", [None, MASK])
def test_a_decision_may_be_taken_directly(available):
    rule = Choose("last", lambda view: view["item"] == 2)
    np.testing.assert_array_equal(decide(rule, arrays(available)), [[False, False, True]] * 3)


def test_a_decision_on_a_table_may_be_taken_directly():
    rule = Choose("red", lambda view: view["car"] == "red")
    assert decide(rule, table()).to_list() == [True, True, False, False, True]


def test_nothing_and_everything_may_be_decisions():
    nothing = Choose("nothing", lambda view: np.zeros(view.predictions.shape, dtype=bool))
    assert not decide(nothing, arrays(), TopK(2)).any()
    everything = Choose("all", lambda view: np.ones(view.predictions.shape, dtype=bool))
    assert decide(everything, arrays(), TopK(3)).all()


def test_an_infeasible_decision_is_refused_with_its_instance_and_rule():
    rule = Choose("greedy", lambda view: view.predictions > 0.25)
    with refused(
        "rule 'greedy' chose items [0, 1, 2] of instance 0, which is not feasible for TopK. "
        "A rule must return a feasible set for every instance."
    ):
        decide(rule, arrays(), TopK(2))
    rule = Choose("greedy", lambda view: np.nan_to_num(view.predictions) > 0.35)
    with refused(
        "rule 'greedy' chose no item of instance 2, which is not feasible for BestAction. "
        "A rule that chooses must choose exactly one item of every instance. "
        "To keep items from being chosen, give them a lower weight instead."
    ):
        decide(rule, arrays(np.eye(3, dtype=bool) | (PREDICTIONS > 0.5)))
    rule = Choose("late", lambda view: view["item"] >= 1)
    with refused(
        "rule 'late' chose item 1 of instance 1, which is not on offer. A rule must return"
    ):
        decide(rule, arrays(MASK).take(np.array([1, 1, 2])))


def test_an_infeasible_decision_on_a_table_names_the_items():
    rule = Choose("all", lambda view: view["km"] > 0)
    with refused("rule 'all' chose items ['blue', 'red'] of instance 'b', which is not feasible"):
        decide(rule, table())
    with refused("rule 'all' chose rows [0, 2] of instance 'b', which is not feasible"):
        decide(rule, table(item=None))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (np.ones((3, 3)), "float64 of shape (3, 3)"),
        (np.ones((3, 3), dtype=int), "int64 of shape (3, 3)"),
        (np.ones((2, 3), dtype=bool), "bool of shape (2, 3)"),
        (True, "bool of shape ()"),
        ([True, False, False], "bool of shape (3,)"),
        ([[True], [False, True]], "rows of several lengths"),
    ],
)
def test_a_decision_of_another_shape_or_type_is_refused(answer, words):
    with refused(
        f"rule 'odd' returned {words}. It must return booleans of shape (3, 3), "
        "like the predictions it was given."
    ):
        decide(Choose("odd", lambda _: answer), arrays())


@pytest.mark.parametrize("answer", [True, [True], [True] * 4, [[True] * 5], [[True]] * 5])
def test_an_answer_on_a_table_has_one_entry_per_row(answer):
    for kind, word in ((Reweight, "weights"), (Choose, "booleans")):
        with refused(
            f"rule 'odd' returned bool of shape {np.shape(answer)}. "
            f"It must return {word} of shape (5,), like the predictions it was given."
        ):
            decide(kind("odd", lambda _: answer), table())


@pytest.mark.parametrize("kind", [Reweight, Choose])
def test_a_rule_cannot_write_into_the_callers_column(kind):
    km = np.array([1.0, 2.0, 3.0])

    def vandal(view):
        view["km"][:] = 0
        return view["item"] == 0

    with pytest.raises(ValueError, match="read-only"):
        decide(kind("vandal", vandal), arrays(km=km))
    assert km.tolist() == [1, 2, 3]


@pytest.mark.parametrize("kind", [Reweight, Choose])
def test_an_error_inside_a_rule_says_which_rule(kind):
    with pytest.raises(DataError, match=re.escape("column 'hour' is missing")) as caught:
        decide(kind("late", lambda view: view["hour"] > 20), arrays())
    assert caught.value.__notes__ == ["raised inside rule 'late'"]


@pytest.mark.parametrize("kind", [Reweight, Choose])
def test_a_rule_needs_a_name_and_a_function(kind):
    owner = kind.__name__
    for name in ("", None, 3):
        message = f"The 'name' argument of {owner} must be a non-empty str. Got {name!r} instead."
        with pytest.raises(ArgumentError, match=re.escape(message)):
            kind(name, lambda view: view.predictions)
    expected = "a SQL expression or a function of one View"
    message = f"The 'function' argument of {owner} must be {expected}. Got 3 instead."
    with pytest.raises(ArgumentError, match=re.escape(message)):
        kind("rule", 3)


@pytest.mark.parametrize("kind", [Reweight, Choose])
def test_a_rule_sees_the_original_predictions_and_cannot_change_them(kind):
    seen = []

    def spy(view):
        seen.append(view.predictions.copy())
        with pytest.raises(ValueError, match="read-only"):
            view.predictions[:] = 1.0
        return view["item"] == 0

    data = Instances.from_arrays(PREDICTIONS, start=PREDICTIONS / 2, outcomes=PREDICTIONS)
    decide(kind("spy", spy), data)
    np.testing.assert_array_equal(seen[0], PREDICTIONS)
    np.testing.assert_array_equal(data.prediction, PREDICTIONS.ravel())


# One item, always


def test_a_fixed_item_is_chosen_wherever_it_is_on_offer():
    np.testing.assert_array_equal(decide(Fixed(1), arrays()), [[False, True, False]] * 3)
    np.testing.assert_array_equal(
        decide(Fixed(1), arrays(MASK)),
        [[False, True, False], [False, False, True], [False, True, False]],
    )
    assert decide(Fixed("blue"), table()).to_list() == [False, False, True, True, True]


def test_a_fixed_item_is_chosen_alone():
    np.testing.assert_array_equal(decide(Fixed(1), arrays(), TopK(2)), [[False, True, False]] * 3)


def test_a_fixed_item_that_is_no_column_is_refused():
    for item in (3, -1, "red", True, False, np.True_):
        with refused(
            f"rule 'always {item}' names item {item!r}, but the items are numbered from 0 to 2."
        ):
            decide(Fixed(item), arrays())


def test_a_fixed_item_of_a_table_needs_its_items():
    with refused("rule 'always red' needs items: name the column of the 'item'."):
        decide(Fixed("red"), table(item=None))


def test_a_fixed_item_that_is_not_feasible_is_refused():
    problem = outrule.PartitionMatroid([0, 1, 1], {0: 0, 1: 1})
    with refused(
        "rule 'always 0' chose items [0] of instance 0, which is not feasible for PartitionMatroid."
    ):
        decide(Fixed(0), arrays(), problem)


def test_a_fixed_rule_is_called_after_its_item_unless_it_has_a_name():
    assert Fixed(1).name == "always 1"
    assert Fixed(1, name="second").name == "second"


@pytest.mark.parametrize("name", [5, 0, None, b"half"])
def test_the_name_of_a_rule_is_text(name):
    for kind, content in ((Multiplier, [1.0]), (Fixed, 0)):
        message = (
            f"The 'name' argument of {kind.__name__} must be a non-empty str. Got {name!r} instead."
        )
        with pytest.raises(ArgumentError, match=re.escape(message)):
            kind(content, name=name)


def test_a_fixed_item_of_a_table_may_be_true():
    frame = TABLE.with_columns(car=pl.col("car") == "red")
    assert decide(Fixed(True), table(frame=frame)).to_list() == [True, True, False, False, True]


# All of them together


def test_rules_are_kept_in_their_order():
    rules = [Fixed(1), Fixed(0)]
    assert check_rules(rules, "fit") == tuple(rules)


@pytest.mark.parametrize("rules", [[], (), None, 3, {"a": 1}, Fixed(0)])
def test_what_is_no_sequence_of_rules_is_refused(rules):
    message = "The 'rules' argument of fit must be a non-empty sequence of rules."
    with pytest.raises(ArgumentError, match=re.escape(message)):
        check_rules(rules, "fit")


def test_what_is_no_rule_among_rules_is_refused():
    message = "The 'rules' argument of fit must be a sequence of rules. Got 'second' instead."
    with pytest.raises(ArgumentError, match=re.escape(message)):
        check_rules([Fixed(0), "second"], "fit")


def test_two_rules_of_one_name_are_refused():
    message = (
        "Two rules of fit have the name 'always 0'. Names must be distinct: the history and the "
        "certificate refer to rules by name."
    )
    with pytest.raises(ArgumentError, match=re.escape(message)):
        check_rules([Fixed(0), Fixed(1), Fixed(0)], "fit")


@pytest.mark.parametrize(
    "rule",
    [
        Multiplier([0.5, 1.0, 0.75]),
        Reweight("square", lambda view: view.predictions**2),
        Choose("second", lambda view: view["item"] == 2),
        Fixed(1),
    ],
    ids=lambda rule: type(rule).__name__,
)
def test_a_rule_decides_blocks_of_instances_as_it_decides_them_all(rule):
    for data in (arrays(), arrays(MASK)):
        whole = decide(rule, data)
        parts = [decide(rule, data.slice(start, start + 1)) for start in range(3)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_marks_become_picks_and_back(seed):
    generator = np.random.default_rng(seed)
    data = arrays(MASK)
    layout = TopK(3).lay(data)
    marks = generator.random(len(data.prediction)) < 0.5
    picks = to_picks(marks, layout)
    np.testing.assert_array_equal(data.mark(picks), marks)
    for row in picks.tolist():
        chosen = [p for p in row if p >= 0]
        assert row == sorted(chosen) + [-1] * (3 - len(chosen))


# Rules as text


def same_decisions(text_rule, function_rule, data, problem):
    """Whether a text and a function decide alike, also where blocks are small."""
    layout = problem.lay(data)
    both = [rule.decide(data, problem, layout) for rule in (text_rule, function_rule)]
    np.testing.assert_array_equal(*both)
    for start, stop in [(0, 1), (1, len(data))]:
        part = text_rule.decide(data.slice(start, stop), problem, layout.slice(start, stop))
        np.testing.assert_array_equal(part, both[0][start:stop])


@pytest.mark.parametrize("problem", [BestAction(), TopK(2)])
def test_a_text_reweights_a_table_as_the_function_that_says_the_same(problem):
    text = "CASE WHEN km > 3 THEN 0.5 * score ELSE prediction END"
    function = lambda view: np.where(view["km"] > 3, 0.5, 1.0) * view.predictions  # noqa: E731
    same_decisions(Reweight("near", text), Reweight("near", function), table(), problem)


@pytest.mark.parametrize("available", [None, MASK])
@pytest.mark.parametrize("problem", [BestAction(), TopK(2)])
def test_a_text_reweights_arrays_as_the_function_that_says_the_same(available, problem):
    data = arrays(available, km=np.arange(9.0).reshape(3, 3), rain=np.array([True, False, True]))
    function = lambda view: view.predictions * (view["item"] + 1) / (1 + view["km"] * view["rain"])  # noqa: E731
    text = "prediction * (item + 1) / (1 + km * rain)"
    same_decisions(Reweight("wet", text), Reweight("wet", function), data, problem)


def test_a_text_chooses_as_the_function_that_says_the_same():
    function = lambda view: view["km"] == 1  # noqa: E731
    same_decisions(Choose("near", "km = 1"), Choose("near", function), table(), TopK(2))
    function = lambda view: (view["item"] == 2) & np.ones((len(view.predictions), 1), bool)  # noqa: E731
    same_decisions(Choose("c", "item = 2"), Choose("c", function), arrays(MASK), BestAction())


def test_a_text_that_chooses_an_infeasible_set_is_refused():
    with refused("rule 'all' chose items ['blue', 'red'] of instance 'b', which is not feasible"):
        decide(Choose("all", "TRUE"), table())


def test_a_text_with_an_infinite_weight_is_refused():
    with refused("rule 'log' gave the weight -inf at instance 'b', row 0 of the table. Weights"):
        decide(Reweight("log", "LN(km - 1)"), table())


@pytest.mark.parametrize("kind", [Reweight, Choose])
def test_a_text_that_is_no_expression_is_refused_when_the_rule_is_made(kind):
    message = "rule 'sum': unknown function 'SUM' at line 1, column 5. A rule decides every row"
    with pytest.raises(ArgumentError, match=re.escape(message)):
        kind("sum", "1 + SUM(km)")


@pytest.mark.parametrize("kind", [Reweight, Choose])
def test_a_column_that_is_not_there_is_refused_before_any_rule_decides(kind):
    def never(_):
        raise AssertionError

    rules = [Reweight("never", never), kind("near", "kms > 3")]
    calibrator = outrule.DecisionCalibrator(BestAction(), rules, epsilon=0.5)
    with refused("rule 'near': unknown column 'kms' at line 1, column 1. Did you mean 'km'?"):
        calibrator.fit(table())
    with refused("rule 'near': column 'bought' at line 1, column 1 is the outcome, which"):
        kind("near", "bought = 1").check_training(table())


def test_texts_of_another_type_are_refused_before_any_rule_decides():
    with refused("rule 'near': the expression gives Float64. It must give true or false."):
        Choose("near", "km").check_training(table())
    with refused("rule 'car': the expression gives String. It must give numbers."):
        Reweight("car", "car").check_training(table())
    Reweight("car", lambda view: view["car"]).check_training(table())  # a function is only called


def test_rules_as_text_are_plain_values():
    rule = Reweight("near", "km < 3")
    assert rule == Reweight("near", "km < 3") != Reweight("near", "km < 4")
    assert hash(rule) == hash(Reweight("near", "km < 3"))
    assert repr(rule) == "Reweight(name='near', function='km < 3')"


TEXT_RULES = [
    Reweight("near", "CASE WHEN km > 3 THEN 0.5 * score ELSE score END"),
    Choose("red", "car = 'red' OR COUNT_OF_CARS = 1"),
]
CARS = TABLE.with_columns(COUNT_OF_CARS=pl.col("car").len().over("trip")).with_columns(
    car=pl.when(pl.col("COUNT_OF_CARS") == 1).then(pl.lit("blue")).otherwise("car")
)


def test_a_model_file_carries_rules_as_text(tmp_path):
    calibrator = outrule.DecisionCalibrator(BestAction(), TEXT_RULES, epsilon=0.1)
    data = table(frame=CARS)
    calibrator.fit(data).save(tmp_path / "model.json")
    loaded = outrule.load(tmp_path / "model.json")
    assert loaded.model_.rules == tuple(TEXT_RULES)
    np.testing.assert_array_equal(loaded.predict(data), calibrator.predict(data))


@pytest.mark.parametrize(
    "hostile",
    ["__import__('os')", "read_csv('/etc/passwd')", "(" * 10_000, "SELECT 1", "", "x" * 10**6],
)
def test_a_model_file_with_a_hostile_text_is_refused(tmp_path, hostile):
    path = tmp_path / "model.json"
    outrule.DecisionCalibrator(BestAction(), TEXT_RULES).fit(table(frame=CARS)).save(path)
    content = json.loads(path.read_text())
    content["rules"][0]["function"] = hostile
    path.write_text(reseal(content))
    with pytest.raises(DataError, match="is not a model file of outrule, or it is damaged"):
        outrule.load(path)


def test_the_name_of_the_optimisers_own_test_is_reserved():
    with pytest.raises(ArgumentError, match="has the name 'optimiser'"):
        outrule.DecisionCalibrator(outrule.BestAction(), [outrule.Fixed(0, "optimiser")]).settings()
