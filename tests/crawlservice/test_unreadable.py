"""Unreadable data in Redis stops nothing: it is set aside, counted and shown."""

from __future__ import annotations

import random
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from redis import Redis

from crawlframe.conf import Settings
from crawlframe.errors import CrawlframeError
from crawlframe.frontier import Claimed, Frontier, tasks
from crawlframe.frontier.client.keys import KEYS
from crawlframe.frontier.cluster.rollouts import Rollout
from crawlservice.ledger.recovery import is_whole, renew
from crawlservice.models import Action, Task
from crawlservice.monitoring import nodes, overview
from crawlservice.steward.steward import Steward
from crawlservice.steward.task_chore import TaskChore
from crawlservice.tasks.submit import submit
from tests.crawlservice.chores import work_of
from tests.crawlservice.graph import GraphCrawl
from tests.crawlservice.programs import person, program
from tests.crawlservice.web import texts

SEEDS = (1, 4, 5, 23, 28, 29, 36, 39)  # each found a defect
JUNK = (
    b"", b"junk", b"\xff\xfe", b"{}", b"[]", b"null", b"0x1p", b"1.5", b"9" * 5000, b"-", b"|",
    b"1|", b'{"generation": "x"}', b'{"name": 1}', b"1,2,3,4", b"\x00", b"d|", b"7.1|x",
)  # fmt: skip
DECODED = ("nodes", "spiders", "rollout")
HASHES = ("NODES", "SPIDERS", "ROLLOUT", "OWN", "TRIES", "KILLS", "CURSOR")
OF_TASK = ("TASK", "PARKED", "COOKIES")


def run(command: str, *options: str) -> str:
    out = StringIO()
    call_command(command, *options, stdout=out)
    return out.getvalue()


@pytest.fixture
def pages(published: Frontier, as_role: Callable[[str], Client]) -> Callable[[], None]:
    """Requests all pages that read Redis; none may fail."""
    client, caller = as_role("administrator"), program(person("root"))

    def ask() -> None:
        overview.snapshot.clear()
        for path in ("/admin/", "/admin/overview/", "/admin/crawlservice/generation/", "/metrics"):
            assert client.get(path).status_code == 200, path
        for path in ("nodes", "spiders", "tasks", "tasks/1"):
            assert caller.get(path).status_code == 200, path
        assert client.get("/admin/crawlservice/task/1/change/").status_code == 200
        assert run("node", "list") != ""
        assert run("task", "list") != ""

    return ask


def test_the_rows_of_the_issue(
    published: Frontier, join: Callable[..., int], pages: Callable[[], None]
) -> None:
    join("alpha", version="1f00", state="live", spiders=("shop",))
    submit("shop", {"city": "Ulm"})
    published.rollouts.announce(Rollout("a" * 40, "main"))
    for name in DECODED:
        published.store.redis.hset(f"cf:{{0}}:{name}", "99", "junk")
    pages()
    assert published.rollouts.current() is not None
    assert len(published.rows.quarantined()) == nodes.unreadable() == 3
    assert {row.name for row in published.rows.quarantined()} == {f"{h} 99" for h in DECODED}
    assert published.store.redis.hkeys("cf:{0}:nodes") == [b"1"], "it is not met again"
    submit("shop", {"city": "Ulm"})


def test_it_is_shown_and_an_operator_deletes_it(
    published: Frontier, as_role: Callable[[str], Client]
) -> None:
    published.store.redis.hset("cf:{0}:nodes", "99", b"\xff<junk>" * 100)
    page = as_role("viewer").get("/admin/").content.decode()
    (note,) = texts(page, ".cf-note")
    assert note.startswith("1 row in Redis could not be read and was set aside.")
    assert run("node", "list").startswith("1 rows in Redis could not be read")
    assert program(person("root")).get("nodes").json()["unreadable"] == 1
    metrics = Client(SERVER_NAME="localhost").get("/metrics").content.decode()
    assert "crawlframe_redis_unreadable_rows 1.0" in metrics
    told = run("store", "quarantine")
    assert "nodes 99" in told
    assert "\\xff<junk>" in told
    assert "this would delete 1 rows" in run("store", "clear-quarantine", "--dry-run")
    assert "1 rows deleted" in run("store", "clear-quarantine")
    assert published.rows.quarantined() == []
    assert Action.objects.get(verb="forget unreadable rows").detail["rows"] == 1
    assert run("store", "quarantine") == "no unreadable rows in Redis\n"


