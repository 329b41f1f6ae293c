"""Many sites at once: text, language, links and terms of use of their pages."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal

from crawlframe import FilePath, Request, Response
from crawlframe.base.urls import host_of, normalise
from crawlframe.errors import ArgumentError, BadRequest
from crawlframe.response.link_extractor import LinkExtractor
from spiders.project import ProjectSpider
from spiders.site import bare, language_of, words

MOST_REPORTED = 100  # lines of seeds that are wrong; further ones are only counted
NEEDED = {"article": "trafilatura", "fast": "resiliparse"}  # packages, by the argument ``text``
NO_SEED = "neither a URL nor a domain such as shop.example, has spaces, or is not UTF-8"
EVERYWHERE = "give the absolute path of a file that every node has"
BAD_SEEDS, OTHER = "bad seeds", "not HTML: "  # names of stats
# A domain or an IPv4 address, with or without a port and a path. "1,a.example" is none, as lists
# of ranks have it, although browsers would accept the comma.
_DOMAIN = re.compile(r"(?:[\w-]+\.)+[\w-]+\.?(?::\d+)?(?:[/?].*)?")
_PAGES = LinkExtractor()  # leaves out images, archives and the like, by the ending of the path
_COMMENT = re.compile(r"(?:^|\s)#.*")


class BroadSpider(ProjectSpider):
    """Pages of many sites: title, main text, language, links, and conditions of use.

    ``seeds`` is a file with one URL or domain per line. Links are followed to any host, or with
    ``across=false`` only within the host of the page. ``text`` is how the main text is found:
    ``article`` (slow and good), ``fast`` (a tenth of the time, with more of its surroundings) or
    ``none``."""

    name = "broad"
    settings: ClassVar[dict[str, Any]] = {
        "layers": 2,  # links from a seed; all pages of one layer before the next
        "host_page_limit": 100,
        "host_byte_limit": 100 << 20,
        "delay": "auto",  # the rate that a host bears,
        "min_delay": 1,  # and one request per second at most
        "concurrency": 2,
        "timeout": 20,
        "retries": 1,
        "max_body": 8 << 20,
        "traps": "stop",
    }

    text: Literal["article", "fast", "none"] = "article"
    across: bool = True

    def start(self, seeds: FilePath) -> Iterator[Request]:
        """Bad lines are logged and counted; the others are crawled all the same."""
        needed = NEEDED.get(self.text)
        if needed is not None and find_spec(needed) is None:  # now, and not on each page
            raise ArgumentError(
                f"text: {self.text} needs {needed}, which this node does not have; run "
                "pip install 'crawlframe[text]', or submit with text=none"
            )
        good = bad = 0
        for number, line in lines_of(seeds):
            try:
                request = Request(seed_url(line))
            except BadRequest:
                bad += 1
                self.stats.inc(BAD_SEEDS)
                if bad <= MOST_REPORTED:
                    # Without the line: a submitter may name a file that is not theirs.
                    self.log.warning("seeds: %s, line %d is %s", seeds, number, NO_SEED)
                continue
            good += 1
            yield request
        if bad > MOST_REPORTED:
            self.log.warning("seeds: %s: %d more lines are wrong", seeds, bad - MOST_REPORTED)
        if not good:
            raise ArgumentError(
                f"seeds: {seeds} names no site, and {bad} of its lines are wrong; write one URL or "
                "domain per line"
            )

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        if response.kind != "html":
            self.stats.inc(OTHER + response.kind)
            return
        links = response.links()
        yield {
            "url": response.url,
            **await self.describe(response),
            "links": links,
            "usage": response.usage.as_json() if response.usage else None,
            "licenses": licenses_of(response),
        }
        here = bare(host_of(response.url))
        for link in links:
            if _PAGES.matches(link) and (self.across or bare(host_of(link)) == here):
                yield Request(link)

    async def describe(self, response: Response) -> dict[str, Any]:
        """Title, text and language. The text is found in a thread, for it takes up to 60 ms."""
        head = response.tree.css_first("head title")
        title = words(head.text()) if head else None
        if self.text == "article":
            article = await response.article
            return {
                "title": article.title or title,
                "text": article.text,
                "language": article.language,
            }
        text = None
        if self.text == "fast":
            text = await asyncio.to_thread(lambda: response.article.fast_text)
        language = (language_of(response) or "").partition("-")[0].lower() or None
        return {"title": title, "text": text, "language": language}


def lines_of(path: str) -> Iterator[tuple[int, str]]:
    """The lines of a file that say something, with their numbers: comments (``#`` at the start of
    a line or after a space) and empty lines are left out. Only one line is in memory at a time.
    Raises ArgumentError if the file cannot be read."""
    if not Path(path).is_file():  # a pipe or device would have no end
        shown = path if path.isprintable() else repr(path)
        raise ArgumentError(f"seeds: {shown} cannot be read (there is no such file); {EVERYWHERE}")
    try:
        # Text that is not UTF-8 must not become another URL; ``seed_url`` refuses it.
        with Path(path).open(encoding="utf-8-sig", errors="surrogateescape") as file:
            for number, line in enumerate(file, 1):
                if text := _COMMENT.sub("", line).strip():
                    yield number, text
    except OSError as error:
        raise ArgumentError(
            f"seeds: {path} cannot be read ({error.strerror}); {EVERYWHERE}"
        ) from None


def seed_url(seed: str) -> str:
    """The URL of a seed: an http(s) URL, or a domain, which gets ``https://``. Raises BadRequest
    for anything else."""
    if not seed.isprintable() or " " in seed:
        raise BadRequest(f"{seed[:200]!r} has spaces or is not UTF-8; write one URL per line")
    if "://" in seed:
        return normalise(seed)
    if not _DOMAIN.fullmatch(seed):
        raise BadRequest(f"{seed[:200]!r} is neither a URL nor a domain such as shop.example")
    return normalise(f"https://{seed}")


def licenses_of(response: Response) -> list[str]:
    """The URLs of licenses that the page names with ``rel=license``."""
    found: dict[str, None] = {}
    for node in response.tree.css("[rel~='license' i][href]"):
        try:
            found[response.urljoin(node.attributes["href"] or "")] = None
        except BadRequest:
            continue
    return list(found)
