"""What the value, its unit and an observation are called in certificates and reports."""

from __future__ import annotations

from dataclasses import dataclass

from outrule.errors import refuse_argument
from outrule.model.documents import Strict

LONGEST = 60  # characters


@dataclass(frozen=True)
class Value(Strict):
    """What the value is called, so that a report speaks of euros and days.

    Parameters
    ----------
    name : str
        A plural, as in "completed trips".
    unit : str, optional
        As in "euro". Without one, the values are so many of what ``name`` says.
    observation : str, optional
        What one independent observation is called, as in "day". Default: the name of the cluster
        column, or "instance". With clusters, the name of the instance column counts as none.

    Examples
    --------
    >>> Value("purchases", "euro").amount("0.43"), Value("completed trips").amount("0.43")
    ('0.43 euro', '0.43 completed trips')
    """

    name: str = "value"
    unit: str | None = None
    observation: str | None = None

    def __post_init__(self) -> None:
        for name, word in vars(self).items():
            good = isinstance(word, str) and word.isprintable() and 0 < len(word) <= LONGEST
            if not (good and word == word.strip()) and (word is not None or name == "name"):
                expected = (
                    f"a string of 1 to {LONGEST} printable characters, no blanks at either end"
                )
                raise refuse_argument(word, name, "Value", expected)

    @property
    def noun(self) -> str:
        """What a number counts: its unit, or so many of what the name says."""
        return self.unit or ("" if self.name == Value.name else self.name)

    def amount(self, figure: str) -> str:
        """A number with what it counts."""
        return f"{figure} {self.noun}" if self.noun else figure

    @property
    def title(self) -> str:
        """For an axis or a column: the name, and the unit if there is one."""
        return f"{self.name}, {self.unit}" if self.unit else self.name
