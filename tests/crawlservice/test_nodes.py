"""Nodes: their state, their code and the skew between them, and the command that shows it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from redis import Redis

from crawlframe.frontier import Frontier
from crawlframe.frontier.cluster.affinity import SLOTS, Affinity, Table
from crawlframe.frontier.cluster.nodes import NodeHealth
from crawlservice.models import Generation
from crawlservice.monitoring.nodes import by_generation, read, skew_line, versions
from tests.crawlservice.conftest import redis_at

Join = Callable[..., int]

OLD, NEW = "0ld0000c0ffe", "new0000c0ffe"
PROBLEM = (
    "/srv/spiders/shop.py:3: SyntaxError: invalid syntax\nTraceback (most recent call last)\n x"
)


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("node", "list", *arguments, stdout=out, stderr=out)
    return out.getvalue()


def forget_all(frontier: Frontier) -> None:
    for life in Generation.objects.all():
        frontier.leases.replay(life.pk)
        life.delete()


def test_a_node_is_read_as_it_was_published(join: Join) -> None:
    began = time.time() - 60
    life = join(
        "alpha", version=OLD, state="refused", candidate=NEW, problem=PROBLEM, changed_at=began,
        seconds=0.25, reloads=7, follows="origin/main", pulled=NEW, pull_problem="no", workers=3,
    )  # fmt: skip
    (node,) = read()
    assert (node.node, node.generation, node.machine, node.pid, node.workers) == (
        "alpha", life, "alpha.example", 4711, 3,
    )  # fmt: skip
    assert (node.state, node.version, node.candidate) == ("refused", OLD, NEW)
    assert (node.problem, node.headline) == (PROBLEM, PROBLEM.splitlines()[0])
    assert node.since is not None
    assert node.since.timestamp() == pytest.approx(began)
    assert (node.seconds, node.reloads) == (0.25, 7)
    assert (node.follows, node.pulled, node.pull_problem) == ("origin/main", NEW, "no")
    assert by_generation() == {life: node}


def test_a_lease_that_is_over_and_leaving_count_more_than_the_code(
    join: Join, service: Frontier
) -> None:
    for state in ("loading", "live", "checking", "refused"):
        forget_all(service)
        join("a", state=state)
        join("b", state=state, leaving=True)
        join("c", state=state, leaving=True, lease=-1)
        join("d", state=state, lease=-1)
        assert [node.state for node in read()] == [state, "leaving", "offline", "offline"]


def test_skew_marks_those_that_do_not_run_what_most_run(join: Join, service: Frontier) -> None:
    for running, marked in (
        ([OLD, OLD, OLD], []),
        ([OLD, OLD, NEW], ["c"]),  # a canary
        ([OLD, NEW, NEW], ["a"]),  # the last old node
        ([OLD, NEW], ["a", "b"]),  # neither has a majority
        ([OLD, OLD, NEW, NEW], ["a", "b", "c", "d"]),
        ([OLD], []),
        ([""], []),
        ([OLD, "", OLD], []),
        ([], []),
    ):
        forget_all(service)
        for name, version in zip("abcd", running, strict=False):
            join(name, version=version, state="live" if version else "loading")
        assert [node.node for node in read() if node.skew] == marked
        assert bool(skew_line(read())) == bool(marked)


def test_only_nodes_that_work_have_a_say_in_skew(join: Join) -> None:
    join("alpha", version=NEW, state="live")
    join("alpha", version=OLD, state="live", leaving=True)
    join("beta", version=OLD, state="live", lease=-1)
    assert [node.skew for node in read()] == [False] * 3
    assert versions(read()) == {NEW: ["alpha"]}
    join("gamma", version=OLD, state="refused", candidate=NEW)
    assert skew_line(read()) == f"2 versions run: {OLD} (gamma), {NEW} (alpha)"
    join("delta", version=NEW, state="checking", candidate="x")
    assert skew_line(read()) == f"2 versions run: {NEW} (alpha, delta), {OLD} (gamma)"


def test_a_node_is_late_long_before_its_lease_is_over(join: Join, service: Frontier) -> None:
    for lease, health, late in (
        (300, NodeHealth(lease=300, beat=60), False),
        (170, NodeHealth(lease=300, beat=60), False),
        (149, NodeHealth(lease=300, beat=60), True),
        (60, NodeHealth(), False),  # an older node
        (50, NodeHealth(lease=120, beat=60), False),  # a short lease
        (29, NodeHealth(lease=120, beat=60), True),
    ):
        forget_all(service)
        join("alpha", version=NEW, state="live", lease=lease, health=health)
        (node,) = read()
        assert bool(node.late) is late
        assert node.condition == ("abnormal" if late else "idle")
        if late:
            assert node.late + node.left == pytest.approx(health.lease)
            assert node.left == pytest.approx(lease, abs=15)  # a busy machine
            silent, left = round(node.late), round(node.left)
            assert f"No heartbeat for {silent} s; in {left} s its lease expires" in node.headline
            assert "abnormal:  (alpha)\n    No heartbeat for" in run()


def test_a_node_that_is_not_well_says_why(join: Join, service: Frontier) -> None:
    for health, trouble in (
        (NodeHealth(missing=1), "1 of its 4 workers is missing"),
        (NodeHealth(missing=2), "2 of its 4 workers are missing"),
        (NodeHealth(deaths=2), ""),
        (NodeHealth(deaths=3), "3 of its workers died or were killed in the last 10 minutes"),
        (
            NodeHealth(waits="the database is away"),
            "results or chores are waiting: the database is away",
        ),
    ):
        forget_all(service)
        join("alpha", version=NEW, state="live", workers=4, health=health)
        join("beta", version=NEW, state="live", leaving=True, health=health)
        alpha, beta = read()
        assert trouble in alpha.headline
        assert len(alpha.troubles) == bool(trouble)
        assert alpha.condition == ("abnormal" if trouble else "idle")
        assert (beta.condition, beta.troubles) == ("leaving", [])


def test_versions_that_differ_for_long_are_a_trouble(join: Join) -> None:
    long_ago, now = time.time() - 1000, time.time() - 60
    join("alpha", version=OLD, state="live", changed_at=long_ago)
    join("beta", version=NEW, state="live", changed_at=long_ago)
    join("gamma", version=NEW, state="live", changed_at=long_ago)
    assert [node.condition for node in read()] == ["abnormal", "idle", "idle"]
    assert "another version than other nodes for more than 15 minutes" in read()[0].headline
    join("delta", version=NEW, state="live", changed_at=now)  # a rollout is under way
    assert {node.condition for node in read()} == {"idle"}
    assert [node.node for node in read() if node.skew] == ["alpha"]


def test_what_another_release_tells_of_a_node_can_be_read(
    join: Join, service: Frontier, redis_client: Redis
) -> None:
    life = join("alpha", version=NEW, state="live")
    place = service.store.keys[0]("NODES")
    told = json.loads(redis_client.hget(place, str(life)))  # type: ignore[arg-type]
    del told["fitness"]
    redis_client.hset(place, str(life), json.dumps(told))
    assert [node.condition for node in read()] == ["idle"]
    told["fitness"] = {"mood": 3, "deaths": 7}
    redis_client.hset(place, str(life), json.dumps(told))
    assert [node.health.deaths for node in read()] == [7]


def test_the_command_shows_a_table(join: Join) -> None:
    join("beta", version=OLD, state="live", changed_at=time.time() - 7200, seconds=0.25, reloads=7)
    join("alpha", lease=-1)
    head, alpha, beta, _, title, text = run().splitlines()
    assert " ".join(head.split()) == "node state for code reloads last took workers process"
    told = "alpha offline 0:01 - 0 - 2 4711 on alpha.example, generation 2"
    assert " ".join(alpha.split()) == told
    assert title == "offline:  (alpha)"
    assert text.startswith("    since 20")
    assert beta.split()[:2] == ["beta", "live"]
    assert beta.split()[2].startswith("2:0")
    assert " ".join(beta.split()[3:]) == (f"{OLD} 7 0.25 s 2 4711 on beta.example, generation 1")


def test_the_command_shows_once_what_was_refused_and_by_whom(join: Join) -> None:
    refused = {"version": OLD, "state": "refused", "candidate": NEW, "problem": PROBLEM}
    join("alpha", **refused)
    join("beta", **refused)
    join("gamma", version=NEW, state="live", problem="/srv/spiders/b.py:1: KeyError: 'x'")
    join("delta", state="loading", follows="origin/main", pull_problem="not a fast-forward")
    text = run()
    assert f"refused: {NEW}  (alpha, beta)\n    {PROBLEM.splitlines()[0]}\n    Traceback" in text
    assert text.count("SyntaxError") == 1
    assert f"does not load in {NEW}  (gamma)\n    /srv/spiders/b.py:1: KeyError: 'x'\n" in text
    assert "not pulled: origin/main  (delta)\n    not a fast-forward\n" in text
    assert "origin/main at ?" in text
    assert text.splitlines()[-1] == f"2 versions run: {OLD} (alpha, beta), {NEW} (gamma)"
    assert f"{NEW} (differs)" in text
    assert f"{OLD} (differs)" not in text


def test_the_command_says_nothing_of_skew_where_there_is_none(join: Join) -> None:
    join("alpha", version=OLD, state="live")
    join("beta", version=OLD, state="live")
    assert "versions run" not in run()


def test_what_nodes_tell_cannot_steer_the_terminal(join: Join) -> None:
    join("alpha", version="\x1b[31m", state="refused", candidate="\x1b]0;x", problem="\x1b[2J[b]x")
    join("beta", version="\x1b[32m", state="live", follows="\x1b", pull_problem="\x1b")
    text = run()
    assert "\x1b" not in text
    assert "[b]x" in text


def test_the_command_speaks_json(join: Join) -> None:
    join("alpha", version=OLD, state="live", changed_at=1e9, seconds=0.25)
    join("beta", version=NEW, state="refused", problem=PROBLEM)
    found: dict[str, Any] = json.loads(run("--json"))
    assert found["versions"] == {NEW: ["beta"], OLD: ["alpha"]}
    alpha, beta = found["nodes"]
    assert (alpha["node"], alpha["state"], alpha["skew"]) == ("alpha", "live", True)
    assert (alpha["since"], alpha["seconds"]) == ("2001-09-09T01:46:40Z", 0.25)
    assert (beta["problem"], beta["since"]) == (PROBLEM, None)


def test_no_node_and_no_redis_are_reported_in_plain_words(service: Frontier) -> None:
    assert run() == "no node is running; start one: python manage.py runcrawler\n"
    assert json.loads(run("--json")) == {"nodes": [], "versions": {}, "unreadable": 0}
    with redis_at("redis://127.0.0.1:1/0"):
        assert by_generation() is None
        with pytest.raises(CommandError, match="cannot be reached"):
            run()


def test_a_node_is_checked_by_its_name(
    join: Join, settings_with: Callable[..., None], service: Frontier
) -> None:
    from django.conf import settings

    def check() -> str:
        out = StringIO()
        call_command("node", "check", stdout=out)
        return out.getvalue()

    def called(name: str) -> None:
        settings_with(CRAWLFRAME=replace(settings.CRAWLFRAME, node=name))

    join("alpha", version=NEW, state="live")
    join("beta", lease=-1)
    called("alpha")
    assert check() == "node alpha lives\n"
    for name in ("beta", "gamma"):
        called(name)
        with pytest.raises(CommandError, match=f"node {name} is not running"):
            check()
    with redis_at("redis://127.0.0.1:1/0"):
        assert check() == "Redis does not answer\n"


def test_only_nodes_that_take_part_in_affinity_have_a_share(join: Join, service: Frontier) -> None:
    lives = [join("alpha", affinity="host"), join("beta", affinity="off"), join("gamma")]
    table = Table("host", (lives[0],), ("alpha",), (0,) * SLOTS)
    Affinity(service.store).write(table)
    assert [node.share for node in read()] == [1.0, None, None]
    assert run().count(" %") == 1
    assert "100 %" in run()
