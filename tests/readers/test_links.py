"""Links of every form: in SVG, without a value, and of elements that are no links."""

from __future__ import annotations

import pytest

from crawlframe import LinkExtractor
from crawlframe.errors import BadRequest, SpiderError
from crawlframe.markup.links import Nofollow
from crawlframe.testing import make_response

URL = "https://shop.example/a/b?c=1"


@pytest.mark.parametrize(
    ("html", "urls"),
    [
        ("<svg><a xlink:href='/x'>", ["/x"]),
        ("<svg><a href='/y' xlink:href='/x'>", ["/y"]),
        ("<svg><foreignObject><a href=/x xlink:href=/y>", ["/x"]),
        ("<a xlink:href=/n>", []),  # no SVG
        ("<math><a href=/n></a><mtext><b><a href=/x>", ["/x"]),
        ("<svg><math><a xlink:href=/x>", ["/x"]),  # an element of SVG in spite of its name
        ("<math><svg><a xlink:href=/n>", []),
        ("<svg><area href=/n><base href=/n/></svg><a href=x>", ["/a/x"]),
        ("<a href>", ["/a/b?c=1"]),
        ("<a href=''>", ["/a/b?c=1"]),
        ("<base href=/b/c><a href><area href='#top'>", ["/b/c"]),
        ("<base href=/b/c><svg><a xlink:href>", ["/b/c"]),
        ("<a>", []),
    ],
)
def test_links(html: str, urls: list[str]) -> None:
    expected = [f"https://shop.example{url}" for url in urls]
    page = make_response(URL, html=html)
    assert page.links() == expected
    assert page.judged.kept == expected
    assert [link.url for link in LinkExtractor().extract_links(page)] == expected
    nodes = [
        node for node in page.tree.css("a, area") if "/n" not in (node.html or "").split("<")[1]
    ]
    assert [*dict.fromkeys(one.url for one in page.follow_all(nodes))] == expected


@pytest.mark.parametrize("html", ["<svg><a xlink:href='/x'>", "<a href='/x'>"])
def test_a_link_of_any_parser_is_followed(html: str) -> None:
    page = make_response(URL, html=html)
    for link in (page.css("a")[0], page.tree.css_first("a"), page.soup.a):
        assert page.follow(link).url == "https://shop.example/x"


def test_what_has_no_address_is_not_followed() -> None:
    page = make_response(URL, html="<a><img src='' class=x>")
    for link in (*page.css("a, img"), *page.tree.css("a, img")):
        with pytest.raises(BadRequest, match="has no href"):
            page.follow(link)


def test_a_refused_link_without_a_value_counts() -> None:
    refused: list[int] = []
    page = make_response(
        URL, html="<svg><a xlink:href=/x rel=nofollow></a></svg><a href rel=nofollow>"
    )
    page.nofollow = Nofollow(lambda: refused.append(1))
    assert (page.links(), len(refused)) == ([], 2)


def test_an_attribute_of_any_name() -> None:
    page = make_response(URL, html="<a data.to:x=/x><a data.to:x>")
    assert LinkExtractor(attrs="data.to:x").extract_links(page)[0].url == "https://shop.example/x"
    with pytest.raises(SpiderError, match=r"LinkExtractor: attrs: '\[1x\]'"):
        LinkExtractor(attrs="1x")


def test_an_attribute_whose_name_xml_does_not_allow() -> None:
    page = make_response(URL, html="<a \x0b\x0bname=1 href=/x>")
    assert [one.url for one in page.follow_all(css="a")] == ["https://shop.example/x"]
