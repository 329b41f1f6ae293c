"""Requests of Scrapy and of ours, into each other. Attributes that ours lacks travel in its
``meta`` under one key, in the form of Scrapy's own ``to_dict``."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import partial
from typing import Any

from scrapy import Request as ScrapyRequest
from scrapy import Spider as ScrapySpider
from scrapy.utils.request import request_from_dict
from scrapy.utils.url import url_is_from_any_domain
from w3lib.http import basic_auth_header

from crawlframe.base.scrapy_names import NO_PROXY
from crawlframe.base.urls import without_login
from crawlframe.errors import BadRequest
from crawlframe.request.request import Request
from crawlframe.scrapy.settings import mapped

KEY = "scrapy"  # of our meta
PREFIX = "scrapy."  # precedes names of callbacks that mean something else in our Spider
REDIRECTS = frozenset({301, 302, 303, 307, 308})
ALL = (range(100, 200), range(300, 1000))

# Keys of meta that Scrapy sets itself, and that would only grow a request that is made of another.
SET_BY_SCRAPY = frozenset(
    {
        "depth", "download_latency", "redirect_times", "redirect_ttl", "redirect_urls",
        "redirect_reasons", "retry_times", "is_start_request",
    }
)  # fmt: skip
_SESSION = re.compile(r"[\w.-]{1,80}")


class Translator:
    """Requests of one spider object. ``taken`` are the names that callbacks of Scrapy cannot have
    in ours."""

    def __init__(self, spider: ScrapySpider, settings: Any, taken: frozenset[str]) -> None:
        self._spider = spider
        self._taken = taken
        self._redirects: int | None = None if settings.getbool("REDIRECT_ENABLED") else 0
        self._cookies = settings.getbool("COOKIES_ENABLED")
        own = mapped(settings, type(spider)).settings
        self._headers: dict[str, str] = dict(own.get("headers", {}))
        if agent := own.get("user_agent"):
            self._headers.setdefault("User-Agent", agent)
        if REDIRECTS.intersection(getattr(spider, "handle_httpstatus_list", None) or ()):
            self._redirects = 0

    def ours(self, request: ScrapyRequest) -> Request:
        """Raises BadRequest if it cannot be queued: its callback is no method of the spider, or it
        names a proxy. The arguments of a partial travel in ``cb_kwargs``."""
        if isinstance(call := request.callback, partial) and not call.args:
            named = {**call.keywords, **request.cb_kwargs}
            request = request.replace(callback=call.func, cb_kwargs=named)
        try:
            given = request.to_dict(spider=self._spider)
        except ValueError as error:
            raise BadRequest(
                f"request {request.url}: {error}; callbacks must be methods of the spider, or "
                "partials of them with named arguments, for the request may run in another process"
            ) from None
        meta = {key: value for key, value in given["meta"].items() if key not in SET_BY_SCRAPY}
        if meta.get("proxy"):
            raise BadRequest(f"request {request.url}: meta['proxy']: {NO_PROXY}")
        sends = self._cookies and not meta.get("dont_merge_cookies")
        cookies = _cookies(given["cookies"]) if sends and given["cookies"] else {}
        headers = {
            key.decode("latin-1"): b", ".join(values).decode("latin-1")
            for key, values in given["headers"].items()
        }
        if login := _login(given["url"], meta):
            headers.setdefault("Authorization", login)
        made = Request(
            given["url"],
            self._name(given["callback"]),
            errback=self._name(given["errback"]),
            method=given["method"],
            headers=headers,
            body=given["body"] or None,
            cookies=cookies,
            cb_kwargs=given["cb_kwargs"],
            priority=int(given["priority"]),
            dont_filter=given["dont_filter"] or bool(meta.get("allow_offsite")),
            **self._options(request.url, meta),
        )
        rest = {
            "meta": meta,
            "url": "" if given["url"] == made.url else without_login(given["url"]),
            "encoding": "" if given["encoding"] == "utf-8" else given["encoding"],
            "flags": given["flags"],
            "_class": given.get("_class"),
            "cookies": None if given["cookies"] == cookies else given["cookies"],
            "dont_filter": None if made.dont_filter == given["dont_filter"] else False,
        }
        rest = {name: value for name, value in rest.items() if value not in (None, "", {}, [])}
        if rest:
            made.meta = {KEY: rest}
        return made

    def theirs(self, request: Request) -> ScrapyRequest:
        """Raises ValueError if the spider has lost the method that it names."""
        rest: dict[str, Any] = request.meta.get(KEY) or {}
        made = request_from_dict(
            {
                "url": request.url,
                "callback": (request.callback or "").removeprefix(PREFIX) or None,
                "errback": (request.errback or "").removeprefix(PREFIX) or None,
                "method": request.method,
                "headers": request.headers,
                "body": request.body or b"",
                "cookies": request.cookies,
                "priority": request.priority,
                "dont_filter": request.dont_filter,
                "cb_kwargs": request.cb_kwargs,
                **rest,
                "meta": {**rest.get("meta", {}), "depth": request.depth},
            },
            spider=self._spider,
        )
        for name, value in self._headers.items():
            made.headers.setdefault(name, value)
        return made

    def _name(self, name: str | None) -> str | None:
        return f"{PREFIX}{name}" if name in self._taken else name

    def _options(self, url: str, meta: dict[str, Any]) -> dict[str, Any]:
        """Our options of the keys of Scrapy."""
        options: dict[str, Any] = {"redirects": self._redirects}
        if meta.get("download_timeout"):
            options["timeout"] = float(meta["download_timeout"])
        if meta.get("download_maxsize"):
            options["max_body"] = int(meta["download_maxsize"])
        if meta.get("dont_redirect"):
            options["redirects"] = 0
        if meta.get("handle_httpstatus_all"):
            options |= {"handle": ALL, "redirects": 0}
        elif "handle_httpstatus_list" in meta:
            statuses = _statuses(meta["handle_httpstatus_list"])
            options["handle"] = statuses
            if REDIRECTS.intersection(statuses):
                options["redirects"] = 0
        if meta.get("dont_retry"):
            options["retries"] = 0
        elif meta.get("max_retry_times") is not None:
            options["retries"] = int(meta["max_retry_times"])
        if meta.get("dont_merge_cookies"):
            options["session"] = f"alone.{_digest(url)}"  # neither sends nor changes others'
        elif meta.get("cookiejar") is not None:
            options["session"] = session_of(meta["cookiejar"])
        return options


def _statuses(listed: Any) -> list[int]:
    """Statuses that meta["handle_httpstatus_list"] allows. Media pipelines that follow redirects
    give a container that can only be tested for members."""
    if isinstance(listed, Iterable):
        return [int(status) for status in listed]
    return [status for status in range(100, 600) if status in listed]


def session_of(jar: Any) -> str:
    """The name of our cookie jar for a value of meta["cookiejar"]."""
    name = f"jar.{jar}"
    return name if _SESSION.fullmatch(name) else f"jar.{_digest(name)}"


def _login(url: str, meta: dict[str, Any]) -> str:
    """The Authorization that a request has of its own; "" if it has none."""
    user, password = (meta.get(f"http_{name}") or "" for name in ("user", "pass"))
    domain = meta.get("http_auth_domain")
    if not (user or password) or (domain and not url_is_from_any_domain(url, [domain])):
        return ""
    return basic_auth_header(user, password).decode()


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _cookies(given: Any) -> dict[str, str]:
    pairs = given.items() if isinstance(given, dict) else [(c["name"], c["value"]) for c in given]
    return {_text(name): _text(value) for name, value in pairs if value is not None}


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
