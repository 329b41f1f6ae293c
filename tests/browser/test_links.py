"""The links of mutated pages are the same as Chromium's without scripts."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

import pytest

from crawlframe.testing import make_response
from tests.browser.conftest import chromium
from tests.readers.mutation import PAGE, mutated

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

URL = "http://shop.example/a/b?x=1"
HTML = {"Content-Type": "text/html; charset=utf-8"}
# ``a.href`` is the attribute as written where it is no URL.
LINKS = """() => [...document.querySelectorAll("*")].flatMap(one => {
    const html = one instanceof HTMLAnchorElement || one instanceof HTMLAreaElement;
    if (!html && !(one instanceof SVGAElement)) return [];
    let link = one.getAttribute("href");
    if (link === null && !html) link = one.getAttributeNS("http://www.w3.org/1999/xlink", "href");
    if (link === null || !URL.canParse(link, document.baseURI)) return [];
    return [new URL(link, document.baseURI).href.replace(/#.*/s, "")];
})"""


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with chromium() as browser:
        yield browser.new_context(java_script_enabled=False).new_page()


def links_in(page: Page, body: bytes) -> list[str]:
    answered = False

    def answer(route: Route) -> None:
        nonlocal answered
        if answered:
            route.abort()  # further files of the page, or the target of its refresh
        else:
            answered = True
            route.fulfill(body=body, headers=HTML)

    page.unroute_all()
    page.route("**/*", answer)
    page.goto(URL, wait_until="domcontentloaded")
    found: list[str] = page.evaluate(LINKS)
    # Chromium encodes a space in a host, which is no URL by the standard.
    return [link for link in dict.fromkeys(found) if link.startswith("http") and " " not in link]


@pytest.mark.parametrize("pages", [40, pytest.param(120, marks=pytest.mark.long)])
def test_links_are_those_that_chromium_has(page: Page, pages: int) -> None:
    wrong = []
    for seed in range(pages):
        body = mutated(PAGE.encode(), Random(seed)).replace(b"http://a b/", b"http://a/")
        ours = make_response(URL, body=body, headers=HTML).links()
        if ours != (theirs := links_in(page, body)):
            wrong.append((seed, ours, theirs))
    assert not wrong
