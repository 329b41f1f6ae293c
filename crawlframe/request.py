"""Request: what a spider asks for, and the compact record in which it travels."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, Never

import msgpack

from crawlframe import record
from crawlframe.errors import BadRequest
from crawlframe.links import canonical, host_of, normalise
from crawlframe.payload import first_unfit
from crawlframe.porting import check_meta, refuse_keywords

MAX_RECORD = 1 << 20  # bytes; one request must not block Redis or a pipe
MAX_DEPTH_RANK = 4095
MAX_PRIORITY = 1000
MAX_TASK_PRIORITY = 100

# The root request of a task: it fetches nothing.
ROOT_URL = "start:"
ROOT_CALLBACK = "start"
# The last request of a task whose spider has `closed`: it fetches nothing either.
END_URL = "end:"
END_CALLBACK = "closed"
# Milliseconds for which it is delayed: until the frontier lets it go, when nothing else is left.
HELD = 1 << 42

# What may stand in a request's head; anything else could smuggle in a header or another request.
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_COOKIE_NAME = re.compile(r"[^\0\r\n=;]+")
_UNSAFE = re.compile(r"[\0\r\n]")

Callback = Callable[..., Any] | str


class Admission(NamedTuple):
    """A request as the frontier and the ledger keep it."""

    rid: bytes
    rank: int
    host: str
    delay: int  # milliseconds from admission until it may be fetched
    record: bytes


class Request:
    """One URL to fetch.

    ``callback`` and ``errback`` are methods of the spider (or their names); without a callback the
    spider's ``parse`` is called. ``body`` is bytes or text; ``json`` and ``form`` are shorthands
    that set body and Content-Type. ``cookies`` is a mapping, or a list of ``{"name", "value"}``.
    ``cb_kwargs`` and ``meta`` may hold None, bool, numbers, text, bytes, dates and times, UUIDs,
    enums, lists, tuples, dicts, sets, and dataclasses, attrs and pydantic objects whose classes are
    at the top of modules. Higher ``priority`` (-1000..1000) is fetched earlier. ``dont_filter``
    fetches a URL again that the task has seen. ``delay`` (seconds) is the earliest time from now.
    ``downloader`` is "curl" or "requests"; None takes the spider's setting.

    Raises BadRequest on a URL that is not http(s), a field of the wrong type, and on what Scrapy
    would understand and this does not.
    """

    __slots__ = (
        "body",
        "callback",
        "cb_kwargs",
        "cookies",
        "delay",
        "depth",
        "dont_filter",
        "downloader",
        "errback",
        "headers",
        "meta",
        "method",
        "priority",
        "url",
    )

    def __init__(
        self,
        url: str,
        callback: Callback | None = None,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes | str | None = None,
        json: Any = None,
        form: Mapping[str, Any] | None = None,
        cookies: Mapping[str, str] | Iterable[Mapping[str, str]] | None = None,
        cb_kwargs: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        priority: int = 0,
        dont_filter: bool = False,
        errback: Callback | None = None,
        delay: float = 0,
        downloader: str | None = None,
        depth: int = 0,
        **unknown: Never,
    ) -> None:
        self.url = normalise(url)
        if unknown:
            refuse_keywords(self.url, unknown, [*self.__slots__, "json", "form"])
        self.callback = callback_name(callback)
        self.errback = callback_name(errback, "errback")
        self.method = method.upper()
        self.headers: dict[str, str] = dict(headers) if headers else {}
        self.body = body.encode() if isinstance(body, str) else body
        self.cookies: dict[str, str] = _cookies(self.url, cookies) if cookies else {}
        self.cb_kwargs: dict[str, Any] = dict(cb_kwargs) if cb_kwargs else {}
        self.meta: dict[str, Any] = dict(meta) if meta else {}
        if meta:
            check_meta(self.url, meta)
        self.priority = priority
        self.dont_filter = dont_filter
        self.delay = delay
        self.downloader = downloader
        self.depth = depth
        if json is not None or form is not None:
            self._set_payload(json, form)
        self._check()

    @classmethod
    def plain(cls, url: str, callback: Callback | None = None) -> Request:
        """``Request(url, callback)`` in a fifth of the time, for a URL that ``links.join`` or
        ``links.normalise`` has made."""
        request = cls.__new__(cls)
        request.url = url
        request.callback = callback_name(callback)
        request.method = "GET"
        request.headers, request.cookies, request.cb_kwargs, request.meta = {}, {}, {}, {}
        request.body = request.errback = request.downloader = None
        request.priority = request.delay = request.depth = 0
        request.dont_filter = False
        return request

    def _set_payload(self, json: Any, form: Mapping[str, Any] | None) -> None:
        if self.body is not None or (json is not None and form is not None):
            raise BadRequest(f"request {self.url}: give only one of body, json and form")
        if json is not None:
            import orjson

            try:
                self.body = orjson.dumps(json)
            except TypeError as error:
                raise BadRequest(f"request {self.url}: json cannot be encoded: {error}") from None
            self.headers.setdefault("Content-Type", "application/json")
        elif form is not None:
            from urllib.parse import urlencode

            self.body = urlencode(form, doseq=True).encode()
            self.headers.setdefault("Content-Type", "application/x-www-form-urlencoded")
        if self.method == "GET":
            self.method = "POST"

    def _check(self) -> None:
        if not _TOKEN.fullmatch(self.method):
            raise BadRequest(f"request {self.url}: {self.method!r} is not an HTTP method")
        if not isinstance(self.priority, int):
            raise BadRequest(f"request {self.url}: priority must be an int, not {self.priority!r}")
        if self.downloader not in (None, "curl", "requests"):
            raise BadRequest(
                f"request {self.url}: downloader must be 'curl' or 'requests', "
                f"not {self.downloader!r}"
            )
        for name in ("headers", "cookies"):
            for key, value in getattr(self, name).items():
                if not isinstance(key, str) or not isinstance(value, str):
                    raise BadRequest(f"request {self.url}: {name}[{key!r}] must be text")
                if not (_TOKEN if name == "headers" else _COOKIE_NAME).fullmatch(key):
                    raise BadRequest(f"request {self.url}: {name}: {key!r} is not a valid name")
                if _UNSAFE.search(value) or (name == "cookies" and ";" in value):
                    raise BadRequest(
                        f"request {self.url}: {name}[{key!r}] has a line break or another "
                        "character that is not allowed there"
                    )

    @property
    def host(self) -> str:
        """``host`` or ``host:port``: the unit of politeness."""
        return host_of(self.url)

    def fingerprint(self) -> bytes:
        """What makes two requests the same: method, canonical URL and body."""
        url = canonical(self.url).encode("utf-8", "surrogatepass")
        if self.method == "GET" and self.body is None:
            return url
        body = hashlib.blake2b(self.body or b"", digest_size=16).digest()
        return b"%s\0%s\0%s" % (self.method.encode(), url, body)

    def rank(self, task_priority: int = 0) -> int:
        """Place in its host's queue, lower is earlier."""
        return rank_of(self.priority, task_priority, self.depth)

    def encode(self) -> bytes:
        """The record (msgpack) that travels through Redis, pipes and the ledger."""
        extra: dict[str, Any] = {}
        if self.method != "GET":
            extra["method"] = self.method
        if self.priority:
            extra["priority"] = self.priority
        if self.dont_filter:
            extra["dont_filter"] = True
        for name in ("headers", "body", "cookies", "cb_kwargs", "meta", "errback", "downloader"):
            value = getattr(self, name)
            if value:
                extra[name] = value
        if self.meta:
            check_meta(self.url, self.meta)  # also what came into it after __init__
        try:
            encoded = record.write(self.url, self.callback or "", self.depth, extra)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            found = first_unfit(self.cb_kwargs, "cb_kwargs") or first_unfit(self.meta, "meta")
            raise BadRequest(f"request {self.url}: {found or error}") from None
        if len(encoded) > MAX_RECORD:
            raise BadRequest(
                f"request {self.url}: {len(encoded)} bytes encoded, the limit is {MAX_RECORD}; "
                "pass a key in meta and keep the data elsewhere"
            )
        return encoded

    @classmethod
    def decode(cls, encoded: bytes) -> Request:
        """The request of a record made by ``encode``. Raises MissingCode when a class of a value in
        cb_kwargs or meta is missing here or is another now, and BadRequest on what is no record."""
        fields = record.read(encoded)
        request = cls.__new__(cls)
        request.url, request.callback, request.depth = fields[1], fields[2] or None, fields[3]
        extra = fields[4] if len(fields) > 4 else {}
        request.method = extra.get("method", "GET")
        request.priority = extra.get("priority", 0)
        request.dont_filter = extra.get("dont_filter", False)
        request.headers = extra.get("headers") or {}
        request.body = extra.get("body")
        request.cookies = extra.get("cookies") or {}
        request.cb_kwargs = extra.get("cb_kwargs") or {}
        request.meta = extra.get("meta") or {}
        request.errback = extra.get("errback")
        request.downloader = extra.get("downloader")
        request.delay = 0
        return request

    def replace(self, **changes: Any) -> Request:
        """A copy with some fields changed."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        fields.update(changes)
        return Request(**fields)

    def __repr__(self) -> str:
        return f"<Request {self.method} {self.url}>"


def _keys(cookie: Any) -> str:
    """What may be shown of it: values of cookies are secrets."""
    return f"a dict of {sorted(cookie)}" if isinstance(cookie, Mapping) else type(cookie).__name__


def _cookies(url: str, cookies: Any) -> dict[str, str]:
    if isinstance(cookies, Mapping):
        return dict(cookies)
    taken: dict[str, str] = {}
    for cookie in cookies:
        if not isinstance(cookie, Mapping) or not cookie.keys() >= {"name", "value"}:
            raise BadRequest(
                f"request {url}: cookies must be a dict of names and values, or a list of "
                f"{{'name': ..., 'value': ...}}; it has {_keys(cookie)}"
            )
        if other := sorted(cookie.keys() - {"name", "value"}):
            raise BadRequest(
                f"request {url}: cookies: {other[0]!r} of cookie {cookie['name']!r} is not "
                "supported: a request's cookies go to its own host only; leave it out"
            )
        taken[cookie["name"]] = cookie["value"]
    return taken


def make_rid(task: int, fingerprint: bytes) -> bytes:
    """The request id: 16 bytes, the same for the same request of the same task on every retry."""
    return hashlib.blake2b(b"%d\0%s" % (task, fingerprint), digest_size=16).digest()


@lru_cache(maxsize=4096)
def rank_of(priority: int, task_priority: int, depth: int) -> int:
    """Place in a host's queue, lower is earlier: task priority, priority, then depth."""
    task = MAX_TASK_PRIORITY - max(-MAX_TASK_PRIORITY, min(MAX_TASK_PRIORITY, task_priority))
    mine = MAX_PRIORITY - max(-MAX_PRIORITY, min(MAX_PRIORITY, priority))
    return (task * (2 * MAX_PRIORITY + 1) + mine) * (MAX_DEPTH_RANK + 1) + min(
        depth, MAX_DEPTH_RANK
    )


