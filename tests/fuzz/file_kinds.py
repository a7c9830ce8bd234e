"""Files to mutate, by kind: the valid ones to start from, the damage, and how one is used."""

from __future__ import annotations

import json
import re
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import test_codec as models

import outrule
from fuzz.mutations import Generator, damage_bytes, damage_text, damage_values, one_of
from outrule.data.table_files import parquet_schema, read_columns, read_table, write_table
from outrule.demos.example import SPEC
from outrule.errors import ArgumentError, DataError
from outrule.proof.statement import CertificateError
from sealing import reseal

TRIPS = pl.DataFrame(
    {
        "trip": np.repeat(np.arange(6), 4),
        "driver": ["a", "b", "c", "d"] * 6,
        "rider": ["r", "s"] * 12,
        "score": np.linspace(0.1, 0.9, 24),
        "completed": [0.0, 1.0, 1.0] * 8,
        "pickup_km": np.linspace(0, 9, 24),
        "rating": [None, 4.5, 3.0, 5.0] * 6,
        "rain": [True, False] * 12,
        "new": [True, False, False] * 8,
        "nearest": [1, 0, 0, 0] * 6,
        "day": pl.Series(range(24)).cast(pl.Date),
        "zone": ["north", "söuth", None, "x'y"] * 6,
    }
)
TIMES = TRIPS.with_columns(
    at=pl.col("day").cast(pl.Datetime("us")) + pl.duration(hours=7),
    waited=pl.duration(minutes=pl.col("trip")),
    opens=pl.time(hour=pl.col("trip") + 8),
)
# Columns of every shape, in pages that are not compressed, so that damage is not found by chance.
SHAPES = TRIPS.select(
    "trip",
    "rider",
    "pickup_km",
    pairs=pl.concat_list("score", "rating").cast(pl.Array(pl.Float64, 2)),
    lists=pl.concat_list("zone", "driver").reshape((24, 1, 2)).arr.to_list(),
    both=pl.struct("day", inner=pl.struct("rain", "zone")),
    cost=pl.col("pickup_km").cast(pl.Decimal(12, 2)),
    state=pl.col("rider").cast(pl.Enum(["r", "s", "t"])),
    data=pl.col("driver").cast(pl.Binary),
    at=pl.col("day").cast(pl.Datetime("ns", "UTC")),
    small=pl.col("nearest").cast(pl.Int8),
)
DELTAS = {
    "trip": "DELTA_BINARY_PACKED",
    "driver": "DELTA_LENGTH_BYTE_ARRAY",
    "rider": "DELTA_BYTE_ARRAY",
    "score": "BYTE_STREAM_SPLIT",
}
FIT = """
[multipliers]
levels = [0.0, 0.5, 1.0]
limit = 20
seed = 3
[fit]
check = "fresh batches"
size = 2
step = "fixed"
start = "isotonic"
max_rounds = 5
random_state = 1
rivals = ["plain"]
"""
PROBLEMS = (
    'kind = "rejection"\ncost = 0.2\nreject = "a"',
    'kind = "top k"\nk = 2',
    'kind = "partition"\ngroups = "zone"\ncapacity = {north = 1, x = 2}',
    'kind = "matching"\nnodes = ["rider", "driver"]',
    'kind = "assignment"\nrows = "rider"\ncolumns = "driver"',
)
EXPRESSIONS = (
    "CASE WHEN pickup_km > 3 THEN 0.5 * score ELSE score END",
    "COALESCE(rating, 3) / 5 * score + CASE WHEN zone LIKE 'n%' AND NOT rain THEN 0.1 END",
    "CASE zone WHEN 'north' THEN score WHEN 'x''y' THEN -score ELSE score % 2 END",
    "rating BETWEEN 1 AND 4 OR day >= DATE '1970-01-05' AND nearest IN (0, 1, NULL)",
    "GREATEST(score, LEAST(0.5, pickup_km)) * POWER(2, -pickup_km) + EXP(LN(score))",
    "ROUND(score * 10, 1) / NULLIF(nearest, 0) + ABS(-3) + FLOOR(pickup_km) + SIGN(score)",
    "LENGTH(zone || '-' || UPPER(driver)) > 3 AND SUBSTRING(zone, 1, 2) = 'no'",
    'CAST("nearest" AS DOUBLE) + rating::INTEGER + EXTRACT(DAY FROM day)',
    "score IS NOT NULL AND (rain IS TRUE OR new IS FALSE) = TRUE",
    "day + INTERVAL '3 days' > DATE '1970-01-05' AND (at - day) / INTERVAL '1 hour' < 3 * 24",
    "EXTRACT(YEAR FROM at - 2 * INTERVAL '400000 days') = 1969 OR waited * score > at - day",
    "CAST(CAST(nearest * 86400 AS TIMESTAMP) AS DATE) = CAST(pickup_km AS DATE)",
    "STRPTIME('2020-01-31 12:00', '%Y-%m-%d %H:%M') > at + waited - INTERVAL '1 day'",
    "TRY_CAST('2020-01-0' || nearest AS DATE)::VARCHAR >= '2020' AND opens < TIME '12:00:00'",
)
NAMES = re.compile(rb"\b(score|zone|day|at|waited|opens|nearest|pickup_km|rain|rating)\b")
OPERANDS = (
    *(b"day", b"at", b"waited", b"opens", b"score", b"nearest", b"zone", b"rating", b"NULL"),
    *(b"INTERVAL '400000 days'", b"DATE '9999-12-31'", b"TIMESTAMP '0001-01-01 00:00:00'"),
    *(b"CAST(nearest * 1e9 AS DATE)", b"CAST(9e17 AS TIMESTAMP)", b"(at - day)", b"1e18"),
    *(b"(day + INTERVAL '400000 days' * 7)", b"(waited * 1e15)", b"(-waited)", b"2147483647"),
)


