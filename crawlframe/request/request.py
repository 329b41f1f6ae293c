"""Request: an order of a spider to fetch a page, and the record that it is stored as."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, Never, Self

import msgpack
import msgspec

from crawlframe.base.exact_json import dumps
from crawlframe.base.scrapy_names import check_meta, refuse_keywords
from crawlframe.base.urls import canonical, fragment_of, host_of, normalise
from crawlframe.errors import BadRequest
from crawlframe.proxies.selector import DIRECT, ProxyPool
from crawlframe.request import record
from crawlframe.request.checks import (
    Callback,
    callback_name,
    check_head,
    check_method,
    cookies_of,
    headers_of,
    shown_headers,
)
from crawlframe.request.downloader_names import BROWSER, check_downloader, installed
from crawlframe.request.options import NO_OPTIONS, Options, check_options, read_options
from crawlframe.request.payload import first_unfit

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
HOLD_MS = 1 << 42


class Admission(NamedTuple):
    """A request as the frontier and the ledger keep it."""

    rid: bytes
    rank: int
    host: str
    delay: int  # milliseconds from admission until it may be fetched
    record: bytes


class Request:
    """One URL to fetch. Its user and password become an Authorization header.

    ``callback`` and ``errback`` are methods of the spider (or their names); without a callback the
    spider's ``parse`` is called. ``body`` is bytes or text; ``json`` and ``form`` are shorthands
    that set body and Content-Type. ``cookies`` is a mapping, or a list of ``{"name", "value"}``.
    ``cb_kwargs`` and ``meta`` may hold None, bool, numbers, text, bytes, dates and times, UUIDs,
    enums, lists, tuples, dicts, sets, and dataclasses, attrs and pydantic objects whose classes are
    defined at the top level of modules. Higher ``priority`` (-1000..1000) is fetched earlier.
    ``dont_filter`` fetches a URL again that the task has seen. ``delay`` is the minimum number of
    seconds to wait before it is fetched. ``downloader`` is "curl", "requests", "browser" or a
    plug-in; None means the spider's setting, as it does for ``timeout``, ``retries``,
    ``redirects``, ``handle``, ``session`` and ``max_body``, which are kept in ``options``, with
    ``save``. The browser gets the ``fragment`` of the URL, too, and it tells requests apart.
    ``proxy`` is "pool", "pool:<tags>", a ProxyPool or the URL of a proxy; None: no proxy, whatever
    the spider's. ``actions`` of a browser on the page: see crawlframe.actions.

    Requests are equal if they send the same and run the same, with the same data; they cannot be
    members of sets or keys of dicts.

    Raises BadRequest if the URL is not http(s), if a field has the wrong type, and for features
    of Scrapy that are not supported."""

    __slots__ = (
        "body", "callback", "cb_kwargs", "cookies", "delay", "depth", "dont_filter", "downloader",
        "errback", "fragment", "headers", "meta", "method", "options", "priority", "url",
    )  # fmt: skip

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
        timeout: float | None = None,
        retries: int | None = None,
        redirects: int | None = None,
        handle: Iterable[int | range] | None = None,
        session: str | None = None,
        max_body: int | None = None,
        save: bool | str | Iterable[str] | None = None,
        proxy: ProxyPool | str | None = "",
        actions: Iterable[Any] | None = None,
        depth: int = 0,
        **unknown: Never,
    ) -> None:
        self.url, self.fragment = normalise(url), fragment_of(url)
        if unknown:
            refuse_keywords(self.url, unknown, _KEYWORDS)
        self.callback = callback_name(callback)
        self.errback = callback_name(errback, "errback")
        self.method = method.upper()
        self.headers: dict[str, str] = headers_of(url, headers)
        self.body = body.encode() if isinstance(body, str) else body
        self.cookies: dict[str, str] = cookies_of(self.url, cookies) if cookies else {}
        self.cb_kwargs: dict[str, Any] = dict(cb_kwargs) if cb_kwargs else {}
        self.meta: dict[str, Any] = dict(meta) if meta else {}
        if meta:
            check_meta(self.url, meta)
        self.priority = priority
        self.dont_filter = dont_filter
        self.delay = delay
        self.downloader = downloader
        self.depth = depth
        via = None if proxy == "" else proxy or DIRECT
        options = (timeout, retries, redirects, handle, session, max_body, save, via, actions)
        none = options.count(None) == len(options)
        self.options = NO_OPTIONS if none else check_options(self.url, *options)
        if self.options.actions and downloader is None:
            self.downloader = BROWSER
        if json is not None or form is not None:
            self._set_payload(json, form)
        self.check()

    @classmethod
    def plain(cls, url: str, callback: Callback | None = None) -> Self:
        """Return ``Request(url, callback)`` in a fifth of the time, for a URL of ``links.join``."""
        if "@" in url:
            return cls(url, callback)
        request = cls.__new__(cls)
        request.url, mark, fragment = url.partition("#")
        request.fragment = mark + fragment
        named = callback is None or type(callback) is str
        request.callback = callback if named else callback_name(callback)  # type: ignore[assignment]
        request.method = "GET"
        request.headers, request.cookies, request.cb_kwargs, request.meta = {}, {}, {}, {}
        request.body = request.errback = request.downloader = None
        request.priority = request.delay = request.depth = 0
        request.dont_filter, request.options = False, NO_OPTIONS
        return request

    def _set_payload(self, json: Any, form: Mapping[str, Any] | None) -> None:
        if self.body is not None or (json is not None and form is not None):
            raise BadRequest(f"request {self.url}: give only one of body, json and form")
        if json is not None:
            try:
                self.body = dumps(json)
            except (TypeError, ValueError) as error:
                raise BadRequest(f"request {self.url}: json cannot be encoded: {error}") from None
            self.headers.setdefault("Content-Type", "application/json")
        elif form is not None:
            from crawlframe.base.secret import form_body

            self.body = form_body(form)
            self.headers.setdefault("Content-Type", "application/x-www-form-urlencoded")
        if self.method == "GET":
            self.method = "POST"

    def check(self) -> None:
        """Raises BadRequest when a field that is sent is wrong, or was changed to be."""
        check_method(self.url, self.method)
        if not isinstance(self.priority, int):
            raise BadRequest(f"request {self.url}: priority must be an int, not {self.priority!r}")
        check_downloader(self.url, self.method, self.downloader, self.options)
        check_head(self.url, self.headers, self.cookies)

    @property
    def host(self) -> str:
        """``host`` or ``host:port``: the unit of politeness."""
        return host_of(self.url)

    def fingerprint(self, key: str | None = None) -> bytes:
        """Return its identity: method, canonical URL (or ``key`` in place of it) and body."""
        url = (canonical(self.url) if key is None else key).encode("utf-8", "surrogatepass")
        if self.downloader == BROWSER:
            url += self.fragment.encode()
        if self.options.actions:  # another page
            url += b"\0" + msgspec.msgpack.encode(self.options.actions)
        if self.method == "GET" and self.body is None:
            return url
        body = hashlib.blake2b(self.body or b"", digest_size=16).digest()
        return b"%s\0%s\0%s" % (self.method.encode(), url, body)

    def rank(self, task_priority: int = 0) -> int:
        """Return the place in its host's queue; lower is earlier."""
        return rank_of(self.priority, task_priority, self.depth)

    def encode(self) -> bytes:
        """Return the record (msgpack) that is stored in Redis and the ledger and sent through
        pipes."""
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
        if self.options != NO_OPTIONS or self.downloader == BROWSER:
            extra["options"] = self.options.encode()
            if self.downloader == BROWSER:  # older workers would not know it, and use curl
                extra["options"][BROWSER] = extra.pop("downloader") == BROWSER
                extra |= {"fragment": self.fragment} if self.fragment else {}
        if self.meta:
            check_meta(self.url, self.meta)  # also values that came into it after __init__
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
        """Return the request of a record made by ``encode``. Raises MissingCode if the class of a
        value in cb_kwargs or meta is missing or different here, and BadRequest if it is not a
        record."""
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
        request.errback, request.fragment = extra.get("errback"), extra.get("fragment", "")
        request.downloader = installed(extra.get("downloader"))
        options = extra.get("options")
        if isinstance(options, dict) and options.pop(BROWSER, False):
            request.downloader = BROWSER
        request.options = NO_OPTIONS if options is None else read_options(request.url, options)
        request.delay = 0
        return request

    def replace(self, **changes: Any) -> Request:
        """Return a copy with some fields changed."""
        fields = {name: getattr(self, name) for name in _ARGUMENTS} | self.options._asdict()
        fields |= {"url": self.url + self.fragment, "proxy": self.options.proxy or ""} | changes
        return Request(**fields)

    def _given(self) -> dict[str, Any]:
        """Return the arguments that differ from ``Request(url)``, without depth."""
        names = (name for name in _ARGUMENTS if name not in ("depth", "url"))
        given = {name: value for name in names if (value := getattr(self, name))}
        for name, default in (("callback", "parse"), ("method", "GET")):
            if given.get(name) == default:
                del given[name]
        own = self.options._asdict().items()
        return given | {name: value for name, value in own if value is not None}

    def __eq__(self, other: object) -> bool:
        """True if both send the same and run the same, with the same data. ``depth`` does not
        count: the engine sets it."""
        if not isinstance(other, Request):
            return NotImplemented
        same = self.fragment == other.fragment or self.downloader != BROWSER
        return same and self.url == other.url and self._given() == other._given()

    __hash__ = None  # type: ignore[assignment]  # equal ones may change

    def __repr__(self) -> str:
        given = self._given() | shown_headers(self.headers)
        url = self.url + self.fragment
        words = [repr(value) for value in (url, given.pop("callback", None)) if value]
        return f"Request({', '.join(words + [f'{name}={given[name]!r}' for name in given])})"


