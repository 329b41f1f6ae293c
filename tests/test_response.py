"""Response: text, parsers and links, as users of Scrapy, parsel and BeautifulSoup know them."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from crawlframe.errors import BadRequest, NotJson
from crawlframe.markup import xhtml
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.spider.spider import Spider

URL = "http://example.com/dir/page.html"
PIECES = [
    b"<p class=",
    b">",
    b"<",
    b"</p>",
    b"&amp",
    b"a",
    b" ",
    b'"',
    b"\n",
    b"\xef\xbb\xbf",
    b"\xe2\x80\x9c",
]


def page(body: bytes | str, content_type: str | None = "text/html", url: str = URL) -> Response:
    headers = {} if content_type is None else {"content-type": content_type}
    data = body.encode() if isinstance(body, str) else body
    return Response(url, 200, headers, data, Request(url))


# -- the answer itself --------------------------------------------------------------------------


def test_attributes() -> None:
    request = Request(URL, meta={"a": 1}, cb_kwargs={"b": 2})
    headers = [("Set-Cookie", "a=1"), ("set-cookie", "b=2"), ("X-One", "1")]
    response = Response(URL, 404, headers, b"x", request, redirects=("http://h/",), elapsed=0.5)
    assert response.headers["x-one"] == "1"
    assert response.headers.getall("SET-COOKIE") == ["a=1", "b=2"]
    assert response.headers.get("nothing") is None
    assert response.meta is request.meta
    assert response.cb_kwargs is request.cb_kwargs
    assert (response.ok, response.redirects, response.elapsed) == (False, ("http://h/",), 0.5)
    assert repr(response) == f"<Response 404 {URL}>"


@pytest.mark.parametrize(("status", "ok"), [(199, False), (200, True), (204, True), (300, False)])
def test_ok(status: int, ok: bool) -> None:
    assert Response(URL, status, {}, b"", Request(URL)).ok is ok


@pytest.mark.parametrize(
    ("content_type", "body", "kind"),
    [
        ("text/html; charset=x", b"", "html"),
        ("APPLICATION/XHTML+XML", b"", "html"),
        ("text/xml", b"", "xml"),
        ("application/rss+xml", b"", "xml"),
        ("application/ld+json;x=y", b"", "json"),
        ("text/plain", b"<html>", "text"),
        ("application/javascript", b"", "text"),
        ("image/png", b"<html>", "binary"),
        (None, b"\xef\xbb\xbf \n<!doctype html>", "html"),
        (None, b"<?xml version='1.0'?><feed/>", "xml"),
        (None, b"<?xml version='1.0'?><HTML>", "html"),
        (None, b"plain", "text"),
        (None, b"\x89PNG\0\0", "binary"),
        (None, b"", "text"),
    ],
)
def test_kind(content_type: str | None, body: bytes, kind: str) -> None:
    assert page(body, content_type).kind == kind


# -- character encodings ------------------------------------------------------------------------

RUSSIAN = "Съешь же ещё этих мягких французских булок, да выпей чаю. " * 5
CHINESE = "北京市朝阳区三居室出租,交通便利,随时看房。" * 5
JAPANESE = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。" * 5


@pytest.mark.parametrize(
    ("body", "content_type", "encoding", "text"),
    [
        ("größe".encode(), "text/html; charset=UTF-8", "utf-8", "größe"),
        ("größe".encode(), 'text/html; charset="utf8"', "utf-8", "größe"),
        ("größe".encode("latin-1"), "text/html; charset=ISO-8859-1", "cp1252", "größe"),
        ("“x”".encode("cp1252"), "text/html;charset=latin1", "cp1252", "“x”"),
        ("größe".encode(), "text/html", "utf-8", "größe"),
        (b"plain", "text/html", "utf-8", "plain"),
        (b"", None, "utf-8", ""),
        (b"<meta charset=gb2312>" + "朱镕基".encode("gb18030"), "text/html", "gb18030", "朱镕基"),
        (b"<meta charset=koi8-r>" + "да".encode("cp1251"), "text/html; charset=windows-1251",
         "cp1251", "да"),
        (b'<meta http-equiv=content-type content="text/html; charset=shift_jis">'
         + "猫".encode("shift_jis"), "text/html", "cp932", "猫"),
        (b'<?xml version="1.0" encoding="iso-8859-2"?><a>' + "łódź".encode("iso-8859-2"),
         "application/xml", "iso8859-2", "łódź"),
        (b"\xef\xbb\xbf" + "größe".encode(), "text/html; charset=latin1", "utf-8", "größe"),
        ("größe".encode("utf-16"), "text/html", "utf-16-le", "größe"),
        (b"\xfe\xff" + "größe".encode("utf-16-be"), "text/html", "utf-16-be", "größe"),
        ("größe".encode("utf-16-le"), "text/html; charset=utf-16", "utf-16-le", "größe"),
        ("größe".encode("utf-32"), "text/html", "utf-32-le", "größe"),
        (b"<meta charset=utf-16>" + "größe".encode(), "text/html", "utf-8", "größe"),
        (b"<meta charset=klingon>" + "größe".encode(), "text/html", "utf-8", "größe"),
        ("größe".encode(), "text/html; charset=utf-7", "utf-8", "größe"),
        ('{"a":"größe"}'.encode(), "application/json", "utf-8", '{"a":"größe"}'),
    ],
)  # fmt: skip
def test_declared_encodings(
    body: bytes, content_type: str | None, encoding: str, text: str
) -> None:
    response = page(body, content_type)
    assert response.encoding == encoding
    assert response.text.endswith(text)
    assert "\ufeff" not in response.text


@pytest.mark.parametrize(
    ("text", "encoding"),
    [(RUSSIAN, "cp1251"), (CHINESE, "gb18030"), (JAPANESE, "shift_jis"), (JAPANESE, "euc_jp")],
)
def test_guess_when_nothing_is_declared(text: str, encoding: str) -> None:
    assert page(f"<p>{text}</p>".encode(encoding)).text == f"<p>{text}</p>"


def test_wrong_bytes_are_replaced() -> None:
    assert page(b"a\xffb", "text/html; charset=utf-8").text == "a\ufffdb"
    assert page(b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg").encoding == "cp1252"


# -- JSON ---------------------------------------------------------------------------------------


def test_json() -> None:
    response = page('{"visits": 3, "name": "größe"}', "application/json")
    assert response.json() == {"visits": 3, "name": "größe"}
    assert response.json() is response.json()


def test_no_json_names_the_url() -> None:
    with pytest.raises(NotJson, match=r"http://example.com/dir/page.html.*<html>"):
        page("<html>Login</html>").json()
    with pytest.raises(ValueError, match="not JSON"):
        page("").json()


# -- parsers ------------------------------------------------------------------------------------

HTML = """<html><head><title>Häuser &amp; mehr</title></head><body>
<div class="item" id="one"><h2>First</h2><a href="1.html">go</a></div>
<div class="item"><h2>Second</h2><a href="2.html">go</a></div></body></html>"""


def test_parsel() -> None:
    response = page(HTML)
    assert response.css("title::text").get() == "Häuser & mehr"
    assert response.css(".item h2::text").getall() == ["First", "Second"]
    assert response.css("#one").attrib["class"] == "item"
    assert response.xpath("//a/@href").getall() == ["1.html", "2.html"]
    assert response.xpath("//div[@id=$which]/h2/text()", which="one").get() == "First"
    assert response.css(".missing::text").get(default="-") == "-"
    assert [item.css("h2::text").get() for item in response.css(".item")] == ["First", "Second"]
    assert response.css("h2").re(r">(\w)") == ["F", "S"]
    assert response.selector is response.selector


def test_parsel_on_xml_and_json() -> None:
    feed = '<?xml version="1.0" encoding="gbk"?><r xmlns="urn:x"><Item>价</Item></r>'
    response = page(feed.encode("gbk"), "application/xml")
    assert response.xpath("//x:Item/text()", namespaces={"x": "urn:x"}).get() == "价"
    response = page('{"a": [{"b": "x"}, {"b": "y"}]}', "application/json")
    assert response.jmespath("a[*].b").getall() == ["x", "y"]
    assert [one.jmespath("b").get() for one in response.jmespath("a")] == ["x", "y"]
    assert response.jmespath("none").getall() == []


@pytest.mark.parametrize("kind", ["application/json", "text/html", "text/plain", ""])
def test_jmespath_reads_json_whatever_it_is_called(kind: str) -> None:
    assert page('{"a": [{"b": "ü"}]}', kind).jmespath("a[].b").getall() == ["ü"]
    for broken in ('{"a": ', "<p>"):
        with pytest.raises(NotJson, match="the body is not JSON"):
            page(broken, kind).jmespath("a")


def test_jmespath_on_json_in_a_page() -> None:
    html = '<script id=state type="application/json">{"books": [{"title": "A"}]}</script>'
    state = page(html).css("script#state::text")
    assert state.jmespath("books[].title").getall() == ["A"]


def test_soup() -> None:
    response = page(HTML)
    assert response.soup.title is not None
    assert response.soup.title.string == "Häuser & mehr"
    assert [tag.text for tag in response.soup.select(".item h2")] == ["First", "Second"]
    feed = page("<r><Item>x</Item></r>", "text/xml")
    assert [item.text for item in feed.soup.find_all("Item")] == ["x"]


def test_tree() -> None:
    response = page(HTML.encode("latin-1"), "text/html; charset=latin1")
    title = response.tree.css_first("title")
    assert title is not None
    assert title.text() == "Häuser & mehr"
    assert [node.attributes["href"] for node in response.tree.css("a")] == ["1.html", "2.html"]


@given(st.lists(st.sampled_from([*PIECES, *(bytes([byte]) for byte in range(128, 256))])))
def test_wrong_bytes_are_the_same_in_tree_and_text(pieces: list[bytes]) -> None:
    response = page(b"".join(pieces), "text/html; charset=utf-8")
    assert response.tree.html == LexborHTMLParser(response.text).html


@pytest.mark.parametrize("body", [b"", b"\0\0\0", b"<", b"\xff\xfe", b"<a href=\xff>\x00<b"])
def test_parsers_take_anything(body: bytes) -> None:
    response = page(body)
    assert response.css("nothing").get() is None
    assert response.soup.find("nothing") is None
    assert response.tree.css("nothing") == []
    assert isinstance(response.links(), list)


def test_links_do_not_pay_for_other_parsers() -> None:
    """Importing Response is cheap, and so is using links only."""
    code = f"""