def root_admission(task: int, priority: int = 0) -> Admission:
    """The one request a task starts with: a worker runs the spider's ``start`` for it.

    Its host is the task's own, so that one task's delay never holds up another's start, and has a
    mark that no host of a URL has."""
    start = record.write(ROOT_URL, ROOT_CALLBACK, 0, {})
    return Admission(make_rid(task, b"start"), rank_of(0, priority, 0), f"/{task}", 0, start)


def end_admission(task: int, priority: int = 0) -> Admission:
    """The last request of a task: a worker runs the spider's ``closed`` for it. It is known from
    the start, so that a task never seems to have ended without it, and held back until nothing
    else is left. Its host has a mark as that of the root request does."""
    end = record.write(END_URL, END_CALLBACK, 0, {})
    return Admission(end_rid(task), rank_of(0, priority, 0), f"/{task}/end", HELD, end)


def end_rid(task: int) -> bytes:
    """The id of a task's last request."""
    return make_rid(task, b"end")


def pack_admissions(admissions: Iterable[Admission]) -> bytes:
    """How the ledger keeps a list of admissions."""
    packed: bytes = msgpack.packb([tuple(admission) for admission in admissions])
    return packed


def unpack_admissions(packed: bytes | memoryview) -> list[Admission]:
    """The admissions of ``pack_admissions``."""
    return [Admission(*fields) for fields in msgpack.unpackb(packed)]


def callback_name(callback: Callback | None, field: str = "callback") -> str | None:
    """The name of a spider's method. Raises BadRequest on any other function."""
    if callback is None or isinstance(callback, str):
        return callback or None
    name = getattr(callback, "__name__", "")
    if not name or name == "<lambda>" or getattr(callback, "__self__", None) is None:
        raise BadRequest(
            f"{field} must be a method of the spider or its name, not {callback!r}: the request "
            "may run in another process"
        )
    return name
