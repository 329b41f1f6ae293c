"""Names: answers kept for their TTL, failures kept shortly, and a resolver of the project's own.

The name servers are real ones, on loopback."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvloop

from crawlframe.conf import Settings
from crawlframe.errors import ConfigError, DnsError, FetchTimeout, PrivateAddress
from crawlframe.fetch.curl.downloader import CurlDownloader
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.journey.context import FetchLimits
from crawlframe.fetch.names import resolver as module
from crawlframe.fetch.names.resolver import (
    FAILURE_SECONDS,
    GONE_SECONDS,
    LEAST_TTL,
    LONGEST_TTL,
    HostKnowledge,
    Names,
    Unresolved,
    load_hook,
    place_of,
)
from crawlframe.request.request import Request
from crawlframe.spider.settings import SpiderSettings

from .conftest import LOOPBACK, Exchange, RequestsDownloader, Site
from .dns_server import NXDOMAIN, REFUSED, SERVFAIL, DnsServer, Zone, dns_server

KINDS = [CurlDownloader, RequestsDownloader]
HERE = Zone(("127.0.0.1",))


def run(job: Callable[[DnsServer, Names], Coroutine[Any, Any, Any]]) -> Any:
    """Runs a job with a name server, and names that ask it."""

    async def main() -> Any:
        async with dns_server() as server, asyncio.timeout(60):
            names = Names(servers=[server.address])
            try:
                return await job(server, names)
            finally:
                await names.close()

    return uvloop.run(main())


async def problem(names: Names, host: str) -> str:
    with pytest.raises(Unresolved) as caught:
        await names.resolve(host)
    return str(caught.value)


def left(names: Names, host: str) -> float:
    """Seconds for which a host needs no question."""
    known = names.known(host)
    assert known is not None
    return known.until - monotonic()


def by_name(url: str, host: str) -> str:
    return url.replace("127.0.0.1", host)


# -- answers of the name servers ------------------------------------------------------------------


def test_both_families_and_their_ttl() -> None:
    async def job(server: DnsServer, names: Names) -> None:
        server.zones["a.test"] = Zone(("127.0.0.1", "::1", "127.0.0.9"), ttl=90)
        found = await names.resolve("a.test")
        assert {*found.addresses} == {"127.0.0.1", "::1", "127.0.0.9"}
        assert 80 < left(names, "a.test") <= 90

    run(job)


def test_one_question_serves_all_who_ask() -> None:
    async def job(server: DnsServer, names: Names) -> None:
        server.zones["a.test"] = HERE
        await asyncio.gather(*(names.resolve("a.test") for _ in range(100)))
        await names.resolve("a.test")
        assert server.asked == {("a.test", "udp"): 1}

    run(job)


def test_a_changed_address_is_found_when_the_ttl_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def job(server: DnsServer, names: Names) -> None:
        server.zones["a.test"] = Zone(("127.0.0.1",), ttl=0)
        assert (await names.resolve("a.test")).addresses == ("127.0.0.1",)
        server.zones["a.test"] = Zone(("127.0.0.2",), ttl=0)
        assert (await names.resolve("a.test")).addresses == ("127.0.0.1",)
        now = monotonic() + LEAST_TTL
        monkeypatch.setattr(module, "monotonic", lambda: now)
        assert (await names.resolve("a.test")).addresses == ("127.0.0.2",)

    run(job)


@pytest.mark.parametrize(
    ("zone", "seconds"),
    [
        (Zone(("127.0.0.1",), ttl=0), LEAST_TTL),
        (Zone(("127.0.0.1",), ttl=1 << 30), LONGEST_TTL),
        (Zone(("127.0.0.1",), ttl=300, alias="b.test", alias_ttl=40), 40),
    ],
    ids=["0", "endless", "alias"],
)
def test_ttl_has_bounds(zone: Zone, seconds: float) -> None:
    async def job(server: DnsServer, names: Names) -> None:
        server.zones["a.test"] = zone
        await names.resolve("a.test")
        assert seconds * 0.8 < left(names, "a.test") <= seconds

    run(job)


@pytest.mark.parametrize(
    ("zone", "text", "seconds"),
    [
        (Zone(code=NXDOMAIN), "there is no such name (NXDOMAIN)", GONE_SECONDS),
        (Zone(), "the name has no address", GONE_SECONDS),
        (Zone(code=SERVFAIL), "its name servers fail (SERVFAIL)", FAILURE_SECONDS),
        (Zone(code=REFUSED), "the name server refuses to say (REFUSED)", FAILURE_SECONDS),
    ],
    ids=["nxdomain", "empty", "servfail", "refused"],
)
def test_failures_are_kept_shortly(zone: Zone, text: str, seconds: float) -> None:
    async def job(server: DnsServer, names: Names) -> None:
        server.zones["a.test"] = zone
        assert await problem(names, "a.test") == f"a.test: {text}"
        asked = server.asked.total()
        assert seconds * 0.8 < left(names, "a.test") <= seconds
        assert await problem(names, "a.test") == f"a.test: {text}"
        assert server.asked.total() == asked

    run(job)


def test_a_failure_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    async def job(server: DnsServer, names: Names) -> None:
        server.zones["a.test"] = Zone(code=SERVFAIL)
        await problem(names, "a.test")
        server.zones["a.test"] = HERE
        now = monotonic() + FAILURE_SECONDS
        monkeypatch.setattr(module, "monotonic", lambda: now)
        assert (await names.resolve("a.test")).addresses == ("127.0.0.1",)

    run(job)


def test_a_truncated_reply_is_asked_for_over_tcp() -> None:
    async def job(server: DnsServer, names: Names) -> None:
        many = tuple(f"127.0.1.{n}" for n in range(1, 200))
        server.zones["a.test"] = Zone(many, truncated=True)
        assert {*(await names.resolve("a.test")).addresses} == {*many}
        assert server.asked["a.test", "tcp"] == 1

    run(job)


def test_hung_names_delay_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TRIES", 3)

    async def job(server: DnsServer, names: Names) -> None:
        server.rest = lambda name: Zone(silent=True) if name.startswith("hung") else HERE
        hung = [asyncio.create_task(names.resolve(f"hung{n}.test")) for n in range(40)]
        while server.asked.total() < 40:
            await asyncio.sleep(0.01)
        await asyncio.gather(*(names.resolve(f"good{n}.test") for n in range(40)))
        assert not any(task.done() for task in hung)
        for result in await asyncio.gather(*hung, return_exceptions=True):
            assert isinstance(result, Unresolved)
            assert "no name server replied in time" in str(result)
        assert left(names, "hung7.test") <= FAILURE_SECONDS

    run(job)


@pytest.mark.parametrize("host", ["a..b", "x" * 64 + ".test", "a" + ".b" * 130])
def test_impossible_names_are_not_asked_for(host: str) -> None:
    async def job(server: DnsServer, names: Names) -> None:
        assert (await problem(names, host)).startswith(host)
        assert not server.asked

    run(job)


def test_search_domains_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALDOMAIN", "corp.test")

    async def job(server: DnsServer, names: Names) -> None:
        await problem(names, "intranet")
        assert {name for name, _ in server.asked} == {"intranet"}

    run(job)


@pytest.mark.parametrize(
    ("host", "addresses"),
    [
        ("127.0.0.1", ("127.0.0.1",)),
        ("[2001:db8::1]", ("2001:db8::1",)),
        ("localhost", ("::1", "127.0.0.1")),
        ("shop.localhost", ("::1", "127.0.0.1")),
        ("localhost.", ("::1", "127.0.0.1")),
    ],
)
def test_some_hosts_need_no_server(host: str, addresses: tuple[str, ...]) -> None:
    async def job(server: DnsServer, names: Names) -> None:
        assert (await names.resolve(host)).addresses == addresses
        assert not server.asked

    run(job)


def test_a_name_that_only_looks_like_localhost_is_asked_for() -> None:
    async def job(server: DnsServer, names: Names) -> None:
        server.rest = lambda name: Zone(("192.0.2.1",))
        assert (await names.resolve("notlocalhost")).addresses == ("192.0.2.1",)

    run(job)


def test_names_are_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_NAMES", 10)

    async def job(server: DnsServer, names: Names) -> None:
        server.rest = lambda name: HERE
        for n in range(11):
            await names.resolve(f"{n}.test")
        assert names.known("0.test") is None
        assert names.known("1.test") is not None

    run(job)


# -- waiting lookups --------------------------------------------------------------------------


def test_a_question_outlives_those_who_gave_up() -> None:
    async def job(server: DnsServer, names: Names) -> None:
        server.zones["a.test"] = Zone(silent=True)
        with pytest.raises(Unresolved, match=r"a\.test: no addresses within 0\.05 s"):
            await names.resolve("a.test", 0.05)
        cancelled = asyncio.create_task(names.resolve("a.test"))
        waiting = asyncio.create_task(names.resolve("a.test"))
        await asyncio.sleep(0)
        cancelled.cancel()
        server.zones["a.test"] = HERE
        assert (await waiting).addresses == ("127.0.0.1",)
        assert cancelled.cancelled()

    run(job)


def test_close_ends_what_waits() -> None:
    async def job(server: DnsServer, names: Names) -> None:
        server.rest = lambda name: Zone(silent=True)
        waiting = [asyncio.create_task(names.resolve(f"{n}.test")) for n in range(20)]
        thread = asyncio.create_task(
            asyncio.to_thread(names.resolve_in_thread, "0.test", asyncio.get_running_loop())
        )
        await asyncio.sleep(0.05)
        await names.close()
        results = await asyncio.gather(*waiting, thread, return_exceptions=True)
        assert all(isinstance(result, Unresolved) for result in results)

    run(job)


def test_a_child_resolves_after_its_parent_has() -> None:
    def once() -> None:
        async def job(server: DnsServer, names: Names) -> None:
            server.zones["a.test"] = HERE
            assert (await names.resolve("a.test")).addresses == ("127.0.0.1",)

        run(job)

    once()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            once()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0


# -- the downloaders ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_fetch_uses_the_names(kind: Any, site: Site) -> None:
    site.answer("/", b"page")

    async def job(server: DnsServer, names: Names) -> None:
        server.zones["a_b.test"] = server.zones["xn--bcher-kva.test"] = HERE
        downloader = kind(LOOPBACK, names=names)
        for host in ("a_b.test", "xn--bcher-kva.test", "127.0.0.1"):
            for _ in range(3):
                request = Request(by_name(site.url, host))
                assert (await downloader.fetch(request, FetchLimits(), {})).body == b"page"
        await downloader.close()
        assert server.asked == {("a_b.test", "udp"): 1, ("xn--bcher-kva.test", "udp"): 1}

    run(job)
    assert site.connections == (3 if kind is CurlDownloader else 9)


def test_both_downloaders_share_the_names(site: Site) -> None:
    site.answer("/", b"page")

    async def job(server: DnsServer, names: Names) -> None:
        server.zones["a.test"] = HERE
        downloader = Downloader(Settings(allow_private=LOOPBACK), names=names)
        for client in ("curl", "requests"):
            request = Request(by_name(site.url, "a.test"), downloader=client)
            await downloader.fetch(request, SpiderSettings())
        await downloader.close()
        assert server.asked == {("a.test", "udp"): 1}

    run(job)


def test_a_pooled_connection_needs_no_question_and_a_new_one_the_new_address(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEAST_TTL", 0.1)
    hosts: list[str] = []

    @site.on("/")
    async def page(exchange: Exchange) -> bool:
        hosts.append(exchange.writer.get_extra_info("sockname")[0])
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        return exchange.target != "/?last"

    async def job(server: DnsServer, names: Names) -> None:
        port = urlsplit(site.url).port
        other = await asyncio.start_server(site.serve, "127.0.0.2", port)
        server.zones["a.test"] = Zone(("127.0.0.1",), ttl=0)
        downloader = CurlDownloader(LOOPBACK, names=names)

        async def fetch(query: str = "") -> None:
            request = Request(by_name(f"{site.url}/{query}", "a.test"))
            await downloader.fetch(request, FetchLimits(), {})

        await fetch()
        server.zones["a.test"] = Zone(("127.0.0.2",), ttl=0)
        await asyncio.sleep(0.2)
        await fetch("?last")  # on the open connection, which the server closes then
        await fetch()
        await fetch()
        await downloader.close()
        other.close()

    run(job)
    assert hosts == ["127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.2"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_next_address_is_tried(kind: Any, site: Site) -> None:
    site.answer("/", b"page")

    async def job(server: DnsServer, names: Names) -> None:
        server.zones["a.test"] = Zone(("127.0.0.77", "::1", "127.0.0.1"))  # two have no listener
        downloader = kind(LOOPBACK, names=names)
        request = Request(by_name(site.url, "a.test"))
        assert (await downloader.fetch(request, FetchLimits(), {})).body == b"page"
        await downloader.close()

    run(job)


@pytest.mark.parametrize("kind", KINDS)
def test_errors_name_the_url_and_the_host(kind: Any) -> None:
    async def job(server: DnsServer, names: Names) -> None:
        server.zones["hung.test"] = Zone(silent=True)
        downloader = kind(LOOPBACK, names=names)
        with pytest.raises(DnsError) as unknown:
            await downloader.fetch(Request("http://gone.test/x"), FetchLimits(), {})
        with pytest.raises((DnsError, FetchTimeout), match=r"within 0\.(3|29).? s"):
            await downloader.fetch(Request("http://hung.test/"), FetchLimits(timeout=0.3), {})
        with pytest.raises(DnsError) as hung:
            await downloader.fetch(Request("http://hung.test/"), FetchLimits(connect=0.2), {})
        await downloader.close()
        told = "http://gone.test/x: gone.test: there is no such name (NXDOMAIN)"
        assert str(unknown.value) == told
        assert "hung.test: no addresses within 0.2 s" in str(hung.value)

    run(job)


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_may_not_move_to_a_private_address(
    kind: Any, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: the address of each connection counts, not the first one's."""
    monkeypatch.setattr(module, "LEAST_TTL", 0.1)
    site.raw("/", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")  # then it is closed
    public = (ipaddress.ip_network("127.0.0.1/32"),)  # as if it were

    async def job(server: DnsServer, names: Names) -> None:
        server.zones["a.test"] = Zone(("127.0.0.1",), ttl=0)
        downloader = kind(public, names=names)
        request = Request(by_name(site.url, "a.test"))
        assert (await downloader.fetch(request, FetchLimits(), {})).status == 200
        for address in ("127.0.0.2", "169.254.169.254"):
            server.zones["a.test"] = Zone((address,), ttl=0)
            await asyncio.sleep(0.2)
            with pytest.raises(PrivateAddress, match="not a public address"):
                await downloader.fetch(request, FetchLimits(), {})
        await downloader.close()

    run(job)
    assert len(site.seen) == 1


def test_libcurl_resolves_no_name_itself(site: Site) -> None:
    """When it has dropped the addresses, they are given to it again."""
    site.answer("/", b"page")

    async def job(server: DnsServer, names: Names) -> None:
        server.zones["a.test"] = HERE
        downloader = CurlDownloader(LOOPBACK, names=names)
        url = by_name(site.url, "a.test")
        pins = downloader._pins
        assert pins is not None
        (await pins.find(url, 5)).told = monotonic()  # which is not true
        response = await downloader.fetch(Request(url), FetchLimits(), {})
        assert response.body == b"page"
        await downloader.close()

    run(job)
    assert len(site.seen) == 1


def test_a_port_of_its_own_is_told_separately(site: Site) -> None:
    site.answer("/", b"page")

    async def job(server: DnsServer, names: Names) -> None:
        server.zones["a.test"] = HERE
        downloader = CurlDownloader(LOOPBACK, names=names)
        other = await asyncio.start_server(site.serve, "127.0.0.1", 0)
        port = other.sockets[0].getsockname()[1]
        for url in (by_name(site.url, "a.test"), f"http://a.test:{port}/"):
            assert (await downloader.fetch(Request(url), FetchLimits(), {})).body == b"page"
        await downloader.close()
        other.close()

    run(job)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://a.test/", ("a.test", 80)),
        ("https://a.test/x?http://b:1/", ("a.test", 443)),
        ("https://u:p@a.test:8443/", ("a.test", 8443)),
        ("http://[::1]/", ("[::1]", 80)),
        ("http://[::1]:8080/", ("[::1]", 8080)),
    ],
)
def test_place_of_a_url(url: str, place: tuple[str, int]) -> None:
    assert place_of(url) == place


