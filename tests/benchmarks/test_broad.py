"""The judge of the broad crawls, on logs made by hand, and the simulated hosts."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from benchmarks.broad.hosts import Host, children, hosts, page, path_of, robots_of, wanted
from benchmarks.broad.verdicts import Findings, Terms, curve, ideal, judge
from benchmarks.broad.world import World
from benchmarks.politeness.world import Entry

TERMS = Terms(seconds=100.0, delay=2.0, per_host=2)
EPOCH = 1_795_000_000.0  # when the logs begin


def host(kind: str = "", **fields: object) -> Host:
    plain = Host(0, "127.20.0.1", kind, 10, 0.1, 0.0, True, "en", False)
    return plain._replace(**fields)  # type: ignore[arg-type]


def entry(at: float, path: str, status: int = 200, took: float = 0.1) -> Entry:
    return Entry(EPOCH + at, EPOCH + at + took, "127.20.0.1", path, status)


def judged(log: list[Entry], one: Host | None = None, terms: Terms = TERMS) -> Findings:
    return judge([one or host()], log, terms)


def test_a_polite_crawl_has_no_faults() -> None:
    log = [entry(0, "/robots.txt"), *(entry(2 * n + 1, path_of(n)) for n in range(10))]
    found = judged(log)
    assert found == Findings(10, 10, 0, 0, 0, 0, 0, 0)
    assert found.share == 1.0


@pytest.mark.parametrize(
    ("log", "one", "fault"),
    [
        ([entry(0, "/"), entry(1.9, "/p/1")], host(), {"too_early": 1}),
        ([entry(0, "/"), entry(1.97, "/p/1")], host(), {}),  # sent in time
        ([entry(0, "/robots.txt"), entry(0.1, "/")], host(), {}),
        ([entry(0, "/"), entry(2, "/p/1")], host(crawl_delay=8.0), {"crawl_delay": 1}),
        ([entry(0, "/"), entry(2, "/p/1")], host(crawl_delay=8.0, robots=False), {}),
        ([entry(2 * n, path_of(n), took=5) for n in range(3)], host(), {"crowded": 1}),
        ([entry(2 * n, path_of(n), took=3) for n in range(3)], host(), {}),
        ([entry(0, "/private/4", 404)], host(), {"forbidden": 1}),
        ([entry(0, "/private/4", 404)], host(robots=False), {}),
        ([entry(0, "/"), entry(9, "/")], host(), {"duplicates": 1}),
        ([entry(0, "/p/1", 500), entry(9, "/p/1")], host(), {}),
        ([entry(0, "/calendar/2026/1"), entry(9, "/calendar/2026/2")], host(), {"traps": 2}),
        ([entry(0, "/p/1?sid=a"), entry(9, "/p/1?sid=b")], host("sessions"), {"traps": 1}),
        ([entry(0, "/"), entry(101, "/"), entry(101.1, "/")], host(), {}),  # after the time
    ],
)
def test_each_fault_is_counted(log: list[Entry], one: Host, fault: dict[str, int]) -> None:
    found = judged(log, one)._asdict()
    names = ("too_early", "crawl_delay", "crowded", "forbidden", "duplicates", "traps")
    assert {name: found[name] for name in names if found[name]} == fault


def test_pages_count_once_and_without_traps() -> None:
    log = [
        entry(2 * n, path)
        for n, path in enumerate(["/", "/p/1", "/p/1?sid=b", "/calendar/2026/1", "/old/3"])
    ]
    assert judged([*log[:-1], log[-1]._replace(status=301)], host("sessions")).pages == 2
    rates = dict(curve(log, 100.0, 5.0))
    assert (rates[2.5], sum(rates.values())) == (0.4, 0.4)
    assert judged([]) == Findings(0, 10, 0, 0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("one", "most"),
    [
        (host(), 10),
        (host(pages=1000), 50),  # one every 2 s
        (host(pages=1000, crawl_delay=10.0), 10),
        (host(pages=1000, crawl_delay=10.0, robots=False), 50),
        (host(pages=1000, latency=10.0), 20),  # two at a time
        (host("silent"), 0),
        (host("drip", pages=1), 1),
    ],
)
def test_the_ideal_is_what_the_host_allows(one: Host, most: int) -> None:
    assert ideal(one, TERMS) == most


def test_hosts_are_always_the_same_and_different_from_each_other() -> None:
    some = hosts(400)
    assert some[:20] == hosts(20)
    assert {one.kind for one in some} == {"", "calendar", "sessions", "drip", "silent", "failing"}
    assert len({one.address for one in some}) == 400
    assert max(one.pages for one in some) > 50 * min(one.pages for one in some)
    for number in (0, 60_001):
        with pytest.raises(ValueError, match="1 to 60,000"):
            hosts(number)


def test_all_pages_are_linked() -> None:
    some = hosts(40)
    one = next(one for one in some if one.pages > 100 and not one.kind)
    reached, waiting = {0}, [0]
    while waiting:
        number = waiting.pop()
        html = page(one, path_of(number), some, 80, "").decode()
        for child in children(number, one.pages):
            assert f'"{path_of(child)}"' in html or f'"/old/{child}"' in html
            reached.add(child)
            waiting.append(child)
    assert len(reached) == wanted(one) == one.pages


COUNT = 120


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    work: Path = tmp_path_factory.mktemp("world")
    with World(COUNT, work / "log", work / "seeds.txt") as world:
        yield world


def get(world: World, one: Host, path: str) -> tuple[int, str]:
    port = urlsplit(world.seeds.read_text().split()[0]).port or 0
    connection = HTTPConnection(one.address, port, timeout=5)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.headers["Location"] or response.read().decode()
    finally:
        connection.close()


def of_kind(world: World, kind: str) -> Host:
    return next(one for one in world.hosts if one.kind == kind)


@pytest.mark.process
def test_hosts_answer_as_they_are(world: World) -> None:
    plain = next(one for one in world.hosts if not one.kind and one.robots)
    assert get(world, plain, "/robots.txt") == (200, robots_of(plain))
    assert get(world, plain, "/p/1")[0] == 200
    assert get(world, plain, "/old/1") == (301, "/p/1")
    assert get(world, plain, f"/p/{plain.pages}")[0] == 404
    assert get(world, plain, "/calendar/2026/1")[0] == 404
    bare = next(one for one in world.hosts if not one.robots and not one.kind)
    assert get(world, bare, "/robots.txt")[0] == 404
    failing = of_kind(world, "failing")
    assert [get(world, failing, "/p/1")[0] for _ in range(3)] == [500, 200, 200]
    assert len({re.findall("sid=[0-9a-f]+", get(world, of_kind(world, "sessions"), "/")[1])[0]
                for _ in range(2)}) == 2  # fmt: skip
    assert "/calendar/2027/1" in get(world, of_kind(world, "calendar"), "/calendar/2026/12")[1]


@pytest.mark.process
@pytest.mark.parametrize("kind", ["silent", "drip"])
def test_hosts_that_keep_a_client_waiting(world: World, kind: str) -> None:
    one = of_kind(world, kind)
    port = urlsplit(world.seeds.read_text().split()[0]).port or 0
    before = len(world.entries())
    with socket.create_connection((one.address, port), timeout=3) as client:
        client.sendall(b"GET /p/1 HTTP/1.1\r\nHost: %s:%d\r\n\r\n" % (one.address.encode(), port))
        if kind == "drip":
            assert b"200 OK" in client.recv(4096)
            assert client.recv(4096) == b" "
        else:
            with pytest.raises(TimeoutError):
                client.recv(4096)
    for _ in range(50):  # it notices that the client has gone
        if len(world.entries()) > before:
            break
        time.sleep(0.1)
    last = world.entries()[-1]
    assert (last.host, last.path, last.status) == (one.address, "/p/1", 0)


@pytest.mark.process
@pytest.mark.postgres
@pytest.mark.long  # a database with all tables is made
def test_a_small_run_of_ours(tmp_path: Path) -> None:
    from benchmarks.broad.crawls import ENTRIES, crawl

    (entry,) = (one for one in ENTRIES if one.name == "crawlframe")
    done = crawl(entry, 12, Terms(5.0, 0.5, 2), tmp_path)
    found = done.found
    assert 12 <= found.pages <= found.ideal + 12  # one more may fit at the end
    assert (found.too_early, found.crawl_delay, found.crowded, found.forbidden) == (0, 0, 0, 0)
    assert done.usage.total > 0
    assert done.redis > 0
    assert sum(rate for _, rate in done.rates) * 5.0 == pytest.approx(found.pages)
