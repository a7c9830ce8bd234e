"""Model files and certificates: any change is noticed, signatures are checked, size is bounded."""

import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import outrule
from outrule.cli.work.judging import open_certificate
from outrule.errors import ArgumentError, DataError
from outrule.model import codec, documents
from outrule.model.documents import read_key, seal
from sealing import reseal

MODEL = Path(__file__).parents[1] / "golden" / "model.json"
KEY, OTHER_KEY = b"0123456789abcdef", b"0123456789abcdeF"
CHANGED = "does not match its digest"
NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?")


@pytest.fixture(scope="module")
def model():
    return outrule.load(MODEL)


def change_a_digit(text, generator):
    at = 0
    while not text[at].isdigit():
        at = int(generator.integers(len(text)))
    digit = (int(text[at]) + int(generator.integers(1, 10))) % 10
    return f"{text[:at]}{digit}{text[at + 1 :]}"


def lose_lines(text, generator):
    lines = text.splitlines(keepends=True)
    at = int(generator.integers(len(lines)))
    return "".join(lines[:at] + lines[at + int(generator.integers(1, 4)) :])


@cache
def numbers_in(text):
    return list(NUMBER.finditer(text))


def swap_numbers(text, generator):
    found = numbers_in(text)
    while True:
        one, other = sorted(generator.integers(0, len(found), 2).tolist())
        a, b = found[one], found[other]
        if a.group() != b.group():
            middle = text[a.end() : b.start()]
            return text[: a.start()] + b.group() + middle + a.group() + text[b.end() :]


@pytest.mark.parametrize("damage", [change_a_digit, lose_lines, swap_numbers])
def test_no_damaged_model_file_is_accepted(tmp_path, damage):
    text, path = MODEL.read_text(), tmp_path / "model.json"
    generator = np.random.default_rng(0)
    for _ in range(1400):
        path.write_text(damage(text, generator))
        with pytest.raises(DataError, match=r"model\.json .*(damaged|digest)"):
            codec.load_model(path)


def test_the_message_says_what_is_wrong_and_what_to_do(tmp_path):
    path = tmp_path / "model.json"
    path.write_text(MODEL.read_text().replace('"epsilon": 0.0', '"epsilon": 0.1'))
    with pytest.raises(DataError) as caught:
        outrule.load(path)
    assert str(caught.value) == (
        f"{path} is damaged, or was changed after outrule wrote it: its content does not match its "
        "digest. Restore it from a copy, or make it again."
    )


def test_a_file_may_change_its_line_ends_on_the_way(tmp_path):
    path = tmp_path / "model.json"
    path.write_bytes(MODEL.read_bytes().replace(b"\n", b"\r\n"))
    outrule.load(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ('"surplus": 1,\n"format"', "surplus: Extra inputs are not permitted"),
        ('"format": 1,\n"format"', "'format' occurs twice"),
    ],
)
def test_unknown_and_doubled_keys_are_refused(tmp_path, change, words):
    path = tmp_path / "model.json"
    path.write_text(reseal(MODEL.read_text().replace('"format"', change, 1)))
    with pytest.raises(DataError, match=words):
        outrule.load(path)


def test_a_message_stays_short_whatever_the_file_holds(tmp_path):
    for entry in ("format", "library"):
        changes = {"format": 2, entry: [[0.0] * 1000] * 100}
        with pytest.raises(DataError, match="this version of outrule reads format 1") as caught:
            outrule.load(changed(tmp_path, **changes))
        assert len(str(caught.value)) < 500


def test_a_table_of_numbers_has_every_key_once(tmp_path):
    table = Path(MODEL.with_name("table_model.json")).read_text()
    content = json.loads(table)
    content["rules"].append({"kind": "Multiplier", "vector": {"pairs": [["a", 1], ["a", 2]]}})
    content["rule_values"].append(0.5)
    path = tmp_path / "model.json"
    path.write_text(reseal(content))
    with pytest.raises(DataError, match="vector: a key occurs twice"):
        outrule.load(path)


