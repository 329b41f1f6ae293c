"""Features of the requests downloader alone: sessions, adapters and plugins of authors."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import requests
from requests.adapters import HTTPAdapter
from requests.auth import HTTPDigestAuth

from crawlframe.errors import BadResponse, BadUrl, PrivateAddress
from crawlframe.fetch.journey.context import FetchLimits
from crawlframe.fetch.journey.cookies import TaskCookies
from crawlframe.fetch.requests.downloader import SESSIONS
from crawlframe.request.request import Request

from .conftest import LOOPBACK, Client, Exchange, RequestsDownloader, Site


@pytest.fixture
def client() -> Client:
    return Client(RequestsDownloader)


def fetch_with(client: Client, factory: Any, urls: list[str], **options: Any) -> list[Any]:
    async def job(downloader: Any) -> list[Any]:
        limits = FetchLimits()
        return [
            await downloader.fetch(Request(url), limits, {}, session_factory=factory, **options)
            for url in urls
        ]

    responses: list[Any] = client.run(job)
    return responses


def test_session_of_the_author(client: Client, site: Site) -> None:
    made: list[requests.Session] = []

    def factory() -> requests.Session:
        session = requests.Session()
        session.headers["X-Token"] = "t"
        session.auth = ("me", "pw")
        made.append(session)
        return session

    site.answer("/", b"x")
    fetch_with(client, factory, [f"{site.url}/"] * 3)
    assert len(made) == 1
    assert site.connections == 3  # one for each transfer
    assert [got.header("X-Token") for got in site.seen] == ["t"] * 3
    assert site.seen[0].header("Authorization") == "Basic bWU6cHc="


def test_digest_authentication(client: Client, site: Site) -> None:
    @site.on("/")
    async def guarded(exchange: Exchange) -> bool:
        if 'username="me"' in (exchange.header("Authorization") or ""):
            await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nin")
        else:
            challenge = b'WWW-Authenticate: Digest realm="r", nonce="n", qop="auth"\r\n'
            await exchange.send(b"HTTP/1.1 401 No\r\n" + challenge + b"Content-Length: 0\r\n\r\n")
        return True

    def factory() -> requests.Session:
        session = requests.Session()
        session.auth = HTTPDigestAuth("me", "pw")
        return session

    (response,) = fetch_with(client, factory, [f"{site.url}/"])
    assert (response.status, response.body) == (200, b"in")


def test_one_transfer_keeps_its_connection(client: Client, site: Site) -> None:
    """NTLM, for instance, logs in a connection, with several requests."""

    def again(response: Any, **options: Any) -> Any:
        if response.headers.get("X-Step") != "1":
            return response
        response.content  # noqa: B018  # only then the connection is free
        return response.connection.send(response.request.copy(), **options)

    @site.on("/")
    async def step(exchange: Exchange) -> bool:
        number = sum(one.connection == exchange.connection for one in site.seen)
        await exchange.send(
            b"HTTP/1.1 200 OK\r\nX-Step: %d\r\nContent-Length: 2\r\n\r\nok" % number
        )
        return True

    def factory() -> requests.Session:
        session = requests.Session()
        session.hooks["response"] = [again]
        return session

    found = fetch_with(client, factory, [f"{site.url}/"] * 2)
    assert [one.headers["X-Step"] for one in found] == ["2", "2"]
    assert site.connections == 2


def test_adapter_of_the_author(client: Client, site: Site) -> None:
    class Marking(HTTPAdapter):
        def add_headers(self, request: Any, **kwargs: Any) -> None:
            request.headers["X-Adapter"] = "mine"

    def factory() -> requests.Session:
        session = requests.Session()
        session.mount(f"{site.url}/special", Marking())
        return session

    site.answer("/special", b"")
    site.answer("/", b"")
    fetch_with(client, factory, [f"{site.url}/special", f"{site.url}/"])
    assert [got.header("X-Adapter") for got in site.seen] == ["mine", None]


def test_addresses_are_checked_with_sessions_of_authors_too(client: Client, site: Site) -> None:
    async def job(downloader: Any) -> None:
        limits = FetchLimits()
        await downloader.fetch(
            Request(f"{site.url}/"), limits, {}, session_factory=requests.Session
        )

    with pytest.raises(PrivateAddress):
        client.run(job, allow=())


def through_a_proxy(site: Site) -> Any:
    """A factory of sessions that ask ``site`` for everything."""

    def factory() -> requests.Session:
        session = requests.Session()
        session.proxies = {"http": site.url}
        return session

    return factory


@pytest.mark.parametrize("host", ["169.254.169.254", "[::ffff:10.0.0.1]", "localhost"])
def test_a_proxy_is_no_way_to_private_addresses(client: Client, site: Site, host: str) -> None:
    async def job(downloader: Any) -> None:
        request = Request(f"http://{host}/")
        factory = through_a_proxy(site)
        await downloader.fetch(request, FetchLimits(), {}, session_factory=factory)

    with pytest.raises(PrivateAddress, match="CRAWLFRAME_ALLOW_PRIVATE"):
        client.run(job, allow=())
    assert not site.seen


@pytest.mark.parametrize(
    ("change", "sent"),
    [
        ({}, "/a|b?c|d"),
        ({"params": {"e": "f|g"}}, "/a%7Cb?c%7Cd&e=f%7Cg"),
        ({"auth": ("me", "pw")}, "/a%7Cb?c%7Cd"),
    ],
)
def test_a_url_that_a_session_changes_or_signs_is_sent_as_requests_quotes_it(
    client: Client, site: Site, change: dict[str, Any], sent: str
) -> None:
    def factory() -> requests.Session:
        session = requests.Session()
        vars(session).update(change)
        return session

    fetch_with(client, factory, [f"{site.url}/a|b?c|d"])
    assert [one.target for one in site.seen] == [sent]


def test_a_proxy_gets_the_url_as_it_is(client: Client, site: Site) -> None:
    fetch_with(client, through_a_proxy(site), ["http://page.invalid/a|b?c|d"])
    assert [one.target for one in site.seen] == ["http://page.invalid/a|b?c|d"]


def test_a_proxy_that_the_author_names_may_be_anywhere(client: Client, site: Site) -> None:
    """Names that only the proxy can resolve are left to it."""
    site.answer("http://page.invalid/x", b"by proxy")

    async def job(downloader: Any) -> bytes:
        request = Request("http://page.invalid/x")
        factory = through_a_proxy(site)
        response = await downloader.fetch(request, FetchLimits(), {}, session_factory=factory)
        body: bytes = response.body
        return body

    assert client.run(job, allow=()) == b"by proxy"


def test_session_cookies_do_not_make_the_header_too_long(client: Client, site: Site) -> None:
    def factory() -> requests.Session:
        session = requests.Session()
        for number in range(20):
            session.cookies.set(f"c{number}", "x" * 1000, domain="127.0.0.1", path="/")
        return session

    site.answer("/")
    fetch_with(client, factory, [f"{site.url}/"])
    assert 6000 < len(site.seen[0].header("Cookie") or "") <= 8192


def test_too_many_header_lines_without_a_colon(client: Client, site: Site) -> None:
    site.raw("/", b"HTTP/1.1 200 OK\r\n" + b"nothing\r\n" * 5001 + b"\r\nbody")
    with pytest.raises(BadResponse, match="too large"):
        client.fetch(f"{site.url}/")


def test_cookies_of_the_session_and_of_the_task(client: Client, site: Site) -> None:
    """A login made by the factory lasts, and the task's values take precedence."""

    def factory() -> requests.Session:
        session = requests.Session()
        session.cookies.set("login", "1", domain="127.0.0.1", path="/")
        session.cookies.set("other", "9", domain="other.example", path="/")
        return session

    site.answer("/", headers={"Set-Cookie": "seen=1; Path=/"})
    fetch_with(client, factory, [f"{site.url}/"] * 2, jar=TaskCookies())
    sent = [set((got.header("Cookie") or "").split("; ")) for got in site.seen]
    assert sent == [{"login=1"}, {"login=1", "seen=1"}]


