"""SiteSpider: the pages that it reaches, and their items."""

from __future__ import annotations

from typing import Any

import pytest

from crawlframe.errors import ArgumentError, BadRequest
from crawlframe.spider.spider import build, describe
from spiders.site import REFRESH, SiteSpider
from tests.spiders.driver import Crawl
from tests.spiders.web import Answer, Web, redirect


def page(body: str = "", head: str = "") -> Answer:
    return Answer(f"<!DOCTYPE html><html><head>{head}</head><body>{body}</body></html>")


def crawl(answers: dict[str, Answer], start: str = "/", **arguments: Any) -> dict[str, Any]:
    """The items by path and query."""
    with Web(answers) as web:
        items = Crawl(SiteSpider, url=web.url + start, **arguments).items
    found = {item["url"].removeprefix(web.url): item for item in items}
    assert len(found) == len(items), "a page is stored twice"
    return found


def test_every_way_to_lead_to_a_page_is_followed() -> None:
    answers = {
        "/": page(
            "<a href=a.html>a</a> <map><area href='b.html#top'></map><iframe src=c.html></iframe>"
            "<svg><a href='g.html'></a></svg><noscript><a href=h.html></a></noscript>",
            "<link rel=next href=d.html><link rel='alternate' hreflang=de href=e.html>"
            "<link rel=search title=Search href=f.html>",
        ),
        "/f.html": Answer("<META HTTP-EQUIV='Refresh' CONTENT=' 5 ; URL = \"i.html\"'>"),
        "/c.html": Answer("<frameset><frame src=j.html><frame src=k.html></frameset>"),
        "/i.html": Answer("<html xmlns='x'><body><a href='l.html'>l</a>", "application/xhtml+xml"),
    }
    for name in "abdeghjkl":
        answers[f"/{name}.html"] = page(name)
    assert crawl(answers).keys() == answers.keys()


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("0;/x", "/x"),
        ("0; x/y", "x/y"),
        ("3,x", "x"),
        ("0 x", "x"),
        ("1.5;'x y'", "x y"),
        ("0;url=x", "x"),
        ("0;URL='x'", "x"),
        ("url=x", "x"),
        ("0", None),
        ("0;", None),
        (";x", None),
        ("x", None),
        (" " * 1_000_000, None),  # in linear time
    ],
)
def test_the_url_of_a_refresh(content: str, found: str | None) -> None:
    match = REFRESH.match(content)
    assert (match and match[1]) == found


def test_a_refresh_without_url_is_followed() -> None:
    answers = {"/": page(head="<meta http-equiv=refresh content='0;/x'>"), "/x": page()}
    assert crawl(answers).keys() == answers.keys()


def test_what_only_makes_up_the_page_is_not_fetched() -> None:
    answers = {
        "/": page(
            "<img src=i.png><script src=s.js></script><form action=form></form><a>none</a>"
            "<a href='mailto:a@b'></a><a href='javascript:x()'></a><a href=''></a><a href='#x'></a>"
            "<a href='tel:1'></a><a href='http://['></a><!-- <a href=comment></a> -->"
            "<template><a href=template></a></template>",
            "<link rel=stylesheet href=s.css><link rel='shortcut icon' href=i.ico>"
            "<link rel=preload href=p.js><link rel=alternate type='application/rss+xml' href=rss>",
        )
    }
    with Web(answers) as web:
        result = Crawl(SiteSpider, url=web.url)
    assert web.asked == {"/": 1}
    assert len(result.items) == 1


def test_links_are_seen_from_the_base() -> None:
    answers = {
        "/x/": page("<a href=one>1</a><a href=/two>2</a>", "<base href='../base/'>"),
        "/base/one": page("<a href='?q=a b&amp;r=ü'>3</a>"),
        "/base/one?q=a%20b&r=%C3%BC": page(),
        "/two": page("<a href='../../x/'>", "<base target=_top><base href='http://['>"),
    }
    assert crawl(answers, "/x/").keys() == answers.keys()


def test_a_redirected_page_is_stored_once_under_its_final_url() -> None:
    answers = {
        "/": page("<a href=old></a><a href=older></a><a href=dir></a><a href=broken></a>"),
        "/old": redirect("/new", 301),
        "/older": redirect("http://{here}/old", 308),
        "/new": page("<a href=child></a>"),
        "/dir": redirect("/dir/"),
        "/dir/": page("<a href=child></a>"),
        "/child": page(),
        "/dir/child": page(),
        "/broken": redirect("/gone"),
    }
    assert crawl(answers).keys() == {"/", "/new", "/dir/", "/child", "/dir/child"}


