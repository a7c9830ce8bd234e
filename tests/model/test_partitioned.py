"""Fits on files one at a time are those on one table, to the last bit; and every refusal."""

import shutil
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import partition_tables as tables
import polars as pl
import pytest
from partition_tables import COLUMNS, RULES, cut, stacked

import outrule
from outrule.calibration.audit import Whole, part_of
from outrule.calibration.loop import boost
from outrule.calibration.partitioned import LocalPieces
from outrule.calibration.pieces import REFRESH
from outrule.calibration.sources import SameData
from outrule.data.partitions import choose_sample
from outrule.model import fitting, recipes
from outrule.model.codec import to_text
from outrule.model.cutting import Area
from outrule.model.surveying import survey
from outrule.rules.decisions import decide_all, distinct


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(recipes, "PIECE_BYTES", 0)
    monkeypatch.setattr(recipes, "LEAST_PIECE", 37)


TWO_AT_ONCE = [rule for rule in RULES if not isinstance(rule, outrule.Fixed)]
CITIES = outrule.Segments(["city"], 0.02, 20)
CROSSED = outrule.Segments(["rank", ("city", "rank")], 0.03, 15)  # of rank, the null is too small
CASES = {
    "default": (outrule.BestAction(), RULES, {}, {}),
    "epsilon": (outrule.BestAction(), RULES, {"epsilon": 0.004, "start": None}, {}),
    "letter": (
        outrule.BestAction(),
        RULES,
        {"epsilon": 0.05, "start": None, "rivals": (), "step": outrule.FixedStep()},
        {},
    ),
    "isotonic": (outrule.BestAction(), RULES, {"start": outrule.Isotonic()}, {}),
    "top": (outrule.TopK(2), TWO_AT_ONCE, {}, {}),
    "assignment": (outrule.Assignment("row", "column"), TWO_AT_ONCE, {"start": None}, {}),
    "weights": (outrule.BestAction(), RULES, {}, {"weight": "weight"}),
    "clusters": (outrule.BestAction(), RULES, {}, {"cluster": "day"}),
    "both": (outrule.TopK(2), TWO_AT_ONCE, {}, {"weight": "weight", "cluster": "day"}),
    "start": (outrule.BestAction(), RULES, {"start": None}, {"start": "score"}),
    "no items": (outrule.BestAction(), TWO_AT_ONCE, {}, {"item": None}),
    "segments": (outrule.BestAction(), RULES, {"segments": CROSSED}, {}),
    "segments, epsilon": (
        outrule.BestAction(),
        RULES,
        {"epsilon": 0.1, "start": None, "segments": CROSSED},
        {},
    ),
    "segments, weights": (outrule.TopK(2), TWO_AT_ONCE, {"segments": CITIES}, {"weight": "weight"}),
    "segments, clusters": (
        outrule.BestAction(),
        RULES,
        {"segments": CITIES},
        {"weight": "weight", "cluster": "day"},
    ),
    "log in segments": (
        outrule.BestAction(),
        RULES,
        {"segments": CITIES},
        {"propensity": "propensity", "weight": "weight"},
    ),
    "log": (outrule.BestAction(), RULES, {}, {"propensity": "propensity"}),
    "log of clusters": (
        outrule.BestAction(),
        RULES,
        {},
        {"propensity": "propensity", "cluster": "day", "weight": "weight"},
    ),
}


def fit(case, data, **options):
    problem, rules, settings, _ = CASES[case]
    return outrule.DecisionCalibrator(problem, rules, **settings, **options).fit(data)


def table(case):
    frame = tables.offers()
    return tables.logged(frame) if case.startswith("log") else frame


@pytest.mark.parametrize("case", CASES)
def test_any_cut_gives_the_model_of_one_table(case, tmp_path, monkeypatch):
    monkeypatch.setattr(recipes, "LEAST_PIECE", 71)
    columns = COLUMNS | CASES[case][3]
    cuts = {7: None, 1: 1, 3: 2} if case == "default" else {7: None, 3: 2}  # files: jobs
    folders = [cut(table(case), tmp_path / str(n), n) for n in cuts]
    whole = outrule.Instances.from_table(stacked(folders[0]), **columns)
    expected = to_text(fit(case, whole).model_)
    for folder, n_jobs in zip(folders, cuts.values(), strict=True):
        assert stacked(folder).equals(stacked(folders[0]))
        found = fit(case, outrule.Partitions(folder, **columns), n_jobs=n_jobs)
        assert to_text(found.model_) == expected
    if case == "segments, epsilon":
        assert {patch.segment for patch in found.model_.patches} > {-1}