import sys
from crawlframe.response.response import Response
from crawlframe.request.request import Request
heavy = {{"parsel", "bs4", "lxml", "lxml.etree", "chardetng_py", "selectolax", "w3lib",
          "requests", "orjson", "webencodings"}}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
body = b'<a href="x?a=1">x</a>'
response = Response({URL!r}, 200, {{"Content-Type": "text/html"}}, body, Request({URL!r}))
assert response.links() == ["http://example.com/dir/x?a=1"]
assert not {{"parsel", "bs4", "lxml", "lxml.etree", "chardetng_py"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# -- links --------------------------------------------------------------------------------------


def test_links_are_absolute_unique_and_in_order() -> None:
    body = """
        <a href="b.html">1</a> <A HREF=" ../c.html#part ">2</A> <a href="b.html#x">again</a>
        <area href="//other.org/d"> <a>no link</a> <a href="">page itself</a>
        <a href="mailto:a@b.c">3</a> <a href="javascript:void(0)">4</a> <a href="http://">5</a>
        <a href="HTTP://EXAMPLE.com:80/e/../f?q=a b&amp;r=1">6</a> <a href="?only=query">7</a>
        <link href="style.css"> <img src="i.png"> <a href="ftp://h/x">8</a>
        <a rel=nofollow href="/n">9</a>"""
    assert page(body).links() == [
        "http://example.com/dir/b.html",
        "http://example.com/c.html",
        "http://other.org/d",
        "http://example.com/dir/page.html",
        "http://example.com/f?q=a%20b&r=1",
        "http://example.com/dir/page.html?only=query",
        "http://example.com/n",
    ]


XHTML = """<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "x">
<html xmlns="http://www.w3.org/1999/xhtml"><head><title/><script src="a.js" /><!-- <style/> -->
<style type="text/css">a &gt; b {} <title/></style></head><body><p>ü<iframe src="i>"/>
<a href="/1">1</a><textarea cols='5'/><a href="/2">2</a><noscript/></p></body></html>"""


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (XHTML, "text/html"),
        (XHTML.partition("\n")[2], "text/html"),
        (XHTML.replace(' xmlns="http://www.w3.org/1999/xhtml"', ""), "text/html"),
        ("<?xml version='1.0'?><html><script/>" + XHTML.partition("<body>")[2], "text/html"),
        ("<html><script/>" + XHTML.partition("<body>")[2], "application/xhtml+xml"),
    ],
)
def test_xhtml_is_read_to_its_end_by_every_parser(body: str, content_type: str) -> None:
    response = page(body.encode("cp1252"), content_type + "; charset=cp1252")
    assert response.links() == ["http://example.com/1", "http://example.com/2"]
    assert response.css("a::attr(href)").getall() == ["/1", "/2"]
    assert [link["href"] for link in response.soup.find_all("a")] == ["/1", "/2"]
    assert response.text == body  # the body as sent


