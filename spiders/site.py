"""Any site: titles, headings, texts and links of its pages."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from crawlframe import Request, Response
from crawlframe.base.urls import canonical, host_of, hostname_of, normalise
from crawlframe.errors import ArgumentError, BadRequest
from spiders.project import ProjectSpider

Pattern = Annotated[str, Meta(extra_json_schema={"format": "regex"})]
Url = Annotated[str, Meta(extra_json_schema={"format": "uri"})]

LINKING = "a[href], area[href], link[href], frame[src], iframe[src]"
# <link> types that load a part of the page and lead to no other page.
ASSET_RELS = {
    "stylesheet", "icon", "apple-touch-icon", "mask-icon", "manifest", "preload", "modulepreload",
    "prefetch", "preconnect", "dns-prefetch", "pingback",
}  # fmt: skip
# The HTML standard, "shared declarative refresh steps": a time, a separator, and the URL with or
# without "url=" before it. Pages without the time are followed, too.
REFRESH = re.compile(
    r"(?:[\s\d.]*+(?:[;,]\s*+)?+url\s*+=|\s*+[\d.]++(?:\s*+[;,]|\s))"
    r"\s*+['\"]?\s*+([^'\"\s][^'\"]*)",
    re.IGNORECASE,
)
UNSEEN = ["script", "style", "template"]


class SiteSpider(ProjectSpider):
    """Every page of a site: status, title, headings, text length, links, language, content hash.

    Follows a, area, frame, iframe, link and meta refresh inside the start URL's host (with and
    without "www.") and the further ``hosts``. ``depth`` is the number of links from the start page,
    0 for no limit. A URL is fetched when one of the ``include`` expressions, if there are any, is
    found in it, and none of ``exclude``; the start URL always is. Images, styles and scripts are
    not fetched. Pages that are not HTML but linked like pages are stored with their type and size.
    A task fetches at most 10,000 pages, and says how many links were not followed.
    """

    name = "site"
    settings: ClassVar[dict[str, Any]] = {"page_limit": 10_000}

    url: Url
    depth: Annotated[int, Meta(ge=0)] = 0
    include: tuple[Pattern, ...] = ()
    exclude: tuple[Pattern, ...] = ()
    hosts: tuple[str, ...] = ()

    def start(self) -> Iterator[Request]:
        for name in ("include", "exclude"):
            for pattern in getattr(self, name):
                check_pattern(name, pattern)
        yield Request(self.url, self.parse)

    def parse(self, response: Response, level: int = 0) -> Iterator[Any]:
        if canonical(response.url) != canonical(response.request.url):
            yield from self._follow_redirect(response, level)
            return
        if response.kind != "html":
            yield page_of(response)
            return
        links = links_of(response)
        yield page_of(response) | describe(response, links)
        if self.depth and level >= self.depth:
            return
        # Without a depth limit the level is not needed, and a shorter record makes a smaller queue.
        carried = {"level": level + 1} if self.depth else None
        for link in links:
            if self.wants(link):
                yield Request(link, self.parse, cb_kwargs=carried)

    def _follow_redirect(self, response: Response, level: int) -> Iterator[Request]:
        """The page is stored under the URL it was redirected to, to which other pages may link: a
        request for that URL stores it only once."""
        is_start = response.request.url == normalise(self.url)
        if self.wants(response.url) or (is_start and self._at_home(response.url)):
            carried = {"level": level} if level else None
            yield Request(response.url, self.parse, cb_kwargs=carried)
        elif is_start:
            raise ArgumentError(
                f"url: {self.url} leads to {response.url}, another host; start there, or allow it "
                f"with hosts={hostname_of(response.url)}"
            )

    def wants(self, url: str) -> bool:
        return (
            self._at_home(url)
            and (not self.include or any(re.search(pattern, url) for pattern in self.include))
            and not any(re.search(pattern, url) for pattern in self.exclude)
        )

    def _at_home(self, url: str) -> bool:
        return bare(host_of(url)) in self._homes or bare(hostname_of(url)) in self._further

    @cached_property
    def _homes(self) -> frozenset[str]:
        return self._further | {bare(host_of(normalise(self.url)))}

    @cached_property
    def _further(self) -> frozenset[str]:
        return frozenset(map(bare, self.hosts))


def check_pattern(name: str, pattern: str) -> None:
    """Raises ArgumentError when ``pattern`` is not a regular expression."""
    try:
        re.compile(pattern)
    except re.error as error:
        place = "" if error.pos is None else f" at character {error.pos + 1}"
        raise ArgumentError(
            f"{name}: {pattern!r} is not a regular expression: {error.msg}{place}; put a backslash "
            "before characters that are meant literally"
        ) from None


def bare(host: str) -> str:
    return host.lower().removeprefix("www.")


def links_of(response: Response) -> list[str]:
    """The http(s) URLs to which the page links, without fragments, each once."""
    found: dict[str, None] = {}
    for link in dict.fromkeys(raw_links(response)):
        try:
            found[response.urljoin(link)] = None
        except BadRequest:  # mailto:, javascript: and invalid URLs
            continue
    return list(found)


def raw_links(response: Response) -> Iterator[str]:
    for node in response.tree.css(LINKING):
        attributes = node.attributes
        if node.tag == "link" and not leads_on(attributes):
            continue
        yield attributes.get("href") or attributes.get("src") or ""
    for node in response.tree.css("meta[http-equiv='refresh' i]"):
        refresh = REFRESH.match(node.attributes.get("content") or "")
        if refresh:
            yield refresh[1]


def leads_on(link: dict[str, str | None]) -> bool:
    """Whether a <link> names another page rather than a part of this one."""
    rels = (link.get("rel") or "").lower().split()
    kind = essence(link.get("type"))
    return kind in ("", "text/html", "application/xhtml+xml") and ASSET_RELS.isdisjoint(rels)


def page_of(response: Response) -> dict[str, Any]:
    """The fields stored for every page, of whatever type."""
    return {
        "url": response.url,
        "status": response.status,
        "content_type": essence(response.headers.get("content-type")) or None,
        "size": len(response.body),
        "content_hash": hash_of(response.body),
    }


def describe(response: Response, links: list[str]) -> dict[str, Any]:
    """The further fields of HTML pages; the hash is of the visible text, so that it does not change
    with the page's frame. This removes scripts and styles from the tree."""
    tree = response.tree
    title = tree.css_first("head title")
    headings = [
        [int(str(node.tag)[1]), words(node.text(separator=" "))]
        for node in tree.css("h1, h2, h3, h4, h5, h6")
    ]
    language = language_of(response)
    tree.strip_tags(UNSEEN)
    text = words(tree.body.text(separator=" ")) if tree.body else ""
    return {
        "title": words(title.text()) if title else None,
        "headings": headings,
        "text_length": len(text),
        "links": len(links),
        "language": language,
        "content_hash": hash_of(text.encode("utf-8", "replace")),
    }


def essence(content_type: str | None) -> str:
    """``"Text/HTML; charset=utf-8"`` -> ``"text/html"``"""
    return (content_type or "").partition(";")[0].strip().lower()


def language_of(response: Response) -> str | None:
    root = response.tree.root
    attributes = root.attributes if root else {}
    meta = response.tree.css_first("meta[http-equiv='content-language' i]")
    language = (
        attributes.get("lang")
        or attributes.get("xml:lang")
        or response.headers.get("content-language")
        or (meta.attributes.get("content") if meta else None)
    )
    return (language or "").strip() or None


def words(text: str) -> str:
    return " ".join(text.split())


def hash_of(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