def test_a_signed_model_is_read_with_its_key_and_without_any(model, tmp_path):
    path = tmp_path / "model.json"
    model.save(path, key=KEY)
    assert '"signature": "hmac-sha256:' in path.read_text()
    for key in (None, KEY, bytearray(KEY)):
        assert outrule.load(path, key=key).patches_ == model.patches_
    with pytest.raises(DataError, match="was not signed with this key, or it was changed"):
        outrule.load(path, key=OTHER_KEY)
    path.write_text(path.read_text().replace('"digest": "sha256:', '"digest": "sha256:0')[:-1])
    with pytest.raises(DataError, match="damaged"):
        outrule.load(path)


def test_an_unsigned_model_is_refused_with_a_key():
    with pytest.raises(DataError, match=r"model\.json is not signed: make it again with the key"):
        outrule.load(MODEL, key=KEY)


def test_a_signature_does_not_survive_a_new_digest(model, tmp_path):
    path = tmp_path / "model.json"
    model.save(path, key=KEY)
    signature = re.search(r'"signature": "[^"]*"', path.read_text()).group()
    forged = reseal(path.read_text().replace('"k": 2', '"k": 1'))
    path.write_text(forged.replace("\n}\n", f",\n{signature}\n}}\n"))
    outrule.load(path)
    with pytest.raises(DataError, match="was not signed with this key"):
        outrule.load(path, key=KEY)


@pytest.mark.parametrize("key", [b"short", "a string of sixteen", 3, b""])
def test_a_key_is_bytes_enough_and_never_shown(model, tmp_path, key):
    with pytest.raises(ArgumentError, match="'key' argument must be at least 16 bytes") as caught:
        model.save(tmp_path / "model.json", key=key)
    assert "short" not in str(caught.value)
    assert "sixteen" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_key_file_is_secret_and_long_enough(tmp_path):
    path = tmp_path / "key"
    path.write_bytes(KEY)
    path.chmod(0o644)
    with pytest.raises(DataError, match="can be read by every user"):
        read_key(path)
    path.chmod(0o600)
    assert read_key(path) == KEY
    path.write_bytes(b"short")
    with pytest.raises(DataError, match="has 5 bytes, and a key has at least 16"):
        read_key(path)
    path.write_bytes(b"x" * 70_000)
    with pytest.raises(DataError, match="is too large: it has more than 65,536 bytes"):
        read_key(path)


def test_a_certificate_is_signed_as_a_model_is(model):
    generator = np.random.default_rng(7)
    certificate = outrule.certify(model, generator.random((50, 6)), generator.random((50, 6)))
    text = certificate.to_json(KEY)
    assert outrule.Certificate.from_json(text) == certificate
    assert outrule.Certificate.from_json(text, KEY) == certificate
    with pytest.raises(DataError, match="was not signed with this key"):
        outrule.Certificate.from_json(text, OTHER_KEY)
    with pytest.raises(DataError, match="is not signed"):
        outrule.Certificate.from_json(certificate.to_json(), KEY)
    with pytest.raises(DataError, match=CHANGED):
        outrule.Certificate.from_json(text.replace('"unit": "instance"', '"unit": "day"'))


def test_the_seal_is_what_its_twin_says(model):
    text = codec.to_text(model.model_)
    assert reseal(text) == text
    assert reseal(json.loads(text)) == seal(
        json.dumps(json.loads(text.partition(',\n"dig')[0] + "}"))
    )


def test_a_file_that_is_too_large_is_not_read(monkeypatch):
    monkeypatch.setattr(documents, "LARGEST_FILE", 1000)
    with pytest.raises(DataError, match=r"model\.json is too large: it has more than 1,000 bytes"):
        outrule.load(MODEL)
    with pytest.raises(DataError, match="/dev/zero is too large"):
        outrule.load("/dev/zero")
    with pytest.raises(DataError, match="/dev/zero is too large"):
        open_certificate("/dev/zero", None)


def changed(tmp_path, **changes):
    path = tmp_path / "model.json"
    path.write_text(reseal(json.loads(MODEL.read_text()) | changes))
    return path


