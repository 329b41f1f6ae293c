"""Tests of the browser downloader beyond the common contract, with a real Chromium."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import pytest

from crawlframe.errors import (
    BadRedirect,
    BodyTooLarge,
    BrowserLost,
    ConnectError,
    ConnectionLost,
    DnsError,
    DownloadRefused,
    FetchError,
    FetchTimeout,
    RobotsForbidden,
    TlsError,
    TooManyRedirects,
)
from crawlframe.fetch.browser.settings import FILES
from crawlframe.fetch.journey.cookies import TaskCookies
from crawlframe.fetch.journey.trail import Redirected, Trail
from crawlframe.request.request import Request
from crawlframe.spider.setting_tables import BrowserSettings
from tests.fetch.conftest import Exchange

from .conftest import LIMIT, Browser, Site, html, of_task, paths

WRITES = "<p id=x>old</p><script>document.getElementById('x').textContent = 'new'</script>"


def get(site: Site, path: str, **options: Any) -> Request:
    return Request(f"{site.url}{path}", downloader="browser", **options)


# -- the page ----------------------------------------------------------------------------------


def test_the_body_is_the_dom_after_its_scripts(browser: Browser, site: Site) -> None:
    html(site, "/", f"<!doctype html>{WRITES}", **{"X-Own": "1"})
    response = browser.fetch(f"{site.url}/")
    assert response.css("#x::text").get() == "new"
    assert response.html.startswith("<!DOCTYPE html><html>")
    assert (response.status, response.headers["x-own"], response.kind) == (200, "1", "html")
    assert (response.url, response.redirects, response.address) == (f"{site.url}/", (), "127.0.0.1")


def test_the_status_is_that_of_the_document(browser: Browser, site: Site) -> None:
    site.answer("/", WRITES.encode(), status=503, headers={"Content-Type": "text/html"})
    response = browser.fetch(f"{site.url}/")
    assert (response.status, response.css("#x::text").get()) == (503, "new")


def test_what_scripts_load_after_the_page_is_waited_for(browser: Browser, site: Site) -> None:
    site.answer("/data", b"[1, 2]", headers={"Content-Type": "application/json"})
    script = "fetch('/data').then(a => a.json()).then(d => document.title = d.length)"
    html(site, "/", f"<script>setTimeout(() => {script}, 100)</script>")
    response = browser.fetch(f"{site.url}/", {"browser": BrowserSettings(settle=5.0)})
    assert response.css("title::text").get() == "2"


def test_other_documents_are_as_they_were_sent(browser: Browser, site: Site) -> None:
    site.answer("/", b'{"a": [1]}', headers={"Content-Type": "application/json"})
    response = browser.fetch(f"{site.url}/")
    assert (response.json(), response.body) == ({"a": [1]}, b'{"a": [1]}')


def test_the_url_is_the_one_that_scripts_have_made_of_it(browser: Browser, site: Site) -> None:
    html(site, "/", "<script>history.pushState({}, '', '/shop/1#top')</script><a href=2>x</a>")
    response = browser.fetch(f"{site.url}/")
    assert response.url == f"{site.url}/shop/1"
    assert response.links() == [f"{site.url}/shop/2"]


EVERYTHING = """<link rel=stylesheet href=/style.css><img src=/picture><video src=/film></video>
<style>@font-face { font-family: own; src: url(/font) } p { font-family: own;
background: url(/picture2) }</style><p>text</p><script src=/script.js></script>"""


@pytest.mark.parametrize("coding", [{}, {"Transfer-Encoding": "chunked"}])
def test_images_fonts_and_media_are_not_loaded(
    browser: Browser, site: Site, coding: dict[str, str]
) -> None:
    if coding:
        data = EVERYTHING.encode()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
        site.raw("/", head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data), keep=True)
    else:
        html(site, "/", EVERYTHING)
    browser.fetch(f"{site.url}/")
    assert {*paths(site)} == {"/", "/style.css", "/script.js"}


def test_they_are_if_the_spider_wants_them(browser: Browser, site: Site) -> None:
    html(site, "/", EVERYTHING)
    browser.fetch(f"{site.url}/", {"browser": BrowserSettings(block=())})
    assert {*paths(site)} >= {"/", "/style.css", "/script.js", "/picture", "/film", "/picture2"}


# -- requests ----------------------------------------------------------------------------------


def test_headers_and_body_of_the_request_are_sent(browser: Browser, site: Site) -> None:
    html(site, "/", "<script src=/s.js></script>")
    browser.fetch(get(site, "/", form={"a": "1"}, headers={"X-Own": "yes", "User-Agent": "me/1"}))
    page, script = (one for one in site.seen if one.target in ("/", "/s.js"))
    assert (page.method, page.body) == ("POST", b"a=1")
    assert page.header("Content-Type") == "application/x-www-form-urlencoded"
    assert page.header("X-Own") == "yes"
    assert page.header("User-Agent") == script.header("User-Agent") == "me/1"
    assert script.header("X-Own") is None


def test_a_task_has_its_cookies_in_the_browser_too(browser: Browser, site: Site) -> None:
    jar = TaskCookies()
    jar.absorb(site.url + "/", ["before=1; Path=/"])
    cookie = {"Set-Cookie": "server=2; Path=/; HttpOnly"}
    html(site, "/", "<script>document.cookie = 'script=3; path=/'</script>", **cookie)
    html(site, "/next", "")
    browser.fetch(get(site, "/"), jar=jar, spider=of_task(1))
    assert site.seen[0].header("Cookie") == "before=1"
    assert {key.rpartition("|")[2] for key in jar.dump()} == {"before", "server", "script"}
    jar.absorb(site.url + "/", ["before=9; Path=/", "script=; Max-Age=0; Path=/"])
    browser.fetch(get(site, "/next"), jar=jar, spider=of_task(1))
    sent = site.seen[-1].header("Cookie") or ""
    assert {"before=9", "server=2"} <= {*sent.split("; ")}


def test_cookies_of_a_request_are_sent_with_it_only(browser: Browser, site: Site) -> None:
    html(site, "/", "")
    jar = TaskCookies()
    browser.fetch(get(site, "/", cookies={"own": "1"}), jar=jar)
    browser.fetch(get(site, "/"), jar=jar)
    assert [exchange.header("Cookie") for exchange in site.seen] == ["own=1", None]
    assert not jar.dump()


def test_sessions_do_not_share_cookies(browser: Browser, site: Site) -> None:
    html(site, "/", "", **{"Set-Cookie": "who=x; Path=/"})
    jar, spider = TaskCookies(), of_task(2)
    for session in ("a", "a", "b", None):
        browser.fetch(get(site, "/", session=session), jar=jar, spider=spider)
    assert [one.header("Cookie") for one in site.seen] == [None, "who=x", None, None]


STORES = """<script>
document.cookie = "mark=1; path=/";
localStorage.mark = "1"; sessionStorage.mark = "1";
indexedDB.open("mark", 1);
caches.open("mark").catch(() => 0);
</script><script src=/cached.js></script>"""
LOOKS = """<p id=x></p><script>(async () => {
const found = [document.cookie, localStorage.mark, sessionStorage.mark,
  ...(await indexedDB.databases()).map(one => one.name)];
document.getElementById("x").textContent = found.filter(one => one).join(" ") || "nothing";
})()</script><script src=/cached.js></script>"""


def test_no_task_sees_what_another_one_has_stored(browser: Browser, site: Site) -> None:
    html(site, "/stores", STORES)
    html(site, "/looks", LOOKS)
    cached = {"Content-Type": "text/javascript", "Cache-Control": "max-age=3600"}
    site.answer("/cached.js", b"1", headers=cached)
    browser.fetch(get(site, "/stores"), jar=TaskCookies(), spider=of_task(3))
    settle = {"browser": BrowserSettings(settle=5.0)}
    mine = browser.fetch(get(site, "/looks"), settle, jar=TaskCookies(), spider=of_task(3))
    assert mine.css("#x::text").get() == "mark=1 1 1 mark"
    assert paths(site).count("/cached.js") == 1
    other = browser.fetch(get(site, "/looks"), settle, jar=TaskCookies(), spider=of_task(4))
    assert other.css("#x::text").get() == "nothing"
    assert paths(site).count("/cached.js") == 2


# -- redirects ---------------------------------------------------------------------------------


def test_redirects_are_followed_and_checked_one_by_one(browser: Browser, site: Site) -> None:
    site.answer("/", status=302, headers={"Location": "/b", "Set-Cookie": "a=1; Path=/"})
    html(site, "/b", WRITES)
    checked, jar = [], TaskCookies()

    async def check(url: str) -> None:
        checked.append(url)

    response = browser.fetch(get(site, "/"), check=check, jar=jar)
    assert (response.url, response.redirects) == (f"{site.url}/b", (f"{site.url}/",))
    assert checked == [f"{site.url}/", f"{site.url}/b"]
    assert site.seen[-1].header("Cookie") == "a=1"


def test_with_a_trail_each_redirect_ends_the_fetch(browser: Browser, site: Site) -> None:
    site.answer("/", status=301, headers={"Location": "http://127.0.0.2:1/"})
    trail = Trail(get(site, "/"))
    with pytest.raises(Redirected):
        browser.fetch(get(site, "/"), trail=trail)
    assert [(hop.status, hop.url) for hop in trail.hops] == [(301, "http://127.0.0.2:1/")]


def test_too_many_redirects(browser: Browser, site: Site) -> None:
    site.answer("/", status=302, headers={"Location": "/"})
    with pytest.raises(TooManyRedirects):
        browser.fetch(get(site, "/", redirects=3))


def test_a_redirect_that_is_not_followed_is_the_answer(browser: Browser, site: Site) -> None:
    site.answer("/", status=302, headers={"Location": "/b"})
    response = browser.fetch(get(site, "/", redirects=0))
    assert (response.status, response.headers["Location"]) == (302, "/b")


LEADS = ["<script>location = '{}'</script>", "<meta http-equiv=refresh content='0;url={}'>"]


@pytest.mark.parametrize("page", LEADS)
def test_a_script_that_leads_to_another_host_is_a_redirect(
    browser: Browser, site: Site, page: str
) -> None:
    elsewhere = site.url.replace("127.0.0.1", "localhost") + "/there"
    html(site, "/", page.replace("{}", elsewhere))
    trail = Trail(get(site, "/"))
    with pytest.raises(Redirected):
        browser.fetch(get(site, "/"), {"browser": BrowserSettings(settle=5.0)}, trail=trail)
    assert [hop.url for hop in trail.hops] == [elsewhere]
    assert "/there" not in paths(site)
    with pytest.raises(BadRedirect, match="allowed_domains"):
        browser.fetch(
            get(site, "/"),
            {"browser": BrowserSettings(settle=5.0)},
            allowed=lambda host: host == "127.0.0.1",
        )


@pytest.mark.parametrize("page", LEADS)
def test_one_that_leads_on_at_the_same_host_is_checked(
    browser: Browser, site: Site, page: str
) -> None:
    html(site, "/", page.replace("{}", "/there"))
    html(site, "/there", WRITES)
    refused: list[str] = []

    async def check(url: str) -> None:
        if url.endswith("/there") and refused:
            raise RobotsForbidden(url)

    response = browser.fetch(get(site, "/"), {"browser": BrowserSettings(settle=5.0)}, check=check)
    assert (response.url, response.css("#x::text").get()) == (f"{site.url}/there", "new")
    refused.append("/there")
    with pytest.raises(RobotsForbidden):
        browser.fetch(get(site, "/"), {"browser": BrowserSettings(settle=5.0)}, check=check)
    assert paths(site).count("/there") == 1


# -- errors ------------------------------------------------------------------------------------


def fails(browser: Browser, kind: type[FetchError], url: str, /, **settings: Any) -> str:
    with pytest.raises(kind) as caught:
        browser.fetch(Request(url, downloader="browser"), settings)
    assert type(caught.value) is kind
    assert url in str(caught.value)
    return str(caught.value)


def test_failures_of_the_network_have_their_names(browser: Browser, site: Site) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        fails(browser, ConnectError, f"http://127.0.0.1:{port}/")
        fails(browser, ConnectError, f"https://127.0.0.1:{port}/")
    fails(browser, DnsError, "http://nowhere.invalid/")
    fails(browser, DnsError, "https://nowhere.invalid/")
    fails(browser, TlsError, f"{site.tls_url}/")
    site.raw("/cut", b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 99\r\n\r\n<p>")
    fails(browser, ConnectionLost, f"{site.url}/cut")


def test_downloads_are_refused(browser: Browser, site: Site) -> None:
    site.answer("/a", b"x", headers={"Content-Disposition": "attachment; filename=a.html",
                                     "Content-Type": "text/html"})  # fmt: skip
    fails(browser, DownloadRefused, f"{site.url}/a")
    site.answer("/b", b"x", headers={"Content-Type": "application/zip"})
    assert "application/zip" in fails(browser, DownloadRefused, f"{site.url}/b")


def test_a_body_beyond_the_limit_is_refused(browser: Browser, site: Site) -> None:
    site.raw("/known", b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 314572800\r\n\r\n<p>")  # noqa: E501  # fmt: skip

    @site.on("/unknown")
    async def endless(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
        while exchange.sent < 300 << 20:
            await exchange.send(b"<p>text</p>" * 6000)

    for path in ("/known", "/unknown"):
        fails(browser, BodyTooLarge, f"{site.url}{path}", max_body=1 << 20)
    sent = next(one.sent for one in site.seen if one.target == "/unknown")
    assert sent < 100 << 20
    html(site, "/grown", "<p id=x></p><script>x.textContent = 'y'.repeat(2 << 20)</script>")
    fails(browser, BodyTooLarge, f"{site.url}/grown", max_body=1 << 20)


EVILS = {
    "an endless loop": "<script>while (1);</script>",
    "an endless loop later": "<script>setTimeout(() => { while (1); }, 50)</script>",
    "alerts": "<script>while (1) alert('x')</script>",
    "prompts": "<script>setInterval(() => prompt('x'), 1)</script><script src=/never></script>",
    "a script that never comes": "<script src=/never></script>",
    "a leave that is refused": "<script>onbeforeunload = e => { e.preventDefault(); return 'x' }"
                               "</script><script src=/never></script>",
}  # fmt: skip


@pytest.mark.parametrize("evil", EVILS)
def test_evil_pages_end_with_the_timeout(browser: Browser, site: Site, evil: str) -> None:
    stop = threading.Event()

    @site.on("/never")
    async def never(exchange: Exchange) -> bool:
        return True

    html(site, "/", EVILS[evil])
    html(site, "/good", WRITES)
    late = evil.endswith("later")
    settings = {"timeout": 1.5, "browser": BrowserSettings(settle=1.0 if late else 0.0)}
    fails(browser, FetchTimeout, f"{site.url}/", **settings)
    stop.set()
    assert browser.fetch(f"{site.url}/good").css("#x::text").get() == "new"


def test_windows_that_a_page_opens_are_closed(browser: Browser, site: Site) -> None:
    html(site, "/", "<script>for (let i = 0; i < 50; i++) open('/popup' + i)</script>" + WRITES)
    assert browser.fetch(f"{site.url}/").css("#x::text").get() == "new"
    renderers = browser.host.named("--type=renderer")
    assert len(renderers) < 20


def test_a_page_that_waits_for_its_next_order_does_nothing(browser: Browser, site: Site) -> None:
    html(
        site,
        "/",
        """<script>setInterval(() => fetch("/again"), 50);
        const source = "setInterval(() => fetch('" + location.origin + "/worker'), 50)";
        new Worker(URL.createObjectURL(new Blob([source])))</script>""",
    )
    html(site, "/next", WRITES)
    until = time.monotonic() + LIMIT
    while not {"/again", "/worker"} <= {*paths(site)}:
        assert time.monotonic() < until
        browser.fetch(f"{site.url}/", {"browser": BrowserSettings(settle=1.0)})
    before = -1
    while before != len(site.seen):  # requests may still be on their way, on a busy machine
        assert time.monotonic() < until
        before = len(site.seen)
        time.sleep(1)
    assert browser.fetch(f"{site.url}/next").css("#x::text").get() == "new"


def test_a_browser_that_is_killed_leaves_no_files(browser: Browser, site: Site) -> None:
    html(site, "/", WRITES)
    browser.fetch(f"{site.url}/")
    directory = browser.host.socket.parent / FILES
    (before,) = directory.iterdir()
    browser.host.chromium.kill()
    while True:
        try:
            browser.fetch(f"{site.url}/")
            break
        except BrowserLost:
            continue
    until = time.monotonic() + LIMIT
    while before.exists() and time.monotonic() < until:
        time.sleep(0.1)
    (after,) = directory.iterdir()
    assert after != before
