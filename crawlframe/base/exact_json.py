"""JSON as Python's json reads it, of bodies and in requests."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

import msgspec

from crawlframe.errors import NotJson, TooDeep


def decoded(text: str, url: str) -> Any:
    """Returns the JSON value in the text of the body at ``url``. Raises NotJson and TooDeep."""
    try:
        return loads(text)
    except RecursionError as error:
        raise TooDeep(f"{url}: {error}; it starts {text[:60].strip()!r}") from None
    except ValueError as error:
        raise NotJson(
            f"{url}: the body is not JSON: {error}; it starts {text[:60].strip()!r}"
        ) from None


def loads(text: str | bytes) -> Any:
    """As json.loads: integers are exact, and NaN, infinities and lone surrogates are read. Raises
    ValueError and RecursionError."""
    try:
        return msgspec.json.decode(text)  # half of the time; exact, but stricter
    except (ValueError, RecursionError):
        return json.loads(text)


def dumps(value: Any) -> bytes:
    """The JSON of a value, with exact integers. Raises TypeError and ValueError."""
    import orjson  # not needed to import a spider

    try:
        return orjson.dumps(value)
    except TypeError:  # an integer beyond 64 bits, a lone surrogate, or a type that is refused
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode(errors="backslashreplace")


def digest_of(value: Any) -> bytes:
    """A digest of a value made of JSON: 16 bytes."""
    return blake2b(repr(value).encode("utf-8", "replace"), digest_size=16).digest()
