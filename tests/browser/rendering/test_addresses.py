"""No trick of a page leads the browser to an address that is not allowed."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from ipaddress import ip_network
from itertools import product
from typing import Any

import pytest

from crawlframe.errors import FetchError, PrivateAddress
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.journey.context import FetchContext
from crawlframe.request.request import Request
from crawlframe.spider.setting_tables import BrowserSettings
from crawlframe.spider.settings import SpiderSettings

from .conftest import QUICK, Browser, Host, Site, html, of_task, running
from .names import HERE, THERE

RESOLVER = "tests.browser.rendering.names:resolve"


class Forbidden:
    """A server that must not be reached: TCP and UDP, also of ::1. ``seen``: first lines."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._tcp = socket.create_server((THERE, 0))
        self.port = self._tcp.getsockname()[1]
        self._others = [self._tcp]
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind((THERE, self.port))
        self._udp = udp
        with suppress(OSError):  # no IPv6 here
            self._others.append(socket.create_server(("::1", self.port), family=socket.AF_INET6))
        for listener in self._others:
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        threading.Thread(target=self._receive, daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with suppress(OSError), closing(connection):
            connection.settimeout(5)
            head = connection.recv(4096)
            self.seen.append(head.split(b"\r\n")[0].decode("latin-1") or "a connection")
            connection.sendall(
                b"HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nContent-Length: 1\r\n"
                b"Connection: close\r\n\r\n1"
            )

    def _receive(self) -> None:
        with suppress(OSError):
            while True:
                self._udp.recvfrom(4096)
                self.seen.append("UDP")

    def close(self) -> None:
        for one in (*self._others, self._udp):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@pytest.fixture
def forbidden() -> Iterator[Forbidden]:
    server = Forbidden()
    yield server
    server.close()


@pytest.fixture(scope="module")
def hosts(program: str) -> Iterator[list[Host]]:
    """Two browser hosts: one allows the site only, the other all of loopback."""
    only, loopback = [ip_network(f"{HERE}/32")], [*map(ip_network, ("127.0.0.0/8", "::1/128"))]
    with (
        running(browser=program, allow_private=only, resolver=RESOLVER) as strict,
        running(browser=program, allow_private=loopback, resolver=RESOLVER) as lax,
    ):
        yield [strict, lax]


# Each sends a request to {} when the page is loaded.
TAGS = {
    "img": "<img src={}>",
    "srcset": "<img srcset='{} 1x'>",
    "picture": "<picture><source srcset={}><img></picture>",
    "script": "<script src={}></script>",
    "module": "<script type=module src={}></script>",
    "style": "<link rel=stylesheet href={}>",
    "import": "<style>@import url({});</style>",
    "background": "<p style='background: url({})'>x",
    "font": "<style>@font-face {{ font-family: f; src: url({}) }} b {{ font-family: f }}</style>"
            "<b>x</b>",
    "iframe": "<iframe src={}></iframe>",
    "srcdoc": "<iframe srcdoc='<img src={}>'></iframe>",
    "frame of data": "<iframe src='data:text/html,<img src={}>'></iframe>",
    "embed": "<embed src={}>",
    "object": "<object data={}></object>",
    "video": "<video src={} autoplay muted></video>",
    "audio": "<audio src={} preload=auto></audio>",
    "poster": "<video poster={}></video>",
    "track": "<video src=/film><track default src={}></video>",
    "svg": "<svg><image href={} /></svg>",
    "input": "<input type=image src={}>",
    "preload": "<link rel=preload as=fetch href={}>",
    "prefetch": "<link rel=prefetch href={}>",
    "modulepreload": "<link rel=modulepreload href={}>",
    "icon": "<link rel=icon href={}>",
    "manifest": "<link rel=manifest href={}>",
    "preconnect": "<link rel=preconnect href={}>",
    "dns-prefetch": "<link rel=dns-prefetch href={}>",
    "speculation": "<script type=speculationrules>{{\"prerender\": [{{\"urls\": [\"{}\"]}}]}}"
                   "</script>",
    "form in a frame": "<iframe name=f></iframe><form target=f action={} id=form></form>"
                       "<script>form.submit()</script>",
}  # fmt: skip
SCRIPTS = {
    "fetch": "fetch('{}', {{mode: 'no-cors'}})",
    "keepalive": "fetch('{}', {{mode: 'no-cors', keepalive: true, method: 'POST', body: 'x'}})",
    "xhr": "var x = new XMLHttpRequest(); x.open('GET', '{}'); x.send()",
    "beacon": "navigator.sendBeacon('{}', 'x')",
    "events": "new EventSource('{}')",
    "websocket": "new WebSocket('{}'.replace('http', 'ws'))",
    "worker": "new Worker(URL.createObjectURL(new Blob([`fetch('{}', {{mode: 'no-cors'}})`])))",
    "import of a worker": "new Worker(URL.createObjectURL(new Blob([`importScripts('{}')`])))",
    "shared worker": "new SharedWorker(URL.createObjectURL(new Blob([`fetch('{}')`])))",
    "dynamic import": "import('{}').catch(() => 0)",
    "image": "new Image().src = '{}'",
    "popup": "open('{}')",
    "ping": "var a = document.createElement('a'); a.href = '/x'; a.ping = '{}'; a.target = 'f';"
            " document.body.append(a); a.click()",
    "stun": "var p = new RTCPeerConnection({{iceServers: [{{urls: 'stun:PLACE'}}]}});"
            " p.createDataChannel('x'); p.createOffer().then(o => p.setLocalDescription(o))",
    "turn": "var p = new RTCPeerConnection({{iceServers: [{{urls: 'turn:PLACE?transport=tcp',"
            " username: 'a', credential: 'b'}}]}}); p.createDataChannel('x');"
            " p.createOffer().then(o => p.setLocalDescription(o))",
    "webtransport": "try {{ new WebTransport('https://PLACE/').ready.catch(() => 0) }} catch {{}}",
}  # fmt: skip
HEADERS = {
    "Link": "<{}>; rel=preload; as=script",
    "Content-Security-Policy-Report-Only": "img-src 'none'; report-uri {}",
}


def page_of(site: Site, forbidden: Forbidden, host: str) -> int:
    """Serves a page with all tricks, each for a URL of its own. Returns how many there are."""
    place = f"{host}:{forbidden.port}"
    count = 0

    def url(name: str) -> str:
        nonlocal count
        count += 1
        return f"http://{place}/{name.replace(' ', '-')}"

    tags = "".join(text.format(url(name)) for name, text in TAGS.items())
    scripts = "".join(
        f"<script>try {{ {text.format(url(name)).replace('PLACE', place)} }} catch (e) {{}}"
        "</script>"
        for name, text in SCRIPTS.items()
    )
    # An allowed address redirects to one that is not.
    site.answer("/to", status=302, headers={"Location": url("redirected")})
    rest = "<img src=/to><iframe src=/to></iframe><script src=/to></script>"
    headers = {name: text.format(url(name.lower())) for name, text in HEADERS.items()}
    html(site, "/", f"<body>{tags}{rest}{scripts}", **headers)
    return count


SETTLE = (2.0, 4.0, 16.0)  # seconds after which the tricks have worked where they may


@pytest.mark.parametrize("name", [THERE, "private.test"])
def test_what_a_page_loads(hosts: list[Host], site: Site, forbidden: Forbidden, name: str) -> None:
    strict, lax = map(Browser, hosts)
    settings: dict[str, Any] = {"browser": BrowserSettings(block=()), "timeout": 60.0}
    with closing(Forbidden()) as allowed:
        assert page_of(site, allowed, name) >= 40
        for seconds in SETTLE:
            settings["browser"] = BrowserSettings(block=(), settle=seconds)
            lax.fetch(f"{site.url}/", settings)
            reached = {line.split(" ")[1] for line in allowed.seen if " " in line}
            if len(reached) >= 30:
                break
        assert len(reached) >= 30, reached
    page_of(site, forbidden, name)
    strict.fetch(f"{site.url}/", settings)
    time.sleep(1)  # for requests that are still on their way
    assert forbidden.seen == []


DIRECT = ["{t}", "2130706434", "0x7f000002", "0177.0.0.2", "127.2", "[::ffff:7f00:2]", "[::1]",
          "[::7f00:2]", "[64:ff9b::7f00:2]", "private.test", "%31%32%37.0.0.2"]  # fmt: skip


def test_a_forbidden_address_is_not_asked(hosts: list[Host], forbidden: Forbidden) -> None:
    async def ask(downloader: Downloader, scheme: str, place: str) -> None:
        url = f"{scheme}://{place.format(t=THERE)}:{forbidden.port}/"
        request, context = Request(url, downloader="browser"), FetchContext(spider=of_task(2))
        with pytest.raises(PrivateAddress):
            await downloader.fetch(request, SpiderSettings(**QUICK), context)

    async def job(downloader: Downloader) -> None:
        ways = product(("http", "https"), DIRECT)
        await asyncio.gather(*(ask(downloader, *way) for way in ways))

    Browser(hosts[0]).run(job)
    assert forbidden.seen == []


LEADING = {
    "script": "<script>location = '{}'</script>",
    "replace": "<script>location.replace('{}')</script>",
    "refresh": "<meta http-equiv=refresh content='0;url={}'>",
    "form": "<form action={} id=f></form><script>f.submit()</script>",
    "post": "<form action={} method=post id=f></form><script>f.submit()</script>",
    "link": "<a href={} id=a>x</a><script>a.click()</script>",
    "file": "<script>location = 'file:///etc/passwd'</script>",
    "file in a frame": "<iframe src='file:///etc/passwd'></iframe>",
    "view-source": "<script>location = 'view-source:{}'</script>",
    "chrome": "<script>location = 'chrome://settings/'</script>",
    "script of a frame": "<iframe srcdoc=\"<script>top.location = '{}'</script>\"></iframe>",
}  # fmt: skip


def test_where_a_page_leads(hosts: list[Host], site: Site, forbidden: Forbidden) -> None:
    settings = SpiderSettings(browser=BrowserSettings(settle=1.0), timeout=30.0, robots=False)

    async def lead(downloader: Downloader, number: int, text: str) -> None:
        target = f"http://{THERE}:{forbidden.port}/{number}"
        html(site, f"/{number}", text.replace("{}", target))
        request = Request(f"{site.url}/{number}", downloader="browser")
        with suppress(FetchError):
            context = FetchContext(spider=of_task(1))
            assert b"root:" not in (await downloader.fetch(request, settings, context)).body

    async def job(downloader: Downloader) -> None:
        await asyncio.gather(*(lead(downloader, *one) for one in enumerate(LEADING.values())))

    Browser(hosts[0]).run(job)
    assert forbidden.seen == []


def test_a_name_whose_address_changes(hosts: list[Host], site: Site, forbidden: Forbidden) -> None:
    """The site answers at first; when the page asks again, its name is where it must not go."""
    port = forbidden.port
    again = f"setInterval(() => fetch('http://rebind.test:{port}/', {{mode: 'no-cors'}}), 100)"
    html(site, "/", f"<script>{again}</script>")
    place = site.url.replace(HERE, "rebind.test")
    strict, lax = map(Browser, hosts)
    _, *longer = SETTLE  # more than the least time for which a name is kept
    strict.fetch(f"{place}/", {"browser": BrowserSettings(settle=longer[0])})
    assert forbidden.seen == []
    for seconds in longer:
        if not forbidden.seen:
            lax.fetch(f"{place}/", {"browser": BrowserSettings(settle=seconds)})
    assert forbidden.seen
