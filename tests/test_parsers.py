"""Pages that would block a parser are refused by name; pages that are only large are not."""

from __future__ import annotations

import json
import multiprocessing
import threading
import time

import pytest
from parsel import Selector

from crawlframe.errors import TooComplex, TooDeep, UnparsablePage
from crawlframe.markup import parsers
from crawlframe.markup.parsers import MAX_DEPTH, MAX_SLOW, MAX_TAGS
from crawlframe.request.request import Request
from crawlframe.response.response import MAX_LINKS, Response
from tests import hostile_callbacks as callbacks
from tests.hostile_corpus import CORPUS, Hostile

URL = "http://example.com/"
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([callbacks.__name__])
DEEP, COMPLEX, DONE = "too_deep", "too_complex", "done"

SIZE = 100 << 10  # bytes
# Results of the callbacks (site, links, css, soup) at that size, without limits of time.
EXPECTED = {
    "other names of elements": [DEEP] * 4,
    "nested span": [DEEP] * 4,
    "nested svg": [DEEP] * 4,
    "nested math": [DEEP] * 4,
    "text in tables": [DEEP] * 4,
    "nested XML": [DONE, DONE, DEEP, DEEP],
    "nested JSON": [DONE, DONE, DEEP, DEEP],
}


def page(body: bytes | str, content_type: str = "text/html; charset=utf-8") -> Response:
    data = body.encode() if isinstance(body, str) else body
    return Response(URL, 200, {"Content-Type": content_type}, data, Request(URL))


def ends(name: str) -> list[str]:
    (hostile,) = (hostile for hostile in CORPUS if hostile.name == name)
    return [result.outcome for result in callbacks.held(hostile, SIZE)]


@pytest.mark.slow
@pytest.mark.parametrize("hostile", CORPUS, ids=lambda hostile: hostile.name)
def test_hostile_pages_end_as_done_or_with_a_named_error(hostile: Hostile) -> None:
    """In a process that ends although parsers in it do not."""
    with FORKS.Pool(1) as pool:
        outcomes = pool.apply_async(ends, (hostile.name,)).get(60)
    assert set(outcomes) <= {DONE, DEEP, COMPLEX}
    assert outcomes == EXPECTED.get(hostile.name, outcomes)


def test_the_corpus_has_forty_three_pages() -> None:
    assert len({hostile.name for hostile in CORPUS}) == 43
    assert set(EXPECTED) <= {hostile.name for hostile in CORPUS}


# -- the limit of time ----------------------------------------------------------------------------


def slow() -> Response:
    """A page that takes Lexbor some 0.3 s, by the attributes of a tag."""
    names = " ".join(f"a{n}" for n in range(14_000))
    response = page(f"<p {names}>" + "x" * (64 << 10))
    response.max_parse = 0.01
    return response


def test_a_page_is_refused_when_its_time_is_used_up_and_not_parsed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, heard = threading.active_count(), list[bool]()
    monkeypatch.setattr(parsers, "on_refusal", lambda: heard.append(parsers.stuck()))
    response = slow()
    with pytest.raises(TooComplex, match=r"http://example.com/ takes a parser .* max_parse"):
        _ = response.tree
    assert heard == [True]
    for again in (lambda: response.tree, response.links, lambda: response.css("p")):
        with pytest.raises(TooComplex):
            again()
    assert threading.active_count() <= before + 1
    response = slow()
    response.max_parse = 30
    assert response.tree.body is not None
    while parsers.stuck():
        time.sleep(0.05)


def test_an_interrupted_wait_does_not_mix_up_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: object, **kwargs: object) -> object:
        raise KeyboardInterrupt

    first = parsers._ParserThread()
    monkeypatch.setattr(parsers, "_idle", [first])
    trees = first._trees
    first._trees = type("Interrupted", (), {"get": interrupted, "put": trees.put})()
    with pytest.raises(KeyboardInterrupt):
        _ = page("<p>one</p>" * 10_000).tree
    monkeypatch.setattr(parsers, "_idle", [])
    assert [node.tag for node in page("<i>two</i>" * 10_000).tree.css("i, p")] == ["i"] * 10_000
    first.join(30)
    assert not first.is_alive()


