"""XMLFeedSpider and CSVFeedSpider: entries of feeds of every form."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from crawlframe import CSVFeedSpider, Request, Response, XMLFeedSpider
from crawlframe.errors import SpiderError
from crawlframe.spiders import feeds
from crawlframe.spiders.xml_elements import XmlElements
from crawlframe.testing import make_response, run

URL = "https://shop.example/feed"
RSS = """<?xml version="1.0"?><rss version="2.0" xmlns:g="http://base.google.com/ns/1.0"
 xmlns:media="http://search.yahoo.com/mrss/"><channel><title>Shop</title>
<item><title>Teapot</title><link>/teapot</link><g:price>9 EUR</g:price>
<media:group><title>Not this</title></media:group></item>
<item><title>Kettle &amp; lid</title><link>/kettle</link><g:price>12 EUR</g:price></item>
</channel></rss>"""
ATOM = """<?xml version="1.0" encoding="ISO-8859-1"?><feed xmlns="http://www.w3.org/2005/Atom"
xmlns:dc="http://purl.org/dc/elements/1.1/"><title>News</title>
<entry><title>Stra\u00dfe</title><dc:creator>Ann</dc:creator><content type="xhtml">
<div xmlns="http://www.w3.org/1999/xhtml">text</div></content></entry></feed>"""


def body(text: str | bytes, kind: str = "text/xml", url: str = URL) -> Response:
    data = text if isinstance(text, bytes) else text.encode()
    return make_response(url, body=data, headers={"Content-Type": kind})


class Shop(XMLFeedSpider):
    name = "shop"
    start_urls = (URL,)

    def parse_node(self, response: Response, node: Any) -> Any:
        price = node.xpath("g:price/text()").get()
        return {"title": node.xpath("title/text()").getall(), "price": price}


def other(base: type[Any], **parts: Any) -> type[Any]:
    return type("Other", (base,), {"name": "other", **parts})


def test_rss() -> None:
    assert run(Shop).requests == [Request(URL)]
    assert run(Shop, body(RSS)).items == [
        {"title": ["Teapot"], "price": "9 EUR"},
        {"title": ["Kettle & lid"], "price": "12 EUR"},
    ]


def test_a_default_namespace_is_not_in_the_way() -> None:
    def parse_node(self: Any, response: Response, node: Any) -> Iterator[Any]:
        yield {
            "title": node.css("title::text").get(),
            "creator": node.xpath("dc:creator/text()").get(),
            "text": node.xpath("content/h:div/text()").get(),
        }

    html = {"h": "http://www.w3.org/1999/xhtml"}
    spider = other(XMLFeedSpider, itertag="entry", parse_node=parse_node, namespaces=html)
    assert run(spider, body(ATOM.encode("iso-8859-1"))).items == [
        {"title": "Stra\u00dfe", "creator": "Ann", "text": "text"}
    ]


def test_a_prefix_keeps_to_one_namespace() -> None:
    def parse_node(self: Any, response: Response, node: Any) -> Any:
        return {"text": node.xpath("string(m:title | title)").get()}

    media = {"m": "http://search.yahoo.com/mrss/"}
    spider = other(XMLFeedSpider, itertag="m:group", parse_node=parse_node, namespaces=media)
    assert run(spider, body(RSS)).items == [{"text": "Not this"}]


def test_links_in_a_feed_are_followed() -> None:
    def parse_node(self: Any, response: Response, node: Any) -> Any:
        return response.follow(node.xpath("link/text()").get(), "parse_page")

    spider = other(XMLFeedSpider, parse_node=parse_node, parse_page=lambda self, response: None)
    assert [request.url for request in run(spider, body(RSS)).requests] == [
        "https://shop.example/teapot", "https://shop.example/kettle"
    ]  # fmt: skip


def test_async_methods() -> None:
    async def parse_node(self: Any, response: Response, node: Any) -> AsyncIterator[Any]:
        yield {"title": node.css("title::text").get()}

    async def parse_row(self: Any, response: Response, row: dict[str, str]) -> Any:
        return row

    assert len(run(other(XMLFeedSpider, parse_node=parse_node), body(RSS)).items) == 2
    assert run(other(CSVFeedSpider, parse_row=parse_row), body("a\n1\n")).items == [{"a": "1"}]


@pytest.mark.parametrize(
    "text",
    [RSS.replace("&amp;", "&"), RSS[:-17], gzip.compress(RSS.encode())[:-8]],
    ids=["not well-formed", "cut off", "cut-off gzip"],
)
def test_a_broken_feed_is_read_as_far_as_possible_and_counted(text: str | bytes) -> None:
    result = run(Shop, body(text))
    assert len(result.items) == 2
    assert result.stats == {"broken_feeds": 1}


@pytest.mark.parametrize("text", ["", "not found", '{"error": 404}'])
def test_what_is_no_xml_is_an_error(text: str) -> None:
    with pytest.raises(SpiderError, match=f"{URL} is no XML: "):
        run(Shop, body(text))


def test_entities_load_no_file_and_are_no_bomb() -> None:
    def parse_node(self: Any, response: Response, node: Any) -> Any:
        return {"text": node.xpath("string(title)").get()}

    spider = other(XMLFeedSpider, parse_node=parse_node)
    item = "<r><item><title>&e9;</title></item></r>"
    file = body(f'<!DOCTYPE r [<!ENTITY e9 SYSTEM "file:///etc/passwd">]>{item}')
    assert "root" not in run(spider, file).items[0]["text"]
    tens = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 10))
    result = run(spider, body(f'<!DOCTYPE r [<!ENTITY e0 "bomb">{tens}]>{item}'))
    assert (result.items, result.stats) == ([{"text": "&e9;"}], {"broken_feeds": 1})


def test_elements_inside_of_each_other_are_one() -> None:
    elements = XmlElements(["<a><b>1<b>2</b></b><c/><b>3</b></a>"], ["{*}b"])
    assert ["".join(element.itertext()) for element in elements] == ["12", "3"]


@pytest.mark.slow
def test_a_large_feed_needs_little_memory() -> None:
    text = "<r>" + f"<item><title>{'x' * 200}</title></item>" * 10_000 + "</r>"  # 2.3 MB
    tracemalloc.start()
    try:
        pieces = (text[at : at + 65536] for at in range(0, len(text), 65536))
        assert sum(1 for _ in XmlElements(pieces, ["{*}item"])) == 10_000
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


class Prices(CSVFeedSpider):
    name = "prices"

    def parse_row(self, response: Response, row: dict[str, str]) -> Iterator[Any]:
        yield row


@pytest.mark.parametrize(
    "text",
    [
        'name,price\n"Tea, black",9\nMilk,1\n',
        'name,price\r\n"Tea, black",9\r\n\r\nMilk,1',
        'name,price\r"Tea, black",9\rMilk,1\r',
        '\ufeffname,price\n"Tea, black",9\nMilk,1\n',
        gzip.compress(b'name,price\n"Tea, black",9\nMilk,1\n'),
    ],
    ids=["lines", "CRLF", "CR", "mark", "gzip"],
)
def test_csv(text: str | bytes) -> None:
    assert run(Prices, body(text, "text/csv")).items == [
        {"name": "Tea, black", "price": "9"},
        {"name": "Milk", "price": "1"},
    ]


def test_csv_of_another_form() -> None:
    spider = other(Prices, delimiter=";", quotechar="'", headers=("name", "price"))
    text = "'T\u00fcr; blau';9\nzwei\nZeilen;1\n'a\n\u2028b';2"
    result = run(spider, body(text.encode("utf-8"), "text/csv"))
    assert result.items == [
        {"name": "T\u00fcr; blau", "price": "9"},
        {"name": "Zeilen", "price": "1"},
        {"name": "a\n\u2028b", "price": "2"},
    ]
    assert result.stats == {"wrong_rows": 1}


def test_csv_is_decoded_as_it_declares() -> None:
    text = "name\n\u041c\u043e\u0441\u043a\u0432\u0430\n".encode("cp1251")
    result = run(Prices, body(text, "text/csv; charset=windows-1251"))
    assert result.items == [{"name": "\u041c\u043e\u0441\u043a\u0432\u0430"}]


def test_lines_across_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawlframe.spiders.body_text.PIECE", 3)
    rows = [f"{i},\u00e9{'x' * i}" for i in range(20)]
    result = run(Prices, body("\r\n".join(["id,text", *rows]), "text/csv"))
    assert [f"{item['id']},{item['text']}" for item in result.items] == rows


def test_a_field_that_is_too_long_is_an_error_with_its_line() -> None:
    with pytest.raises(SpiderError, match=r"feed: line \d+: field larger than field limit"):
        run(Prices, body('a\n"' + "xx\n" * 1_500_000, "text/csv"))


@pytest.mark.parametrize(
    ("base", "parts", "words"),
    [
        (XMLFeedSpider, {}, "no method parse_node(self, response, node)"),
        (Shop, {"namespaces": [("g", "http://x")]}, "namespaces must be a dict"),
        (Shop, {"itertag": "g:item"}, "itertag: namespaces lacks 'g'"),
        (Shop, {"iterator": "html"}, "iterator: that is Scrapy's name; feeds are always read"),
        (Shop, {"process_results": print}, "process_results: that is Scrapy's name"),
        (CSVFeedSpider, {}, "no method parse_row(self, response, row)"),
        (Prices, {"delimiter": "||"}, "delimiter must be one character, not '||'"),
        (Prices, {"headers": "id,price"}, "headers must be a list of names"),
        (Prices, {"adapt_response": print}, "adapt_response: that is Scrapy's name"),
    ],
)
def test_wrong_parts_are_named_when_the_class_is_defined(
    base: type[Any], parts: dict[str, Any], words: str
) -> None:
    with pytest.raises(SpiderError) as caught:
        other(base, **parts)
    assert str(caught.value).startswith("spider 'other'")
    assert words in str(caught.value)


def test_a_line_of_a_csv_file_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    class Rows(CSVFeedSpider):
        name = "rows"
        start_urls = (URL,)

        def parse_row(self, response: Response, row: dict[str, str]) -> Any:
            yield row

    monkeypatch.setattr(feeds, "MAX_LINE", 100_000)
    with pytest.raises(SpiderError, match="it has more than 100,000 characters"):
        run(Rows, body("a,b\n" + "x," * 200_000, "text/csv"))


def test_a_field_may_be_as_long_as_a_line() -> None:
    class Texts(CSVFeedSpider):
        name = "texts"
        start_urls = (URL,)

        def parse_row(self, response: Response, row: dict[str, str]) -> Any:
            yield {name: len(text) for name, text in row.items()}

    for length in (131_072, 131_073, 1_000_000):
        for quoted in ("{}", '"{}"', '"\n{}"'):
            text = quoted.format("x" * length)
            assert run(Texts, body(f"a,b\n1,{text}\n", "text/csv")).items == [
                {"a": 1, "b": len(text.strip('"'))}
            ]


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("price,price", ["price", "price_2"]),
        ("price,price,price,id", ["price", "price_2", "price_3", "id"]),
        ("price,price_2,price", ["price", "price_2", "price_3"]),
        ("price_2,price,price", ["price_2", "price", "price_3"]),
        ("a,a,a_2,a", ["a", "a_2", "a_2_2", "a_3"]),
        ("id,,", ["id", "", "_2"]),
    ],
)
def test_columns_of_one_name_are_told_apart(header: str, columns: list[str]) -> None:
    class Rows(CSVFeedSpider):
        name = "rows"
        start_urls = (URL,)

        def parse_row(self, response: Response, row: dict[str, str]) -> Any:
            yield row

    values = [str(number) for number in range(len(columns))]
    text = ",".join(values)
    found = run(Rows, body(f"{header}\n{text}\n", "text/csv")).items
    assert found == [dict(zip(columns, values, strict=True))]

    class Named(Rows):
        name = "named"
        headers = header.split(",")

    assert run(Named, body(f"{text}\n", "text/csv")).items == found
