"""LinkExtractor: the same links as Scrapy's, and clear errors for wrong conditions."""

from __future__ import annotations

import re
from typing import Any

import pytest

from crawlframe import Link, LinkExtractor, Response
from crawlframe.errors import SpiderError
from crawlframe.markup.links import Nofollow
from crawlframe.testing import make_response

SHOP = """<!doctype html><html><head><title>Shop</title><base href="/shop/"></head><body>
<nav><a href="/">Home</a> <a href="?page=2" rel="next">Next <b>page</b></a></nav>
<ul class="products">
<li><a href="item/1">Teapot</a> <img src="/img/1.jpg" alt="">
<li><a href="item/2?b=2&a=1#reviews" rel="nofollow noopener">Kettle</a>
<li><a href=" item/3 ">Mug</a> <a href="item/1">again</a></ul>
<a href="/files/catalogue.PDF">Catalogue</a> <a href="mailto:us@shop.example">Write</a>
<a href="javascript:void(0)">Menu</a> <a name="top">Top</a> <a href="http://[broken">Broken</a>
<map><area href="https://maps.example.org/here" alt="Map"></map>
<a href="https://blog.shop.example/2026/11/">Blog</a><a href="//cdn.example.net/page">CDN</a>
<footer><a href="/imprint" data-href="/legal">Imprint</a></footer></body></html>"""
NEWS = """<html><body><div id=main><h2><a href="/2026/a.html">A</a></h2><h2><a href="/2026/b.html">B
</a></h2><p>see <a href="/2026/a.html?utm_source=x">a</a></div><div id="side">
<a href="/tags/x">x</a><a HREF='/tags/y'>y</a><iframe src="/embed/1"></iframe></div>
<a href="../up">up</a><a href="./here">here</a><a href="">empty</a>
<a href="#frag">frag</a></body></html>"""
FORUM = """<html><head><link rel="canonical" href="/t/1"></head><body><table><tr><td><a
href="viewtopic.php?t=1&amp;start=20">2</a><td><a href="viewtopic.php?t=1&start=40">3</a><tr><td>
<a href="viewtopic.php?start=20&t=1">2</a></table><a href="/member/J%C3%BCrgen">J\u00fcrgen</a>
<a href="/member/J\u00fcrgen">J\u00fcrgen</a><a href="/a b">space</a></body></html>"""
PAGES = {
    "http://www.shop.example/shop/index.html": SHOP,
    "https://news.example.com/2026/": NEWS,
    "http://forum.example.org/board/": FORUM,
}


def page(html: str = SHOP, url: str = "http://www.shop.example/shop/index.html") -> Response:
    return make_response(url, html=html)


def urls(response: Response, *conditions: Any, **more: Any) -> list[str]:
    return [link.url for link in LinkExtractor(*conditions, **more).extract_links(response)]


SITE = "http://www.shop.example"


def test_all_links_once_in_the_order_of_the_page() -> None:
    assert urls(page()) == [
        f"{SITE}/",
        f"{SITE}/shop/?page=2",
        f"{SITE}/shop/item/1",
        f"{SITE}/shop/item/2?b=2&a=1",
        f"{SITE}/shop/item/3",
        "https://maps.example.org/here",
        "https://blog.shop.example/2026/11/",
        "http://cdn.example.net/page",
        f"{SITE}/imprint",
    ]


def test_a_link_has_text_and_relation() -> None:
    links = LinkExtractor(r"page=|item/2").extract_links(page())
    assert links == [
        Link(f"{SITE}/shop/?page=2", "Next page", False),
        Link(f"{SITE}/shop/item/2?b=2&a=1", "Kettle", True),
    ]


@pytest.mark.parametrize(
    ("conditions", "paths"),
    [
        ({"allow": r"/item/\d"}, ["1", "2", "3"]),
        ({"allow": (r"item/1", re.compile("ITEM/3", re.I))}, ["1", "3"]),
        ({"allow": r"/item/", "deny": (r"\?", "3$")}, ["1"]),
        ({"restrict_css": "ul.products"}, ["1", "2", "3"]),
        ({"restrict_css": (".none", "li:nth-child(2), li:nth-child(3)")}, ["2", "3", "1"]),
        ({"restrict_xpaths": "//li[contains(., 'Mug')]"}, ["3", "1"]),
        ({"restrict_xpaths": "//a[.='Mug']", "restrict_css": "li:first-child"}, ["1", "3"]),
        ({"restrict_text": "^(Kettle|Mug)$"}, ["2", "3"]),
        ({"allow": "item", "restrict_text": "again"}, ["1"]),
    ],
)
def test_conditions(conditions: dict[str, Any], paths: list[str]) -> None:
    found = [url.partition("/item/")[2].partition("?")[0] for url in urls(page(), **conditions)]
    assert found == paths


