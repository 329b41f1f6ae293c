"""The comparison in words: both sets of HTML pages, and each difference with its explanation."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup, XMLParsedAsHTMLWarning

from benchmarks.realweb.crawls import HTML_TYPES, Crawl
from crawlframe.links import canonical

SHOWN = 20  # URLs per list, unless all are requested


class Report:
    """``equal`` is whether both reached the same HTML pages and all of ours are stored whole."""

    def __init__(self, theirs: Crawl, ours: Crawl, shown: int = SHOWN) -> None:
        self._theirs, self._ours, self._shown = theirs, ours, shown
        self._stored = {
            url: item for url, item in ours.items.items() if item["content_type"] in HTML_TYPES
        }
        self._only_theirs = theirs.pages.keys() - self._stored.keys()
        self._only_ours = self._stored.keys() - theirs.pages.keys()
        self._cut = {
            url
            for url, size in theirs.pages.items()
            if url in self._stored and self._stored[url]["size"] != size
        }
        self.equal = not (self._only_theirs or self._only_ours or self._cut)

    def lines(self) -> Iterator[str]:
        theirs, ours = self._theirs, self._ours
        both = len(theirs.pages.keys() & self._stored.keys())
        yield f"HTML pages: wget {len(theirs.pages)}, stored by us {len(self._stored)}, both {both}"
        yield f"  only wget: {len(self._only_theirs)}"
        yield from self._list(self._only_theirs, self._why_not_ours)
        yield f"  only ours: {len(self._only_ours)}"
        yield from self._list(self._only_ours, self._why_not_theirs)
        yield f"  stored with another size than wget got: {len(self._cut)}"
        yield from self._list(self._cut, lambda url: f"{theirs.pages[url]} bytes at wget")
        stored = Counter(
            item["content_type"] for url, item in ours.items.items() if url not in self._stored
        )
        yield f"other files: wget {len(theirs.others)} ({_counts(theirs.others.values())})"
        yield f"  stored by us {stored.total()} ({_counts(stored.elements())}); we do not fetch"
        yield "  what pages only embed: images, styles, scripts"
        yield f"answers from 400 on: wget {_counts(theirs.failures.values()) or 'none'}"
        yield f"  ours {_counts(ours.failures.values()) or 'none'}"
        missed = theirs.failures.keys() - ours.failures.keys()
        yield f"  only wget: {len(missed)}"
        yield from self._list(missed, lambda url: str(theirs.failures[url]))
        yield f"requests for a URL asked before: wget {theirs.repeats}, ours {ours.repeats}"
        yield f"time: wget {theirs.seconds:.1f} s, ours {ours.seconds:.1f} s with start and export"

    def _list(self, urls: Iterable[str], explain: Callable[[str], str]) -> Iterator[str]:
        ordered = sorted(urls)
        for url in ordered[: self._shown]:
            yield f"    {url}  ({explain(url)})"
        if len(ordered) > self._shown:
            yield f"    and {len(ordered) - self._shown} more (--all shows them)"

    def _why_not_ours(self, url: str) -> str:
        if url in self._ours.pages:
            return "we fetched it and did not store it"
        if url in self._ours.failures:
            return f"we got status {self._ours.failures[url]}"
        if any(canonical(url) == canonical(other) for other in self._stored):
            return "we stored it under the same URL with its query in another order"
        return "we never asked for it"

    def _why_not_theirs(self, url: str) -> str:
        if url in self._theirs.others:
            return f"wget got {self._theirs.others[url]}"
        if url in self._theirs.failures:
            return f"wget got status {self._theirs.failures[url]}"
        return "wget never asked for it"


def wrong_titles(ours: Crawl, root: Path) -> list[str]:
    """Pages whose stored title differs from the one BeautifulSoup reads from the file: charset
    mistakes."""
    wrong = []
    for url, item in ours.items.items():
        path = root / unquote(urlsplit(url).path).lstrip("/")
        path = path / "index.html" if path.is_dir() else path
        if item["content_type"] not in HTML_TYPES or not path.is_file():
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", XMLParsedAsHTMLWarning)  # as a browser does
            title = BeautifulSoup(path.read_bytes(), "lxml").title
        expected = " ".join(title.get_text().split()) if title else None
        if item["title"] != expected:
            wrong.append(f"{url}: stored {item['title']!r}, the file has {expected!r}")
    return wrong


def _counts(values: Iterable[object]) -> str:
    return ", ".join(f"{count} {value}" for value, count in Counter(values).most_common())