@pytest.mark.parametrize(
    "element",
    [
        '<iframe src="x" allowfullscreen />',
        '<script defer src="x"/>',
        "<script src=x />",
        "<script/ async/>",
        "<noscript><iframe src='x'/></noscript>",
        "<template><script/></template>",
        "<template/>",
        "<textarea disabled/><title a=b c = 'd>' />",
    ],
)
def test_what_ends_itself_in_xhtml_takes_no_links_with_it(element: str) -> None:
    response = page(
        f"<html xmlns='x'><body>{element}<a href=/1>1</a><title>x</title></body></html>"
    )
    assert response.links() == ["http://example.com/1"]
    assert response.css("a::attr(href)").getall() == ["/1"]
    assert [link["href"] for link in response.soup.find_all("a")] == ["/1"]


@pytest.mark.parametrize(
    "rest", ["<script ", "<script a='", '<iframe a="x" /', "<title/", "<xmp b= "]
)
def test_tags_of_xhtml_that_are_left_open_are_read_once(rest: str) -> None:
    """It would take minutes if each were read to the end of the page."""
    html = b"<html xmlns='x'>" + rest.encode() * 300_000
    assert xhtml.with_end_tags(html).startswith(html[:-10])


def test_a_value_without_quotes_may_end_with_a_slash() -> None:
    assert xhtml.with_end_tags(b"<script src=x/></script>") == b"<script src=x/></script>"


