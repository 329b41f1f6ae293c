"""response.form: the request that a browser sends when a form is submitted."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

import pytest

from crawlframe import Request, Response, Secret
from crawlframe.errors import BadRequest
from crawlframe.testing import make_response, run
from tests.howto import spider_of

URL = "https://shop.example/account/login?next=1"
SEARCH = '<form id=search action="/search"><input name=q value=all></form>'
LOGIN = """<form id=login name=account method=post action=check>
<input type=hidden name=csrf value="a b&amp;c">
<input name=user><input type=password name=password>
<input type=checkbox name=remember value=yes checked><input type=checkbox name=news value=yes>
<input type=radio name=as value=buyer><input type=radio name=as value=seller checked>
<select name=language><option value=de>Deutsch<option value=en>English</select>
<select name=shops multiple><option selected>1<option>2<option selected>3</select>
<textarea name=note>
two
lines</textarea>
<input name=off value=1 disabled><fieldset disabled><input name=none value=1></fieldset>
<input value=nameless><input type=reset name=reset value=1><input type=button name=plain value=1>
<button name=go value=in>Log in</button><button name=go value=guest formaction=/guest>Guest</button>
</form>"""
FIELDS = [
    ("csrf", "a b&c"), ("remember", "yes"), ("as", "seller"), ("language", "de"), ("shops", "1"),
    ("shops", "3"), ("note", "two\r\nlines"), ("user", "anna"), ("password", "x"), ("go", "in"),
]  # fmt: skip


def page(html: str, **more: Any) -> Response:
    return make_response(URL, html=html, **more)


def fields(request: Request) -> list[tuple[str, str]]:
    assert request.body is not None
    return parse_qsl(request.body.decode(), keep_blank_values=True)


def test_a_form_is_sent_as_a_browser_does() -> None:
    request = page(SEARCH + LOGIN).form(
        {"user": "anna", "password": "x"}, "logged_in", priority=3, headers={"X-Of": "mine"}
    )
    assert (request.url, request.method) == ("https://shop.example/account/check", "POST")
    assert request.headers == {
        "Content-Type": "application/x-www-form-urlencoded",
        "X-Of": "mine",
    }
    assert sorted(fields(request)) == sorted(FIELDS)
    assert (request.callback, request.priority) == ("logged_in", 3)


def test_fields_are_changed_added_and_left_out() -> None:
    request = page(LOGIN).form(
        {"language": "en", "shops": [2, "4"], "remember": None, "scripted": 1.5}, click=False
    )
    assert sorted(fields(request)) == [
        ("as", "seller"), ("csrf", "a b&c"), ("language", "en"), ("note", "two\r\nlines"),
        ("password", ""), ("scripted", "1.5"), ("shops", "2"), ("shops", "4"), ("user", ""),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("html", "url"),
    [
        ("<form><input name=q value=1>", "https://shop.example/account/login?q=1"),
        ("<form action=''><input name=q value=1>", "https://shop.example/account/login?q=1"),
        ("<form action='/s?a=1#b'><input name=q value=1>", "https://shop.example/s?q=1"),
        (
            "<base href=//cdn.example/b/><form action=' s '><input name=q>",
            "https://cdn.example/b/s?q=",
        ),
        (
            "<base href=//cdn.example/b/><form><input name=q>",
            "https://shop.example/account/login?q=",
        ),
    ],
)
def test_the_address_is_that_of_the_form(html: str, url: str) -> None:
    request = page(html).form()
    assert (request.url, request.method, request.body) == (url, "GET", None)
    assert request == Request(url)


def test_a_button_has_its_own_address_method_and_value() -> None:
    request = page(LOGIN).form(click="button[value=guest]")
    assert request.url == "https://shop.example/guest"
    assert ("go", "guest") in fields(request)
    assert ("go", "in") not in fields(request)
    get = "<button formmethod=get formaction=/go name=a value=1>"
    assert (
        page(f"<form method=post action=javascript:x()>{get}").form().url
        == "https://shop.example/go?a=1"
    )


def test_fields_elsewhere_on_the_page_that_name_the_form() -> None:
    html = """<form id=a method=post><input name=in value=1><input name=not form=b value=1></form>
    <input name=out form=a value=2><input name=not form=b value=2>"""
    assert fields(page(html).form()) == [("in", "1"), ("out", "2")]
    assert page(html + SEARCH).form({"out": "3"}).body == b"in=1&out=3"


def test_the_page_is_left_as_it_is() -> None:
    response = page(LOGIN)
    before = response.selector.get()
    response.form(click="button[value=guest]")
    assert response.selector.get() == before


def test_the_form_is_the_one_that_has_the_fields_or_is_selected() -> None:
    response = page(SEARCH + LOGIN)
    assert response.form({"q": "x"}).url == "https://shop.example/search?q=x"
    for selected in (
        response.form(css="#login"),
        response.form(css="[name=password]"),
        response.form(css="input[type=checkbox]"),
        response.form(xpath="//button[text()='Guest']"),
    ):
        assert selected.url == "https://shop.example/account/check"


def test_text_is_sent_in_the_encoding_of_the_page() -> None:
    html = (
        "<meta charset=gb2312><form method=post><input type=hidden name=城 value=京><input name=q>"
    )
    headers = {"Content-Type": "text/html; charset=gb2312"}
    request = page(html, headers=headers).form({"q": "中 ☃😀"})
    assert request.body is not None
    assert request.body.startswith(b"%B3%C7=%BE%A9&q=%D6%D0+")
    pairs = parse_qsl(request.body.decode(), encoding="gb18030")
    assert pairs == [("城", "京"), ("q", "中 ☃😀")]
    latin = page(
        "<form action=/s><input name=q value=ü>",
        headers={"Content-Type": "text/html; charset=latin1"},
    )
    assert latin.form().url == "https://shop.example/s?q=%FC"
    assert latin.form({"q": "☃"}).url == "https://shop.example/s?q=%26%239731%3B"


def test_multipart() -> None:
    html = """<form method=post enctype=multipart/form-data>
    <input name=a value=ü><button name=b value=1>"""
    request = page(html).form()
    boundary = request.headers["Content-Type"].removeprefix("multipart/form-data; boundary=")
    assert request.body is not None
    assert request.body.decode().split("\r\n") == [
        f"--{boundary}", 'Content-Disposition: form-data; name="a"', "", "ü",
        f"--{boundary}", 'Content-Disposition: form-data; name="b"', "", "1",
        f"--{boundary}--", "",
    ]  # fmt: skip
    assert request == page(html).form()
    assert request.fingerprint() != page(html).form({"a": "x"}).fingerprint()


def test_plain_text() -> None:
    request = page("<form method=post enctype=text/plain><input name=a value=1>").form({"b": "x y"})
    assert (request.body, request.headers) == (b"a=1\r\nb=x y\r\n", {"Content-Type": "text/plain"})


@pytest.mark.parametrize(
    ("html", "given", "words"),
    [
        ("<p>", {}, "the page has no form"),
        (
            SEARCH + LOGIN, {},
            '2 forms are on the page; select one, as in css=.#login.: <form id="search" '
            'action="/search"> with q; <form id="login" name="account" action="check"> with csrf, ',
        ),
        (SEARCH + LOGIN, {"data": {"usr": "x"}}, "no form with the fields usr is on the page"),
        (SEARCH + LOGIN, {"css": "#logon"}, "no form for css='#logon' is on the page"),
        (SEARCH + LOGIN, {"xpath": "//p"}, "no form for xpath='//p' is on the page"),
        (SEARCH + LOGIN, {"xpath": "//form/@id"}, "no form for xpath='//form/@id' is"),
        (SEARCH + LOGIN, {"css": "form"}, "2 forms for css='form' are on the page"),
        (SEARCH, {"css": "form", "xpath": "//form"}, "give one of css and xpath"),
        (LOGIN, {"click": "button"}, "click='button' selects 2 of the form's buttons: <button"),
        (LOGIN, {"click": "#no"}, "click='#no' selects none of the form's buttons: <button"),
        (SEARCH, {"click": "input"}, "selects none of the form's buttons: it has none"),
        (SEARCH, {"data": {"q": Secret("x")}}, "'q' is a Secret; reveal"),
        (SEARCH, {"data": {"q": True}}, "'q' is True; give the text to send"),
        (SEARCH, {"data": {"q": b"x"}}, "'q' is b'x'; give the text"),
        (SEARCH, {"method": "POST"}, "the form says its method itself"),
        ("<form action=mailto:a@b.example>", {}, "'mailto:a@b.example' on .* does not lead to"),
        ("<form method=dialog>", {}, "DIALOG"),
    ],
)  # fmt: skip
def test_what_is_not_clear_is_an_error(html: str, given: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        page(html).form(**given)


def test_a_page_without_html_has_no_form() -> None:
    with pytest.raises(BadRequest, match="it is not HTML but json"):
        make_response(URL, json={}).form()


def test_the_example_of_a_search_form() -> None:
    parts = spider_of("reference/spiders.md", "parts")
    html = "<form action=/s><input name=q><select name=sort><option>name<option>price</select>"
    [request] = run(parts, page(html, cb_kwargs={"word": "gear 2"})).requests
    assert request == Request("https://shop.example/s?q=gear+2&sort=price", "found")
    html = "<div class=part><b>A</b></div><form id=next action=/s><button name=to value=next>"
    result = run(parts, page(html), "found")
    assert result.items == [{"name": "A"}]
    assert result.requests == [Request("https://shop.example/s?to=next", "found")]


def test_the_example_of_a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "x")
    html = (SEARCH + LOGIN).replace("&amp;", "")
    [request] = run(spider_of("howto/log-in.md", "orders"), page(html), "log_in").requests
    assert request.callback == "logged_in"
    assert {("csrf", "a bc"), ("user", "crawler"), ("password", "x")} <= {*fields(request)}


@pytest.mark.parametrize(
    ("html", "sent"),
    [
        ("<div><form></div><input name=a value=1></form><input name=b>", "a=1"),
        ("<table><form><tr><td><input name=a></td></tr></form></table><input name=b>", "a="),
        ("<table><form><input name=a><tr><td><input name=b></table>", "a=&b="),
        ("<form><form action=/x><input name=a></form><input name=b>", "a="),
        (
            "<form><i title='</form>'></i><!--</form>--><input name=a></form><input name=b>",
            "a=",
        ),
        ("<form><template><input name=a></template><input name=b>", "b="),
        ("<form><svg><input name=a></svg><input name=b>", "b="),
        ("<form><input type=radio name=a checked>", "a=on"),
        ("<form><input type=checkbox name=b value checked>", "b="),
        ("<form><input type=radio name=a checked><input type=radio name=a value=2 checked>", "a=2"),
        (
            "<form><fieldset disabled><legend><input name=a></legend><legend><input name=b>",
            "a=",
        ),
        ("<form><button name=a>x</button>", "a="),
        ("<form><input type=submit name=a>", "a=Submit"),
        ("<form><input type=image name=a value=1><input type=image>", "a.x=0&a.y=0"),
        ("<form><select name=a><option> x \n y</select>", "a=x+y"),
        ("<form><select name=a><option value>x<option>y</select>", "a="),
        ("<form><select name=a><optgroup disabled><option>x</optgroup><option>y</select>", "a=y"),
        ("<form accept-charset='x l1'><input name=a value=ü>", "a=%FC"),
        ("<form><input type=file name=a><input name=b value='~*'>", "a=&b=%7E*"),
        ("<form><textarea name=t><input name=x></textarea>", "t=%3Cinput+name%3Dx%3E"),
    ],
)
def test_fields_are_those_of_browsers(html: str, sent: str) -> None:
    assert page(html).form(xpath="//form").url == f"{URL.partition('?')[0]}?{sent}"


def test_a_value_for_a_button() -> None:
    buttons = (
        "<button name=go value=in>A</button><button name=go value=out formaction=/o>B</button>"
    )
    form = f"<form action=/f>{buttons}"
    assert page(form).form({"go": "x"}).url == "https://shop.example/f?go=x"
    assert page(form).form({"go": "out"}).url == "https://shop.example/o?go=out"
    assert page(form).form({"go": None}).url == "https://shop.example/f?"
    both = f"<form action=/f><input name=go value=1>{buttons}"
    assert page(both).form({"go": "x"}).url == "https://shop.example/f?go=x&go=in"


def test_a_file_that_is_not_chosen() -> None:
    request = page("<form method=post enctype=multipart/form-data><input type=file name=a>").form()
    assert b'; name="a"; filename=""\r\nContent-Type: application/octet-stream' in (
        request.body or b""
    )
