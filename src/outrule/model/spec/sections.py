"""The sections of a spec file: a path enters, entries of known names and types leave."""

from __future__ import annotations

import reprlib
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import Any

from outrule.errors import ArgumentError, DataError

LARGEST_FILE = 10_000_000  # bytes
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 100
MISSING: Any = object()  # for an entry that has no default


class Section:
    """One section of the file; refuses entries of another name or type."""

    def __init__(self, where: str, content: Any, keys: Sequence[str]) -> None:
        if not isinstance(content, Mapping):
            raise DataError(f"{where} must be a section. Got {short(content)} instead.")
        self.where, self.content = where, content
        for key in content:
            if key not in keys:
                known = ", ".join(keys) or "none"
                raise DataError(
                    f"{where}: {short(key)} is unknown.{nearest(key, keys)} Known are: {known}."
                )

    def section(self, key: str, keys: Sequence[str], default: Any = MISSING) -> Section:
        """A section below this one."""
        if key not in self.content and default is MISSING:
            raise DataError(f"{self.where}: the section [{key}] is missing.")
        return Section(f"{self.where}, [{key}]", self.content.get(key, default), keys)

    def entry(self, key: str, kind: Any, expected: str, default: Any = MISSING) -> Any:
        """An entry of that type."""
        if key not in self.content:
            if default is MISSING:
                raise DataError(f"{self.where}: {key!r} is missing. It must be {expected}.")
            return default
        if not is_a(self.content[key], kind):
            raise self.refuse(key, expected)
        return self.content[key]

    def refuse(self, key: str, expected: str) -> DataError:
        """The error for an entry."""
        got = short(self.content[key])
        return DataError(f"{self.where}: {key!r} must be {expected}. Got {got} instead.")

    def text(self, key: str, default: Any = MISSING) -> Any:
        """A text that is not empty."""
        value = self.entry(key, str, "a text", default)
        if value == "":
            raise self.refuse(key, "a text")
        return value

    def number(self, key: str, default: Any = MISSING) -> Any:
        """A number."""
        return self.entry(key, int | float, "a number", default)

    def whole(self, key: str, default: Any = MISSING) -> Any:
        """A whole number."""
        return self.entry(key, int, "a whole number", default)

    def item(self, key: str) -> Any:
        """What a column of items may hold."""
        return self.entry(key, int | float | str, "an item, which is a text or a number")

    def several(
        self, key: str, kind: Any, expected: str, default: Any = MISSING
    ) -> tuple[Any, ...]:
        """A list of entries of that type."""
        values = self.entry(key, list | tuple, expected, default)
        if not all(is_a(value, kind) for value in values):
            raise self.refuse(key, expected)
        return tuple(values)

    def pair(self, key: str, kind: Any, expected: str, default: Any = MISSING) -> tuple[Any, Any]:
        """A list of two entries of that type."""
        values = self.several(key, kind, expected, default)
        if len(values) != 2:
            raise self.refuse(key, expected)
        return values[0], values[1]

    def among(self, key: str, choices: Iterable[str], default: Any = MISSING) -> Any:
        """One of some words, in which blank, hyphen and underscore are the same."""
        expected = "one of " + ", ".join(repr(choice) for choice in choices)
        word = self.entry(key, str, expected, default)
        if word is default:
            return default
        plain = word.replace("-", " ").replace("_", " ")
        if plain not in choices:
            raise DataError(f"{self.refuse(key, expected)}{nearest(plain, choices)}")
        return plain


def is_a(value: Any, kind: Any) -> bool:
    """Whether it is of that type; a bool is no number, and numbers have 64 bits in TOML."""
    if isinstance(value, bool) or not isinstance(value, kind):
        return False
    return not isinstance(value, int) or abs(value) < 1 << 63


def nearest(name: str, known: Iterable[str]) -> str:
    """The name that was perhaps meant, as a question."""
    close = get_close_matches(name, list(known), 1)
    return f" Did you mean {close[0]!r}?" if close else ""


def short(value: Any) -> str:
    """A value for a message, cut where it is long."""
    return _SHORT.repr(value)


@contextmanager
def found_in(where: str) -> Iterator[None]:
    """Put the place before an argument that is refused."""
    try:
        yield
    except ArgumentError as error:
        raise DataError(f"{where}: {error}") from None


def load(path: str | PathLike[str]) -> dict[str, Any]:
    """The content of a TOML file."""
    try:
        file = Path(path)
        if not file.is_file():
            words = "is not a file" if file.exists() else "does not exist"
            raise DataError(f"{path} {words}: give the path of a spec file in TOML.")
        size = file.stat().st_size
        if size > LARGEST_FILE:
            raise DataError(f"{path} has {size:,} bytes. A spec has at most {LARGEST_FILE:,}.")
        return tomllib.loads(file.read_bytes().decode("utf-8-sig"))
    except DataError:
        raise
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: see byte {error.start}.") from None
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path} is not valid TOML: {error}.") from None
    except RecursionError:
        raise DataError(f"{path} is nested too deeply to be read.") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}.") from None
