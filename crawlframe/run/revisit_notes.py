"""Watching: marks the watched pages of a task, and notes the result of each visit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from crawlframe.errors import SpiderError, UnparsablePage
from crawlframe.proxies.place import without_session
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.revisit.declared import ALL, Policies, Revisit, group_of, policy_of
from crawlframe.revisit.visit import FoundPage, Visit
from crawlframe.run.link_filters import MAX_DELAY, WATCHED, Keep, LinkPage, NewRequest, bad_delay
from crawlframe.run.outcome import Outcome
from crawlframe.spider.spider import Spider, read_revisit

DIGEST = 16  # bytes
MAX_IMPORTANCE = 1e9
UNSEEN = ("script", "style", "noscript", "template")  # elements that are not part of the text


class Watching:
    """The pages of one task that are watched."""

    def __init__(
        self,
        watch: int,
        policies: Policies,
        discovers: Collection[str],
        importance: Callable[[Request], Any] | None,
    ) -> None:
        """``importance`` is the spider's own; without it, all pages matter equally."""
        self._watch = watch
        self._policies = policies
        self._discovers = discovers
        self._importance = importance

    @classmethod
    def of(cls, watch: int, spider: Spider) -> Watching:
        """Raises SpiderError if the spider does not say when its pages are visited again."""
        kind = type(spider)
        policies = read_revisit(kind)
        if not policies:
            raise SpiderError("it is watched, and has no revisit any more; give it one")
        own = kind.importance is not Spider.importance and callable(spider.importance)
        return cls(watch, policies, kind._discovers, spider.importance if own else None)

    def of_page(self, page: LinkPage) -> Keep:
        """As LinkFilter has it: pages that are visited by themselves are found, and not
        followed."""
        outcome = page.outcome
        outcome.results.visit = visit = self.visit(outcome.callback)

        def keep(link: NewRequest) -> str | None:
            request = link.request
            if not self.takes(request):
                return None
            if not request.delay <= MAX_DELAY:
                raise bad_delay(request)
            request.depth = page.depth
            place, rank = page.place(request), request.rank(page.priority)
            visit.found.append(self.found(request, link.fingerprint, place, rank))
            return WATCHED

        return keep

    def visit(self, callback: str) -> Visit:
        return Visit(self._watch, self._policy(callback))

    def _policy(self, callback: str) -> Revisit | None:
        return policy_of(self._policies, callback, self._discovers)

    def takes(self, request: Request) -> bool:
        """Whether the page is visited by itself, not as part of the visit that led to it."""
        plain = request.method == "GET" and request.body is None and not request.dont_filter
        return plain and self._policy(request.callback or "parse") is not None

    def look(self, outcome: Outcome, spider: Spider, request: Request, got: Any) -> None:
        """Notes which items the outcome has and, if ``got`` is the response of a page that is
        visited by itself, the digest of its content. Raises errors of the spider's own method."""
        visit, items = outcome.results.visit, outcome.results.items
        if visit is None:
            return
        own = visit.policy or self._policies.get(ALL)  # else they belong to another visit
        fields = (*own.key,) if own is not None else ()
        page = request.fingerprint()
        visit.keys = [_key(fields, item, page, place) for place, item in enumerate(items)]
        if visit.policy is not None and isinstance(got, Response):
            visit.digest = _digest(visit.policy, spider, got, items)

    def found(self, request: Request, fingerprint: bytes, place: str, rank: int) -> FoundPage:
        """Raises SpiderError if the spider's ``importance`` returns no number."""
        callback = request.callback or "parse"
        return FoundPage(
            digest_of(fingerprint),
            request.url,
            callback,
            group_of(self._policies, callback),
            without_session(place),
            rank,
            request.encode(),
            self._important(request),
            getattr(request, "lastmod", None),
        )

    def _important(self, request: Request) -> float:
        if self._importance is None:
            return 1.0
        value = self._importance(request)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 < value <= MAX_IMPORTANCE:
            raise SpiderError(
                f"importance returned {value!r:.80} for {request.url}; return a number above 0"
            )
        return float(value)


def digest_of(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=DIGEST).digest()


def _digest(policy: Revisit, spider: Any, response: Response, items: list[bytes]) -> bytes:
    compare = policy.compare or ("items" if items and not policy.ignore else "body")
    if compare == "items":
        return digest_of(b"\0".join(sorted(items)))
    if compare == "body":
        return digest_of(_text(response, policy.ignore))
    content = getattr(spider, compare)(response)
    if isinstance(content, str):
        content = content.encode("utf-8", "surrogatepass")
    if not isinstance(content, bytes):
        raise SpiderError(f"{compare} must return text or bytes, not {type(content).__name__}")
    return digest_of(content)


def _text(response: Response, ignore: Collection[str]) -> bytes:
    """The text of an HTML page, without ignored parts; other bodies as they are."""
    if response.kind != "html":
        return response.body
    try:
        response.tree  # noqa: B018  # it must be safe to parse
    except UnparsablePage:
        return response.body
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(response.text)  # one of its own: it is changed
    for selector in (*UNSEEN, *ignore):
        for node in tree.css(selector):
            node.decompose()
    text = tree.body.text(separator=" ") if tree.body is not None else ""
    return " ".join(text.split()).encode("utf-8", "surrogatepass")


def _key(fields: tuple[str, ...], item: bytes, page: bytes, place: int) -> bytes:
    """The key of an item: its fields, or its place on the page with this fingerprint."""
    if fields:
        data = msgspec.json.decode(item)
        values = [data.get(name) for name in fields]
        if any(value is not None for value in values):
            return digest_of(msgspec.json.encode(values, order="sorted"))
    return digest_of(b"%d\0%s" % (place, page))