def test_no_more_is_kept_than_can_be_looked_at(published: Frontier) -> None:
    published.store.redis.hset("cf:{0}:nodes", mapping=dict.fromkeys(range(1, 1101), "x" * 10000))
    assert nodes.read() == []
    assert len(published.rows.quarantined()) == 1000
    assert published.store.redis.hlen("cf:{0}:nodes") == 0
    assert {len(row.value) for row in published.rows.quarantined()} == {200}


def test_a_redis_that_takes_no_writes_is_read_all_the_same(published: Frontier) -> None:
    published.store.redis.hset("cf:{0}:nodes", "99", "junk")
    published.store.redis.config_set("maxmemory", 1)
    try:
        assert nodes.read() == []
    finally:
        published.store.redis.config_set("maxmemory", 0)
    assert published.store.redis.hlen("cf:{0}:nodes") == 1


def test_what_another_wrote_meanwhile_is_left_alone(published: Frontier) -> None:
    published.store.redis.hset("cf:{0}:nodes", "99", "junk")
    assert published.store.run("quarantine", 0, "nodes", "99", "other junk", 1) == 0
    assert published.store.run("quarantine", 0, "nodes", "99", "junk", 1) == 1
    assert published.store.run("quarantine", 0, "nodes", "99", "junk", 1) == 0
    assert len(published.rows.quarantined()) == 1


def test_rows_of_a_later_release_stay_where_they_are(
    published: Frontier, pages: Callable[[], None]
) -> None:
    """Nodes of that release need them."""
    submit("shop", {"city": "Ulm"})
    row = published.store.redis.hget("cf:{0}:spiders", "shop")
    rows = {
        "nodes": ("7", b'{"generation": "of a later kind"}'),
        "spiders": ("shop", row.replace(b'"settings":{', b'"settings":{"of_later":1,')),
        "rollout": ("main:", b'5|{"branch": "main", "revision": {"of": "later"}}'),
    }
    for name, (field, value) in rows.items():
        published.store.redis.hset(f"cf:{{0}}:{name}", field, value)
    pages()
    pages()
    assert (published.spiders.all(), published.rollouts.current()) == ({}, None)
    assert {row.name for row in published.rows.quarantined()} == {
        f"{name} {field}" for name, (field, _) in rows.items()
    }
    for name, (field, value) in rows.items():
        assert published.store.redis.hget(f"cf:{{0}}:{name}", field) == value


