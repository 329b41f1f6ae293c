"""Values: a request as readable JSON, and back. JSON lacks some types of msgpack; they are objects
with one key that starts with ``$``."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

import msgpack

from crawlframe.errors import BadRequest, MissingCode
from crawlframe.request import payload
from crawlframe.request.record import OPTIONS, PLAIN, UNREADABLE
from crawlframe.request.request import Request

BYTES, _DICT = "$bytes", "$dict"
_NAMES = {
    payload.TUPLE: "$tuple",
    payload.SET: "$set",
    payload.FROZENSET: "$frozenset",
    payload.DATETIME: "$datetime",
    payload.DATE: "$date",
    payload.TIME: "$time",
    payload.TIMEDELTA: "$timedelta",
    payload.DECIMAL: "$decimal",
    payload.UUID_: "$uuid",
    payload.INTEGER: "$int",
    payload.INSTANCE: "$instance",
    payload.ENUM: "$enum",
}
_CODES = {name: code for code, name in _NAMES.items()}


def request_to_json(request: Request) -> dict[str, Any]:
    """Returns the request as an object of JSON. Raises BadRequest if it cannot be stored."""
    return record_to_json(request.encode())


def record_to_json(record: bytes) -> dict[str, Any]:
    """Returns the request of a record as an object of JSON, without its depth. No code of authors
    runs. Raises ValueError if it is no record."""
    _, url, callback, _, *extra = _unpacked(record)
    more = {name: _plain(value) for name, value in (extra[0] if extra else {}).items()}
    if "body" in more:
        more["body"] = body_to_json(extra[0]["body"])
    return {"url": url, **({"callback": callback} if callback else {}), **more}


def request_of_json(given: Mapping[str, Any]) -> Request:
    """Returns the request of ``request_to_json``. Raises BadRequest if it is none, and MissingCode
    if the class of one of its values is missing or has changed."""
    try:
        request = Request.decode(record_of_json(given))
        request.check()
        return request
    except MissingCode:
        raise
    except (BadRequest, *UNREADABLE, AttributeError) as error:
        raise BadRequest(f"a recorded request cannot be read: {error}") from None


def record_of_json(given: Mapping[str, Any], depth: int = 0) -> bytes:
    """Returns the record of the request of ``record_to_json``. No code of authors runs. Raises
    BadRequest and what UNREADABLE has if it is none."""
    extra = {name: _typed(given[name]) for name in given if name not in ("url", "callback")}
    if "body" in extra:
        extra["body"] = body_of_json(given["body"])
    fields = [OPTIONS if extra else PLAIN, given["url"], given.get("callback") or "", depth]
    record: bytes = msgpack.packb([*fields, extra] if extra else fields)
    return record


def body_to_json(body: bytes | None) -> Any:
    """Returns text where the body is text, and base64 where it is not."""
    try:
        return None if body is None else body.decode()
    except UnicodeDecodeError:
        return _plain(body)


def body_of_json(given: Any) -> bytes | None:
    """Returns the body of ``body_to_json``. Raises BadRequest."""
    if given is None or isinstance(given, str):
        return None if given is None else given.encode()
    body = _typed(given)
    if not isinstance(body, bytes):
        raise BadRequest(f"a recorded body must be text or {BYTES}, not {given!r:.80}")
    return body


def _plain(value: Any) -> Any:
    match value:
        case bytes():
            return {BYTES: b64encode(value).decode()}
        case msgpack.ExtType():
            return {_NAMES[value.code]: _plain(_unpacked(value.data))}
        case list():
            return [_plain(part) for part in value]
        case dict():
            if all(isinstance(key, str) for key in value) and not _is_marked(value):
                return {key: _plain(part) for key, part in value.items()}
            return {_DICT: [[_plain(key), _plain(part)] for key, part in value.items()]}
    return value


def _typed(value: Any) -> Any:
    match value:
        case list():
            return [_typed(part) for part in value]
        case dict() if _is_marked(value):
            [(name, inner)] = value.items()
            if name == BYTES:
                return b64decode(inner, validate=True)
            if name == _DICT:
                return {_hashable(_typed(key)): _typed(part) for key, part in inner}
            if name not in _CODES:
                raise ValueError(f"{name!r} is no kind of value")
            return msgpack.ExtType(_CODES[name], msgpack.packb(_typed(inner)))
        case dict():
            return {key: _typed(part) for key, part in value.items()}
    return value


def _is_marked(value: dict[Any, Any]) -> bool:
    return len(value) == 1 and str(next(iter(value))).startswith("$")


def _hashable(key: Any) -> Any:
    return tuple(key) if isinstance(key, list) else key


def _unpacked(data: bytes) -> Any:
    return msgpack.unpackb(data, strict_map_key=False)