def test_pages_may_be_parsed_in_several_threads_at_once() -> None:
    found: list[int] = []

    def count(number: int) -> None:
        for times in range(20):
            tags = 2_000 + 100 * number + times
            response = page("<p>x</p>" * tags)
            found.append(len(response.tree.css("p")) - tags)
            found.append(len(response.css("p")) - tags)

    threads = [threading.Thread(target=count, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [0] * 160


def test_small_pages_need_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsers, "_ParserThread", None)
    monkeypatch.setattr(parsers, "_idle", [])
    assert page("<p>x</p>" * 700).tree.body is not None
    with pytest.raises(TypeError):
        _ = page("<p>x</p>" * 1_200).tree


# -- trees ----------------------------------------------------------------------------------------

BROKEN = ["", " ", "\0", "<p>a\0b", "x", "<!-- ", "<p>\ufffe", "  <b>", "<frameset><frame>", "&#0;"]


@pytest.mark.parametrize("kind", ["html", "xml"])
@pytest.mark.parametrize("text", BROKEN)
def test_roots_are_those_of_parsel(text: str, kind: str) -> None:
    theirs: Selector = Selector(text=text or " ", type=kind)
    ours = page(text, f"text/{kind}; charset=utf-8").selector
    assert (ours.root.tag, ours.getall()) == (theirs.root.tag, theirs.getall())
    assert type(ours.root) is type(theirs.root)
    assert ours.type == theirs.type


def test_css_sees_the_tree_of_browsers_if_the_spider_asks_for_it() -> None:
    html = "<table><tr><td>a</table><p>one<h2>two<div>three</h2><a href=/x>b"
    response = page(html)
    response.selector_tree = "browser"
    assert len(response.css("table > tbody > tr")) == 1
    assert response.xpath("//h2/div/text()").get() == "three"
    assert len(page(html).css("tbody")) == 0
    assert [request.url for request in response.follow_all(css="a")] == ["http://example.com/x"]


# -- large and old pages --------------------------------------------------------------------------

ROW = '<tr><td><font color="#%d">x<td><b>y<a href="/%d">z'
LARGE = {
    "paragraphs without end": "<p>one <b>two</b> " * 9000,
    "items without end": "<ul>" + "<li><a href=x>y</a>" * 9000 + "</ul>",
    "lists of lists": "<ul>" + "<li>a<ul><li>b<li>c</ul>" * 5000 + "</ul>",
    "definitions without end": "<dl>" + "<dt>a<dd>b" * 9000 + "</dl>",
    "rows without end, fonts left open": "<table>" + "".join(ROW % (n, n) for n in range(9000)),
    "tables": "<table><tbody><tr><th>a</th><td>b</td></tr></tbody></table>" * 5000,
    "headings": "<h1>a</h1><h2>b<h3>c</h3>" * 6000,
    "options": "<select>" + "<option value=1>a" * 4000 + "</select>",
    "many lists of options": ("<select>" + "<option>a</option>" * 200 + "</select>") * 100,
    "icons": '<a href=x><svg viewBox="0 0 1 1"><path d="M0"/><g/></svg><i class="icon x"></i></a>'
    * 5000,
    "markup in scripts": "<script>var a = '<div><span>" + "<b><div>" * 9000 + "'</script>"
    + "<p>x</p>" * 9000,
    "markup in comments": "<!-- " + "<div>" * 9000 + " -->" + "<p>x</p>" * 9000,
    "markup in attributes": "<p title='" + "<div>" * 9000 + "'>" + "<p>x</p>" * 9000,
    "wrong end tags": "<div><b><i>x</b></i></div></p></span>" * 5000,
    "a around div": "<a href=x><div>y</div></a>" * 8000,
    "links in forms": "<form>" * 3000 + "<a href=x>y</a>" * 9000,
    "a large attribute": f"<div data-all='{json.dumps(['<div>'] * 50_000)}'>x</div>",
    "a large script": "<script>" + "x = 1;" * 100_000 + "</script><p>y",
}  # fmt: skip

# Elements without end tags that it, unlike browsers, does not close.
DEEP_IN_LIBXML2 = {"rows without end, fonts left open", "headings"}


@pytest.mark.parametrize("name", LARGE)
def test_large_and_old_pages_are_parsed(name: str) -> None:
    response = page("<!DOCTYPE html><html><body>" + LARGE[name])
    response.max_parse = 60
    assert response.tree.body is not None
    if name in DEEP_IN_LIBXML2:
        with pytest.raises(TooDeep, match='selector_tree = "browser"'):
            response.css("body")
        response.selector_tree = "browser"
    assert response.css("body")


def test_depth_up_to_the_limit_is_seen_whole_by_every_parser() -> None:
    depth = 1_990
    text = "<i>" * depth + "<a href=x>y</a>" + "</i>" * depth + "<p>" + "<u>z</u>" * 12_000
    response = page(text)
    assert len(response.tree.css("i")) == len(response.css("i")) == depth
    assert len(response.soup.find_all("i")) == depth
    assert response.links() == ["http://example.com/x"]
    deeper = page("<i>" * 100 + text)
    assert len(deeper.tree.css("i")) == depth + 100
    for look in (lambda: deeper.selector, lambda: deeper.soup):
        with pytest.raises(TooDeep, match=r"http://example.com/ has more than 2,047"):
            look()
    deepest = page("<i>" * MAX_DEPTH + text)
    deepest.max_parse = 60
    for read in (deepest.links, lambda: deepest.tree):
        with pytest.raises(TooDeep, match=r"http://example.com/ has more than 4,000"):
            read()


@pytest.mark.parametrize(
    "hiding",
    [
        "<p a=' >%s",  # an attribute that is left open ends the page
        "<p x' >%s",
        "<p x=a' >%s",
        "<!--> %s",
        "<!-- --!> %s",
        "<title>%s",
        "<svg><style>%s",
        "<svg><title>%s",
        "<style></style >%s",
        "<SCRIPT></SCRIPT>%s",
        "</div>" * 20_000 + "%s",
        "<applet>%s",
        "<svg><foreignObject>%s",
    ],
)
def test_depth_cannot_be_hidden(hiding: str) -> None:
    """A page that the parser considers deep is refused; in others, it sees none of that."""
    response = page(hiding % ("<i>" * 60_000) + "x" * 12_000)
    try:
        found = response.tree.css("i i i")
    except UnparsablePage:
        return
    assert not found


def test_xml_is_judged_by_its_depth_and_size() -> None:
    flat = "<urlset>" + "<url><loc>http://h/</loc><x a='>'/></url>" * 20_000 + "</urlset>"
    assert len(page(flat, "application/xml").css("loc")) == 20_000
    feed = "<rss>" + "<item><![CDATA[<br><p><img>]]><!-- <a> --></item>" * 3000 + "</rss>"
    assert len(page(feed, "application/rss+xml").css("item")) == 3000
    assert len(page(feed, "application/rss+xml").soup.find_all("item")) == 3000
    deep = page("<r>" + "<d a='/>'>" * 2500 + "</r>", "application/xml")
    for look in (lambda: deep.selector, lambda: deep.soup):
        with pytest.raises(TooDeep):
            look()
    many = page("<r>" + "<d/>" * (MAX_TAGS + 1) + "</r>", "application/xml")
    with pytest.raises(TooComplex, match="tags"):
        many.css("d")


def test_entities_of_xml_are_not_expanded() -> None:
    (bomb,) = (hostile for hostile in CORPUS if hostile.name == "XML entities")
    response = page(bomb.body(10_000), bomb.content_type)
    assert len("".join(response.xpath("//text()").getall())) < 100_000
    assert len(response.soup.get_text()) < 100_000


def test_parsers_in_python_have_limits_of_their_own() -> None:
    response = page("<p>x</p>" * MAX_SLOW["soup"])
    assert len(response.tree.css("p")) == len(response.css("p"))
    with pytest.raises(TooComplex, match="the limit of soup is 40,000"):
        _ = response.soup
    with pytest.raises(TooComplex, match="limit of soup"):
        _ = page("x" * (9 << 20)).soup


def test_a_page_may_have_a_million_tags() -> None:
    """Rust's list of all items has 312,000, in 5 MB."""
    listed = '<li><a class="fn" href="fn.%d.html">item</a></li>'
    response = page("<ul>" + "".join(listed % n for n in range(78_000)) + "</ul>")
    response.max_parse = 60
    assert len(response.css("li")) == len(response.tree.css("li")) == 78_000
    many = page("<p>x</p>" * (MAX_TAGS // 2 + 1))
    for read in (lambda: many.selector, lambda: many.tree):
        with pytest.raises(TooComplex, match="1,000,002 tags; the limit is 1,000,000"):
            read()


INDEX = "".join(f"<a href=/{n}>{n}</a>" for n in range(70_000))
ROWS = "<table>" + "<tr><td>a</td><td>b</td><td>c</td><td>d</td></tr>" * 22_000 + "</table>"
OPTIONS = ("<select>" + "<option value=1>a</option>" * 1000 + "</select>") * 45


@pytest.mark.parametrize("body", [INDEX, ROWS, OPTIONS, "<font>" * 2500 + "x" * (72 << 10)],
                         ids=["links", "cells", "options", "fonts left open"])  # fmt: skip
def test_what_the_tree_reads_quickly_is_not_refused(body: str) -> None:
    assert page(body).tree.body is not None


def test_distinct_links_are_limited() -> None:
    assert len(page(INDEX).links()) == 70_000
    response = page("")
    for number in range(MAX_LINKS):
        response.urljoin(f"/{number}")
    with pytest.raises(TooComplex, match="120,000 distinct links"):
        response.urljoin("/x")


def test_long_links_are_left_out() -> None:
    response = page(f"<a href='/{'x' * 70_000}'>a</a><a href=/y>b</a>")
    assert response.links() == ["http://example.com/y"]
    assert [request.url for request in response.follow_all(css="a")] == ["http://example.com/y"]