def class_probabilities(n=400):
    generator = np.random.default_rng(5)
    true = generator.dirichlet(np.ones(3), n)
    given = (true + generator.dirichlet(np.ones(3), n)) / 2
    drawn = np.array([generator.choice(3, p=p) for p in true])
    return pl.DataFrame(
        {
            "visit": np.repeat(np.arange(n), 3),
            "item": np.tile(["a", "b", "c"], n),
            "score": given.ravel(),
            "outcome": np.eye(3)[drawn].ravel(),
        }
    )


def test_predictions_on_the_simplex_are_cut_too(tmp_path):
    columns, rules = COLUMNS, [outrule.Fixed("a"), outrule.Fixed("b")]
    calibrator = outrule.DecisionCalibrator(outrule.Classification(), rules, 0.01)
    frame = class_probabilities()
    expected = to_text(calibrator.fit(outrule.Instances.from_table(frame, **columns)).model_)
    for n in (2, 5):
        data = outrule.Partitions(cut(frame, tmp_path / str(n), n), **columns)
        assert to_text(calibrator.fit(data).model_) == expected
    frame = frame.with_columns(third=pl.col("visit") % 3)
    calibrator.set_params(segments=outrule.Segments(["third"], 0.1, 50))
    expected = to_text(calibrator.fit(outrule.Instances.from_table(frame, **columns)).model_)
    data = outrule.Partitions(cut(frame, tmp_path / "thirds", 4), **columns)
    assert to_text(calibrator.fit(data).model_) == expected


def test_instances_without_a_weight_may_be_a_cell_of_their_own(tmp_path):
    """They are in a segment by themselves there, so that the loop never looks at them."""
    odd = pl.col("visit").str.tail(-1).cast(int) % 5 == 0
    frame = tables.offers().with_columns(
        fifth=pl.when(odd).then(pl.lit("yes")).otherwise(pl.lit("no")),
        weight=pl.when(odd).then(0.0).otherwise(pl.col("weight") + 1),
    )
    columns = COLUMNS | {"weight": "weight"}
    by = outrule.Segments(["city", "fifth"], 0.02, 20)
    calibrator = outrule.DecisionCalibrator(outrule.BestAction(), RULES, segments=by)
    data = outrule.Partitions(cut(frame, tmp_path / "in", 3), **columns)
    whole = outrule.Instances.from_table(stacked(tmp_path / "in"), **columns)
    assert to_text(calibrator.fit(data).model_) == to_text(calibrator.fit(whole).model_)


def test_segments_that_cannot_be_cut_are_refused(tmp_path, monkeypatch):
    data = outrule.Partitions(cut(tables.offers(), tmp_path / "in", 3), **COLUMNS)

    def words(*by, **sizes):
        segments = outrule.Segments(by, **sizes)
        with pytest.raises(outrule.DataError) as raised:
            outrule.DecisionCalibrator(outrule.BestAction(), RULES, segments=segments).fit(data)
        return str(raised.value)

    assert "b00.parquet: column 'town' is missing. The columns are: " in words("town")
    spoken = words("km")
    assert "column 'km' changes within the instance" in spoken
    assert "b00.parquet, counting from 1" in spoken
    assert "no value of rank has 50 % of the weight" in words("rank", min_share=0.5)
    monkeypatch.setattr("outrule.calibration.segmented.MOST_CELLS", 3)
    spoken = words("city", "rank", min_share=0.01, min_instances=5)
    assert "the segments overlap in 19 ways, but at most 3 are supported" in spoken


def test_of_a_large_table_the_start_is_fitted_on_a_sample(tmp_path):
    """The same by hand, in memory: cross-fitted inside the sample, the mean of all outside."""
    frame = tables.offers()
    folders = [cut(frame, tmp_path / str(n), n) for n in (1, 4)]
    texts = []
    for folder in folders:
        data = outrule.Partitions(folder, **COLUMNS, sample=150)
        texts.append(to_text(fit("default", data).model_))
    assert texts[0] == texts[1]
    model = fit("default", data).model_
    whole = outrule.Instances.from_table(stacked(folders[0]), **COLUMNS)
    chosen = choose_sample(len(whole), 150)
    assert len(chosen) == 150
    sample = whole.take(chosen)
    settings = model.settings
    generator = settings.generator
    blank = fitting.blank_model(settings, sample, None)
    ready = fitting.prepare(blank, sample, generator)
    inside = np.isin(np.arange(len(whole)), chosen)[whole.instance]
    start = model.start_of(whole)
    isotonic = model.isotonic.apply(whole)
    start[inside], isotonic[inside] = ready.start, ready.instances.start
    carrier = outrule.data.instances.replace(whole, start=isotonic)
    layout = settings.problem.lay(carrier)
    decisions = distinct(decide_all(ready.tests, carrier, settings.problem, layout))
    source = SameData(part_of(carrier, layout, *decisions), start, settings.problem)
    assert source.supported_tolerance() == model.tolerance
    boosted = boost(source, ready.tests, fitting.plan_of(model), generator)
    assert tuple(boosted.patches) == model.patches
    assert tuple(boosted.history) == model.history
    assert model.patches


