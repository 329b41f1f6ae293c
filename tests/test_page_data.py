"""response.data: JSON-LD, microdata and OpenGraph of a page."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from crawlframe import Response
from crawlframe.errors import TooComplex
from crawlframe.testing import make_response, run
from tests.howto import spider_of

URL = "https://shop.example/books/1"


def page(html: str) -> Response:
    return make_response(URL, html=html)


def block(text: str, kind: str = "application/ld+json") -> str:
    return f'<script type="{kind}">{text}</script>'


# -- JSON-LD --------------------------------------------------------------------------------------


def test_json_ld_is_as_the_page_has_it() -> None:
    first = {"@context": "https://schema.org", "@type": "Book", "name": "<b> & \u00fc"}
    html = block(json.dumps(first)) + block("{}", "text/javascript") + block('[{"a": 1}, {"b": 2}]')
    data = page(html + block('{"c": 3}', "Application/LD+JSON; charset=utf-8")).data
    assert data.json_ld == [first, {"a": 1}, {"b": 2}, {"c": 3}]
    assert data.errors == []


@pytest.mark.parametrize(
    "text",
    [
        '<!-- {"a": "b\nc"} -->',
        '//<![CDATA[\n{"a": "b\nc"}\n//]]>',
        '/* <![CDATA[ */ {"a": "b\nc"} /* ]]> */',
        ' {"a": "b\nc"}; ',
        "{&quot;a&quot;: &quot;b\nc&quot;}",
    ],
)
def test_common_mistakes_around_json_ld_are_read(text: str) -> None:
    assert page(block(text)).data.json_ld == [{"a": "b\nc"}]


def test_json_ld_that_is_wrong_is_named_and_the_rest_is_read() -> None:
    data = page(block('{"a": ') + block('"text"') + block("[" * 100_000) + block('{"b": 1}')).data
    assert data.json_ld == [{"b": 1}]
    assert len(data.errors) == 3
    assert "it starts '{\"a\":'" in data.errors[0]
    assert data.errors[1].startswith("it is no object")


def test_a_block_of_blanks_takes_no_time() -> None:
    """The time limit of tests notices."""
    data = page(block(" " * 300_000 + "x")).data
    assert (data.json_ld, len(data.errors)) == ([], 1)


# -- microdata ------------------------------------------------------------------------------------

PRODUCT = """
<base href="/static/">
<div itemscope itemtype="https://schema.org/Product https://schema.org/Thing" itemid="urn:isbn:1">
  <h1 itemprop="name alternateName"> A
    <b>book</b></h1>
  <img itemprop="image" src="a.png"><img itemprop="image" src="https://cdn.example/b.png">
  <a itemprop="url" href="../x">x</a>
  <time itemprop="releaseDate" datetime="2026-01-31">January</time>
  <data itemprop="sku" value="7">seven</data><meta itemprop="color" content="red">
  <span itemprop="width" content="3">three</span><p itemprop="note"></p>
  <div itemprop="offers" itemscope itemtype="https://schema.org/Offer">
    <b itemprop="price">5.50</b><p itemprop="seller" itemscope><i itemprop="name">S</i></p>
  </div>
