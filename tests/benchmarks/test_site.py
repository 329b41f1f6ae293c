"""The site of the standard job: always the same, complete, and with the numbers it declares."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
from parsel import Selector
from selectolax.lexbor import LexborHTMLParser

from benchmarks.standard.site import FEWEST, LINKS, Row, Site
from crawlframe.base.urls import join

URL = "http://127.0.0.1:8000/deep/"
PAGES = 500


@pytest.fixture(scope="module")
def site() -> Site:
    return Site(PAGES, URL)


def test_the_pages_are_the_same_each_time(site, tmp_path):
    site.write(tmp_path)
    assert len(list(tmp_path.glob("p/*.html"))) == PAGES
    for number in (0, 1, PAGES - 1):
        written = (tmp_path / "p" / f"{number}.html").read_text(encoding="utf-8")
        assert written == Site(PAGES, URL).page(number)
    assert site.page(7) != site.page(8)


def test_a_page_holds_what_its_row_says(site):
    for number in range(0, PAGES, 7):
        text = Selector(site.page(number))
        hrefs = text.css("a::attr(href)").getall()
        found = Row(
            url=site.url_of(number),
            title=text.css("title::text").get(""),
            h1=text.css("h1::text").get(""),
            price=Decimal(text.css("span.amount::text").get("")),
            date=text.css("time::attr(datetime)").get(""),
            author=text.css("span.author::text").get(""),
            links=len(hrefs),
        )
        assert found == site.row(number)
        joined = {join(found.url, href) for href in hrefs}
        assert joined == set(map(site.url_of, site.targets(number)))


def test_the_other_parser_reads_the_same(site):
    for number in range(0, PAGES, 50):
        page: Any = LexborHTMLParser(site.page(number).encode())
        row = site.row(number)
        assert page.css_first("title").text() == row.title
        assert page.css_first("h1").text() == row.h1
        assert page.css_first(".author").text() == row.author
        assert len(page.css("a[href]")) == row.links


@pytest.mark.parametrize("pages", [FEWEST, PAGES])
def test_every_page_is_reached_and_none_links_twice_to_another(pages):
    site = Site(pages, URL)
    seen, waiting = {0}, [0]
    for number in waiting:
        targets = site.targets(number)
        assert len(set(targets)) == len(targets)
        assert set(targets) <= set(range(pages))
        waiting += set(targets) - seen
        seen |= set(targets)
    assert seen == set(range(pages))


def test_pages_are_as_the_job_wants_them(site):
    sizes = [len(site.page(number).encode()) for number in range(0, PAGES, 10)]
    assert all(19_000 < size < 22_000 for size in sizes)
    assert sum(row.links for row in site.rows()) == LINKS * PAGES
    hrefs = Selector(site.page(3)).css("a::attr(href)").getall()
    assert {re.sub(r"(p/)?\d+\.html$", "", href) for href in hrefs} == {URL, "../", "/deep/", ""}


def test_a_site_too_small_for_its_links_is_refused():
    with pytest.raises(ValueError, match=f"63 pages is too small; take {FEWEST}"):
        Site(63, URL)
