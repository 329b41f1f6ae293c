"""The judges of the politeness benchmark, on logs made by hand, and its servers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from benchmarks.politeness import manners
from benchmarks.politeness.limits import Bucket, Limit, Outage, Pool, Quota
from benchmarks.politeness.scenes import Goals, Scene, scenes
from benchmarks.politeness.verdicts import Findings, failures, judge
from benchmarks.politeness.world import ROBOTS, Entry, Host, World

HOST = "127.0.3.9"
EPOCH = 1_795_000_000.0  # start of the logs


def scene(limit: Limit, pages: int = 300, **fields: object) -> Scene:
    return Scene("s", "", Host(HOST, limit=limit), pages, 60.0, 5.0)._replace(**fields)  # type: ignore[arg-type]


def crawl(
    limit: Limit,
    pages: int,
    gap: float = 0.2,
    *,
    rest: float = 0.0,
    tries: int = 99,
    start: float = EPOCH,
) -> list[Entry]:
    """The log of a crawler that asks every ``gap`` seconds, and rests for ``rest`` after a refusal;
    a page that was refused ``tries`` times is given up."""
    log, now, left = [], 0.0, [*range(pages)]
    refusals = dict.fromkeys(left, 0)
    while left:
        page = left.pop(0)
        reply = limit.reply(now)
        done = start + now + reply.latency
        until = None if reply.rest is None else done + reply.rest
        log.append(Entry(start + now, done, HOST, f"/page/{page}", reply.status, until))
        if reply.status != 200:
            refusals[page] += 1
            if refusals[page] < tries:
                left.insert(0, page)
            now += rest
        now += gap
    return log


def verdict(at: Scene, log: Sequence[Entry], *, ended: bool = True) -> tuple[Findings, str]:
    found = judge(at, log, ended)
    return found, "; ".join(failures(at, found, ended))


def bucket(rate: float = 5.0, rest: float | None = None) -> Bucket:
    return Bucket([(0.0, rate)], rest)


def test_a_crawler_that_asks_for_what_is_allowed_passes() -> None:
    found, problems = verdict(scene(bucket()), crawl(bucket(), 300))
    assert problems == ""
    assert (found.answered, found.lost, found.refused, found.early) == (300, 0, 0.0, 0)
    assert found.reached == pytest.approx(1.0, abs=0.01)
    assert found.latency == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("log", "ended", "told"),
    [
        (crawl(bucket(), 300, 0.15), True, "refused 2"),
        (crawl(bucket(), 300, 0.25), True, "rate 80"),
        (crawl(bucket(), 300, 0.1, tries=2), True, "URLs lost"),
        (crawl(bucket(), 299), True, "1 of 300 URLs lost"),
        (crawl(bucket(), 299), False, "not ended with 299 of 300"),
        (crawl(bucket(), 10), True, "refused unknown"),
        ([], True, "no page was asked for"),
        (crawl(Pool(2, 0.1), 300, 0.045), True, "latency"),
    ],
)
def test_one_that_is_not_polite_fails(log: list[Entry], ended: bool, told: str) -> None:
    limit = Pool(2, 0.1) if "latency" in told else bucket()
    assert told in verdict(scene(limit), log, ended=ended)[1]


def test_what_was_never_asked_for_does_not_count_as_answered() -> None:
    strangers = [one._replace(path=f"/other{one.path}") for one in crawl(bucket(), 300)]
    elsewhere = [one._replace(host="127.0.3.8") for one in crawl(bucket(), 300)]
    half = [one._replace(status=0) for one in crawl(bucket(), 300)]
    for log in (strangers, elsewhere, half):
        assert verdict(scene(bucket()), log)[0].lost == 300


def test_requests_before_the_named_instant_are_counted() -> None:
    limited = scene(bucket(rest=7.0), goals=Goals(None, None, None))
    obedient = crawl(bucket(rest=7.0), 300, 0.15, rest=7.0)
    assert any(one.until for one in obedient)
    assert verdict(limited, obedient) == (judge(limited, obedient, True), "")
    hasty = crawl(bucket(rest=7.0), 300, 0.15, rest=6.0)
    assert "requests before the named instant" in verdict(limited, hasty)[1]
    first = next(one for one in obedient if one.until)
    at_once = first._replace(arrived=first.replied + 0.2)  # sent before the refusal was read
    later = first._replace(arrived=first.replied + 0.5)
    assert verdict(limited, [*obedient, at_once])[0].early == 0
    assert verdict(limited, [*obedient, later])[0].early == 1


def test_a_server_that_names_an_hour_must_be_waited_for() -> None:
    hour = next(one for one in scenes(True) if one.endless)
    limit = Quota(20, 3600.0)
    log = [
        one._replace(host=hour.host.name) for one in crawl(limit, 100, rest=4000.0, tries=1)[:21]
    ]
    assert verdict(hour, log, ended=False)[1] == ""
    assert "80 of 100 URLs lost" in verdict(hour, log)[1]
    again = log[-1]._replace(arrived=log[-1].arrived + 300)
    assert "1 requests before" in verdict(hour, [*log, again], ended=False)[1]


def test_an_outage_is_no_excuse_for_hammering_or_sleeping() -> None:
    out = scene(Outage(20.0, 10.0, 70.0), 1000)
    patient = crawl(Outage(20.0, 10.0, 70.0), 1000, 0.05, rest=5.0)
    assert verdict(out, patient)[1] == ""
    assert "refused" in verdict(out, crawl(Outage(20.0, 10.0, 70.0), 1000, 0.05, rest=0.2))[1]
    asleep = crawl(Outage(20.0, 10.0, 70.0), 1000, 0.05, rest=110.0)
    assert "rate" in verdict(out, asleep)[1]


def test_each_phase_of_a_changing_limit_counts_for_what_it_allows() -> None:
    steps = [(0.0, 20.0), (30.0, 2.0), (60.0, 20.0)]
    changing = scene(Bucket(steps), 1260, goals=Goals(None, 0.85, None))
    greedy = crawl(Bucket(steps), 1260, 0.05)
    found, problems = verdict(changing, greedy)
    assert (found.refused or 0.0) > 0.1
    assert found.reached == pytest.approx(1.0, abs=0.05)
    assert problems == ""
    assert "rate" in verdict(changing, crawl(Bucket(steps), 1260, 0.5))[1]


def test_a_bucket_allows_what_its_steps_say() -> None:
    limit = Bucket([(0.0, 20.0), (10.0, 2.0), (20.0, 20.0)])
    assert limit.allowed(5, 25) == 5 * 20 + 10 * 2 + 5 * 20
    assert [limit.reply(0).status for _ in range(21)] == [200] * 20 + [429]
    assert [limit.reply(12).status for _ in range(3)] == [200, 200, 429]
    assert Outage(10.0, 2.0, 4.0).allowed(1, 5) == 20
    assert [Pool(1, 2.0).reply(0).latency, Pool(1, 2.0).allowed(0, 10)] == [2.0, 5.0]


def at(arrived: float, host: str, path: str = "/page/1", status: int = 200) -> Entry:
    return Entry(EPOCH + arrived, EPOCH + arrived + 0.05, host, path, status)


def test_requests_closer_than_the_delay_are_found() -> None:
    good = [at(0, "a", ROBOTS), at(1.0, "a"), at(1.97, "a"), at(1.5, "b"), at(1.6, "b")]
    assert manners.too_close(good, {"a": 1.0}) == []
    bad = [*good, at(2.9, "a", "/page/2")]
    assert manners.too_close(bad, {"a": 1.0}) == ["a/page/2 came 0.930 s after /page/1, not 1 s"]
    assert len(manners.too_close([at(0, "a", ROBOTS), at(0.5, "a")], {"a": 1.0})) == 1


def test_faults_around_robots_txt_are_found() -> None:
    def faults(*log: Entry) -> list[str]:
        return manners.robots_faults(log, [Host("a")], ["/private/"])

    assert faults(at(0, "a", ROBOTS), at(0.1, "a")) == []
    assert faults() == ["a was asked for robots.txt 0 times"]
    assert faults(at(0, "a", ROBOTS), at(9, "a", ROBOTS)) == ["a was asked for robots.txt 2 times"]
    assert faults(at(0, "a", ROBOTS), at(0.04, "a")) == [
        "a/page/1 came before robots.txt was known"
    ]
    assert faults(at(0, "a", ROBOTS), at(1, "a", "/private/x")) == ["a/private/x is forbidden"]
    assert len(faults(at(0, "a"))) == 2


def test_pages_that_were_not_answered_are_found() -> None:
    log = [at(0, "a", status=503), at(1, "a"), at(2, "b", status=503)]
    assert manners.unanswered(log, [("a", "/page/1")]) == []
    assert manners.unanswered(log, [("a", "/page/1"), ("b", "/page/1")]) == [
        "b/page/1 was never answered"
    ]


def test_broken_chains_are_found() -> None:
    chain = [("a", "/1"), ("b", "/2"), ("a", "/3")]
    hops = [at(0, "a", "/1", 301), at(1, "b", "/2", 301), at(2, "a", "/3")]
    assert manners.broken_chains([*hops, at(1, "c")], [chain]) == []
    assert manners.broken_chains(hops[:2], [chain]) == ["a/1: 2 of 3 hops in order"]
    again = [*hops, at(3, "b", "/2", 301)]
    assert manners.broken_chains(again, [chain]) == ["a/1: 4 of 3 hops in order"]
    refused = [*hops[:2], at(2, "a", "/3", 503)]
    assert manners.broken_chains(refused, [chain]) == ["a/1: 3 of 3 hops in order"]
    assert len(manners.broken_chains([hops[0], at(1, "b", "/2"), hops[2]], [chain])) == 1


def test_too_many_requests_at_an_address_are_found() -> None:
    hosts = [Host("x.test", "127.0.4.1"), Host("y.test", "127.0.4.1"), Host("z.test", "127.0.4.2")]
    log = [at(0, "x.test"), at(0.03, "y.test"), at(0.06, "x.test"), at(0.0, "z.test")]
    assert manners.crowded(log, hosts, 2) == []
    assert manners.crowded(log, hosts, 1) == ["127.0.4.1 had 2 requests at a time, not 1"]
    assert [one.host for one in manners.by_address(log, hosts)["127.0.4.1"]] == ["127.0.4.1"] * 3


def test_addresses_that_get_less_than_is_allowed_are_found() -> None:
    hosts = [Host("x.test", "127.0.4.1"), Host("y.test", "127.0.4.1")]
    log = [at(0.1 * number, hosts[number % 2].name) for number in range(100)]
    log[0] = log[0]._replace(arrived=EPOCH - 30)  # the start is slow
    assert manners.too_slow(log, hosts, 0.1, 0.95) == []
    assert manners.too_slow(log, hosts, 0.11, 0.95) == []
    (fault,) = manners.too_slow(log, hosts, 0.09, 0.95)
    assert fault == "127.0.4.1 got 0.90 of what the delay allows"
    assert len(manners.too_slow(log[:1], hosts, 0.1, 0.95)) == 1


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    hosts = [
        Host("127.0.5.1", limit=Quota(1, 7.0), robots="User-agent: *\nCrawl-delay: 2\n"),
        Host("127.0.5.2", limit=Quota(0, 7.0), dated=True, robots=None),
        Host("one.test", "127.0.5.3", moved={"/page/1": ("127.0.5.1", "/page/9")}),
        Host("two.test", "127.0.5.3", limit=Outage(5.0, 0.0, 60.0)),
    ]
    with World(hosts, tmp_path_factory.mktemp("world") / "log") as world:
        yield world


def ask(world: World, name: str, path: str, address: str = "") -> HTTPError:
    """The reply, of which HTTPError is a form; redirects are not followed."""
    request = Request(world.url(address or name, path), headers={"Host": f"{name}:{world.port}"})
    try:
        with urlopen(request, timeout=10) as reply:
            return HTTPError(reply.url, reply.status, "", reply.headers, None)
    except HTTPError as refused:
        refused.close()
        return refused


def test_servers_answer_as_declared_and_log_it(world: World) -> None:
    assert ask(world, "127.0.5.1", "/page/1").code == 200
    refused = ask(world, "127.0.5.1", "/page/2")
    assert (refused.code, refused.headers["Retry-After"]) == (429, "7")
    dated = ask(world, "127.0.5.2", "/page/1")
    date = parsedate_to_datetime(dated.headers["Retry-After"]).timestamp()
    assert ask(world, "two.test", "/page/1", "127.0.5.3").code == 503
    assert ask(world, "127.0.5.2", ROBOTS).code == 404
    with urlopen(world.url("127.0.5.1", ROBOTS)) as robots:
        assert robots.read() == b"User-agent: *\nCrawl-delay: 2\n"
    deadline = time.monotonic() + 10
    while len(log := world.entries()) < 6 and time.monotonic() < deadline:
        time.sleep(0.01)  # a request is logged after its reply
    assert [(one.host, one.path, one.status) for one in log] == [
        ("127.0.5.1", "/page/1", 200),
        ("127.0.5.1", "/page/2", 429),
        ("127.0.5.2", "/page/1", 429),
        ("two.test", "/page/1", 503),
        ("127.0.5.2", ROBOTS, 404),
        ("127.0.5.1", ROBOTS, 200),
    ]
    assert log[0].replied - log[0].arrived > 0.04  # at least the 0.05 s declared
    assert log[1].until == pytest.approx(log[1].replied + 7, abs=0.001)
    assert log[2].until == date
    assert 7 <= date - log[2].replied < 8
    assert log[0].agent.startswith("Python-urllib")


def test_a_server_leads_to_another(world: World) -> None:
    connection = HTTPConnection("127.0.5.3", world.port)
    connection.request("GET", "/page/1", headers={"Host": f"one.test:{world.port}"})
    reply = connection.getresponse()
    assert (reply.status, reply.headers["Location"]) == (301, world.url("127.0.5.1", "/page/9"))
    connection.close()
