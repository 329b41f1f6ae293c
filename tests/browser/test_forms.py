"""response.form sends the same as Chromium when the same form is filled in and submitted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from crawlframe import Request
from crawlframe.testing import make_response
from tests.browser.conftest import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Route

URL = "http://shop.example/a/login?x=1"
BOUNDARY = re.compile(rb"----WebKitFormBoundary\w+|[0-9a-f]{32}")

FORMS = {
    "fields": """<form id=f method=post action="go?z=1#top">
        <input type=hidden name=csrf value="a b&amp;c"><input name=user value=old>
        <input type=password name=secret><input type=checkbox name=on checked>
        <input type=checkbox name=off value=1><input type=radio name=r value=1>
        <input type=radio name=r value=2 checked><input value=nameless><input name="" value=empty>
        <input type=reset name=reset value=1><input type=button name=plain value=1>
        <input type=EMAIL name=mail value="a@b.example"><input type=range name=range value=7>
        <input type=color name=color value="#ff0000">
        <select name=one><option>first<option value=2>second</select>
        <select name=chosen><option>first<option value=2 selected>second</select>
        <select name=barred><option value="" disabled>choose<option value=3>third</select>
        <select name=many multiple><option selected>1<option>2<option selected>3</select>
        <select name=empty></select><select name=none multiple><option>1</select>
        <textarea name=note>
two
lines &amp; more</textarea>
        <fieldset><input name=in value=1></fieldset>
        <fieldset disabled><input name=barred2 value=1></fieldset><input name=dis value=1 disabled>
        <button type=button name=script value=1>x</button><button name=go value=in>Go</button>
        <button name=go value=other>Other</button></form>""",
    "outside": """<base href="/b/"><form id=f action=find><input name=q value="ü+ &amp;=%">
        <input name=not form=other value=1></form><form id=other></form>
        <input name=far form=f value=2><input type=submit name=far2 form=f value=ok>""",
    "no action": "<base href=/b/><form id=f method=post><input name=a value=1><button>Go</button>",
    "multipart": """<form id=f method=post action=/up enctype=multipart/form-data>
        <input name=a value='ü"q'><input type=hidden name=b>
        <button name=c value=d>Go</button></form>""",
    "button": """<form id=f method=get action=/get><input name=a value=1>
        <button name=b value=2 formmethod=post formaction="../post">Go</button></form>""",
    "table": """<table><form id=f method=post action=/t><tr><td><input name=a value=1></td></tr>
        <tr><td><button name=b value=2>Go</button></td></tr></form></table>""",
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


def sent_by(browser: Browser, html: str, charset: str, filled: dict[str, str]) -> dict[str, Any]:
    """The request that the browser makes for the first button of form#f."""
    page = browser.new_page()
    sent: list[dict[str, Any]] = []

    def answer(route: Route) -> None:
        request = route.request
        if request.url != URL or request.method == "POST":
            body = request.post_data_buffer
            headers = request.headers
            sent.append(
                {
                    "url": request.url.partition("#")[0],
                    "method": request.method,
                    "body": body,
                    "type": headers.get("content-type"),
                }
            )
            route.fulfill(body="done")
        else:
            kind = f"text/html; charset={charset}"
            route.fulfill(body=html.encode(charset), headers={"Content-Type": kind})

    page.route("**/*", answer)
    page.goto(URL)
    for name, value in filled.items():
        page.fill(f"#f [name={name}]", value)
    page.evaluate("f.requestSubmit([...f.elements].find(e => e.type === 'submit'))")
    page.wait_for_url(lambda url: bool(sent))
    page.close()
    return sent[0]


def comparable(sent: dict[str, Any]) -> tuple[Any, ...]:
    """A request with the same boundary, and the same order of fields."""
    body = BOUNDARY.sub(b"BOUNDARY", sent["body"] or b"")
    kind = BOUNDARY.sub(b"BOUNDARY", (sent["type"] or "").encode()).decode()
    url, _, query = sent["url"].partition("?")
    if kind.endswith("urlencoded"):
        return sent["method"], sent["url"], kind, sorted(body.split(b"&"))
    return sent["method"], url, sorted(query.split("&")), kind, body


def ours(request: Request) -> dict[str, Any]:
    return {
        "url": request.url,
        "method": request.method,
        "body": request.body,
        "type": request.headers.get("Content-Type"),
    }


@pytest.mark.parametrize("charset", ["utf-8", "gb18030", "windows-1252"])
@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_sent_as_chromium_sends_it(browser: Browser, name: str, charset: str) -> None:
    html = FORMS[name]
    filled = {"user": "anna ü", "secret": "€1 +"} if name == "fields" else {}
    body = html.encode(charset)
    headers = {"Content-Type": f"text/html; charset={charset}"}
    request = make_response(URL, body=body, headers=headers).form(filled, css="#f")
    assert comparable(ours(request)) == comparable(sent_by(browser, html, charset, filled))