def test_a_lost_piece_is_made_again_and_the_log_replayed(tmp_path):
    data = outrule.Partitions(cut(tables.offers(), tmp_path / "in", 2), **COLUMNS)
    settings = fit("epsilon", data).model_.settings
    found = survey(data, settings.problem)
    blank = fitting.blank_model(settings, found.sample, None)
    ready = fitting.prepare(blank, found.sample, settings.generator)

    common = recipes.Common(blank, ready.tests, Area(found.n, found.total_weight))

    def build(name):
        every = recipes.recipes_of(found, ready, settings.rivals)
        pieces = []
        for number, one in enumerate(every):
            pieces += one.make(common, one.reader.read(), tmp_path / name / str(number))[0]
        return pieces

    kept, lost, whole = build("kept"), build("lost"), Whole(found.n, float(found.n), 40)
    log = [outrule.Patch(-1, 0.03), outrule.Patch(0, -0.2), outrule.Patch(-1, 0.001), REFRESH]
    log += [outrule.Patch(1, 0.07), outrule.Patch(-1, -0.5), outrule.Patch(2, 1e-16)]
    for piece, twin in zip(kept, lost, strict=True):
        piece.open(whole)
        twin.open(whole)
        for length in range(len(log) + 1):
            last = piece.advance(log[:length])
        again = twin.advance(log)
        assert last.sums.tolist() == again.sums.tolist()
        assert last[1:] == again[1:]


