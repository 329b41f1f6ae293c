"""Pages that would block a parser are refused by name; pages that are only large are not."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator

import pytest
from selectolax.lexbor import LexborHTMLParser

from benchmarks.hostile.callbacks import CALLBACKS, held
from benchmarks.hostile.corpus import CORPUS, Hostile
from crawlframe.errors import TooComplex, TooDeep, UnparsablePage
from crawlframe.markup import complexity, outline
from crawlframe.markup.complexity import DEPTHS, MAX_LINKS, MAX_TAGS, MAX_XML_TAGS
from crawlframe.request import Request
from crawlframe.response import Response

pytestmark = pytest.mark.slow

URL = "http://example.com/"
DEEP, COMPLEX, DONE = "too_deep", "too_complex", "done"

SIZE = 100 << 10  # bytes
# What the callbacks end with at that size, where it is not DONE for all: site, links, css, soup.
EXPECTED = {
    "attributes": [COMPLEX] * 4,
    "attributes with values": [COMPLEX] * 4,
    "one attribute often": [COMPLEX] * 4,
    "b left open, each another": [COMPLEX] * 4,
    "b left open, made again in svg": [COMPLEX] * 4,
    "b around div": [COMPLEX] * 4,
    "nested XML": [DONE, DONE, DEEP, DEEP],
    "nested JSON": [DONE, DONE, DEEP, DEEP],
} | dict.fromkeys(
    (
        "nested div", "nested div, closed", "nested span", "nested lists", "nested tables",
        "nested svg", "nested math", "nested template", "nested ruby",
        "end tags that close nothing", "b left open", "b left open in paragraphs",
        "h1 around i", "a in nested div",
        "text in tables", "other names of elements",
    ),
    [DEEP] * 4,
)  # fmt: skip


def page(body: bytes | str, content_type: str = "text/html; charset=utf-8") -> Response:
    data = body.encode() if isinstance(body, str) else body
    return Response(URL, 200, {"Content-Type": content_type}, data, Request(URL))


@pytest.mark.parametrize("hostile", CORPUS, ids=lambda hostile: hostile.name)
def test_hostile_pages_end_as_done_or_with_a_named_error(hostile: Hostile) -> None:
    outcomes = [result.outcome for result in held(hostile, SIZE)]
    assert outcomes == EXPECTED.get(hostile.name, [DONE] * len(CALLBACKS))


@pytest.mark.parametrize(
    "name", ["attributes of body", "other names of attributes", "options", "paragraphs", "links"]
)
def test_more_of_the_same_is_refused(name: str) -> None:
    (hostile,) = (hostile for hostile in CORPUS if hostile.name == name)
    body = hostile.body(8 << 20 if name == "links" else 2 << 20)
    with pytest.raises(TooComplex):
        complexity.markup_of(body, URL)


def test_the_corpus_has_forty_three_pages() -> None:
    assert len({hostile.name for hostile in CORPUS}) == 43
    assert set(EXPECTED) <= {hostile.name for hostile in CORPUS}


# -- what large and old pages have ----------------------------------------------------------------

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


@pytest.mark.parametrize("name", LARGE)
def test_large_and_old_pages_are_parsed(name: str) -> None:
    response = page("<!DOCTYPE html><html><body>" + LARGE[name])
    assert response.tree.body is not None
    assert response.css("body")


def test_depth_up_to_the_limit_is_seen_whole_by_every_parser() -> None:
    depth = DEPTHS["selector"] - 10
    text = "<div>" * depth + "<a href=x>y</a>" + "</div>" * depth + "<p>" + "<b>z</b>" * 12_000
    response = page(text)
    assert len(response.tree.css("div")) == len(response.css("div")) == depth
    assert len(response.soup.find_all("div")) == depth
    assert response.links() == ["http://example.com/x"]
    deeper = page("<div>" * 20 + text)
    assert len(deeper.tree.css("div")) == depth + 20
    for look in (lambda: deeper.selector, lambda: deeper.soup):
        with pytest.raises(TooDeep, match=r"http://example.com/ has more than 2,000"):
            look()
    deepest = page("<div>" * DEPTHS["tree"] + text)
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
    """Whatever the parser considers deep is refused."""
    html = (hiding % ("<div>" * 12_000)).encode()
    if complexity_of(html) is None:
        assert len(page(html[:30_000]).tree.css("div div div")) == 0


def complexity_of(html: bytes) -> str | None:
    try:
        complexity.markup_of(html, URL)
    except UnparsablePage as error:
        return error.reason
    return None


@pytest.mark.parametrize(
    "unit",
    ["<div></b>", "<b><div></b>", "<span><div></span>", "<div><applet></div>", "<ul><li></li>",
     "<table><tr><td></tr>", "<dl><dd></dl2>", "<DIV>"],
)  # fmt: skip
def test_end_tags_that_do_not_close_do_not_hide_depth(unit: str) -> None:
    assert complexity_of(unit.encode() * 15_000) in (DEEP, COMPLEX)


NAMES = [
    "div",
    "p",
    "span",
    "b",
    "i",
    "a",
    "li",
    "ul",
    "table",
    "tr",
    "td",
    "th",
    "applet",
    "svg",
    "g",
    "foreignObject",
    "title",
    "style",
    "select",
    "option",
    "button",
    "h1",
    "h2",
    "form",
    "template",
    "dd",
    "dl",
    "rt",
    "ruby",
    "math",
    "mi",
    "nobr",
    "font",
    "object",
    "body",
    "caption",
    "optgroup",
    "em",
    "textarea",
    "x-y",
    "desc",
    "frameset",
]


def depth_of(parser: LexborHTMLParser) -> int:
    deepest, waiting = 0, [(parser.root, 1)]
    while waiting:
        node, depth = waiting.pop()
        deepest = max(deepest, depth)
        child = node.child if node else None
        while child is not None:
            waiting.append((child, depth + 1))
            child = child.next
    return deepest


def test_what_is_let_through_is_as_shallow_in_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random sequences of tags, repeated: the reduced tree construction against the real one."""
    monkeypatch.setattr(outline, "MAX_DEPTH", 60)
    monkeypatch.setattr(complexity, "_SMALL", 0)
    monkeypatch.setattr(complexity, "_FEW", 0)
    monkeypatch.setattr(complexity, "_MANY", 0)
    monkeypatch.setattr(complexity, "_BALANCED", 0)
    dice = random.Random(16)
    forms = ("<%s>", "<%s>", "<%s>", "</%s>", "</%s>", "<%s/>", "<%s id=x>")
    let_through = 0
    for _ in range(500):
        tags = [dice.choice(forms) % dice.choice(NAMES) for _ in range(dice.randint(2, 6))]
        html = ("".join(tags[:1]) + "".join(tags) * 200).encode()
        if complexity_of(html) is None:
            let_through += 1
            assert depth_of(LexborHTMLParser(html)) < 150, html[:200]
    assert let_through > 100


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
    many = page("<r>" + "<d/>" * (MAX_XML_TAGS["selector"] + 1) + "</r>", "application/xml")
    with pytest.raises(TooComplex, match="tags"):
        many.css("d")


