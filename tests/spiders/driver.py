"""A crawl in one process and one thread, breadth first: enough to try out a spider."""

from __future__ import annotations

from collections import deque
from typing import Any

import requests

from crawlframe import Request, Response, Spider
from crawlframe.base.urls import normalise
from crawlframe.spider.spider import build

TRIES = 3
AGENT = "tests-driver"


class Crawl:
    """The results of a spider. ``fetched`` has every URL requested, in order."""

    def __init__(self, spider: type[Spider], **arguments: Any) -> None:
        self.items: list[Any] = []
        self.fetched: list[str] = []
        self.failures: dict[str, int] = {}
        self.duplicates = 0
        self._seen: set[bytes] = set()
        self._waiting: deque[bytes] = deque()
        self._spider, start = build(spider, arguments)
        self._take(self._spider.start(**start))
        with requests.Session() as session:
            session.trust_env = False
            session.headers["User-Agent"] = AGENT
            while self._waiting:
                self._run(session, Request.decode(self._waiting.popleft()))

    def _run(self, session: requests.Session, request: Request) -> None:
        for _ in range(TRIES):
            answer = session.request(request.method, request.url, timeout=30)
            self.fetched.append(request.url)
            if answer.status_code < 500:
                break
        if answer.status_code >= 300:
            self.failures[request.url] = answer.status_code
            return
        callback = getattr(self._spider, request.callback or "parse")
        self._take(callback(response_of(answer, request), **request.cb_kwargs))

    def _take(self, yielded: Any) -> None:
        for thing in yielded or ():
            if not isinstance(thing, Request):
                self.items.append(thing)
            elif (fingerprint := thing.fingerprint()) in self._seen:
                self.duplicates += 1
            else:
                self._seen.add(fingerprint)
                self._waiting.append(thing.encode())


def response_of(answer: requests.Response, request: Request) -> Response:
    return Response(
        normalise(answer.url),
        answer.status_code,
        answer.headers,
        answer.content,
        request,
        redirects=tuple(hop.url for hop in answer.history),
    )
