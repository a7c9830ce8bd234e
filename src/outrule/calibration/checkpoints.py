"""A file by which a loop over partitioned data goes on after its process was killed.

It holds the integer sums of every look at the data. The loop runs again from the beginning, and
takes these instead of looking; so it makes the same decisions in the same order, in no time.
"""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path

import numpy as np

from outrule.calibration.audit import Tally
from outrule.errors import DataError
from outrule.files import is_special, naming_errors, write_text

FORMAT = "outrule checkpoint 3"
SEAL_LENGTH = 16  # characters


class Checkpoint:
    """The looks so far: one line each, behind a line that says of which fit they are.

    A line begins with a digest of it and of all before, so that no damaged one is used.
    """

    def __init__(self, path: Path, identity: str):
        self.path, self.position = path, 0
        head = json.dumps({"format": FORMAT, "fit": identity})
        if is_special(path):
            raise DataError(f"{path} is a pipe or a device: a checkpoint must be a regular file.")
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        *complete, rest = text.split("\n")  # the rest was not finished when the process was killed
        if (complete or [head])[0] != head or (not complete and not head.startswith(rest)):
            raise DataError(
                f"{path} is not a checkpoint of this fit: the data, the settings or the version "
                "have changed. Remove it, or choose another file."
            )
        self.seal = head
        self.looks: list[list[Tally]] = []
        for line in complete[1:]:
            seal, _, row = line.partition(" ")
            look = _read(row)
            if look is None or seal != self._seal(row):
                raise DataError(f"{path} is damaged: remove it and start again.")
            self.looks.append(look)
        if rest or not complete:
            with naming_errors(path, "written"):
                write_text(path, "".join(f"{line}\n" for line in complete or [head]))

    def take(self) -> list[Tally] | None:
        """The next look, if it was made before: the sums of every cell of the data."""
        if self.position == len(self.looks):
            return None
        self.position += 1
        return self.looks[self.position - 1]

    def add(self, look: list[Tally]) -> None:
        """Keep a new look; it is on disk when this returns."""
        row = json.dumps([[one.sums.tolist(), *one[1:]] for one in look])
        with naming_errors(self.path, "written"), self.path.open("a", encoding="utf-8") as file:
            file.write(f"{self._seal(row)} {row}\n")
            file.flush()
            os.fsync(file.fileno())
        self.looks.append(look)
        self.position += 1

    def _seal(self, row: str) -> str:
        """The digest of the next line and of all before it."""
        self.seal = sha256(f"{self.seal}\n{row}".encode()).hexdigest()[:SEAL_LENGTH]
        return self.seal


def _read(row: str) -> list[Tally] | None:
    """A look at the data; None if it is damaged."""
    try:
        return [
            Tally(np.array(sums, dtype=np.int64), int(own), int(marked), int(squares))
            for sums, own, marked, squares in json.loads(row)
        ]
    except (ValueError, TypeError, OverflowError):
        return None