# -- a resolver of the project's own --------------------------------------------------------------


def hooked(hook: Any, host: str) -> tuple[HostKnowledge | str, float]:
    """The result of such a function, and how long it is known."""

    async def main() -> tuple[HostKnowledge | str, float]:
        names = Names(hook, ["127.0.0.1:9"])
        try:
            return await names.resolve(host), left(names, host)
        except Unresolved as error:
            return str(error), left(names, host)
        finally:
            await names.close()

    return uvloop.run(main())


def test_a_function_of_the_project_resolves() -> None:
    async def resolve(host: str) -> tuple[list[str], float]:
        return [f"192.0.2.{len(host)}", "2001:DB8::1"], 30

    known, seconds = hooked(resolve, "shop.test")
    assert isinstance(known, HostKnowledge)
    assert known.addresses == ("192.0.2.9", "2001:db8::1")
    assert 25 < seconds <= 30


def test_it_leaves_a_name_to_the_name_servers() -> None:
    async def resolve(host: str) -> None:
        return None

    assert hooked(resolve, "shop.test")[0] == "shop.test: no name server can be reached"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ((["shop.test"], 5), "does not appear to be an IPv4 or IPv6 address"),
        (("192.0.2.1", 5), "addresses must be a list"),
        (([], 5), "no addresses"),
        ((["192.0.2.1"], -1), "the TTL must be"),
        ((["192.0.2.1"], float("nan")), "the TTL must be"),
        (["192.0.2.1"], "unpack"),
    ],
)
def test_what_it_returns_is_checked(given: Any, text: str) -> None:
    async def resolve(host: str) -> Any:
        return given

    told, seconds = hooked(resolve, "shop.test")
    assert isinstance(told, str)
    assert told.startswith("shop.test: CRAWLFRAME_RESOLVER: ")
    assert text in told
    assert seconds <= FAILURE_SECONDS