def test_entities_of_xml_are_not_expanded() -> None:
    (bomb,) = (hostile for hostile in CORPUS if hostile.name == "XML entities")
    response = page(bomb.body(10_000), bomb.content_type)
    assert len("".join(response.xpath("//text()").getall())) < 100_000
    assert len(response.soup.get_text()) < 100_000


def test_each_parser_has_its_limit() -> None:
    response = page("<p>x</p>" * (MAX_TAGS["soup"] // 2 + 100))
    assert len(response.tree.css("p")) == len(response.css("p"))
    with pytest.raises(TooComplex, match="the limit of soup is 60,000"):
        _ = response.soup
    with pytest.raises(TooComplex, match="limit of soup"):
        _ = page("x" * (9 << 20)).soup
    with pytest.raises(TooComplex, match="300,000 tags"):
        page("<p>x</p>" * (MAX_TAGS["tree"] // 2 + 100)).links()


INDEX = "".join(f"<a href=/{n}>{n}</a>" for n in range(70_000))
ROWS = "<table>" + "<tr><td>a</td><td>b</td><td>c</td><td>d</td></tr>" * 22_000 + "</table>"
OPTIONS = ("<select>" + "<option value=1>a</option>" * 1000 + "</select>") * 45


@pytest.mark.parametrize("body", [INDEX, ROWS, OPTIONS, "<font>" * 2500 + "x" * (72 << 10)],
                         ids=["links", "cells", "options", "fonts left open"])  # fmt: skip
def test_what_the_tree_reads_quickly_is_not_refused(body: str) -> None:
    assert page(body).tree.body is not None


def test_links_are_limited_for_what_is_done_with_them() -> None:
    assert len(page(INDEX).links()) == 70_000
    with pytest.raises(TooComplex, match="distinct links"):
        page(INDEX + "<p>x" * 100_000).links()
    response = page("")
    for number in range(MAX_LINKS):
        response.urljoin(f"/{number}")
    with pytest.raises(TooComplex, match="120,000 distinct links"):
        response.urljoin("/x")


class Counted:
    """A pattern that counts where it was tried and what it found."""

    def __init__(self, pattern: re.Pattern[bytes]) -> None:
        self._pattern = pattern
        self.last = 0
        self.size = 0

    def finditer(self, text: bytes) -> Iterator[re.Match[bytes]]:
        self.size = len(text)
        for match in self._pattern.finditer(text):
            self.last = match.end()
            yield match


@pytest.mark.parametrize("unit", [" ", "/", "\n /"])
def test_blanks_behind_the_last_attribute_are_not_looked_through(
    unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise matching would start again at each byte after the last name."""
    counted = Counted(outline._ATTRIBUTE)
    monkeypatch.setattr(outline, "_ATTRIBUTE", counted)
    complexity.markup_of(f"<div a{unit * 30_000}>".encode() + b"<p>" * 11_000, URL)
    assert 0 < counted.size == counted.last


class Compared(bytes):
    """The attributes of a tag, which count how often they are compared."""

    times = 0

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return bytes.__eq__(self, other)

    __hash__ = bytes.__hash__


def test_formatting_elements_made_again_are_not_compared_with_each_other() -> None:
    elements = 1000
    reader = outline.Outline(URL, 10_000)
    reader._push(b"p", b"")
    for number in range(elements):
        reader._push(b"b", Compared(b" a=%d" % number))
    Compared.times = 0
    reader._pop(0)
    assert len(reader._lost) == elements
    assert Compared.times < 10 * elements


def test_icons_do_not_make_a_page_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outline.Outline, "read", None)  # whoever calls it fails
    icon = '<a href="/%d"><i class="fa fa-star"></i></a><i class="fa fa-%d"></i><p>x</p>'
    shop = "".join(icon % (number, number) for number in range(1500)).encode()
    assert shop.count(b"<") == 12_000
    assert complexity.markup_of(shop, URL) == (0, 0)
    tags = b'<b a=\'></b>\'><b a="></b>"><i a=b></i><i a="b">x</i>'
    assert complexity._FORMATTED.findall(tags) == [
        (b"b", b" a='"), (b"b", b' a="'), (b"i", b" a=b"),
    ]  # fmt: skip
    card = '<div class="card"><img src="/%d.jpg"><h2>x</h2><p>y</p></div>'
    news = "".join(card % number for number in range(3000)).encode()
    assert complexity.markup_of(news, URL) == (0, 0)


def test_json_that_is_nested_too_deeply() -> None:
    response = page("[" * 100_000 + "]" * 100_000, "application/json")
    with pytest.raises(TooDeep):
        response.json()
    with pytest.raises(TooDeep):
        response.jmespath("a")


def test_long_links_are_left_out() -> None:
    response = page(f"<a href='/{'x' * 70_000}'>a</a><a href=/y>b</a>")
    assert response.links() == ["http://example.com/y"]
    assert [request.url for request in response.follow_all(css="a")] == ["http://example.com/y"]
