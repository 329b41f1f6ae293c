"""Words: what the crawl of another program is told, and the rows that it writes. Needs nothing but
Python, because it runs in the environments of the contenders."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import NamedTuple

EVIL_TIMEOUT, TIMEOUT = 4.0, 60.0  # seconds of a page, as in benchmarks/browser/spiders/cards.py
EVIL_RETRIES, RETRIES = 2, 8


class Words(NamedTuple):
    """``rows`` is the file of the results, ``program`` the browser, ``at_once`` the pages that it
    renders at a time. ``evil``: the kinds of the pages that do harm."""

    site: str
    pages: int
    evil: list[str]
    rows: str
    program: str
    at_once: int
    root: bool

    @classmethod
    def heard(cls) -> Words:
        """Those of the command line."""
        return cls(**json.loads(sys.argv[1]))

    def urls(self) -> list[tuple[str, bool]]:
        """The pages, and whether each does harm."""
        found = []
        for number in range(self.pages):
            kind = number * 13 % 20
            if kind < len(self.evil):
                host = self.site.replace("127.0.0.1", f"evil{number}.localhost")
                found.append((f"{host}{self.evil[kind]}/{number}", True))
            else:
                found.append((f"{self.site}cards/{number}", False))
        return found

    @property
    def flags(self) -> list[str]:
        return ["--no-sandbox"] if self.root else []


class Rows:
    """Appends the result of each page as a line: its URL, its cards, or why it failed."""

    def __init__(self, words: Words) -> None:
        self._path = Path(words.rows)

    def page(self, url: str, html: str) -> None:
        self._add(url, html.count('class="card"'), "")

    def failed(self, url: str, error: object) -> None:
        self._add(url, 0, type(error).__name__)

    def _add(self, *row: object) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(row) + "\n")
