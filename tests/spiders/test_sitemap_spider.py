"""SitemapSpider: its requests from sitemaps of every form, in bounded memory."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from crawlframe import Request, Response, SitemapSpider
from crawlframe.errors import ArgumentError, BodyTooLarge, SpiderError
from crawlframe.spider.spider import build
from crawlframe.spiders import body_text, sitemap, xml_elements
from crawlframe.spiders.sitemap_file import (
    MAX_LOCATION,
    Entry,
    SitemapFile,
    changed_since,
    since_when,
)
from crawlframe.testing import make_response, run

SITE = "https://shop.example"
URL = f"{SITE}/sitemap.xml"
NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)

PAGES = f"""<?xml version="1.0" encoding="UTF-8"?>
<!-- made by the shop --><urlset {NAMESPACE} xmlns:xhtml="http://www.w3.org/1999/xhtml"
 xmlns:image="http://www.google.com/schemas/sitemap-image/1.1">
<url><loc>{SITE}/product/1?a=1&amp;b=2</loc><lastmod>2026-11-22</lastmod>
<xhtml:link rel="alternate" hreflang="de" href="{SITE}/de/product/1"/><!-- no more -->
<image:image><image:loc>{SITE}/image/1.jpg</image:loc></image:image></url>
<url><loc> {SITE}/product/2 </loc><lastmod>2026-10-01T08:00:00+02:00</lastmod></url>
<url><lastmod>2026-11-22</lastmod></url><url><loc>{SITE}/about</loc></url>
</urlset>"""
INDEX = f"""<sitemapindex {NAMESPACE}>
<sitemap><loc>{SITE}/products.xml.gz</loc><lastmod>2026-11-22</lastmod></sitemap>
<sitemap><loc>/news.xml</loc><lastmod>2025-01-01</lastmod></sitemap></sitemapindex>"""


class Shop(SitemapSpider):
    name = "shop"
    sitemap_urls = (URL, f"{SITE}/robots.txt")
    sitemap_rules = (("/product/", "parse_product"), ("", "parse"))

    def parse(self, response: Response) -> None: ...

    def parse_product(self, response: Response) -> None: ...


def with_parts(**parts: Any) -> type[Shop]:
    return type("Other", (Shop,), {"name": "other", **parts})


def sitemap_of(body: str | bytes, url: str = URL, **more: Any) -> Response:
    text = body if isinstance(body, bytes) else body.encode()
    request = Request(url, "read_sitemap", **more)
    return make_response(url, body=text, headers={"Content-Type": "text/xml"}, request=request)


def found(spider: type[Shop], response: Response, **arguments: Any) -> list[str]:
    return [request.url for request in run(spider, response, arguments=arguments).requests]


def test_it_begins_with_its_sitemaps() -> None:
    requests = run(Shop).requests
    assert [request.url for request in requests] == [URL, f"{SITE}/robots.txt"]
    assert {request.callback for request in requests} == {"read_sitemap"}
    assert {request.options.max_body for request in requests} == {50 << 20}
    own = with_parts(settings={"max_body": 1000})
    assert {request.options.max_body for request in run(own).requests} == {None}


def test_pages_go_to_the_callback_of_the_first_rule() -> None:
    assert run(Shop, sitemap_of(PAGES)).requests == [
        Request(f"{SITE}/product/1?a=1&b=2", "parse_product"),
        Request(f"{SITE}/product/2", "parse_product"),
        Request(f"{SITE}/about", "parse"),
    ]
    assert len(found(with_parts(sitemap_rules=[("/product/", "parse")]), sitemap_of(PAGES))) == 2


def test_the_sitemaps_of_an_index_are_read() -> None:
    requests = run(Shop, sitemap_of(INDEX)).requests
    assert [request.url for request in requests] == [f"{SITE}/products.xml.gz", f"{SITE}/news.xml"]
    assert {request.callback for request in requests} == {"read_sitemap"}
    assert {request.priority for request in requests} == {-1}  # after the pages of others
    some = with_parts(sitemap_follow=["/products"])
    assert found(some, sitemap_of(INDEX)) == [f"{SITE}/products.xml.gz"]


def test_the_sitemaps_of_a_robots_txt_are_read() -> None:
    body = f"User-agent: *\nDisallow: /cart\nSitemap: {SITE}/a.xml\nSitemap: {SITE}/b.xml.gz\n"
    response = sitemap_of(body, f"{SITE}/robots.txt")
    assert found(Shop, response) == [f"{SITE}/a.xml", f"{SITE}/b.xml.gz"]


@pytest.mark.parametrize(
    "body",
    [
        gzip.compress(PAGES.encode()),
        gzip.compress(PAGES[:300].encode()) + gzip.compress(PAGES[300:].encode()),
        b"\xef\xbb\xbf" + PAGES.encode(),
        ("\ufeff" + PAGES.replace("UTF-8", "UTF-16")).encode("utf-16-le"),
        b"\n\n" + PAGES.partition("?>")[2].encode(),
        PAGES.replace(NAMESPACE, "").encode(),
        PAGES.replace(NAMESPACE, 'xmlns="http://www.google.com/schemas/sitemap/0.84"').encode(),
    ],
    ids=["gzip", "two members", "mark", "UTF-16", "blank lines", "no namespace", "another"],
)
def test_every_form_of_file(body: bytes) -> None:
    assert len(found(Shop, sitemap_of(body))) == 3


def test_a_sitemap_may_be_plain_text() -> None:
    assert found(Shop, sitemap_of(f"{SITE}/a\r\n\n  {SITE}/b\nnone\n{SITE}/c")) == [
        f"{SITE}/a", f"{SITE}/b", f"{SITE}/c"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("<html><p>Not found</p></html>", "is no sitemap: its outermost element is 'html'"),
        ("<!doctype html><html><p>Not found", "is no sitemap: its outermost element is 'html'"),
        ("not found", "is no sitemap: it has neither XML nor URLs"),
        ("", "is no sitemap"),
        ("<?xml version='1.0'?>", "is no sitemap"),
    ],
)
def test_what_is_no_sitemap_is_an_error(body: str, words: str) -> None:
    with pytest.raises(SpiderError) as caught:
        run(Shop, sitemap_of(body))
    assert URL in str(caught.value)
    assert words in str(caught.value)


def test_an_empty_sitemap_is_none() -> None:
    assert found(Shop, sitemap_of(f"<urlset {NAMESPACE}/>")) == []


@pytest.mark.parametrize(
    "body",
    [
        PAGES.removesuffix("</urlset>").encode(),
        PAGES.replace("&amp;", "&").encode(),
        gzip.compress(PAGES.encode())[:-8],
    ],
    ids=["cut off", "not well-formed", "cut-off gzip"],
)
def test_a_broken_one_is_read_as_far_as_possible_and_counted(body: bytes) -> None:
    result = run(Shop, sitemap_of(body))
    assert len(result.requests) == 3
    assert result.stats == {"broken_sitemaps": 1}


def test_alternate_links() -> None:
    spider = with_parts(sitemap_alternate_links=True)
    assert found(spider, sitemap_of(PAGES))[1] == f"{SITE}/de/product/1"


def test_since_leaves_out_what_has_not_changed() -> None:
    assert found(Shop, sitemap_of(PAGES), since="2026-11-01") == [
        f"{SITE}/product/1?a=1&b=2", f"{SITE}/about"
    ]  # fmt: skip
    assert found(Shop, sitemap_of(INDEX), since="2026-11-01") == [f"{SITE}/products.xml.gz"]
    assert len(found(Shop, sitemap_of(PAGES), since="9999w")) == 3


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-11-20", datetime(2026, 11, 20, tzinfo=UTC)),
        ("2026-11", datetime(2026, 11, 1, tzinfo=UTC)),
        ("2026-11-20T08:30Z", datetime(2026, 11, 20, 8, 30, tzinfo=UTC)),
        ("2026-11-20T08:30:00.5+02:00", datetime(2026, 11, 20, 6, 30, 0, 500000, tzinfo=UTC)),
        ("36h", datetime(2026, 11, 22, 0, tzinfo=UTC)),
        ("1w", datetime(2026, 11, 16, 12, tzinfo=UTC)),
        ("", None),
    ],
)
def test_since_is_a_date_a_time_or_an_age(text: str, instant: datetime | None) -> None:
    assert since_when(text, NOW) == instant
    build(Shop, {"since": text})


@pytest.mark.parametrize("text", ["yesterday", "2026-13", "20.11.2026", "7", "7y"])
def test_another_since_is_refused(text: str) -> None:
    with pytest.raises(SpiderError, match="neither a date"):
        since_when(text, NOW)
    if text != "2026-13":
        with pytest.raises(ArgumentError):
            build(Shop, {"since": text})


@pytest.mark.parametrize(
    ("lastmod", "changed"),
    [
        ("2026-11-23", True),  # later that day, perhaps
        ("2026-11-22", False),
        ("2026-11", True),
        ("2026", True),
        ("2025", False),
        ("2026-11-23T11:59:59Z", False),
        ("2026-11-23T13:00:00+01:00", True),
        ("2026-11-23T13:00:00+02:00", False),
        ("last week", True),
    ],
)
def test_lastmod(lastmod: str, changed: bool) -> None:
    assert changed_since(lastmod, NOW) is changed


def test_a_filter_chooses_entries() -> None:
    def chosen(self: Any, entries: Iterable[Entry]) -> Iterator[Entry]:
        for entry in entries:
            if entry.lastmod:
                yield entry._replace(loc=entry.loc + "#x")

    assert len(found(with_parts(sitemap_filter=chosen), sitemap_of(PAGES))) == 2


def urlset(number: int) -> bytes:
    rows = "".join(f"<url><loc>{SITE}/p/{i}</loc></url>" for i in range(number))
    return gzip.compress(f"<urlset {NAMESPACE}>{rows}</urlset>".encode())


def test_more_than_the_protocol_allows_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sitemap, "MAX_URLS", 4)
    body, part, pages = urlset(9), sitemap_of(urlset(9)), []
    for skip in (4, 8):
        *requests, more = run(Shop, part).requests
        pages += [request.url for request in requests]
        assert (more.url, more.callback, more.cb_kwargs) == (URL, "read_sitemap", {"skip": skip})
        assert more.dont_filter
        part = sitemap_of(body, cb_kwargs=more.cb_kwargs)
    pages += found(Shop, part)
    assert pages == [f"{SITE}/p/{i}" for i in range(9)]
    assert len(run(Shop, sitemap_of(urlset(4))).requests) == 4


def test_a_part_has_a_bounded_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sitemap, "MAX_LENGTH", 3 * len(f"{SITE}/p/0") - 1)
    *pages, more = run(Shop, sitemap_of(urlset(5))).requests
    assert [request.url for request in pages] == [f"{SITE}/p/{i}" for i in range(3)]
    assert more.cb_kwargs == {"skip": 3}


@pytest.mark.parametrize(
    ("arguments", "skip", "pages"), [({}, 0, 9), ({"since": "2026"}, 0, 0), ({}, 9, 0)]
)
def test_others_have_their_turn_meanwhile(
    monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], skip: int, pages: int
) -> None:
    """Also while entries are left out, or passed over."""
    monkeypatch.setattr(sitemap, "STEP", 0)
    body = "".join(f"<url><loc>{SITE}/p/{i}</loc><lastmod>2020</lastmod></url>" for i in range(9))
    spider, _ = build(Shop, arguments)
    assert isinstance(spider, Shop)
    turns = 0

    async def main() -> list[Request]:
        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        response = sitemap_of(f"<urlset {NAMESPACE}>{body}</urlset>")
        found = [request async for request in spider.read_sitemap(response, skip)]
        task.cancel()
        return found

    assert len(asyncio.run(main())) == pages
    assert turns >= 8


def test_a_filter_that_stops_ends_the_sitemap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sitemap, "MAX_URLS", 4)

    def chosen(self: Any, entries: Iterable[Entry]) -> Iterator[Entry]:
        for number, entry in enumerate(entries):
            if number == 2:
                return
            yield entry

    assert len(found(with_parts(sitemap_filter=chosen), sitemap_of(urlset(9)))) == 2


@pytest.mark.slow
def test_a_large_sitemap_needs_little_memory() -> None:
    text = "".join(f"<url><loc>{SITE}/{n:0400}</loc></url>" for n in range(10_000))  # 4.5 MB
    response = sitemap_of(gzip.compress(f"<urlset>{text}</urlset>".encode()))
    tracemalloc.start()
    try:
        assert sum(1 for _ in SitemapFile(response)) == 10_000
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()


def test_a_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_text, "MAX_UNPACKED", 1 << 20)
    with pytest.raises(BodyTooLarge, match="1,048,576 bytes unpacked"):
        run(Shop, sitemap_of(gzip.compress(b" " * (2 << 20))))


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"sitemap_urls": ()}, "sitemap_urls is empty"),
        ({"sitemap_urls": URL}, "sitemap_urls must be a list of URLs"),
        ({"sitemap_rules": ["/a/"]}, "sitemap_rules: rule 1 must be a pair"),
        ({"sitemap_rules": [("/a/", "parse"), ("", "pars")]}, "rule 2: the spider has no method"),
        ({"sitemap_rules": [("[", "parse")]}, "rule 1: '[' is not a regular expression"),
        ({"sitemap_follow": ["("]}, "sitemap_follow: '(' is not a regular expression"),
        ({"since": "soon"}, "since: 'soon' is neither a date"),
    ],
)
def test_wrong_parts_are_named_when_the_class_is_defined(parts: Any, words: str) -> None:
    with pytest.raises(SpiderError) as caught:
        with_parts(**parts)
    assert words in str(caught.value)


def test_parse_is_not_there_by_itself() -> None:
    with pytest.raises(SpiderError, match="no method 'parse'"):
        type("Bare", (SitemapSpider,), {"name": "bare", "sitemap_urls": [URL]})


def collect(spider: Shop, *responses: Response) -> list[list[Request]]:
    """Requests from sitemaps, in the groups that a worker has at the same time."""

    async def read(response: Response) -> list[Request]:
        return [request async for request in spider.read_sitemap(response)]

    async def main() -> list[list[Request]]:
        return await asyncio.gather(*map(read, responses))

    return asyncio.run(main())


def test_sitemaps_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    class Watching(Shop):
        name = "watching"

        def sitemap_filter(self, entries: Iterable[Entry]) -> Iterator[Entry]:
            for entry in entries:
                order.append(entry.loc.split("/")[3])
                yield entry

    monkeypatch.setattr(sitemap, "STEP", 0)
    texts = ["\n".join(f"{SITE}/{name}/{i}" for i in range(5)) for name in ("a", "b", "c")]
    found = collect(Watching(), *map(sitemap_of, texts))
    assert "".join(order) == "aaaaabbbbbccccc"
    assert [len(requests) for requests in found] == [5, 5, 5]


def test_one_that_waits_too_long_is_fetched_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sitemap, "TURN_TIMEOUT", 0.01)
    spider = Shop()

    async def main() -> list[Request]:
        async with spider._turn:
            part = sitemap_of(PAGES, cb_kwargs={"skip": 2})
            return [request async for request in spider.read_sitemap(part, 2)]

    (again,) = asyncio.run(main())
    assert (again.url, again.cb_kwargs, again.delay) == (URL, {"skip": 2}, 0.01)
    assert again.dont_filter
    assert len(collect(spider, sitemap_of(PAGES))[0]) == 3


def test_many_empty_members_of_a_gzip_file_are_passed_over() -> None:
    """In linear time: the rest of the file is not copied for each."""
    packed = gzip.compress(b"") * 30_000 + gzip.compress(f"{SITE}/1\n".encode())
    assert [entry.loc for entry in SitemapFile(sitemap_of(packed))] == [f"{SITE}/1"]


def test_members_of_a_gzip_file_of_all_sizes_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_text, "PIECE", 1 << 12)
    lines = [f"{SITE}/{number}" for number in range(20_000)]
    parts = ["\n".join(lines[a:b]) + "\n" for a, b in ((0, 1), (1, 40), (40, 19_000))]
    parts.append("\n".join(lines[19_000:]))
    packed = b"".join(gzip.compress(part.encode()) for part in parts)
    assert [entry.loc for entry in SitemapFile(sitemap_of(packed))] == lines


def test_a_line_that_never_ends_is_left_out() -> None:
    """In linear time, and bounded memory."""
    long = "h" * (MAX_LOCATION * 200)
    body = gzip.compress(f"{SITE}/1\n{long}\n{SITE}/2\n{long}".encode())
    tracemalloc.start()
    assert [entry.loc for entry in SitemapFile(sitemap_of(body))] == [f"{SITE}/1", f"{SITE}/2"]
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()


def test_a_file_without_entries_is_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xml_elements, "MAX_BETWEEN", 100_000)
    one, nothing = f"<url><loc>{SITE}/1</loc></url>", "<a/>" * 200_000
    file = SitemapFile(sitemap_of(f"<urlset>{one}{nothing}{one}</urlset>"))
    assert [entry.loc for entry in file] == [f"{SITE}/1"]
    assert "characters without the end of a url" in file.problem