class ModelKind:
    """Model files; what can still be loaded must predict finite numbers in the range."""

    suffix = ".json"

    def make_seeds(self, folder: Path) -> None:
        for name in models.CASES:
            models.fit(name).save(folder / f"{name}{self.suffix}")

    def make(self, data: bytes, generator: Generator) -> bytes:
        if b'"trees":' in data and generator.random() < 0.7:
            return damaged_trees(data, generator)
        return damaged_document(data, generator)

    def use(self, path: Path, base: str) -> None:
        warnings.filterwarnings("ignore", ".* not seen in training")  # another name is valid
        model = outrule.load(path, functions=models.FUNCTIONS)
        assert_sealed(path)
        instances = models.CASES[base][2](1).take(np.arange(12))
        found = np.asarray(model.predict(instances))
        low, high = instances.value_range
        assert ((found >= low) & (found <= high)).all(), "a prediction is outside the range"
        model.decide(instances)
        certificate = outrule.certify(model, instances)
        outrule.Certificate.from_json(certificate.to_json())


class CertificateKind:
    """Certificates: one that differs from the true one in any value must be refused."""

    suffix = ".json"

    def __init__(self) -> None:
        self.model = models.fit("BestAction")
        self.instances = models.arrays(5)
        self.true = json.loads(outrule.certify(self.model, self.instances).to_json())

    def make_seeds(self, folder: Path) -> None:
        (folder / f"one{self.suffix}").write_text(reseal(self.true))

    def make(self, data: bytes, generator: Generator) -> bytes:
        return damaged_document(data, generator)

    def use(self, path: Path, base: str) -> None:
        text = path.read_bytes().decode("utf-8", "replace")
        outrule.report(outrule.Certificate.from_json(text))
        assert_sealed(path)
        outrule.verify(text, self.model, self.instances)
        claim = json.loads(text)
        for name, value in self.true.items():
            declared = name in ("digest", "max_weight")  # a bound that holds is as good as another
            assert declared or close(claim[name], value), f"{name} was changed unnoticed"


