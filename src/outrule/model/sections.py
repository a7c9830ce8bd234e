"""The sections of a spec file as pydantic classes, and a clear sentence where one is wrong."""

from __future__ import annotations

import re
import reprlib
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field, ValidationError

from outrule.errors import ArgumentError, DataError
from outrule.model.documents import StrictModel

LARGEST_FILE = 4_000_000  # bytes
# Python's reader takes memory and time quadratic in the parts of a dotted key; a spec has two.
_PART = r"""(?:(?<![\w-])[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
MANY_PARTS = re.compile(rf"(?:{_PART}[ \t]*+\.[ \t]*+){{32}}")
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 100


def among(words: Iterable[str]) -> str:
    """What an entry must be that is one of some words."""
    return "one of " + ", ".join(repr(word) for word in words)


def one_of(words: Iterable[str]) -> BeforeValidator:
    """Accepts these words; blank, hyphen and underscore are the same."""

    def plain(value: Any) -> str:
        word = value.replace("-", " ").replace("_", " ") if isinstance(value, str) else value
        if not isinstance(word, str) or word not in words:
            raise ValueError(nearest(word, words))
        return str(word)

    return BeforeValidator(plain)


# What an entry must be, in the words of the messages, is its description.
String = Annotated[str, Field(min_length=1, description="a string")]
Whole = Annotated[int, Field(ge=-(2**63), lt=2**63, description="a whole number")]
Number = Annotated[float, Field(description="a number")]
Item = Annotated[Whole | float | str, Field(description="an item: a string or a number")]
Nodes = Annotated[list[str], Field(min_length=2, max_length=2, description="a list of two columns")]


Section = StrictModel  # it may have no entries that are not listed
Kind = TypeVar("Kind", bound=Section)


def read_section(where: str, kind: type[Kind], content: Any) -> Kind:
    """The section as the given class, or a DataError that names the entry."""
    if not isinstance(content, Mapping):
        raise DataError(f"{where} must be a section. Got {short(content)} instead.")
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        raise DataError(f"{where}: {_fault(error, kind, content)}") from None


def _fault(error: ValidationError, kind: type[Section], content: Mapping[str, Any]) -> str:
    """What is wrong first; a typo explains a missing entry, so unknown ones come before."""
    faults = error.errors(include_url=False)
    first = next((one for one in faults if one["type"] == "extra_forbidden"), faults[0])
    key = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        known = list(kind.model_fields)
        words = f"Known entries: {', '.join(known)}." if known else "There are none."
        return f"{short(key)} is unknown.{nearest(key, known)} {words}"
    expected = kind.model_fields[key].description
    if first["type"] == "missing":
        return f"{key!r} is missing. It must be {expected}."
    hint = first["msg"].removeprefix("Value error, ") if first["type"] == "value_error" else ""
    return f"{key!r} must be {expected}. Got {short(content[key])} instead.{hint.rstrip()}"


@contextmanager
def found_in(where: str) -> Iterator[None]:
    """Put the place before an argument that is refused."""
    try:
        yield
    except ArgumentError as error:
        raise DataError(f"{where}: {error}") from None


def short(value: Any) -> str:
    """A value for a message."""
    try:
        return _SHORT.repr(value)
    except ValueError:  # Python does not write such integers
        return "a number of thousands of digits"


def nearest(word: Any, known: Iterable[str]) -> str:
    """A hint, where a known word is close."""
    close = get_close_matches(str(word)[:100], list(known), n=1) if isinstance(word, str) else []
    return f" Did you mean {close[0]!r}?" if close else ""


def load_toml(path: str | PathLike[str]) -> dict[str, Any]:
    """The content of a TOML file."""
    try:
        file = Path(path)
        if not file.is_file():
            words = "is not a file" if file.exists() else "does not exist"
            raise DataError(f"{path} {words}: give the path of a spec file in TOML.")
        size = file.stat().st_size
        if size > LARGEST_FILE:
            raise DataError(f"{path} has {size:,} bytes. A spec has at most {LARGEST_FILE:,}.")
        text = file.read_bytes().decode("utf-8-sig")
        if MANY_PARTS.search(text):
            raise DataError(f"{path} has a key of dozens of parts, and a spec has none.")
        return tomllib.loads(text)
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