def test_what_is_not_declared_xhtml_is_read_as_html() -> None:
    assert page("<html><body><script/><a href=1></a>").links() == []
    script = "<script>x = '<script src=\"y\"/>';</script><a href=/1>1</a>"
    assert page(f"<html xmlns='x'>{script}").css("script::text").get() == (
        "x = '<script src=\"y\"/>';"
    )


def test_links_only_of_html() -> None:
    for content_type in ("application/json", "text/plain", "image/png", "application/pdf"):
        assert page('<a href="x">', content_type).links() == []


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ('<base href="/other/">', "http://example.com/other/x"),
        ("<BaSe target=_top><base href='//cdn.org'>", "http://cdn.org/x"),
        ('<base href="sub/"><base href="/second/">', "http://example.com/dir/sub/x"),
        ('<base href="mailto:x">', "http://example.com/dir/x"),
        ("<base href>", "http://example.com/dir/x"),
        ("<!-- <base href='/no/'> -->", "http://example.com/dir/x"),
        ("<basefont href='/no/'>", "http://example.com/dir/x"),
    ],
)
def test_base_is_honoured(base: str, expected: str) -> None:
    response = page(f"<html><head>{base}</head><a href=x>x</a></html>")
    assert response.urljoin("x") == expected
    assert response.links() == [expected]
    assert response.follow(response.css("a")[0]).url == expected


def test_query_is_sent_in_the_encoding_of_the_page() -> None:
    body = '<meta charset=gbk><a href="/找?城=北京&amp;a=%20+b#段">x</a>'.encode("gbk")
    expected = "http://example.com/%E6%89%BE?%B3%C7=%B1%B1%BE%A9&a=%20+b"
    assert page(body).links() == [expected]
    assert page("<a href='/找?城'>").links() == ["http://example.com/%E6%89%BE?%E5%9F%8E"]


def test_urljoin_refuses_other_schemes() -> None:
    with pytest.raises(BadRequest, match=r"mailto:x.*http://example.com"):
        page("").urljoin("mailto:x")


class Example(Spider):
    name = "example"

    def parse_item(self, response: Response, place: int) -> None:
        """A callback."""