def test_a_start_that_redirects_is_the_start() -> None:
    answers = {"/": redirect("/en/"), "/en/": page("<a href=a></a>"), "/en/a": page()}
    assert crawl(answers, depth=1).keys() == {"/en/", "/en/a"}


def test_a_redirect_that_only_orders_the_query_does_not_lose_the_page() -> None:
    answers = {"/?b=2&a=1": redirect("/?a=1&b=2"), "/?a=1&b=2": page("here")}
    assert crawl(answers, "/?b=2&a=1").keys() == {"/?a=1&b=2"}


def test_a_start_that_leads_to_another_host_says_so() -> None:
    with Web({"/": page()}) as other, Web({"/": redirect(other.url + "/")}) as web:
        with pytest.raises(ArgumentError, match=r"leads to .*another host.*hosts=127\.0\.0\.1"):
            Crawl(SiteSpider, url=web.url)
        result = Crawl(SiteSpider, url=web.url, hosts=[other.host])
    assert [item["url"] for item in result.items] == [other.url + "/"]


def test_other_hosts_are_left_alone_unless_named() -> None:
    with Web({"/": page("other"), "/in": page()}) as other:
        links = page(f"<a href='{other.url}/'></a><a href='http://localhost:9/'></a>")
        with Web({"/": links}) as web:
            assert len(Crawl(SiteSpider, url=web.url).items) == 1
            assert other.asked == {}
            assert len(Crawl(SiteSpider, url=web.url, hosts=[other.host]).items) == 2


@pytest.mark.parametrize(
    ("start", "hosts", "link", "inside"),
    [
        ("https://example.com/", (), "http://example.com/x", True),
        ("https://example.com/", (), "https://www.example.com/x", True),
        ("https://www.example.com/", (), "https://EXAMPLE.com/x", True),
        ("https://example.com/", (), "https://example.com:8443/x", False),
        ("https://example.com/", (), "https://sub.example.com/x", False),
        ("https://example.com/", (), "https://example.com.evil.org/x", False),
        ("https://example.com/", (), "https://evil.org/?https://example.com/", False),
        ("https://example.com/", ("Docs.example.com",), "http://docs.example.com:81/x", True),
        ("https://example.com/", ("docs.example.com:81",), "http://docs.example.com/x", False),
    ],
)
def test_the_hosts_of_a_site(start: str, hosts: tuple[str, ...], link: str, inside: bool) -> None:
    spider, _ = build(SiteSpider, {"url": start, "hosts": hosts})
    assert isinstance(spider, SiteSpider)
    assert spider.wants(link) is inside


def test_depth_counts_links_from_the_start() -> None:
    answers = {f"/{n or ''}": page(f"<a href=/{n + 1}></a><a href=/></a>") for n in range(5)}
    assert crawl(answers, depth=2).keys() == {"/", "/1", "/2"}
    assert crawl(answers, depth=0).keys() == answers.keys()


def test_include_and_exclude_choose_by_url() -> None:
    links = "".join(f"<a href={name}></a>" for name in ("a/1", "a/2", "a/secret", "b/1?x=1"))
    answers = {"/": page(links)}
    answers |= {f"/{name}": page() for name in ("a/1", "a/2", "a/secret", "b/1?x=1")}
    assert crawl(answers, include=["/a/"]).keys() == {"/", "/a/1", "/a/2", "/a/secret"}
    assert crawl(answers, exclude=["secret$", r"\?x"]).keys() == {"/", "/a/1", "/a/2"}
    assert crawl(answers, include=["/b/", "2$"], exclude=["b"]).keys() == {"/", "/a/2"}


@pytest.mark.parametrize("argument", ["include", "exclude"])
def test_a_bad_expression_is_refused_by_name(argument: str) -> None:
    with pytest.raises(ArgumentError, match=rf"{argument}: '\[a' is not a regular expression: .*1"):
        Crawl(SiteSpider, url="http://127.0.0.1:9/", **{argument: ["fine", "[a"]})