def test_it_may_fail_and_be_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUESTION_TIMEOUT", 0.1)

    async def fail(host: str) -> Any:
        raise OSError("the office is closed")

    async def hang(host: str) -> Any:
        await asyncio.sleep(60)

    assert "the office is closed" in str(hooked(fail, "shop.test")[0])
    assert hooked(hang, "shop.test")[0] == "shop.test: no addresses within 0.1 s"


def test_the_setting_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_names", raising=False)
    (tmp_path / "own_names.py").write_text(
        "async def resolve(host): return None\ndef plain(host): return None\n"
    )
    (tmp_path / "bad_names.py").write_text("1 / 0\n")
    assert load_hook("") is None
    assert load_hook("own_names:resolve") is not None
    for path, text in (
        ("own_names:plain", "must be an async function"),
        ("own_names:missing", "cannot be imported"),
        ("bad_names:resolve", "division by zero"),
        ("no_such_module_:resolve", "No module named"),
    ):
        with pytest.raises(ConfigError, match=text):
            load_hook(path)


@pytest.mark.parametrize("value", ["resolve", "a.b.c", "a:b:c", "a:", ":b", "a-b:c", "1a:b"])
def test_the_form_of_the_setting_is_checked(value: str) -> None:
    with pytest.raises(ConfigError, match="it must be module:function"):
        Settings.from_env({"CRAWLFRAME_RESOLVER": value})


def test_the_workers_of_a_node_use_it(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.answer("/", b"page")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "our_names", raising=False)
    (tmp_path / "our_names.py").write_text(
        "async def resolve(host):\n    return ['127.0.0.1'], 60\n"
    )

    async def main() -> bytes:
        downloader = Downloader(Settings(allow_private=LOOPBACK, resolver="our_names:resolve"))
        try:
            request = Request(by_name(site.url, "shop.internal"))
            return (await downloader.fetch(request, SpiderSettings())).body
        finally:
            await downloader.close()

    assert uvloop.run(main()) == b"page"