def test_plain_sessions_do_not_share_cookies_between_tasks(client: Client, site: Site) -> None:
    site.answer("/", headers={"Set-Cookie": "seen=1; Path=/"})
    fetch_with(client, None, [f"{site.url}/"] * 2)
    assert [got.header("Cookie") for got in site.seen] == [None, None]


def test_error_of_a_factory_is_passed_on(client: Client, site: Site) -> None:
    def factory() -> requests.Session:
        raise KeyError("no password in the environment")

    with pytest.raises(KeyError, match="no password"):
        fetch_with(client, factory, [f"{site.url}/"])


def test_sessions_of_finished_tasks_are_closed(client: Client, site: Site) -> None:
    closed: list[int] = []

    class Owner:
        """Like a spider: one per task."""

        def __init__(self, number: int) -> None:
            self.number = number

        def requests_session(self) -> requests.Session:
            session = requests.Session()
            session.close = lambda: closed.append(self.number)  # type: ignore[method-assign]
            return session

    site.answer("/")

    async def job(downloader: Any) -> list[int]:
        for number in range(SESSIONS + 3):
            factory = Owner(number).requests_session
            await downloader.fetch(
                Request(f"{site.url}/"), FetchLimits(), {}, session_factory=factory
            )
        return [*closed]

    assert client.run(job) == [0, 1, 2]
    assert len(closed) == SESSIONS + 3


def test_body_of_a_redirect_is_bounded(client: Client, site: Site) -> None:
    """requests would read it whole to find the next request."""

    @site.on("/")
    async def endless(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 302 Go\r\nLocation: /next\r\n\r\n")
        while True:
            await exchange.send(bytes(65536))

    site.answer("/next", b"small")
    assert client.fetch(f"{site.url}/", max_body=100_000).body == b"small"
    assert site.seen[0].sent < 32 << 20


def test_header_that_requests_refuses(client: Client, site: Site) -> None:
    with pytest.raises(BadUrl, match="header"):
        client.fetch(f"{site.url}/", {"X-A": "1\n2"})
    assert not site.seen


def test_no_more_threads_than_told(client: Client, site: Site) -> None:
    now = most = 0

    @site.on("/")
    async def count(exchange: Exchange) -> bool:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.02)
        now -= 1
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        return True

    async def job(downloader: Any) -> None:
        fetches = [downloader.fetch(Request(f"{site.url}/"), FetchLimits(), {}) for _ in range(20)]
        await asyncio.gather(*fetches)

    client.run(job, LOOPBACK, concurrency=4)
    assert most == 4
    assert len(site.seen) == 20