@pytest.mark.parametrize("error", [TypeError, KeyError])
def test_an_error_of_ours_costs_no_counters(
    published: Frontier, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    renew(published)
    GraphCrawl(published)

    def broken(field: bytes, value: bytes) -> int:
        raise error("a defect")

    with monkeypatch.context() as patch:
        patch.setattr(tasks, "read_number", broken)
        assert published.counts(1) is not None
    assert is_whole(published)
    counts = published.counts(1)
    assert counts is not None
    assert counts.na == 1


def test_a_number_of_requests_that_is_none_is_shown_all_the_same(
    published: Frontier, pages: Callable[[], None]
) -> None:
    task = submit("shop", {"city": "Ulm"})
    published.store.redis.hset(f"cf:{{0}}:task:{task.pk}", "na", "junk")
    pages()
    assert "unknown: its numbers are in Redis" in run("task", "show", str(task.pk))


def test_a_node_whose_row_was_lost_announces_itself_again(
    published: Frontier, join: Callable[..., int]
) -> None:
    life = join("alpha", version="1f00")
    assert published.leases.knows(life)
    published.store.redis.hset("cf:{0}:nodes", str(life), "junk")
    assert nodes.read() == []
    assert not published.leases.knows(life)


@pytest.mark.parametrize("field", ["na", "nf", "ne", "inprogress", "delayed", "parked", "items"])
def test_a_counter_that_is_no_number_begins_an_era(
    published: Frontier, redis_client: Redis, field: str
) -> None:
    renew(published)
    crawl = GraphCrawl(published)
    crawl.work(published, 5)
    crawl.work(published, 5)
    redis_client.hset("cf:{0}:task:1", field, "junk")
    assert published.counts(1) is not None
    assert not is_whole(published)
    Steward(Settings(), published).tick()
    assert is_whole(published)
    assert published.audit() == []
    while crawl.work(published, 9):
        pass
    crawl.check_end(published)
    assert max(crawl.runs.values()) == 1


def ruin(redis: Any, chance: random.Random) -> str:
    """Replaces or adds a random row of a hash with junk."""
    name = chance.choice([*HASHES, *OF_TASK])
    key = "cf:{0}:" + KEYS[name][0].replace(".", "1")
    fields = [*redis.hkeys(key), b"99", b"\xff"]
    field, junk = chance.choice(fields), chance.choice(JUNK)
    redis.hset(key, field, junk)
    return f"{key} {field!r} = {junk[:20]!r}"


@pytest.mark.parametrize("seed", SEEDS)
def test_junk_in_any_hash(
    published: Frontier,
    join: Callable[..., int],
    pages: Callable[[], None],
    redis_client: Redis,
    seed: int,
) -> None:
    """Pages answer, and a crawl continues to its exact end after a new era."""
    chance = random.Random(seed)
    renew(published)
    join("alpha", version="1f00", state="live")
    published.rollouts.announce(Rollout("a" * 40, "main"))
    crawl = GraphCrawl(published)
    for _ in range(3):
        crawl.work(published, 5)
    held = crawl.claim(published, 6)
    published.share_cookies(1, {"a|b|c": "[]"})
    published.retry(1, [r.given_back() for r in held[:2]])
    published.park(1, [r.given_back("why") for r in held[2:4]], "some code")
    published.leases.renew(1, 0.001)
    done = [ruin(redis_client, chance) for _ in range(6)]
    pages()
    steward = Steward(Settings(), published)
    for generation in range(100, 150):
        try:
            readable = [r for r in crawl.claim(published, 9, generation) if r.record.isdigit()]
            published.complete(crawl.commit(readable))
            published.retake("other code", 9)
            published.unpark(1)
        except CrawlframeError:
            pass
        published.leases.replay(generation)
        # As if half a minute had passed.
        still = work_of(steward, "tasks", TaskChore)._stillness
        still._still = {key: (counts, 0.0) for key, (counts, _) in still._still.items()}
        steward.tick()
        if Task.objects.get().state == "finished":
            break
    assert Task.objects.get().state == "finished", (
        done,
        published.counts(1),
        published.audit()[:3],
        steward._trouble,
    )
    pages()


def test_every_row_of_a_claim_is_read(bench_claim: list[Claimed]) -> None:
    assert [(request.attempts, request.deliveries) for request in bench_claim] == [(0, 0)]


@pytest.fixture
def bench_claim(published: Frontier, redis_client: Redis) -> list[Claimed]:
    crawl = GraphCrawl(published)
    rid = crawl.admission(0).rid
    redis_client.hset("cf:{0}:tries", rid, "junk")
    redis_client.hset("cf:{0}:task:1", "cookies", "junk")
    return crawl.claim(published, 9)


def test_numbers_of_generations_and_tasks_are_numbers(
    published: Frontier, redis_client: Redis, join: Callable[..., int]
) -> None:
    life = join("alpha", version="1f00")
    redis_client.zadd("cf:{0}:generations", {"junk": 5})
    redis_client.sadd("cf:{0}:tasks", "junk")
    assert published.leases.left().keys() == {life}
    assert published.open_tasks() == []
    assert {row.name for row in published.rows.quarantined()} == {"generations junk", "tasks junk"}
    redis_client.set("cf:{0}:era", "junk")
    assert published.eras.read() == [(0, "doubted")]
    Steward(Settings(), published).tick()
    assert is_whole(published)
