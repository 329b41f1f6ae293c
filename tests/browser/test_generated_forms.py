"""Forms of every kind: response.form sends the same as Chromium."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from crawlframe.errors import BadRequest
from crawlframe.testing import make_response
from tests.browser.conftest import chromium
from tests.readers.generated_forms import Generator

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

URL = "http://shop.example/a/login?x=1"
HTML = {"Content-Type": "text/html; charset=utf-8"}
BOUNDARY = re.compile(rb"----WebKitFormBoundary\w+|[0-9a-f]{32}")
SUBMIT = """() => {
    const form = document.querySelector("form#f");
    if (!form || form.namespaceURI !== "http://www.w3.org/1999/xhtml") return false;
    const buttons = [...document.querySelectorAll("input, button")].filter(one =>
        one.form === form && (one.type === "submit" || one.type === "image")
        && !one.matches(":disabled") && !one.closest("select"));
    form.requestSubmit(buttons[0]);
    return true;
}"""


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with chromium() as browser:
        yield browser.new_context(java_script_enabled=False).new_page()


def sent_by(page: Page, html: str) -> tuple[Any, ...] | None:
    """Method, URL, Content-Type and body of the request that Chromium makes; None for no form."""
    sent: list[tuple[Any, ...]] = []
    opened = False

    def answer(route: Route) -> None:
        nonlocal opened
        request = route.request
        if not request.is_navigation_request():
            route.abort()
        elif not opened:
            opened = True
            route.fulfill(body=html.encode(), headers=HTML)
        else:
            url, kind = request.url.partition("#")[0], request.headers.get("content-type")
            sent.append(comparable(request.method, url, kind, request.post_data_buffer))
            route.fulfill(status=204)  # it stays at the form

    page.unroute_all()
    page.route("**/*", answer)
    page.goto(URL)
    if not page.evaluate(SUBMIT):
        return None
    while not sent:
        page.wait_for_timeout(1)
    return sent[0]


def comparable(method: str, url: str, kind: str | None, body: bytes | None) -> tuple[Any, ...]:
    kind = BOUNDARY.sub(b"BOUNDARY", (kind or "").encode()).decode()
    return method, url, kind, BOUNDARY.sub(b"BOUNDARY", body or b"")


def ours(html: str) -> tuple[Any, ...] | None:
    try:
        request = make_response(URL, html=html, headers=HTML).form(css="form#f")
    except BadRequest:
        return None
    kind = request.headers.get("Content-Type")
    return comparable(request.method, request.url, kind, request.body)


@pytest.mark.parametrize("forms", [110, pytest.param(340, marks=pytest.mark.long)])
def test_generated_forms_are_sent_as_chromium_sends_them(page: Page, forms: int) -> None:
    compared, different = 0, []
    for seed in range(forms):
        html = Generator(seed).page()
        theirs = sent_by(page, html)
        if theirs is None:  # it is in another form, for which ours is taken then
            continue
        compared += 1
        if (mine := ours(html)) != theirs:
            different.append((seed, html, mine, theirs))
    assert compared >= 0.9 * forms
    assert len(different) <= compared // 100, different
