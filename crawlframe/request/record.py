"""Record: the encoding of a request in Redis, pipes and the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgpack

from crawlframe.errors import BadRequest, MissingCode
from crawlframe.request import payload

PLAIN = 1  # the version of a record with msgpack's own types only
TYPED = 2  # with the extension types of payload.py; workers that support only 1 refuse it
OPTIONS = 3  # with options of the request, perhaps typed; older workers refuse it
HOPS = 4  # with redirects, perhaps typed and with options; older workers refuse it
ERRAND = 5  # with an errand, perhaps with all of these; older workers refuse it
# The second byte of a record, after the mark of a short list.
_PLAIN, _HOPS, _ERRAND = (bytes([PLAIN]), bytes([TYPED])), bytes([HOPS]), bytes([ERRAND])
UNREADABLE = (
    *(ValueError, TypeError, LookupError, ArithmeticError, RecursionError),
    msgpack.UnpackException,
)


class RecordHeader(NamedTuple):
    """The part of a record that can be read without its values, whose classes may be missing."""

    url: str
    depth: int
    callback: str
    errback: str


class Hop(NamedTuple):
    """One redirect: its status, and the URL that it led to."""

    status: int
    url: str


class Errand(NamedTuple):
    """A request's step before its page is fetched: it reads a file that redirects elsewhere, such
    as the robots.txt of its host. ``file`` is the URL of the file, ``url`` where to read it now,
    after ``hops`` redirects; ``via`` names the downloader. ``home``: the host in whose lane the
    request waits otherwise."""

    file: str
    url: str
    hops: int
    user_agent: str
    via: str
    home: str


def write(url: str, callback: str, depth: int, extra: dict[str, Any]) -> bytes:
    """Encodes a record. Raises TypeError, ValueError, OverflowError or RecursionError when a value
    cannot be encoded."""
    fields: list[Any] = [PLAIN, url, callback, depth]
    if not extra:
        plain: bytes = msgpack.packb(fields)
        return plain
    record, typed = payload.pack([*fields, extra])
    if not typed and "options" not in extra:
        return record
    # The version is the second byte, after the mark of a short list.
    return record[:1] + bytes([OPTIONS if "options" in extra else TYPED]) + record[2:]


def read(record: bytes) -> list[Any]:
    """Version, URL, callback, depth and, if present, the rest.

    Authors' code runs here. Raises MissingCode when a class of a value is missing, has changed or
    fails, or the record is of a newer Crawlframe; BadRequest if it is not a record."""
    fields = _fields(record)
    if fields[0] != PLAIN:
        try:
            fields = payload.unpack(record)
        except UNREADABLE as error:
            raise BadRequest(f"a queued request cannot be read: {error}") from None
        except MissingCode:
            raise
        except BaseException as error:  # __hash__ of a key may raise anything, SystemExit included
            what = f"{type(error).__name__}: {error}"
            raise MissingCode(f"a value in cb_kwargs or meta cannot be made: {what}") from error
    return fields


def read_head(record: bytes) -> RecordHeader:
    """The head, readable even where ``read`` raises MissingCode; empty for a record of a newer
    Crawlframe. Raises BadRequest."""
    try:
        fields = _fields(record)
    except MissingCode:
        return RecordHeader("", 0, "parse", "")
    extra = fields[4] if len(fields) > 4 else {}
    return RecordHeader(fields[1], fields[3], fields[2] or "parse", extra.get("errback", ""))


def with_hops(record: bytes, hops: Sequence[Hop]) -> bytes:
    """The record of a request that continues at the target of the last of these redirects. Nothing
    else in it changes, and no code of authors runs. Raises MissingCode and BadRequest."""
    fields = _fields(record)
    extra = fields[4] if len(fields) > 4 else {}
    packed: bytes = msgpack.packb([HOPS, *fields[1:4], extra | {"hops": hops}])
    return packed


def with_depth(record: bytes, depth: int) -> bytes:
    """The record with another depth. Nothing else in it changes, and no code of authors runs.
    Raises MissingCode and BadRequest."""
    version, url, callback, _, *extra = _fields(record)
    packed: bytes = msgpack.packb([version, url, callback, depth, *extra])
    return packed


def hops_of(record: bytes) -> list[Hop]:
    """The redirects that a request has followed. Raises BadRequest."""
    if not _has_hops(record):
        return []
    try:
        extra = _fields(record)[4]
        if record[1:2] == _ERRAND and "hops" not in extra:
            return []
        hops = [Hop(status, url) for status, url in extra["hops"]]
    except UNREADABLE as error:
        raise BadRequest(f"a queued request cannot be read: its redirects: {error}") from None
    if not all(type(hop.status) is int and type(hop.url) is str for hop in hops):
        raise BadRequest("a queued request cannot be read: its redirects have the wrong type")
    return hops


def with_errand(record: bytes, errand: Errand) -> bytes:
    """The record of a request on an errand, in place of an earlier one. Nothing else in it changes,
    and no code of authors runs. Raises MissingCode and BadRequest."""
    version, *fields = _fields(without_errand(record))
    extra = fields[3] if len(fields) > 3 else {}
    packed: bytes = msgpack.packb([ERRAND, *fields[:3], extra | {"errand": [version, *errand]}])
    return packed


def errand_of(record: bytes) -> Errand | None:
    """The errand that a request is on. Raises BadRequest."""
    if record[1:2] != _ERRAND:
        return None
    try:
        _, *values = _fields(record)[4]["errand"]
        errand = Errand(*values)
    except UNREADABLE as error:
        raise BadRequest(f"a queued request cannot be read: its errand: {error}") from None
    if list(map(type, errand)) != [str, str, int, str, str, str]:
        raise BadRequest("a queued request cannot be read: its errand has the wrong type")
    return errand


def without_errand(record: bytes) -> bytes:
    """The record as it was before its errand. Raises MissingCode and BadRequest."""
    if record[1:2] != _ERRAND:
        return record
    try:
        _, url, callback, depth, extra = _fields(record)
        version = extra.pop("errand")[0]
    except UNREADABLE as error:
        raise BadRequest(f"a queued request cannot be read: its errand: {error}") from None
    packed: bytes = msgpack.packb([version, url, callback, depth, *([extra] if extra else [])])
    return packed


def with_render(record: bytes, mark: Sequence[Any]) -> bytes:
    """The record of a request whose plain page was incomplete: it is fetched again by the browser.
    ``mark`` is kept for then. It is longer than before. Raises MissingCode and BadRequest."""
    fields = _fields(record)
    extra = fields[4] if len(fields) > 4 else {}
    extra = {"hops": [], **extra, "render": list(mark)}
    packed: bytes = msgpack.packb([HOPS, *fields[1:4], extra])
    return packed


def render_of(record: bytes) -> list[Any] | None:
    """The mark that ``with_render`` has left, None without one. Raises BadRequest."""
    if not _has_hops(record):
        return None
    mark = _fields(record)[4].get("render")
    if mark is not None and type(mark) is not list:
        raise BadRequest(f"a queued request cannot be read: its mark is {mark!r}")
    return mark


def without_hops(record: bytes) -> bytes:
    """The record of a request that starts over, with no errand and no mark. One that cannot be
    read is returned as it is."""
    try:
        record = without_errand(record)
        if not _has_hops(record):
            return record
        _, url, callback, depth, extra = _fields(record)
    except (ValueError, BadRequest, MissingCode):
        return record
    # OPTIONS says no less than TYPED: a reader of one reads the other.
    rest = {name: value for name, value in extra.items() if name not in ("hops", "render")}
    packed: bytes = msgpack.packb([OPTIONS, url, callback, depth, rest])
    return packed


def is_plain(record: bytes) -> bool:
    """Whether a request has no options, redirects, errand and mark."""
    return record[1:2] in _PLAIN


def _has_hops(record: bytes) -> bool:
    return record[1:2] in (_HOPS, _ERRAND)


def _fields(record: bytes) -> list[Any]:
    """The fields, with extension types left as they are."""
    try:
        fields: list[Any] = msgpack.unpackb(record, strict_map_key=False)
        version, url, callback, depth, *extra = fields
    except UNREADABLE as error:
        raise BadRequest(f"a queued request cannot be read: {error}") from None
    if version not in (PLAIN, TYPED, OPTIONS, HOPS, ERRAND):
        raise MissingCode(
            f"a queued request has record version {version}; this code reads {PLAIN} to {ERRAND}"
        )
    if not (type(url) is type(callback) is str and type(depth) is int and _is_extra(extra)):
        raise BadRequest("a queued request cannot be read: a field has the wrong type")
    return fields


def _is_extra(fields: list[Any]) -> bool:
    return not fields or (
        type(fields[0]) is dict and isinstance(fields[0].get("errback"), str | None)
    )