@pytest.mark.parametrize(
    "changes",
    [
        {"value_range": [-1e308, 1e308]},
        {"value_range": [0, 1.7e308]},
        {"isotonic": [[None, [-1e308, 1e308], [0.0, 1.0]]]},
        {"isotonic": [[None, [0.0, 0.5], [0.5, 0.4]]]},
        {"isotonic": [[None, [0.5, 0.4], [0.4, 0.5]]]},
        {"isotonic": [[None, [], []]]},
        {"patches": [[0, 1e308]]},
        {"patches": [[0, -2.5]]},
        {"history": [[0, None, 0.1, 0.0, -1e308, 9]]},
        {"rule_values": [0.5, 1.0, 1e308]},
        {"k": 2**31},
        {"n_items": 2**31},
        {"tolerance": 10**400},
        {"problem": {"kind": "TopK", "k": 10**30}},
        {"problem": {"kind": "LaminarMatroid", "n_items": 10**12, "sets": [[0]], "capacity": [1]}},
        {"problem": {"kind": "LinearProblem", "A": [[1.0] * 6], "b": [3.0], "k": None}},
        {"problem": {"kind": "LinearProblem", "A": [[10**400] * 6], "b": [3.0], "k": 1}},
        {"problem": {"kind": "Assignment", "rows": 2**40, "columns": 2**40}},
        {"problem": {"kind": "PartitionMatroid", "groups": "zone", "capacity": 2**70}},
        {"problem": {"kind": "PartitionMatroid", "groups": [0] * 6, "capacity": 2**70}},
    ],
)
def test_what_would_overflow_or_take_for_ever_is_refused(tmp_path, changes):
    with pytest.raises(DataError, match="is not a model file of outrule, or it is damaged"):
        outrule.load(changed(tmp_path, **changes))


@pytest.mark.parametrize("x", [[-1e308, 1e308], [0.5, 0.4], [0.0, 2.0], []])
def test_the_curves_of_members_are_checked_too(tmp_path, x):
    y = [0.0, 1.0][: len(x)]
    start = {"kind": "CrossFit"}
    good = {"start": None, "patches": [[0, [0.0, 1.0], [0.0, 1.0]]]}
    outrule.load(changed(tmp_path, start=start, members=[good]))
    for member in (
        {"start": None, "patches": [[0, x, y]]},
        {"start": [[None, x, y]], "patches": []},
    ):
        with pytest.raises(DataError, match="is not a model file of outrule, or it is damaged"):
            outrule.load(changed(tmp_path, start=start, members=[member]))


CROSS_FIT = {"kind": "CrossFit"}
TREES = {
    "edges": [0.5],
    "items": [0, 1],
    "tests": [0, 2],
    "questions": [[0, 4]],
    "values": [[0.1, 0.2, -0.1, 0.3]],
}
NO_QUESTIONS = {"edges": [], "items": [], "tests": [], "questions": [[-1, -1]]}


def with_trees(tmp_path, *changes):
    """A model file whose members have trees that differ from good ones, or none."""
    members = [
        {"start": None, "patches": [], "trees": None if change is None else TREES | change}
        for change in changes
    ]
    return changed(tmp_path, start=CROSS_FIT, members=members)