def test_follow_takes_all_options_of_request() -> None:
    response = page(HTML)
    options: dict[str, Any] = {
        "method": "POST",
        "headers": {"X-A": "1"},
        "body": b"data",
        "cookies": {"c": "2"},
        "cb_kwargs": {"place": 3},
        "meta": {"m": 4},
        "priority": 5,
        "dont_filter": True,
        "errback": "failed",
        "delay": 6.0,
        "downloader": "requests",
    }
    request = response.follow("x", Example().parse_item, **options)
    assert (request.url, request.callback) == ("http://example.com/dir/x", "parse_item")
    assert {name: getattr(request, name) for name in options} == options
    assert request.depth == 0
    assert response.follow("x", callback="parse_item").callback == "parse_item"
    with pytest.raises(BadRequest, match="there is no argument 'wrong'"):
        response.follow("x", wrong=1)


def test_follow_takes_elements_of_every_parser() -> None:
    response = page('<a class=k href=" x ">l</a><link href=l.css><img src=i.png><p>text</p>')
    links = [
        response.css("a")[0],
        response.css("a::attr(href)")[0],
        response.xpath("//a/@href")[0],
        response.tree.css_first("a"),
        response.soup.a,
        "x",
    ]
    assert {response.follow(link).url for link in links} == {"http://example.com/dir/x"}
    assert response.follow(response.css("link")[0]).url == "http://example.com/dir/l.css"
    assert response.follow(response.css("img")[0]).url == "http://example.com/dir/i.png"
    assert response.follow(response.soup.img).url == "http://example.com/dir/i.png"


def test_follow_refuses_what_is_no_link() -> None:
    response = page('<a>none</a><a href="mailto:x">m</a><p>text</p>')
    for wrong in (response.css("a")[0], response.css("p")[0], response.soup.p, None, 5):
        with pytest.raises(BadRequest):
            response.follow(wrong)
    with pytest.raises(BadRequest, match="follow_all"):
        response.follow(response.css("a"))
    with pytest.raises(BadRequest, match="mailto:x"):
        response.follow(response.css("a")[1])


def test_follow_all() -> None:
    response = page("<a href=1>x</a><a>no</a><a href=javascript:x>j</a><p><a href=2>y</a></p>")
    expected = ["http://example.com/dir/1", "http://example.com/dir/2"]
    for requests in (
        response.follow_all(css="a"),
        response.follow_all(css="a::attr(href)"),
        response.follow_all(xpath="//a"),
        response.follow_all(response.css("a")),
        response.follow_all(response.tree.css("a")),
        response.follow_all(response.soup.find_all("a")),
        response.follow_all(["1", "mailto:x", "2"]),
    ):
        assert [request.url for request in requests] == expected
    (request,) = response.follow_all(["1"], "parse_item", meta={"a": 1}, priority=2)
    assert (request.callback, request.meta, request.priority) == ("parse_item", {"a": 1}, 2)
    assert list(response.follow_all([])) == []


@pytest.mark.parametrize("given", [{}, {"css": "a", "xpath": "//a"}, {"urls": [], "css": "a"}])
def test_follow_all_needs_one_source(given: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match="one of"):
        page("").follow_all(**given)


@pytest.mark.parametrize(
    "behind",
    ["<p>b</p>", "text<p>b</p>tail", "<div><p>b</p></div>", "<!-- c --><p>b</p>", "</html><p>b</p>",
     "<html><body class=x><p>b</p></body></html>", "<html><head><title>t</title></head><p>b</p>",
     "</body></html><p>b</p></html><!-- c -->tail"],
)  # fmt: skip
@pytest.mark.parametrize("page", ["<html><body><p>a</p></body></html>", "<p>a</p></html>",
                                  "<head></head><body>x<p>a</p></html>"])  # fmt: skip
def test_what_stands_behind_the_end_is_seen_by_every_way_of_asking(page: str, behind: str) -> None:
    link = '<a href="/z">z</a>'
    response = Response(
        "http://h/", 200, {"Content-Type": "text/html"}, (page + behind + link).encode(),
        Request("http://h/"),
    )  # fmt: skip
    texts = ["a", "b"]
    assert response.css("p::text").getall() == texts
    assert response.xpath("//p/text()").getall() == texts
    assert response.selector.css("body p::text").getall() == texts
    assert [node.text() for node in response.tree.css("p")] == texts
    assert [node.get_text() for node in response.soup.find_all("p")] == texts
    assert response.css("a::attr(href)").getall() == ["/z"]
    assert response.links() == ["http://h/z"]
    assert ("tail" in behind) == any("tail" in text for text in response.css("*::text").getall())
