"""The cookies of a task in Redis, and the jars of workers that share them."""

from __future__ import annotations

from collections.abc import Callable

import orjson
import pytest
from redis import Redis

from crawlframe.fetch.journey.cookies import TaskCookies
from crawlframe.frontier.client.partitions import PartitionedStore
from tests.frontier.bench import Bench

URL = "https://example.com/"


def named(name: str) -> str:
    return f"example.com|/|{name}"


def entry(value: str, name: str = "a") -> str:
    fields = [name, value, "example.com", False, False, "/", False, False, None]
    return orjson.dumps(fields).decode()


class Worker:
    """The cookies of task 1 in one worker, by the rules of RequestRunner.run."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.jar = TaskCookies()
        self.version = 0

    def gets(self, *set_cookies: str) -> None:
        """An answer sets them, and its request is completed."""
        self.jar.absorb(URL, set_cookies)
        self.bench.frontier.share_cookies(1, self.jar.changes())

    def sends(self) -> str | None:
        """The cookies sent with the next request that it claims."""
        version = int(self.bench.redis.hget(self.bench.key("TASK", 1), "cookies") or 0)
        if version > self.version:
            self.jar.load(*self.bench.frontier.cookies(1))
            self.version = version
        return self.jar.header_for(URL)


@pytest.mark.parametrize("partitions", [1, 2])
def test_cookies_are_shared(make_bench: Callable[..., Bench], partitions: int) -> None:
    bench = make_bench(partitions=partitions)
    hosts = [f"{c}.example" for c in "abcdef"]
    bench.open(*(bench.request(host, host) for host in hosts), concurrency=1)
    assert bench.frontier.cookies(1) == ({}, 0)
    versions = []
    a, b = named("a"), named("b")
    for cookies in ({a: entry("1"), b: entry("ü")}, {a: entry("1")}, {a: entry("2")}):
        bench.frontier.share_cookies(1, cookies)
        claim = bench.whole_claim(1)
        versions.append(claim.tasks[1].cookies)
    assert versions == [1, 1, 2]
    assert bench.frontier.cookies(1) == ({a: entry("2"), b: entry("ü")}, 0)
    assert bench.frontier.cookies(2) == ({}, 0)


def test_very_many_cookies(bench: Bench) -> None:
    bench.open()
    cookies = {named(str(i)): entry(str(i)) for i in range(1500)}
    bench.frontier.share_cookies(1, cookies)
    assert bench.frontier.cookies(1).entries == cookies
    bench.frontier.share_cookies(1, {})


def test_deleted_cookies_do_not_pile_up(bench: Bench) -> None:
    bench.open()
    for number in range(255):
        changes = {named(f"{number}"): entry("x"), named(f"{number - 1}"): ""}
        bench.frontier.share_cookies(1, changes)
    entries, swept = bench.frontier.cookies(1)
    assert (entries[named("253")], swept) == ("", 0)
    bench.frontier.share_cookies(1, {named("last"): "", named("253"): ""})
    left = {named("254"): entry("x"), named("last"): "", named("253"): ""}
    assert bench.frontier.cookies(1) == (left, 256)


@pytest.mark.parametrize("late", [0, 1, 300])
def test_a_deleted_cookie_lives_on_nowhere(make_bench: Callable[..., Bench], late: int) -> None:
    """No matter when it was deleted before the entries of deleted cookies were dropped, and how
    much later the others read."""
    bench = make_bench(store=PartitionedStore)
    bench.open()
    here, there, idle = Worker(bench), Worker(bench), Worker(bench)
    here.gets("sid=1; Path=/")
    assert there.sends() == idle.sends() == "sid=1"
    for n in range(254 - late % 256):
        here.gets(f"n={n}; Path=/")
    here.gets("sid=; Path=/; Max-Age=0")
    for n in range(late):
        here.gets(f"later={n}; Path=/")
    assert "sid" not in (here.sends() or "")
    assert "sid" not in (there.sends() or "")
    for n in range(300):
        here.gets(f"n={n}; Path=/")
    assert "sid" not in (idle.sends() or "")


def test_a_sweep_leaves_what_was_not_sent_yet(bench: Bench) -> None:
    bench.open()
    here, there = Worker(bench), Worker(bench)
    here.gets("a=1; Path=/", "gone=1; Path=/")
    there.sends()
    there.jar.absorb(URL, ["mine=1; Path=/"])
    here.gets("gone=; Path=/; Max-Age=0")
    for n in range(300):
        here.gets(f"n={n}; Path=/")
    assert there.sends() == "a=1; mine=1; n=299"
    there.gets()
    assert here.sends() == "a=1; n=299; mine=1"


def test_a_jar_that_sent_a_cookie_before_a_sweep_keeps_it(bench: Bench) -> None:
    bench.open()
    here, there = Worker(bench), Worker(bench)
    here.gets("a=1; Path=/")
    there.sends()
    told = there.jar
    told.absorb(URL, ["late=1; Path=/"])
    late = told.changes()  # on its way
    for n in range(300):
        here.gets(f"n={n}; Path=/")
    there.sends()
    bench.frontier.share_cookies(1, late)
    assert "late=1" in (there.sends() or "")
    assert "late=1" in (here.sends() or "")


@pytest.mark.parametrize(
    ("name", "value", "stays"),
    [
        ("junk", "x", False),
        ("junk", "", False),
        ("a|b", entry("1"), False),
        (named("x"), "x", False),
        (named("x"), "[", False),
        (named("x"), b"\xff", False),
        # It may be of another release.
        (named("x"), "[]", True),
        (named("x"), "5", True),
        (named("x"), '{"name": "a"}', True),
        (named("x"), "[1,2,3,4,5,6,7,8,9]", True),
        (named("x"), entry("1")[:-1] + ",0]", True),
    ],
)
def test_what_is_no_cookie_is_left_out(
    bench: Bench, name: str, value: str | bytes, stays: bool
) -> None:
    """A single such row used to fail each request of its task."""
    bench.open()
    worker = Worker(bench)
    Worker(bench).gets("good=1; Path=/")
    bench.redis.hset(bench.key("COOKIES", 1), name, value)
    assert worker.sends() == "good=1"
    assert [row.name for row in bench.frontier.rows.quarantined()] == [f"cookies:1 {name}"]
    assert bench.redis.hexists(bench.key("COOKIES", 1), name) == stays
    Worker(bench).gets("more=1; Path=/")
    assert worker.sends() == "good=1; more=1"


@pytest.mark.parametrize(
    "header",
    [
        "a=1",
        "a",
        "a=1; Domain=example.com; Path=/x; Secure; HttpOnly; SameSite=Lax; Max-Age=60",
        "a=1; Expires=Wed, 01 Jan 2098 00:00:00 GMT",
        "a=1; Max-Age=" + "9" * 30,
        "a=1; Version=1; Port",
        "a=1; Secure=x",
        'odd="x|y;z"; Path=/shop|x',
    ],
)
def test_what_jars_write_is_read(bench: Bench, header: str) -> None:
    bench.open()
    worker = Worker(bench)
    worker.gets(header)
    assert bench.frontier.cookies(1).entries == worker.jar.dump() != {}
    assert bench.frontier.rows.quarantined() == []


def test_a_sweep_that_is_no_number(redis_client: Redis) -> None:
    """Its task is set aside, as with any other invalid number."""
    bench = Bench(redis_client)
    bench.open()
    bench.redis.hset(bench.key("TASK", 1), "swept", "junk")
    assert bench.frontier.cookies(1) == ({}, 0)
    assert [row.name for row in bench.frontier.rows.quarantined()] == ["task:1 swept"]


def test_sessions_are_shared_like_other_cookies(bench: Bench) -> None:
    url, here, there = "http://a.example/", TaskCookies(), TaskCookies()
    bench.open()
    for session in ("", "left"):
        here.absorb(url, [f"id=of-{session or 'all'}"], session)
    bench.frontier.share_cookies(1, here.changes())
    there.load(*bench.frontier.cookies(1))
    sent = [there.header_for(url, None, session) for session in ("", "left", "right")]
    assert sent == ["id=of-all", "id=of-left", None]
    assert bench.frontier.audit() == []