def test_the_scratch_folder_is_used_and_left_empty(tmp_path, monkeypatch):
    folder, scratch = cut(tables.offers(), tmp_path / "in", 2), tmp_path / "scratch"
    data = outrule.Partitions(folder, **COLUMNS, scratch=scratch)
    with pytest.raises(outrule.DataError, match=r"scratch folder .* does not exist"):
        fit("default", data)
    scratch.mkdir()
    seen = []
    make = recipes.Recipe.make

    def spy(*args):
        result = make(*args)
        seen.extend(scratch.rglob("picks"))
        return result

    monkeypatch.setattr(recipes.Recipe, "make", spy)
    monkeypatch.setattr("outrule.calibration.pieces.SMALL", 0)
    fit("default", data)
    assert seen
    assert not [*scratch.iterdir()]
    full = shutil._ntuple_diskusage(10, 9, 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    with pytest.raises(outrule.DataError, match=r"kB are needed on disk, but .* only 1 bytes free"):
        fit("default", data)
    assert not [*scratch.iterdir()]


@contextmanager
def full_disk(room):
    """As if the disk had no room for a file of more bytes, once more room was seen to be free."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_is_full_is_said_with_the_file_and_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr("outrule.calibration.pieces.SMALL", 0)
    folder, scratch = cut(tables.offers(), tmp_path / "in", 2), tmp_path / "scratch"
    scratch.mkdir()
    data = outrule.Partitions(folder, **COLUMNS, scratch=scratch)
    calibrator = fit("default", data)
    with full_disk(1000), pytest.raises(outrule.DataError, match=r"scratch/.* cannot be written: "):
        fit("default", data)
    later = cut(tables.offers(seed=2), tmp_path / "later", 2)
    held_out = outrule.Partitions(later, **COLUMNS, scratch=scratch)
    with full_disk(3000), pytest.raises(outrule.DataError, match=r"scratch/.* cannot be written: "):
        outrule.certify(calibrator, held_out)
    assert not [*scratch.iterdir()]
    calibrator.set_params(epsilon=0.004, start=None)
    with full_disk(1600), pytest.raises(outrule.DataError, match=r"checkpoint cannot be written: "):
        calibrator.fit(data, checkpoint=tmp_path / "checkpoint")


def test_items_that_the_sample_lacks_are_known_to_rules(tmp_path):
    frame = tables.offers(n=300)
    rare = frame[-1].with_columns(pl.lit("zoe").alias("item"))
    data = outrule.Partitions(
        cut(pl.concat([frame, rare]), tmp_path / "in", 3), **COLUMNS, sample=20
    )
    calibrator = outrule.DecisionCalibrator(outrule.BestAction(), [outrule.Fixed("zoe")])
    assert calibrator.fit(data).status_ == "converged"
    found = survey(data, outrule.BestAction())
    assert "zoe" not in found.sample.item_names
    assert found.checked.item_names == found.item_names == (*found.sample.item_names, "zoe")
    with pytest.raises(outrule.DataError, match="no instance offers item 'zora'"):
        outrule.DecisionCalibrator(outrule.BestAction(), [outrule.Fixed("zora")]).fit(data)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"check": outrule.FreshBatches(100)}, "'check' argument .* Reuse"),
        ({"check": outrule.Reuse(validation=0.2)}, "'check' argument .* without validation"),
        (
            {
                "check": outrule.PrivateReuse(1.0),
                "epsilon": 0.5,
                "max_rounds": 5,
                "start": None,
                "rivals": (),
            },
            "'check' argument",
        ),
    ],
)
def test_what_pieces_cannot_do_is_refused_before_any_file_is_read(tmp_path, settings, words):
    (tmp_path / "a.parquet").write_bytes(b"not Parquet at all")
    data = outrule.Partitions(tmp_path, **COLUMNS)
    with pytest.raises(outrule.ArgumentError, match=words):
        outrule.DecisionCalibrator(outrule.BestAction(), RULES, **settings).fit(data)


def test_bad_values_are_found_with_their_file_and_row(tmp_path):
    folder = cut(tables.offers(), tmp_path / "in", 3)
    path = folder / "b01.parquet"
    frame = pl.read_parquet(path)
    frame[4, "score"] = 1.5
    frame.write_parquet(path)
    with pytest.raises(outrule.DataError, match=r"row 5 of .*b01.parquet, counting from 1"):
        fit("default", outrule.Partitions(folder, **COLUMNS))
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(outrule.DataError, match=r"b01.parquet is not a valid Parquet file"):
        fit("default", outrule.Partitions(folder, **COLUMNS))
    path.unlink()
    paths = [folder / "b00.parquet", path]
    with pytest.raises(outrule.DataError, match=r"b01.parquet cannot be read: No such file"):
        fit("default", outrule.Partitions(paths, **COLUMNS))


def test_arguments_of_partitions_are_checked(tmp_path):
    cut(tables.offers(n=9), tmp_path / "in", 1)
    with pytest.raises(outrule.ArgumentError, match="'source' argument of Partitions"):
        outrule.Partitions([], **COLUMNS)
    with pytest.raises(outrule.ArgumentError, match="'sample' argument of Partitions"):
        outrule.Partitions(tmp_path / "in", **COLUMNS, sample=1)
    for source in (tmp_path / "nothing*", tmp_path / "nothing", tmp_path / "no" / "a.parquet"):
        with pytest.raises(outrule.DataError, match="has no Parquet files"):
            outrule.Partitions(source, **COLUMNS)
    one = next((tmp_path / "in").rglob("*.parquet"))
    assert [file.path for file in outrule.Partitions(one, **COLUMNS).files] == [one]
    data = outrule.Partitions(tmp_path / "in", instance="visit", prediction="x", outcome="outcome")
    with pytest.raises(outrule.DataError, match="the prediction column 'x' is missing"):
        fit("default", data)
    data = outrule.Partitions(tmp_path / "in", **COLUMNS)
    with pytest.raises(outrule.ArgumentError, match="left out for Partitions"):
        outrule.DecisionCalibrator(outrule.BestAction(), RULES).fit(data, np.ones((2, 2)))


def test_what_needs_one_table_says_so(tmp_path):
    data = outrule.Partitions(cut(tables.offers(n=60), tmp_path / "in", 1), **COLUMNS)
    calibrator = outrule.DecisionCalibrator(outrule.BestAction(), RULES, 0.3, start=None).fit(data)
    watch = outrule.Watch(calibrator)
    for use in (calibrator.predict, calibrator.decide, calibrator.partial_fit, watch.update):
        with pytest.raises(outrule.DataError, match="Partitions work only with fit and certify"):
            use(data)


@pytest.mark.parametrize(("n", "most"), [(10, 10), (10, 3), (5_000, 7), (5_000, 4_999)])
def test_a_sample_has_its_size_and_no_order(n, most):
    chosen = choose_sample(n, most)
    assert len(chosen) == min(n, most)
    assert (np.diff(chosen) > 0).all()
    assert chosen[-1] < n


class KilledError(Exception):
    """As if the process ended here."""


def test_a_fit_with_segments_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    data = outrule.Partitions(cut(tables.offers(), tmp_path / "in", 3), **COLUMNS)
    path, advance, looks = tmp_path / "checkpoint", LocalPieces.advance, []
    problem, rules, settings, _ = CASES["segments, epsilon"]
    calibrator = outrule.DecisionCalibrator(problem, rules, **settings)
    expected = to_text(calibrator.fit(data).model_)

    def count(self, logs):
        looks.append(sum(map(len, logs)))
        if len(looks) == 5:
            raise KilledError
        return advance(self, logs)

    monkeypatch.setattr(LocalPieces, "advance", count)
    with pytest.raises(KilledError):
        calibrator.fit(data, checkpoint=path)
    assert to_text(calibrator.fit(data, checkpoint=path).model_) == expected
    assert looks[5] == looks[4]  # no look was made twice


def test_a_fit_that_was_killed_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    data = outrule.Partitions(cut(tables.offers(), tmp_path / "in", 3), **COLUMNS)
    path, advance, looks = tmp_path / "checkpoint", LocalPieces.advance, []
    expected = to_text(fit("epsilon", data).model_)

    def count(self, logs):
        looks.append(len(logs[0]))
        if len(looks) == 5:
            raise KilledError
        return advance(self, logs)

    monkeypatch.setattr(LocalPieces, "advance", count)
    calibrator = outrule.DecisionCalibrator(*CASES["epsilon"][:2], **CASES["epsilon"][2])
    with pytest.raises(KilledError):
        calibrator.fit(data, checkpoint=path)
    with path.open("a") as file:
        file.write("[[12, 13")  # a line that was being written
    assert to_text(calibrator.fit(data, checkpoint=path).model_) == expected
    assert looks[:6] == [0, 1, 2, 3, 4, 4]  # no look was made twice
    n_looks = len(looks)
    assert to_text(calibrator.fit(data, checkpoint=path).model_) == expected
    assert len(looks) == n_looks  # and none is needed when all are there
    with pytest.raises(outrule.DataError, match="is not a checkpoint of this fit"):
        calibrator.set_params(epsilon=0.01).fit(data, checkpoint=path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0][:20])  # killed at once
    calibrator.set_params(epsilon=0.004).fit(data, checkpoint=path)
    assert path.read_text() == "".join(lines)
    for other in (b"precious", b"precious\n", b"\xff\xfe"):
        path.write_bytes(other)
        with pytest.raises(outrule.DataError, match="is not a checkpoint of this fit"):
            calibrator.fit(data, checkpoint=path)
        assert path.read_bytes() == other
    digit = next(place for place in range(30, len(lines[1])) if lines[1][place] in "123")
    flipped = f"{lines[1][:digit]}7{lines[1][digit + 1 :]}"
    for damage in (["[[1], 2]\n"], [flipped, *lines[2:]], lines[2:], [lines[2], lines[1]]):
        path.write_text("".join([lines[0], *damage]))
        with pytest.raises(outrule.DataError, match="checkpoint is damaged"):
            calibrator.fit(data, checkpoint=path)
    if Path("/dev/null").exists():
        with pytest.raises(outrule.DataError, match="/dev/null is a pipe or a device"):
            calibrator.fit(data, checkpoint="/dev/null")
    whole = outrule.Instances.from_table(tables.offers(), **COLUMNS)
    with pytest.raises(outrule.ArgumentError, match="'checkpoint' argument of fit"):
        calibrator.fit(whole, checkpoint=path)


def test_a_file_that_changes_during_the_fit_is_noticed(tmp_path, monkeypatch):
    folder = cut(tables.offers(), tmp_path / "in", 3)
    path, make = folder / "b02.parquet", recipes.Recipe.make

    def change(*args):
        frame = pl.read_parquet(path)
        frame.with_columns(1 - frame["outcome"]).write_parquet(path)
        return make(*args)

    monkeypatch.setattr(recipes.Recipe, "make", change)
    with pytest.raises(outrule.DataError, match=r"b02.parquet has changed since it was first"):
        fit("default", outrule.Partitions(folder, **COLUMNS))