_ARGUMENTS = [name for name in Request.__slots__ if name not in ("fragment", "options")]
_KEYWORDS = [*_ARGUMENTS, *Options._fields, "json", "form"]


def make_rid(task: int, fingerprint: bytes) -> bytes:
    """Return the request id: 16 bytes, the same for the same request of a task on every retry."""
    return hashlib.blake2b(b"%d\0%s" % (task, fingerprint), digest_size=16).digest()


@lru_cache(maxsize=4096)
def rank_of(priority: int, task_priority: int, depth: int) -> int:
    """Return the place in a host's queue, lower is earlier: task priority, priority, then depth."""
    task = MAX_TASK_PRIORITY - max(-MAX_TASK_PRIORITY, min(MAX_TASK_PRIORITY, task_priority))
    mine = MAX_PRIORITY - max(-MAX_PRIORITY, min(MAX_PRIORITY, priority))
    return (task * (2 * MAX_PRIORITY + 1) + mine) * (MAX_DEPTH_RANK + 1) + min(
        depth, MAX_DEPTH_RANK
    )


def root_admission(task: int, priority: int = 0) -> Admission:
    """Return the request that a task starts with: a worker runs the spider's ``start`` for it.

    Its host is unique to the task, so that the delay of one task never postpones the start of
    another, and has a character that no host of a URL has."""
    start = record.write(ROOT_URL, ROOT_CALLBACK, 0, {})
    return Admission(make_rid(task, b"start"), rank_of(0, priority, 0), f"/{task}", 0, start)


def end_admission(task: int, priority: int = 0) -> Admission:
    """The last request of a task: a worker runs the spider's ``closed`` for it. It is known from
    the start, so that a task never seems to have ended without it, and held back until nothing else
    is left. Its host has a mark, as in the root request."""
    end = record.write(END_URL, END_CALLBACK, 0, {})
    return Admission(end_rid(task), rank_of(0, priority, 0), f"/{task}/end", HOLD_MS, end)


def end_rid(task: int) -> bytes:
    """The id of a task's last request."""
    return make_rid(task, b"end")


def pack_admissions(admissions: Iterable[Admission]) -> bytes:
    """Return a list of admissions in the form that the ledger stores."""
    packed: bytes = msgpack.packb([tuple(admission) for admission in admissions])
    return packed


def unpack_admissions(packed: bytes | memoryview) -> list[Admission]:
    """Return the admissions packed by ``pack_admissions``."""
    return [Admission(*fields) for fields in msgpack.unpackb(packed)]
