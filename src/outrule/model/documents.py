"""Strict JSON documents: what a file of ours may hold, and one clear sentence where it does not."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from outrule.errors import DataError

Document = TypeVar("Document")
STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


def read_document(
    kind: Callable[..., Document], text: str, version: int, *, name: str, noun: str
) -> Document:
    """JSON text as the given class, or a DataError about ``name``, which should be a ``noun``."""
    try:
        hooks: Any = {"parse_float": _finite, "parse_constant": _finite}
        content = json.loads(text, object_pairs_hook=_distinct, **hooks)
        if not isinstance(content, dict) or "format" not in content:
            raise ValueError("it has no format")
        if type(content["format"]) is not int or content["format"] != version:
            raise DataError(
                f"{name} has format {content['format']!r}, and this version of outrule reads "
                f"format {version}: use the version that wrote it, {content.get('library')!r}."
            )
        document: Document = _adapter(kind).validate_json(text)
    except DataError:
        raise
    except (ValueError, RecursionError) as error:
        raise damaged(name, noun, error) from None
    return document


def damaged(name: str, noun: str, error: Exception) -> DataError:
    """The error for a document that cannot be used."""
    return DataError(f"{name} is not a {noun} of outrule, or it is damaged: {fault(error)}.")


def fault(error: Exception) -> str:
    """What is wrong first, and where."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        return f"{place or 'content'}: {first['msg'].removeprefix('Value error, ')}"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error).rstrip(".") or type(error).__name__


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(n for n in names if names.count(n) > 1)!r} occurs twice")
    return values


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number
