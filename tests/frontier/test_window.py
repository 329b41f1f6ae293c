"""Windows: requests go at a time of day only, by the clock of Redis alone."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from crawlframe import gates
from crawlframe.frontier import TaskLimits
from crawlframe.frontier.client import scripts
from crawlframe.frontier.hosts import HostOrder
from crawlframe.spider.settings import SpiderSettings
from tests.frontier.bench import NODE, Bench

HOST, DAY = "a.example", 86_400
ZONES = (
    "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu",
    "Africa/Casablanca", "America/St_Johns",
)  # fmt: skip
WINDOWS = (
    "22:00-06:00",
    "02:30-04:00",
    "00:00-24:00",
    "23:59-00:00",
    "02:00-02:01",
    "9:00 - 17:00",
)


def closed(bench: Bench, *, after: int = 3600) -> str:
    """The gate's record of a window that opens so many seconds from now, for an hour."""
    opens = (bench.now() // 1000 + after) % DAY
    return f"window=0,60,{DAY - opens}"


def close(bench: Bench, task: int = 1, **options: int) -> None:
    bench.redis.hset(bench.key("TASK", task), "gates", closed(bench, **options))


@pytest.fixture
def opens(redis_client: Any) -> Callable[[str, int], int]:
    """Opens(window, at): the first ms from ``at`` on at which it is open, as Lua computes it."""
    rule = (scripts.GATES / "window.lua").read_text()
    script = f"""local rules = {{}}
{rule}
local numbers = {{}}
for number in string.gmatch(ARGV[1], '-?%d+') do numbers[#numbers + 1] = tonumber(number) end
return string.format('%.0f', rules.window(numbers, tonumber(ARGV[2])))"""
    run = redis_client.register_script(script)

    def ask(window: str, at: int) -> int:
        numbers = gates.encode({"window": window}).partition("=")[2]
        return int(run(keys=["x"], args=[numbers, at]))

    return ask


def by_hand(window: str, zone: str, at: int) -> int:
    """The same, minute by minute, from the clock on the wall."""
    first, last = (
        60 * int(part.split(":")[0]) + int(part.split(":")[1]) for part in window.split("-")
    )

    def is_open(ms: int) -> bool:
        wall = datetime.fromtimestamp(ms / 1000, UTC).astimezone(ZoneInfo(zone))
        minute = 60 * wall.hour + wall.minute
        return first <= minute < last if first < last else minute >= first or minute < last

    while not is_open(at):
        at = (at // 60_000 + 1) * 60_000
    return at


def instants(zone: str) -> Iterator[int]:
    """Instants of the next two years (ms), more of them around the changes of the clocks."""
    numbers = gates.encode({"window": f"22:00-06:00 {zone}"}).split(",")
    now = int(datetime.now(UTC).timestamp())
    chance = random.Random(zone)
    for change in map(int, numbers[3::2][:4]):
        yield from (1000 * (change + chance.randint(-2 * DAY, DAY)) for _ in range(6))
        yield from (1000 * change + shift for shift in (-1, 0, 1))
    yield from (1000 * now + chance.randrange(2 * 365 * DAY * 1000) for _ in range(10))


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("window", WINDOWS)
def test_the_clock_on_the_wall_decides(
    opens: Callable[[str, int], int], window: str, zone: str
) -> None:
    for at in instants(zone):
        found = opens(f"{window} {zone}", at)
        assert found == by_hand(window, zone, at), (window, zone, at)


@pytest.mark.parametrize(
    ("window", "problem"),
    [
        ("22-06", 'write it as in "22:00-06:00" for UTC'),
        ("22:00", "write it as in"),
        ("24:00-06:00", "write it as in"),
        ("22:00-24:01", "write it as in"),
        ("22:60-06:00", "write it as in"),
        ("22:00-06:00Europe/Berlin", "write it as in"),
        ("22:00-06:00 Berlin", "no time zone 'Berlin' here; write one as in Europe/Berlin"),
        ("22:00-06:00 Europe", "no time zone 'Europe'"),
        ("22:00-06:00 ../UTC", "no time zone '../UTC'"),
        ("22:00-06:00 " + 300 * "x", "no time zone 'xx"),
        ("10:00-10:00", 'which is empty; all day is "00:00-24:00"'),
    ],
)
def test_a_window_that_means_nothing_is_refused(window: str, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        SpiderSettings(window=window)


def test_a_host_opens_when_every_rule_lets_it(
    redis_client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(scripts.GATES / "window.lua", tmp_path)
    (tmp_path / "closure.lua").write_text(
        "function rules.closure(span, at) return at < span[1] and at or math.max(at, span[2]) end"
    )
    monkeypatch.setattr(scripts, "GATES", tmp_path)
    monkeypatch.setattr(scripts, "source", scripts.source.__wrapped__)
    bench, hour = Bench(redis_client), 3_600_000
    bench.open(bench.request("a"))
    span = f"{bench.now() + 21 * hour},{bench.now() + 30 * hour}"
    rules = f"{closed(bench, after=22 * 3600)};closure={span}"
    bench.redis.hset(bench.key("TASK", 1), "gates", rules)
    assert bench.claim() == []
    wait = bench.frontier.waits.of({1: bench.counts()})[1]
    assert wait.why == "window"
    assert 0 <= bench.now() + 46 * hour - 1000 * wait.until < 10_000


def test_a_closed_task_waits_and_others_do_not(bench: Bench) -> None:
    bench.open(*bench.requests(3))
    close(bench)
    assert bench.claim() == []
    assert 3_590_000 < bench.wait <= 3_600_000, "nodes sleep until it opens"
    state = bench.frontier.hosts.states([HOST])[HOST]
    wait = bench.frontier.waits.of({1: bench.counts()})[1]
    assert state.why == wait.why == "window"
    assert state.closed_until == wait.until
    assert 3590 < wait.until - bench.now() / 1000 <= 3600
    bench.open(bench.request("other", task=2), task=2)
    assert bench.names(bench.claim_all()) == ["other"]
    assert bench.frontier.hosts.longest_due() is None
    assert bench.frontier.standstill()[0] is None, "it ends by itself"


def test_lanes_of_a_closed_task_do_not_hide_others(bench: Bench) -> None:
    bench.open(*(bench.request(f"r{n}", priority=n + 1) for n in range(130)))
    close(bench)
    bench.open(bench.request("other", task=2), task=2)
    assert bench.names(bench.claim_all()) == ["other"]


def test_it_opens_at_the_instant_and_no_earlier(bench: Bench) -> None:
    bench.open(*bench.requests(1), delay=100)
    close(bench, after=1)
    while not (found := bench.claim()):
        assert bench.frontier.waits.of({1: bench.counts()}) or bench.now() % 1000 < 500
    second = bench.now() // 1000
    numbers = bench.redis.hget(bench.key("TASK", 1), "gates").split(b",")
    assert (second + int(numbers[2])) % DAY < 60 * 60
    assert len(found) == 1


def test_a_request_that_would_leave_after_the_end_waits(bench: Bench) -> None:
    """A host with a delay is claimed ahead of its time."""
    bench.open(*bench.requests(2), delay=40)
    for one in bench.claim():
        bench.complete(one)
    end = bench.now() // 1000 + 1
    bench.redis.hset(bench.key("HOST", HOST), "n", 1000 * end + 15)
    bench.redis.hset(bench.key("TASK", 1), "gates", f"window=0,60,{(3600 - end) % DAY}")
    bench.redis.zadd(bench.key("HOSTS"), {HOST: bench.now()})
    bench.after(1000 * end - 30)
    assert bench.claim_unsent() == []
    wait = bench.frontier.waits.of({1: bench.counts()})[1]
    assert (wait.why, round(wait.until - end)) == ("window", 23 * 3600)


def test_an_order_stands_in_place_of_the_setting(bench: Bench) -> None:
    bench.open(*bench.requests(2))
    close(bench)
    assert bench.claim() == []
    bench.frontier.hosts.order(HOST, HostOrder(gates={"window": "00:00-24:00"}))
    assert len(bench.claim(1)) == 1
    bench.frontier.hosts.clear_order(HOST)
    assert bench.claim() == []
    bench.redis.hdel(bench.key("TASK", 1), "gates")
    bench.redis.hset(bench.key("HOST", HOST), mapping={"x": 1, "og": closed(bench)})
    bench.redis.zadd(bench.key("HOSTS"), {HOST: bench.now()})
    assert bench.claim() == []
    assert bench.frontier.hosts.states([HOST])[HOST].why == "window"
    assert bench.frontier.hosts.states([HOST])[HOST].order is not None


def test_an_order_that_is_over_closes_nothing(bench: Bench) -> None:
    bench.open(*bench.requests(1))
    key = bench.key("HOST", HOST)
    bench.redis.hset(key, mapping={"x": 1, "og": closed(bench), "ou": bench.now() - 1})
    assert len(bench.claim()) == 1
    assert bench.redis.hmget(key, "og", "ou", "x") == [None, None, None]


def test_inline_fetches_wait_too(bench: Bench) -> None:
    bench.open(*bench.requests(2))
    close(bench)
    asked = bench.frontier.permits.ask(NODE, 1, HOST, b"token", 1000, 5000)
    assert not asked.given
    assert 3_590_000 < asked.wait <= 3_600_000


def test_a_rest_that_ends_outside_of_the_window_does_not_open_it(bench: Bench) -> None:
    bench.open(*bench.requests(1))
    close(bench, after=600)
    bench.redis.hset(bench.key("HOST", HOST), mapping={"x": 1, "r": bench.now() + 60_000})
    state = bench.frontier.hosts.states([HOST])[HOST]
    assert state.why == "window"
    assert state.closed_until > bench.now() / 1000 + 590


def test_a_cancelled_task_does_not_wait_for_its_window(bench: Bench) -> None:
    bench.open(*bench.requests(2))
    close(bench)
    assert bench.claim() == []
    bench.frontier.cancel(1)
    assert bench.counts().nr == 0


def test_an_era_knows_it_again_from_the_limits_of_the_task(bench: Bench) -> None:
    limits = TaskLimits(gates={"window": "22:00-06:00 Europe/Berlin"})
    bench.frontier.open_task(1, limits, bench.requests(1))
    kept = bench.redis.hget(bench.key("TASK", 1), "gates")
    assert kept.startswith(b"window=1320,360,")
    assert len(kept) < 400
    bench.redis.hdel(bench.key("TASK", 1), "gates")
    bench.frontier.set_limits(1, limits)
    assert bench.redis.hget(bench.key("TASK", 1), "gates") == kept


def test_what_fetches_nothing_does_not_wait_for_it(bench: Bench) -> None:
    """The start of a task, and its end, which must not come a day later."""
    bench.open(bench.request("start", "/1"))
    close(bench)
    assert bench.names(bench.claim()) == ["start"]


def test_without_a_window_the_task_has_no_field_for_it(bench: Bench) -> None:
    bench.open(*bench.requests(1))
    assert not bench.redis.hexists(bench.key("TASK", 1), "gates")