class WatchKind:
    """States of a watch: what can still be read goes on, and says so in finite numbers."""

    suffix = ".json"

    def __init__(self) -> None:
        self.model = models.fit("BestAction")
        self.batches = [models.arrays(seed) for seed in range(7, 11)]

    def make_seeds(self, folder: Path) -> None:
        watch = outrule.Watch(self.model, run_length=20)
        (folder / f"new{self.suffix}").write_text(watch.to_json())
        for day, batch in enumerate(self.batches[:3], 1):
            watch.update(batch, batch=f"2026-01-{day:02}")
            (folder / f"{day}{self.suffix}").write_text(watch.to_json())

    def make(self, data: bytes, generator: Generator) -> bytes:
        return damaged_document(data, generator)

    def use(self, path: Path, base: str) -> None:
        text = path.read_bytes().decode("utf-8", "replace")
        watch = outrule.Watch.from_json(text, self.model)
        assert_sealed(path)
        assert outrule.Watch.from_json(watch.to_json(), self.model).state == watch.state
        key = "2026-12-31" if isinstance(watch.state.last, str) else None
        for status in (watch.status, watch.update(self.batches[3], batch=key)):
            json.loads(status.to_json(), parse_constant=refuse_constant)
            str(status)


def refuse_constant(word: str) -> None:
    raise AssertionError(f"{word} in what is shown")


class SpecKind:
    """Spec files, on a table."""

    suffix = ".toml"

    def make_seeds(self, folder: Path) -> None:
        specs = [SPEC] + [
            SPEC.replace('kind = "best action"', problem).replace(
                'outcome = "completed"\n', 'outcome = "completed"\nitem = "driver"\n'
            )
            + FIT
            for problem in PROBLEMS
        ]
        for number, text in enumerate(specs):
            (folder / f"{number}{self.suffix}").write_text(text)

    def make(self, data: bytes, generator: Generator) -> bytes:
        return damage_text(data, generator)

    def use(self, path: Path, base: str) -> None:
        spec = outrule.read_spec(path)
        spec.settings(spec.instances(TRIPS))


class SqlKind:
    """Rules as text: read, then evaluated on a table."""

    suffix = ".sql"

    def make_seeds(self, folder: Path) -> None:
        for number, text in enumerate([*EXPRESSIONS, *models.HOSTILE_TEXTS[1:]]):
            data = text.encode("utf-8", "surrogatepass")
            (folder / f"{number}{self.suffix}").write_bytes(data)

    def make(self, data: bytes, generator: Generator) -> bytes:
        if generator.random() < 0.2:
            other = one_of(generator, EXPRESSIONS).encode()
            data = data + one_of(generator, (b" + ", b" AND ", b" OR ", b" = ", b",")) + other
        if generator.random() < 0.5 and (places := list(NAMES.finditer(data))):
            place = one_of(generator, places)
            data = data[: place.start()] + one_of(generator, OPERANDS) + data[place.end() :]
            return data if generator.random() < 0.5 else self.make(data, generator)
        return damage_text(data, generator)

    def use(self, path: Path, base: str) -> None:
        text = path.read_bytes().decode("utf-8", "replace")
        instances = outrule.Instances.from_table(
            TIMES, instance="trip", prediction="score", outcome="completed", item="driver"
        )
        for rule in (outrule.Reweight("r", text), outrule.Choose("c", text)):
            try:
                rule.check_training(instances)
                rule._values(instances)
            except DataError:
                continue


class TableKind:
    """CSV, Parquet and Arrow files."""

    def __init__(self, suffix: str):
        self.suffix = suffix

    def make_seeds(self, folder: Path) -> None:
        write_table(TRIPS, folder / f"trips{self.suffix}")
        write_table(TRIPS.head(0), folder / f"none{self.suffix}")
        plain = TRIPS.with_columns(pl.col(column).cast(pl.Categorical) for column in ("driver",))
        if self.suffix != ".csv":
            plain = plain.with_columns(pl.concat_list("score", "rating").alias("list"))
        write_table(plain, folder / f"plain{self.suffix}")
        if self.suffix == ".parquet":
            pq.write_table(TRIPS.to_arrow(), folder / "arrow.parquet", row_group_size=5)
            plain.write_parquet(folder / "snappy.parquet", compression="snappy")
            SHAPES.write_parquet(folder / "shapes.parquet", compression="uncompressed")
            second = {"data_page_version": "2.0", "compression": "none"}
            pq.write_table(SHAPES.to_arrow(), folder / "shapes2.parquet", **second)
            narrow = TRIPS.select(*DELTAS, "rating").to_arrow(compat_level=pl.CompatLevel.oldest())
            second |= {"use_dictionary": False, "column_encoding": DELTAS}
            pq.write_table(narrow, folder / "deltas.parquet", **second)
        if self.suffix == ".arrow":
            plain.write_ipc_stream(folder / "stream.arrow")
            plain.write_ipc(folder / "zstd.arrow", compression="zstd")

    def make(self, data: bytes, generator: Generator) -> bytes:
        return (damage_text if self.suffix == ".csv" else damage_bytes)(data, generator)

    def use(self, path: Path, base: str) -> None:
        if self.suffix == ".parquet":  # as in a folder
            with suppress(DataError):
                read_columns(path, list(parquet_schema(path))[-3:])
        frame = read_table(path)
        nested = [name for name, one in frame.schema.items() if one.is_nested() or one == pl.Binary]
        write_table(frame.drop(nested), "/dev/null")  # as CSV


