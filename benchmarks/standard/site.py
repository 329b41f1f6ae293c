"""Site: the pages of the standard job and the values that a spider must find on each, always the
same.

Page 0 is the start; every page is reached from it, and none links to another twice. The wanted
values are in ``<title>``, ``<h1>``, ``<span class="amount">``, ``<time datetime>`` and ``<span
class="author">``; the links are the ``<a href>`` of the page, all in the site, 25 on average,
relative and absolute ones."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from html import escape
from pathlib import Path
from typing import NamedTuple

from benchmarks.standard.text import BLOCKS, FIRST, FOOT, HEAD, KINDS, LAST, THINGS, WORDS, block

FEWEST = 64  # pages: enough for the links of a page to differ
LINKS = 25  # on average
SPREAD = (-2, -1, 0, 1, 2)  # around that, page by page
SECTIONS = 13  # of a page
CHILDREN = 2  # links of a page that lead deeper: the pages form a tree, and more


class Row(NamedTuple):
    """The row of a page, as the database returns it."""

    url: str
    title: str
    h1: str
    price: Decimal
    date: str  # ISO
    author: str
    links: int


class Site:
    """``url`` is where the directory that ``write`` fills is served, with a slash at its end."""

    def __init__(self, pages: int, url: str) -> None:
        if pages < FEWEST:
            raise ValueError(f"a site of {pages} pages is too small; take {FEWEST} or more")
        self.pages = pages
        self.url = url
        self.start = self.url_of(0)

    def url_of(self, number: int) -> str:
        return f"{self.url}p/{number}.html"

    def rows(self) -> Iterator[Row]:
        """The rows that must be stored, page by page."""
        return map(self.row, range(self.pages))

    def row(self, number: int) -> Row:
        dice = random.Random(number)
        thing, kind = dice.choice(THINGS), dice.choice(KINDS)
        return Row(
            url=self.url_of(number),
            title=f"{thing} no. {number} & more | Bits <and> Pieces",
            h1=f"A {kind} {thing.lower()}, “no. {number}”",
            price=Decimal(dice.randrange(100, 500_000)).scaleb(-2),
            date=str(date(2015, 1, 1) + timedelta(days=dice.randrange(4000))),
            author=f"{dice.choice(FIRST)} {dice.choice(LAST)}",
            links=LINKS + SPREAD[number % len(SPREAD)],
        )

    def targets(self, number: int) -> list[int]:
        """The pages that a page links to: two deeper ones, and others, most of which a
        breadth-first crawl has seen."""
        dice = random.Random(f"links {number}")
        count = self.row(number).links
        first = CHILDREN * number + 1
        found = dict.fromkeys(range(first, min(first + CHILDREN, self.pages)))
        found[0] = None  # "home"
        while len(found) < count:
            # One in eight leads anywhere, the others to pages of lower numbers.
            anywhere = number < 2 * LINKS or dice.randrange(8) == 0
            found[dice.randrange(self.pages if anywhere else number)] = None
        targets = [*found]
        dice.shuffle(targets)
        return targets

    def page(self, number: int) -> str:
        """The HTML of a page, about 20 KB."""
        row = self.row(number)
        dice = random.Random(f"page {number}")
        links = [self._anchor(target, dice) for target in self.targets(number)]
        sections = [block(dice.randrange(BLOCKS)) for _ in range(SECTIONS)]
        title, h1, author = escape(row.title), escape(row.h1), escape(row.author)
        day = date.fromisoformat(row.date)
        return (
            "<!DOCTYPE html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n"
            f"<title>{title}</title>\n"
            f'<meta name="description" content="{h1}: {title}">\n{HEAD}'
            f"<script>window.page = {json.dumps({'id': number, 'h1': row.h1})};</script>\n</head>\n"
            f'<body class="item item-{number % 7}">\n<header><nav><ul>\n'
            + "".join(f"<li>{link}</li>\n" for link in links[:8])
            + f"</ul></nav></header>\n<main>\n<article>\n<h1>{h1}</h1>\n"
            f'<p class="meta">by <span class="author">{author}</span> on '
            f'<time datetime="{row.date}">{day:%d %B %Y}</time></p>\n'
            f'<p class="price"><span class="amount">{row.price}</span> EUR</p>\n'
            + "".join(
                f"{section}<p>See also {link}.</p>\n"
                for section, link in zip(sections, links[8 : 8 + SECTIONS], strict=True)
            )
            + '</article>\n<aside><ul class="related">\n'
            + "".join(f"<li>{link}</li>\n" for link in links[8 + SECTIONS :])
            + f"</ul></aside>\n</main>\n{FOOT}</body>\n</html>\n"
        )

    def _anchor(self, target: int, dice: random.Random) -> str:
        path = self.url.split("/", 3)[3]
        forms = (f"{target}.html", f"/{path}p/{target}.html", f"../p/{target}.html")
        href = dice.choice((*forms, self.url_of(target)))
        return f'<a class="link" href="{href}">{" ".join(dice.choices(WORDS, k=3))}</a>'

    def write(self, root: Path) -> None:
        """Writes all pages under ``root``/p/."""
        directory = root / "p"
        directory.mkdir(parents=True)
        for number in range(self.pages):
            (directory / f"{number}.html").write_text(self.page(number), encoding="utf-8")