def test_bad_arguments_are_refused_by_name() -> None:
    for arguments, named in (
        ({}, "url"),
        ({"url": "http://a/", "depth": -1}, "depth"),
        ({"url": "http://a/", "depth": "deep"}, "depth"),
        ({"url": "http://a/", "pages": 3}, "pages"),
    ):
        with pytest.raises(ArgumentError, match=named):
            build(SiteSpider, arguments)
    with pytest.raises(BadRequest, match=r"'example\.com' is not an absolute URL"):
        Crawl(SiteSpider, url="example.com")


def test_the_published_arguments_tell_types_and_limits() -> None:
    published = describe(SiteSpider).arguments
    assert published["required"] == ["url"]
    assert published["properties"]["depth"] == {"type": "integer", "minimum": 0, "default": 0}
    assert published["properties"]["include"]["items"] == {"type": "string", "format": "regex"}


def test_what_is_stored_of_a_page() -> None:
    body = (
        "<h2>Häuser  &amp;\n <em>Höfe</em></h2><p>One <b>two</b><script>no()</script></p><h4></h4>"
        "<style>p{}</style><a href=#a>x</a><a href=/b>y</a><a href=/b#c>z</a>"
        "<a href=https://example.org/>away</a><img src=i.png>"
    )
    answers = {
        "/": Answer(
            f"<html lang='de-AT '><head><title>\n Ein\t Titel </title></head><body>{body}".encode(
                "iso-8859-1"
            ),
            "text/html; charset=iso-8859-1",
        )
    }
    item = crawl(answers)["/"]
    assert len(item.pop("content_hash")) == 32
    assert item.pop("url").endswith("/")
    assert item == {
        "status": 200,
        "content_type": "text/html",
        "size": len(answers["/"].body),
        "title": "Ein Titel",
        "headings": [[2, "Häuser & Höfe"], [4, ""]],
        "text_length": len("Häuser & Höfe One two x y z away"),
        "links": 3,
        "language": "de-AT",
    }


def test_an_empty_page_is_stored_too() -> None:
    item = crawl({"/": Answer("")})["/"]
    assert (item["title"], item["headings"], item["text_length"]) == (None, [], 0)
    assert (item["links"], item["language"], item["size"]) == (0, None, 0)


@pytest.mark.parametrize(
    ("answer", "language"),
    [
        (Answer("<html lang=fr>", headers={"Content-Language": "en"}), "fr"),
        (Answer("<html xml:lang=pt-BR>"), "pt-BR"),
        (Answer("<html lang=''>", headers={"Content-Language": "en"}), "en"),
        (Answer("<meta http-equiv=content-language content=ja>"), "ja"),
        (Answer("<html>"), None),
    ],
)
def test_the_language_of_a_page(answer: Answer, language: str | None) -> None:
    assert crawl({"/": answer})["/"]["language"] == language


def test_the_hash_is_of_the_text_a_reader_sees() -> None:
    answers = {
        "/": page("<a href=/1></a><a href=/2></a><a href=/3></a>"),
        "/1": page("<p>same   text</p>", "<script>a()</script>"),
        "/2": page("<div class=new>same\n text<script>b()</script></div>", "<style>x{}</style>"),
        "/3": page("<p>other text</p>"),
    }
    hashes = {url: item["content_hash"] for url, item in crawl(answers).items()}
    assert hashes["/1"] == hashes["/2"]
    assert len(set(hashes.values())) == 3


def test_other_types_are_stored_without_the_fields_of_a_page() -> None:
    answers = {
        "/": page("<a href=r.pdf></a><a href=t.txt></a><a href=n></a><a href=img.html></a>"),
        "/r.pdf": Answer(b"%PDF-1.4 <a href=/never></a>", "application/pdf"),
        "/t.txt": Answer("<a href=/never></a>", "text/plain; charset=utf-8"),
        "/n": Answer("<title>no type</title><a href=/typed></a>", None),
        "/typed": page(),
        "/img.html": Answer(b"GIF89a", "image/gif"),
    }
    found = crawl(answers)
    assert found.keys() == answers.keys()
    for url in ("/r.pdf", "/t.txt", "/img.html"):
        kind = (answers[url].type or "").partition(";")[0]
        item = found[url]
        assert item.keys() == {"url", "status", "content_type", "size", "content_hash"}
        assert (item["content_type"], item["size"]) == (kind, len(answers[url].body))
    assert found["/n"]["title"] == "no type"


def test_error_pages_are_not_stored() -> None:
    answers = {"/": page("<a href=gone></a><a href=bad></a>"), "/bad": Answer("x", status=500)}
    assert crawl(answers).keys() == {"/"}