</div>
<p itemprop="stray">not of an item</p>"""


def test_microdata() -> None:
    [product] = page(PRODUCT).data.microdata
    assert product == {
        "@context": "https://schema.org",
        "@type": ["Product", "Thing"],
        "@id": "urn:isbn:1",
        "name": "A book",
        "alternateName": "A book",
        "image": ["https://shop.example/static/a.png", "https://cdn.example/b.png"],
        "url": "https://shop.example/x",
        "releaseDate": "2026-01-31",
        "sku": "7",
        "color": "red",
        "width": "3",
        "note": "",
        "offers": {
            "@context": "https://schema.org",
            "@type": "Offer",
            "price": "5.50",
            "seller": {"name": "S"},
        },
    }


def test_properties_elsewhere_on_the_page() -> None:
    html = """<div itemscope itemref="more none" itemtype="http://example.org/v#a"></div>
    <div id=more itemprop=box>B<i itemprop=in>I</i><p itemscope><i itemprop=other>O</i></p></div>"""
    assert page(html).data.microdata == [
        {"@context": "http://example.org/v#", "@type": "a", "box": "BIO", "in": "I"},
        {"other": "O"},
    ]


def test_an_item_may_not_contain_itself() -> None:
    own = "<p itemscope itemref=x></p><p id=x itemscope itemprop=p itemref=x></p>"
    ring = """<p itemscope itemref=a></p>
    <p id=a itemprop=p itemscope itemref=b></p><p id=b itemprop=q itemscope itemref=a></p>"""
    for html in (own, ring):
        with pytest.raises(TooComplex, match=f"{URL}: an item of its microdata contains itself"):
            _ = page(html).data.microdata


def test_items_that_grow_when_they_are_written_out_are_refused() -> None:
    doubled = "<div itemprop='a b' itemscope>"
    page("<div itemscope>" + doubled * 10).data.microdata  # noqa: B018
    with pytest.raises(TooComplex, match="its microdata has more than 200000 values"):
        _ = page("<div itemscope>" + doubled * 40).data.microdata
    many = "".join(f"<i itemprop=p>{n}</i>" for n in range(500))
    html = f"<div id=x>{many}</div>" + "<p itemscope itemref=x></p>" * 500
    with pytest.raises(TooComplex, match="more than 200000 values"):
        _ = page(html).data.microdata
    nested = "<div itemscope>" + "<div itemprop=a>" * 300 + "x" * 200_000
    with pytest.raises(TooComplex, match="are longer than"):
        _ = page(nested).data.microdata


def test_microdata_that_is_deep() -> None:
    depth = min(1500, sys.getrecursionlimit() + 400)
    [item] = page("<div itemscope>" + "<div itemprop=a itemscope>" * depth).data.microdata
    for _ in range(depth):
        item = item["a"]
    assert item == {}


# -- OpenGraph ------------------------------------------------------------------------------------


def test_opengraph() -> None:
    html = """<meta property="og:title" content=T><meta property="og:image" content="/a.png">
    <meta property="OG:image" content="/b.png"><meta property="og:url">
    <meta name="og:type" content=x><meta name=description content=no>
    <meta property="product:price:amount" content=5>"""
    assert page(html).data.opengraph == {
        "og:title": "T",
        "og:image": ["/a.png", "/b.png"],
        "og:type": "x",
        "product:price:amount": "5",
    }


# -- all of them ----------------------------------------------------------------------------------


def test_find() -> None:
    graph = {
        "@graph": [
            {"@type": "schema:Person", "name": "1"},
            {
                "@type": ["Thing", "https://schema.org/Book"],
                "author": {"@type": "Person", "name": 2},
            },
        ]
    }
    micro = '<p itemscope itemtype="https://schema.org/Person"><i itemprop=name>3</i></p>'
    data = page(micro + block(json.dumps(graph))).data
    assert [str(one["name"]) for one in data.find("Person")] == ["1", "2", "3"]
    assert data.find("Book") == data.find("https://schema.org/Book") == [graph["@graph"][1]]
    assert data.find("Nothing") == []


@pytest.mark.parametrize("given", [{"json": {"a": 1}}, {"body": b"\0"}, {"text": "<p itemscope>"}])
def test_what_is_not_html_has_no_data(given: dict[str, Any]) -> None:
    data = make_response(URL, **given).data
    assert (data.json_ld, data.microdata, data.opengraph, data.find("a")) == ([], [], {}, [])


def test_it_is_read_once() -> None:
    response = page(PRODUCT)
    assert response.data is response.data
    assert response.data.microdata is response.data.microdata


def test_the_example() -> None:
    html = PRODUCT + block('{"@type": "Product", "name": "L", "offers": {"price": 3}}')
    html += '<meta property="og:image" content="/a.png">'
    result = run(spider_of("howto/page-data.md", "catalogue"), page(html))
    assert result.items == [
        {"name": "L", "price": 3, "image": "/a.png"},
        {"name": "A book", "price": "5.50", "image": "/a.png"},
    ]
