"""Strict JSON documents with a digest, and one clear sentence where something is wrong with one."""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import re
import reprlib
from collections.abc import Callable
from functools import cache
from os import PathLike
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from outrule.errors import ArgumentError, DataError
from outrule.files import read_limited

Document = TypeVar("Document")
STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
SHORTEST_KEY, LONGEST_KEY = 16, 1 << 16  # bytes
LARGEST_FILE = 256 << 20  # bytes
LARGEST_SHOWN = 1e250  # no value of a range that is allowed has a square above it
SEAL = re.compile(
    r',\n"digest": "sha256:([0-9a-f]{64})"(?:,\n"signature": "hmac-sha256:([0-9a-f]{64})")?\n}\n?'
)
SEAL_LENGTH = 300  # characters; a seal has fewer
_adapter = cache(TypeAdapter)


class Strict:
    """A dataclass of this kind is read as strictly as the document that holds it."""

    __pydantic_config__: ClassVar = STRICT


class StrictModel(BaseModel):
    """The same for a class of pydantic."""

    model_config = STRICT


def compact(value: Any) -> str:
    """JSON on one line."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def seal(text: str, key: bytes | None = None) -> str:
    """The text of a JSON object with the digest of all before it as its last entry.

    With a key, the signature (HMAC-SHA256) of the same text follows.
    """
    body = text.rstrip().removesuffix("}").rstrip()
    entries = [f'{body},\n"digest": "sha256:{_digest(body)}"']
    if key is not None:
        entries.append(f'"signature": "hmac-sha256:{_sign(body, key)}"')
    return ",\n".join(entries) + "\n}\n"


def read_document(
    kind: Callable[..., Document],
    text: str,
    version: int,
    *,
    name: str,
    noun: str,
    key: bytes | None = None,
) -> Document:
    """Sealed text as the given class, or a DataError about ``name``, which should be a ``noun``.

    Digest and signature are checked before anything else is read.
    """
    text = _unseal(text, name, noun, key)
    try:
        hooks: Any = {"parse_float": _finite, "parse_constant": _finite, "parse_int": _whole}
        content = json.loads(text, object_pairs_hook=_distinct, **hooks)
        if not isinstance(content, dict) or "format" not in content:
            raise ValueError("it has no format")
        if type(content["format"]) is not int or content["format"] != version:
            raise DataError(
                f"{name} has format {reprlib.repr(content['format'])}, and this version of outrule "
                f"reads format {version}: use the version that wrote it, "
                f"{reprlib.repr(content.get('library'))}."
            )
        del content
        document: Document = _adapter(kind).validate_json(text)
    except DataError:
        raise
    except (ValueError, RecursionError) as error:
        raise damaged(name, noun, error) from None
    return document


def _unseal(text: str, name: str, noun: str, key: bytes | None) -> str:
    """The text without its digest, which must be right; and so must be its signature for a key."""
    text = text.replace("\r\n", "\n")
    found = SEAL.search(text, max(0, len(text) - SEAL_LENGTH))
    if found is None or found.end() != len(text):
        raise damaged(name, noun, ValueError("it does not end with a digest"))
    body, (digest, signature) = text[: found.start()], found.groups()
    if not hmac.compare_digest(digest, _digest(body)):
        raise DataError(
            f"{name} is damaged, or was changed after outrule wrote it: its content does not match "
            "its digest. Restore it from a copy, or make it again."
        )
    if key is not None and signature is None:
        raise DataError(f"{name} is not signed: make it again with the key, or leave out the key.")
    if key is not None and not hmac.compare_digest(signature, _sign(body, key)):
        raise DataError(
            f"{name} was not signed with this key, or it was changed: do not use it until you know "
            "where it comes from."
        )
    return body + "\n}"


def _digest(body: str) -> str:
    return hashlib.sha256(_encoded(body)).hexdigest()


def _sign(body: str, key: bytes) -> str:
    return hmac.new(check_key(key), _encoded(body), hashlib.sha256).hexdigest()


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # a lone surrogate is refused later, by its place


def check_key(key: Any) -> bytes:
    """The key, or an ArgumentError that does not show it."""
    if not isinstance(key, bytes | bytearray) or len(key) < SHORTEST_KEY:
        found = f"{len(key)} bytes" if isinstance(key, bytes | bytearray) else type(key).__name__
        raise ArgumentError(
            f"The 'key' argument must be at least {SHORTEST_KEY} bytes. Got {found} instead."
        )
    return bytes(key)


def read_file(path: str | PathLike[str], noun: str) -> str:
    """The text of a sealed document that is not too large to be one."""
    try:
        return read_limited(path, LARGEST_FILE).decode("utf-8")
    except UnicodeDecodeError as error:
        raise damaged(str(path), noun, error) from None


def read_key(path: str) -> bytes:
    """The bytes of a key file, which must be secret."""
    key = read_limited(path, LONGEST_KEY, secret=True)
    if len(key) < SHORTEST_KEY:
        raise DataError(
            f"{path} has {len(key)} bytes, and a key has at least {SHORTEST_KEY}: make one with "
            f"head -c 32 /dev/urandom > {path}"
        )
    return key


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


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(n for n in names if names.count(n) > 1)!r} occurs twice")
    return values


def _whole(text: str) -> int:
    _finite(text)  # it may have to be a float
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number