def test_domains_include_what_is_below_them() -> None:
    assert urls(page(), allow_domains="shop.example", deny=r"www\.") == [
        "https://blog.shop.example/2026/11/"
    ]
    assert urls(page(), deny_domains=("shop.example", "EXAMPLE.org")) == [
        "http://cdn.example.net/page"
    ]
    assert not LinkExtractor(allow_domains="shop.example").matches("http://workshop.example/")


def test_extensions() -> None:
    assert urls(page(), allow="files") == []
    assert urls(page(), allow="files", deny_extensions=()) == [f"{SITE}/files/catalogue.PDF"]
    assert urls(page(), allow="files", deny_extensions=["doc", ".pdf"]) == []
    assert LinkExtractor().matches("http://a.example/?file=a.pdf")


def test_other_elements_and_attributes() -> None:
    assert urls(page(), tags="img", attrs="src", deny_extensions=()) == [f"{SITE}/img/1.jpg"]
    assert urls(page(), attrs=("href", "data-href"), restrict_css="footer") == [
        f"{SITE}/imprint",
        f"{SITE}/legal",
    ]


def test_process_value_finds_the_link_in_an_attribute() -> None:
    html = """<a href="javascript:go('/a')">a</a><a href="javascript:go()">b</a>"""

    def target(value: str) -> str | None:
        match = re.search(r"go\('(.+?)'\)", value)
        return match[1] if match else None

    assert urls(page(html), process_value=target) == [f"{SITE}/a"]


def test_canonical_urls() -> None:
    html = '<a href="?b=1&a=2">first</a><a href="?a=2&b=1">second</a>'
    links = LinkExtractor(canonicalize=True).extract_links(page(html, f"{SITE}/"))
    assert links == [Link(f"{SITE}/?a=2&b=1", "first")]
    assert len(urls(page(html))) == 2


def test_only_html_has_links() -> None:
    assert urls(make_response(json={"a": "<a href=/b>"})) == []


def test_nofollow_links_are_left_out_and_counted_if_the_spider_obeys_it() -> None:
    refused: list[None] = []
    response = page()
    response.nofollow = Nofollow(lambda: refused.append(None))
    assert f"{SITE}/shop/item/2?b=2&a=1" not in urls(response)
    assert len(refused) == 1


def test_links_are_followed_as_they_are() -> None:
    response = page()
    links = LinkExtractor(r"/item/").extract_links(response)
    assert [request.url for request in response.follow_all(links)] == [link.url for link in links]
    assert response.follow(links[0]).url == links[0].url
    response.nofollow = Nofollow(lambda: None)
    assert len([*response.follow_all(links)]) == 2


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        ({"allow": "item["}, "allow: 'item[' is not a regular expression: "),
        ({"deny": [3]}, "deny: must be regular expressions, one or a list, not [3]"),
        ({"restrict_css": "a::text"}, "restrict_css: 'a::text': "),
        ({"restrict_xpaths": "//a["}, "restrict_xpaths: '//a[': "),
        ({"allow_domains": "https://a.example"}, "'https://a.example' is not a host name"),
        ({"deny_domains": ["a.example", ""]}, "deny_domains: '' is not a name"),
        ({"tags": ()}, "tags and attrs must name at least one each"),
        ({"process_value": "x"}, "process_value must be a function"),
    ],
)
def test_wrong_conditions_are_named(conditions: dict[str, Any], words: str) -> None:
    with pytest.raises(SpiderError) as caught:
        LinkExtractor(**conditions)
    assert str(caught.value).startswith("LinkExtractor: ")
    assert words in str(caught.value)


@pytest.mark.parametrize("url", PAGES)
@pytest.mark.parametrize(
    "conditions",
    [
        {},
        {"allow": r"\d"},
        {"deny": r"/tags/|page="},
        {"allow_domains": ["shop.example", "example.com"]},
        {"deny_domains": "example.org"},
        {"restrict_css": "ul, #main"},
        {"restrict_xpaths": ["//table", "//nav", "//div[@id='side']"]},
        {"restrict_text": "[A-Z]"},
        {"tags": ("a", "iframe", "link"), "attrs": ("href", "src")},
        {"deny_extensions": []},
        {"canonicalize": True},
    ],
    ids=str,
)
def test_links_are_the_same_as_scrapys(url: str, conditions: dict[str, Any]) -> None:
    """Except fragments, which no URL has here."""
    scrapy = pytest.importorskip("scrapy.linkextractors")
    http = pytest.importorskip("scrapy.http")
    body = PAGES[url].encode()
    headers = {"Content-Type": "text/html; charset=utf-8"}
    theirs = scrapy.LinkExtractor(**conditions).extract_links(
        http.HtmlResponse(url, headers=headers, body=body, encoding="utf-8")
    )
    ours = LinkExtractor(**conditions).extract_links(make_response(url, html=PAGES[url]))
    expected = dict.fromkeys((link.url.partition("#")[0], link.nofollow) for link in theirs)
    assert [(link.url, link.nofollow) for link in ours] == [*expected]