@pytest.mark.parametrize(
    "changes",
    [
        [{}],
        [NO_QUESTIONS],
        [None, NO_QUESTIONS, {}],
        [{"questions": [[4]], "values": [[0.1, 0.2]]}, {}, None, {"edges": [-1e308, 1e308]}],
        [{"tests": [2, 0, 1], "questions": [[3, 5]]}, {"tests": [0, 1]}, {"tests": [1, 2]}],
        [{"items": [1, 0]}, {"items": [True, False]}, {"items": ["x", None]}],
        [{"items": [{"decimal": "NaN"}, {"date": "2026-01-01"}]}],
        [{"edges": [k / 255 for k in range(255)], "questions": [[254, 258]]}],
        [{"questions": [[0, 4]] * 1000, "values": [[1.0, -1.0, 1.0, -1.0]] * 1000}],
    ],
)
def test_any_trees_of_a_file_that_is_read_can_be_used(tmp_path, changes):
    model = outrule.load(with_trees(tmp_path, *changes))
    for n in (1, 300):
        predictions = np.random.default_rng(n).random((n, 6))
        found = np.asarray(model.predict(predictions))
        assert ((found >= 0) & (found <= 1)).all()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"values": []}, "values: Tuple should have at least 1 item"),
        ({"values": [[]]}, "values.0: Tuple should have at least 1 item"),
        ({"questions": []}, "questions: Tuple should have at least 1 item"),
        ({"questions": [[]], "values": [[0.1]]}, "trees do not agree with themselves"),
        ({"questions": [[0, 4], [0]], "values": [[0.0] * 4] * 2}, "agree with themselves"),
        ({"questions": [[0, 4]] * 2}, "agree with themselves"),
        ({"questions": [[0, 5]]}, "agree with themselves"),
        ({"questions": [[0, -2]]}, "agree with themselves"),
        ({"questions": [[0, 2**70]]}, "agree with themselves"),
        ({"questions": [[0, True]]}, "questions.0.1: Input should be a valid integer"),
        ({"questions": [[0] * 7], "values": [[0.0] * 128]}, "agree with themselves"),
        ({"questions": [[0, 4]] * 1001, "values": [[0.0] * 4] * 1001}, "at most 1000 items"),
        ({"values": [[0.1, 0.2, 0.3]]}, "agree with themselves"),
        ({"values": [[0.1, 0.2, 0.3, 1e308]]}, "members does not agree with the rest"),
        ({"values": [[0.1, 0.2, 0.3, float("nan")]]}, "NaN is not a finite number"),
        ({"edges": [0.5, 0.5]}, "agree with themselves"),
        ({"edges": [k / 256 for k in range(256)]}, "edges: Tuple should have at most 255 items"),
        ({"items": [1, True]}, "agree with themselves"),
        ({"items": [0, {"decimal": "sNaN"}]}, "signaling NaN"),
        ({"items": list(range(65))}, "items: Tuple should have at most 64 items"),
        ({"tests": [0, 0]}, "agree with themselves"),
        ({"tests": [0, 3]}, "members does not agree with the rest"),
        ({"tests": [0, -1]}, "members does not agree with the rest"),
        ({"tests": list(range(65))}, "tests: Tuple should have at most 64 items"),
    ],
)
def test_trees_that_could_not_have_grown_are_refused(tmp_path, changes, words):
    with pytest.raises(DataError, match=words):
        outrule.load(with_trees(tmp_path, {}, changes))


def test_a_file_has_a_bounded_number_of_members(tmp_path):
    outrule.load(with_trees(tmp_path, *[{}] * 20))
    with pytest.raises(DataError, match="members: Tuple should have at most 64 items"):
        outrule.load(with_trees(tmp_path, *[{}] * 65))


def test_a_problem_of_thousands_of_nested_sets_is_read_in_no_time(tmp_path):
    sets = [[k] for k in range(3000)] + [list(range(k, 3000)) for k in range(0, 3000, 100)]
    problem = {"kind": "LaminarMatroid", "n_items": 3000, "sets": sets, "capacity": [1] * len(sets)}
    assert outrule.load(changed(tmp_path, problem=problem)).problem.n_items == 3000


def test_a_file_holds_many_patches_but_not_any_number(tmp_path, monkeypatch):
    monkeypatch.setattr(codec, "MOST_ROUNDS", 5)
    with pytest.raises(DataError, match="at most 5 patches and rounds"):
        outrule.load(changed(tmp_path, patches=[[0, 0.1]] * 6))
    assert codec.load_model(changed(tmp_path, patches=[[0, 0.1]] * 5, history=[]))
    monkeypatch.setattr(codec, "MOST_TEXT", 5)
    rules = [{"kind": "Reweight", "name": "r", "function": "1 + 1 + 1"}]
    path = changed(tmp_path, rules=rules, rule_values=[1.0], patches=[], history=[])
    with pytest.raises(DataError, match="at most 5 characters"):
        outrule.load(path)