FILE_KINDS: dict[str, Any] = {
    "model": ModelKind,
    "certificate": CertificateKind,
    "watch": WatchKind,
    "spec": SpecKind,
    "sql": SqlKind,
    "csv": lambda: TableKind(".csv"),
    "parquet": lambda: TableKind(".parquet"),
    "arrow": lambda: TableKind(".arrow"),
}
REFUSALS = (ArgumentError, DataError, CertificateError)


def assert_sealed(path: Path) -> None:
    """A document that could be used must have the digest of its content."""
    text = path.read_bytes().decode("utf-8", "replace").replace("\r\n", "\n")
    assert reseal(text).rstrip() == text.rstrip(), "it was used although it is damaged"


def damaged_document(data: bytes, generator: Generator) -> bytes:
    """A sealed document with damage; in three of four cases the digest is made to match."""
    if generator.random() < 0.25:
        return damage_text(data, generator)
    if generator.random() < 0.3:
        return reseal(damage_text(data, generator).decode("utf-8", "replace")).encode()
    changed = json.loads(data)
    for _ in range(int(generator.integers(1, 3))):
        changed = damage_values(changed, generator)
    text = json.dumps(changed) if not isinstance(changed, dict) else reseal(changed)
    return text.encode("utf-8", "surrogatepass")


def damaged_trees(data: bytes, generator: Generator) -> bytes:
    """A sealed model whose members have damaged trees, or others of any size."""
    changed = json.loads(data)
    with_trees = [member for member in changed["members"] if "trees" in member]
    items = one_of(generator, with_trees)["trees"]["items"]
    n_tests = len(changed["rules"]) + len(changed["rivals"])
    for member in changed["members"] if generator.random() < 0.3 else with_trees[:2]:
        if generator.random() < 0.5:
            member["trees"] = draw_trees(items, n_tests, generator)
        if generator.random() < 0.5 and "trees" in member:
            member["trees"] = damage_values(member["trees"], generator)
    return reseal(changed).encode("utf-8", "surrogatepass")


def draw_trees(items: list[Any], n_tests: int, generator: Generator) -> dict[str, Any]:
    """Trees of any size; one of ten has a question or a leaf too many."""
    depth, n_trees = int(generator.integers(1, 7)), int(generator.choice([1, 2, 3, 4, 5, 40]))
    n_edges = int(generator.choice([0, 1, 3, 255]))
    chosen = items[: int(generator.integers(len(items) + 1))]
    tests = generator.permutation(n_tests)[: int(generator.integers(n_tests + 1))].tolist()
    edges = np.unique(generator.random(n_edges) * float(generator.choice([1.0, 1e-320, 1e300])))
    last = len(edges) + len(chosen) + len(tests) + int(generator.random() < 0.05)
    size = 2**depth + int(generator.random() < 0.05)
    return {
        "edges": edges.tolist(),
        "items": chosen,
        "tests": tests,
        "questions": generator.integers(-1, last, (n_trees, depth)).tolist(),
        "values": generator.uniform(-1, 1, (n_trees, size)).tolist(),
    }


def close(claim: Any, true: Any) -> bool:
    """Equal to what verify tells apart: nine digits."""
    if isinstance(true, dict) and isinstance(claim, dict):
        return set(claim) == set(true) and all(close(claim[k], true[k]) for k in true)
    if isinstance(true, list) and isinstance(claim, list):
        return len(claim) == len(true) and all(map(close, claim, true))
    if isinstance(true, float) and not isinstance(claim, bool):
        return bool(np.isclose(claim, true, rtol=2e-9, atol=2e-9))
    return type(claim) is type(true) and claim == true
