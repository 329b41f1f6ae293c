"""Identity in the downloader: every transfer is signed, and only its host gets the credentials."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
import uvloop

from crawlframe.base.secret import MASK, Secret
from crawlframe.base.urls import host_of
from crawlframe.conf import Settings
from crawlframe.errors import FetchError
from crawlframe.fetch.downloader import Downloader
from crawlframe.identity.credentials import Credential
from crawlframe.identity.digest import Challenge
from crawlframe.identity.identity import Identity, Papers
from crawlframe.identity.signing import make, read
from crawlframe.node.worker.verdict.http_log import exchange_of
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.spider.settings import SpiderSettings

from .conftest import LOOPBACK, Exchange, Site

SECRET = "MARKED-s3cret"
SETTINGS = Settings(allow_private=LOOPBACK)
KEY = read(make(), 0)
NONCE = re.compile(r'nonce="([^"]+)"')


def fetch(
    identity: Identity | None, *requests: Request, client: str = "curl", at_once: bool = False
) -> list[Response]:
    async def main() -> list[Response]:
        downloader = Downloader(SETTINGS, identity)
        calls = [downloader.fetch(one, SpiderSettings(downloader=client)) for one in requests]
        try:
            if at_once:
                return await asyncio.gather(*calls)
            return [await call for call in calls]
        finally:
            await downloader.close()

    return uvloop.run(main())


def login(site: Site, scheme: str, user: str = "ann", http: bool = True, url: str = "") -> Identity:
    identity = Identity()
    host = host_of(f"{url or site.url}/")
    identity.load(Papers(credentials=(Credential(host, scheme, user, Secret(SECRET), http),)))
    return identity


def signing() -> Identity:
    identity = Identity("https://bot.example")
    identity.load(Papers((KEY,)))
    return identity


@pytest.mark.parametrize("client", ["curl", "requests"])
def test_every_transfer_is_signed_for_its_host(site: Site, client: str) -> None:
    site.answer("/", status=302, headers={"Location": "/second"})
    site.answer("/second", status=307, headers={"Location": f"{site.url}/third"})
    site.answer("/third", b"there")
    asked = Request(f"{site.url}/"), Request(f"{site.url}/third", method="POST")
    fetch(signing(), *asked, client=client)
    assert len(site.seen) == 4
    nonces = set()
    for seen in site.seen:
        assert seen.header("Signature-Agent") == 'sig1="https://bot.example"'
        given = seen.header("Signature-Input") or ""
        assert f'keyid="{KEY.name}"' in given
        nonces.update(NONCE.findall(given))
    assert len(nonces) == 4


def test_the_signature_is_that_of_the_host_that_is_asked(site: Site) -> None:
    """A target on another host is signed for that one."""
    site.answer("/", b"here")
    seen = []

    class Watched(Identity):
        def headers_for(self, url: str, method: str, headers: Any) -> Any:
            found = super().headers_for(url, method, headers)
            seen.append((host_of(url), found[-1]))
            return found

    identity = Watched("https://bot.example")
    identity.load(Papers((KEY,)))
    port = site.url.rpartition(":")[2]
    site.answer("/away", status=302, headers={"Location": f"http://localhost:{port}/"})
    fetch(identity, Request(f"{site.url}/away"))
    assert [host for host, _ in seen] == [f"127.0.0.1:{port}", f"localhost:{port}"]
    assert [exchange.header("Signature") for exchange in site.seen] == [s[1] for _, s in seen]


def test_without_an_identity_nothing_is_added(site: Site) -> None:
    site.answer("/")
    for identity in (None, Identity()):
        fetch(identity, Request(f"{site.url}/"))
        assert not any("signature" in name.lower() for name, _ in site.seen[-1].headers)
        assert site.seen[-1].header("Authorization") is None


@pytest.mark.parametrize(
    ("scheme", "user", "expected"),
    [
        ("basic", "ann", "Basic YW5uOk1BUktFRC1zM2NyZXQ="),
        ("bearer", "", f"Bearer {SECRET}"),
    ],
)
def test_the_host_gets_its_credentials(site: Site, scheme: str, user: str, expected: str) -> None:
    site.answer("/", b"private")
    (response,) = fetch(login(site, scheme, user), Request(f"{site.url}/"))
    assert site.seen[0].header("Authorization") == expected
    assert SECRET not in repr(
        vars(response.request) if hasattr(response.request, "__dict__") else ""
    )
    assert "Authorization" not in response.request.headers


def test_no_other_host_gets_them(site: Site) -> None:
    port = site.url.rpartition(":")[2]
    site.answer("/", status=302, headers={"Location": f"http://localhost:{port}/there"})
    site.answer("/there", b"x")
    fetch(login(site, "basic"), Request(f"{site.url}/"))
    assert [bool(seen.header("Authorization")) for seen in site.seen] == [True, False]
    fetch(login(site, "bearer", "", url="http://localhost:1"), Request(f"{site.url}/"))
    assert not site.seen[-2].header("Authorization")


def test_they_are_not_sent_unencrypted_unless_that_is_allowed(site: Site) -> None:
    site.answer("/")
    fetch(login(site, "basic", http=False), Request(f"{site.url}/"))
    assert site.seen[0].header("Authorization") is None


def protect(site: Site, algorithm: str = "SHA-256", uses: int = 1000) -> list[str]:
    """``/private`` asks for a digest, with a limited nonce. Returns the refused requests."""
    refused: list[str] = []
    state = {"nonce": 0, "left": 0}

    @site.on("/private")
    async def handler(exchange: Exchange) -> bool:
        sent = exchange.header("Authorization") or ""
        given = dict(re.findall(r'(\w+)="?([^",]+)"?', sent))
        stale = given.get("nonce") != f"n{state['nonce']}" or state["left"] <= 0
        good = False
        if sent and not stale:
            mine = Challenge({"nonce": given["nonce"], "realm": "r", "qop": "auth",
                              "algorithm": algorithm})  # fmt: skip
            mine._uses = int(given["nc"], 16) - 1
            assert given["uri"] == exchange.target
            expected = mine.answer(exchange.method, exchange.target, "ann", SECRET, given["cnonce"])
            good = f'response="{given["response"]}"' in expected
            state["left"] -= 1
        if good:
            await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            return True
        refused.append(sent)
        if stale:
            state.update(nonce=state["nonce"] + 1, left=uses)
        lines = (
            'WWW-Authenticate: Basic realm="r"\r\n'
            f'WWW-Authenticate: Digest realm="r", nonce="n{state["nonce"]}", qop="auth", '
            f"algorithm={algorithm}{', stale=true' if sent and stale else ''}\r\n"
        )
        head = f"HTTP/1.1 401 No\r\n{lines}Content-Length: 3\r\n\r\nno!"
        await exchange.send(head.encode())
        return True

    return refused


@pytest.mark.parametrize("algorithm", ["MD5", "SHA-256", "SHA-512-256", "MD5-sess"])
def test_a_digest_costs_one_further_request_per_nonce(site: Site, algorithm: str) -> None:
    refused = protect(site, algorithm)
    private = Request(f"{site.url}/private?a=1&b|c=%c3%A4%7e")
    responses = fetch(login(site, "digest"), *[private] * 3)
    assert [one.status for one in responses] == [200, 200, 200]
    assert refused == [""]
    assert len(site.seen) == 4


def test_a_nonce_that_is_used_up_is_replaced(site: Site) -> None:
    refused = protect(site, uses=2)
    responses = fetch(login(site, "digest"), *[Request(f"{site.url}/private")] * 5)
    assert {one.status for one in responses} == {200}
    assert len(refused) == 3


def test_a_body_is_sent_again_with_the_digest(site: Site) -> None:
    protect(site)
    post = Request(f"{site.url}/private", method="POST", body=b"body")
    (response,) = fetch(login(site, "digest"), post)
    assert response.status == 200
    assert [seen.body for seen in site.seen] == [b"body", b"body"]


def test_a_wrong_secret_is_tried_once(site: Site) -> None:
    protect(site)
    (response,) = fetch(login(site, "digest", "bob"), Request(f"{site.url}/private"))
    assert response.status == 401
    assert len(site.seen) == 2


def test_a_host_without_credentials_gets_no_answer_to_its_challenge(site: Site) -> None:
    protect(site)
    identity = login(site, "digest", url="http://other.example")
    (response,) = fetch(identity, Request(f"{site.url}/private"))
    assert response.status == 401
    assert len(site.seen) == 1


def test_errors_do_not_show_them(site: Site) -> None:
    site.raw("/", b"garbage\r\n\r\n")
    for scheme, user in (("basic", "ann"), ("bearer", "")):
        with pytest.raises(FetchError) as failed:
            fetch(login(site, scheme, user), Request(f"{site.url}/"))
        assert SECRET not in repr(failed.value)
        assert "YW5uOk1BUktFRC1zM2NyZXQ" not in repr(failed.value)


@pytest.mark.parametrize("scheme", ["basic", "bearer"])
def test_recorded_headers_have_what_was_sent_without_the_login(site: Site, scheme: str) -> None:
    identity = login(site, scheme, "" if scheme == "bearer" else "ann")
    site.answer("/a", status=403, headers={"X-Echo": SECRET})
    request = Request(f"{site.url}/a", headers={"X-Mine": "yes"}, cookies={"sid": "4711"})
    (response,) = fetch(identity, request)
    recorded = exchange_of(response, {})
    assert recorded is not None
    sent = dict(recorded["sent"])
    assert (recorded["method"], recorded["url"]) == ("GET", f"{site.url}/a")
    assert (sent["X-Mine"], sent["Cookie"]) == ("yes", f"sid={MASK}")
    assert sent["Authorization"] == f"{scheme.title()} {MASK}"
    assert dict(recorded["received"])["X-Echo"] == MASK
    assert SECRET not in str(recorded)
