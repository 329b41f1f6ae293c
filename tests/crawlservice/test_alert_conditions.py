"""Conditions: each starts, is there with its sentence and its link, and is over."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test import Client
from django.test.utils import CaptureQueriesContext
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, generate_latest
from redis.exceptions import ConnectionError as RedisConnectionError

from crawlframe.conf import Settings
from crawlframe.frontier import Counts, Frontier, NodeInfo
from crawlframe.frontier.cluster.nodes import CodeState, NodeHealth
from crawlframe.frontier.hosts import HostOrder
from crawlservice.alerts import dashboard_summary, leader_watch, state, wording
from crawlservice.alerts.chores import AlertMonitor
from crawlservice.api.metrics import Cluster
from crawlservice.connections import clock
from crawlservice.ledger.recovery import renew
from crawlservice.models import (
    Alert,
    AlertRule,
    Export,
    Finding,
    Generation,
    Host,
    Installation,
    Label,
    Profile,
    RowDelivery,
    Run,
    Schedule,
    Severity,
    Task,
)
from crawlservice.monitoring import nodes as known_nodes
from crawlservice.quality.deviation import accept
from crawlservice.steward.steward import Steward
from crawlservice.tasks.submit import submit
from tests.crawlservice.conftest import redis_at

MINUTE = timedelta(minutes=1)


@pytest.fixture
def monitor(service: Frontier) -> AlertMonitor:
    Installation.objects.get_or_create(pk=1)
    renew(service)
    return AlertMonitor(service)


def counts(**fields: Any) -> Counts:
    usual: dict[str, Any] = {
        "state": "running", "na": 100, "nf": 0, "ne": 0, "duplicates": 0, "limited": 0,
        "in_progress": 0, "delayed": 0, "parked": 0,
    }  # fmt: skip
    return Counts(**(usual | fields))


def add_task(spider: str = "shop", digest: int | None = 1, **fields: Any) -> Task:
    if fields.get("outcome"):
        fields = {"state": "finished", "finished_at": clock.now()} | fields
    return Task.objects.create(spider=spider, arguments_hash=digest, seeds=b"", **fields)


def open_alerts() -> dict[str, Alert]:
    found = {alert.kind: alert for alert in Alert.objects.filter(resolved_at=None)}
    assert len(found) == Alert.objects.filter(resolved_at=None).count()
    return found


@pytest.fixture
def look(monitor: AlertMonitor) -> Callable[..., dict[str, Alert]]:
    """Looks once; returns the open alerts by their kinds."""

    def once(
        after: timedelta = timedelta(), found: dict[int, Counts | None] | None = None
    ) -> dict[str, Alert]:
        monitor.look(clock.now() + after, found or {})
        return open_alerts()

    return once


Look = Callable[..., dict[str, Alert]]


# -- tasks -----------------------------------------------------------------------------------------


def test_the_latest_run_that_failed_until_one_ends_well(look: Look) -> None:
    task = add_task(outcome="failed", reason="0 items; task 1 had 12")
    Label.objects.create(task=task, name="team", value="red")
    alert = look()["task_failed"]
    assert wording.sentence(alert) == f"shop #{task.pk} failed: 0 items; task 1 had 12"
    assert wording.place(alert) == f"/admin/crawlservice/task/{task.pk}/change/"
    assert (alert.severity, alert.spider, alert.labels) == (3, "shop", {"team": "red"})
    assert alert.since == Task.objects.get(pk=task.pk).finished_at

    add_task(digest=2, outcome="finished")  # with other arguments
    add_task(outcome="cancelled")
    assert look()["task_failed"].pk == alert.pk
    again = add_task(outcome="failed", reason="")
    renewed = look()["task_failed"]
    assert (renewed.pk, renewed.facts["task"]) == (alert.pk, again.pk)
    add_task(outcome="finished")
    assert look() == {}
    assert Alert.objects.get(pk=alert.pk).resolved_at is not None


def test_a_task_that_finished_with_errors(look: Look) -> None:
    task = add_task(
        outcome="finished_with_errors", ne=5, cancelled=1, excluded=1, reason="http_503"
    )
    alert = look()["task_errors"]
    assert wording.sentence(alert) == f"shop #{task.pk} finished with 3 errors: http_503"
    assert wording.place(alert).endswith(f"?state__exact=error&task={task.pk}")
    assert alert.severity == Severity.WARNING


def test_what_failed_long_ago_is_history(look: Look) -> None:
    add_task(outcome="failed", finished_at=clock.now() - timedelta(days=8))
    assert look() == {}


def test_runs_with_different_arguments_are_alerts_of_their_own(look: Look) -> None:
    add_task(digest=1, outcome="failed")
    add_task(digest=2, outcome="failed")
    with pytest.raises(AssertionError):  # two of one kind
        look()
    assert Alert.objects.count() == 2


def test_many_failures_of_one_spider_hide_no_other(
    look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawlservice.alerts.conditions.tasks.LOOKED_AT", 3)
    first = add_task("first", outcome="failed")
    look()
    for _ in range(4):
        add_task("often", outcome="failed")
    with pytest.raises(AssertionError):  # two of one kind
        look()
    assert Alert.objects.filter(resolved_at=None).count() == 2
    add_task("first", outcome="finished")
    assert look()["task_failed"].spider == "often"
    assert Alert.objects.get(facts__task=first.pk).resolved_at is not None


def test_what_was_not_looked_at_is_not_over(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = [Host.objects.create(name=f"{n}.example", held_why="blocked") for n in range(3)]
    Host.objects.filter(pk=hosts[0].pk).update(held_why="")
    with contextlib.suppress(AssertionError):
        look()
    monkeypatch.setattr("crawlservice.alerts.state.MAX_SUBJECTS", 1)
    Host.objects.update(held_why="blocked")
    with contextlib.suppress(AssertionError):
        look()
    assert Alert.objects.filter(resolved_at=None).count() == 3
    Host.objects.filter(pk__gt=hosts[0].pk).update(held_why="")
    assert look()["host_held"].host == "0.example"


def test_what_redis_does_not_know_of_a_task_stays(look: Look) -> None:
    """It forgets its tasks, and learns of them again in the following rounds."""
    bad = counts(nf=60, ne=40, parked=2)
    task = add_task()
    look(found={task.pk: bad})
    before = {kind: alert.pk for kind, alert in look(10 * MINUTE, {task.pk: bad}).items()}
    assert {*before} == {"error_share", "parked"}
    stuck = counts(nf=60, ne=38)
    look(11 * MINUTE, {task.pk: stuck})
    before = {kind: alert.pk for kind, alert in look(21 * MINUTE, {task.pk: stuck}).items()}
    assert {*before} == {"error_share", "silent"}
    after = look(22 * MINUTE, {task.pk: None})
    assert {kind: alert.pk for kind, alert in after.items()} == before
    Task.objects.update(state="finished")
    assert look(23 * MINUTE) == {}


@pytest.mark.parametrize(
    ("fields", "percent"),
    [
        ({"nf": 80, "ne": 20}, 20),
        ({"nf": 81, "ne": 19}, None),
        ({"nf": 10, "ne": 9}, None),  # too few to say
        ({"nf": 80, "ne": 40, "cancelled": 30, "excluded": 9}, None),
    ],
)
def test_too_many_errors_during_a_run(
    look: Look, fields: dict[str, int], percent: int | None
) -> None:
    task = add_task()
    alert = look(found={task.pk: counts(**fields)}).get("error_share")
    assert (alert and alert.facts["percent"]) == percent
    if alert:
        said = f"shop #{task.pk}: 20 % of 100 pages so far are errors."
        assert wording.sentence(alert) == said


def test_an_alert_goes_on_a_little_below_its_threshold(look: Look) -> None:
    task = add_task()
    assert look(found={task.pk: counts(nf=80, ne=20)}) != {}
    assert look(found={task.pk: counts(nf=810, ne=190)}) != {}
    assert look(found={task.pk: counts(nf=850, ne=150)}) == {}
    assert look(found={task.pk: counts(nf=810, ne=190)}) == {}


def test_a_rule_may_have_a_lower_threshold(look: Look) -> None:
    AlertRule.objects.create(name="strict", thresholds={"error_share": 5})
    task = add_task()
    assert "error_share" in look(found={task.pk: counts(nf=94, ne=6)})


def test_parked_requests(look: Look) -> None:
    task = add_task()
    alert = look(found={task.pk: counts(parked=2)})["parked"]
    assert "2 requests are parked" in wording.sentence(alert)


def test_a_silent_task(look: Look) -> None:
    task = add_task()
    stuck = {task.pk: counts(nf=7)}
    assert look(found=stuck) == {}
    assert look(9 * MINUTE, stuck) == {}
    alert = look(10 * MINUTE, stuck)["silent"]
    assert wording.sentence(alert).startswith(f"shop #{task.pk} has requests to fetch")
    assert look(20 * MINUTE, stuck)["silent"].pk == alert.pk
    assert look(20 * MINUTE, {task.pk: counts(nf=8)}) == {}


def test_a_task_with_nothing_due_is_not_silent(look: Look) -> None:
    states: tuple[dict[str, Any], ...] = (
        {"state": "paused"},
        {"na": 7, "nf": 7},  # nothing left
        {"na": 9, "nf": 7, "delayed": 2},  # retried later
        {"na": 9, "nf": 7, "parked": 2},
    )
    found = {add_task().pk: counts(**fields) for fields in states}
    look(found=found)
    assert "silent" not in look(60 * MINUTE, found)


def test_after_a_pause_silence_counts_anew(look: Look) -> None:
    task = add_task()
    look(found={task.pk: counts(nf=7)})
    look(60 * MINUTE, {task.pk: counts(nf=7, state="paused")})
    assert look(61 * MINUTE, {task.pk: counts(nf=7)}) == {}


def test_a_task_that_the_gate_keeps_back_is_not_silent(look: Look, published: Frontier) -> None:
    task = submit("shop", {"city": "Ulm"})
    stuck = {task.pk: published.counts(task.pk)}
    look(found=stuck)
    assert {*look(10 * MINUTE, stuck)} == {"silent"}
    (name,) = published.store.redis.zrange(published.store.keys[0]("HOSTS"), 0, -1)
    published.hosts.order(name.decode(), HostOrder(paused=True))
    assert look(11 * MINUTE, stuck) == {}
    published.hosts.clear_order(name.decode())
    assert {*look(12 * MINUTE, stuck)} == {"silent"}


def test_a_new_leader_keeps_what_was_found(look: Look, service: Frontier) -> None:
    task = add_task()
    stuck: dict[int, Counts | None] = {task.pk: counts(nf=7)}
    look(found=stuck)
    alert = look(10 * MINUTE, stuck)["silent"]
    AlertMonitor(service).look(clock.now() + 11 * MINUTE, stuck)
    assert open_alerts()["silent"].pk == alert.pk


# -- hosts, nodes, schedules, servers --------------------------------------------------------------


def test_a_held_host(look: Look) -> None:
    since = clock.now() - MINUTE
    host = Host.objects.create(name="a.example", held_why="blocked", held_since=since)
    alert = look()["host_held"]
    assert wording.sentence(alert) == "a.example blocks: nothing of it is fetched."
    assert wording.place(alert) == f"/admin/crawlservice/host/{host.pk}/change/"
    assert (alert.since, alert.host) == (since, "a.example")
    Host.objects.update(held_why="")
    assert look() == {}


def test_requests_that_wait_too_long(look: Look, published: Frontier) -> None:
    task = submit("shop", {"city": "Ulm"})
    assert look() == {}
    keys = published.store.keys[0]
    long_ago = 1000 * (datetime.now(UTC) - timedelta(hours=2)).timestamp()
    published.store.redis.zadd(keys("HOSTS"), {"slow.example": long_ago})
    alert = look()["queue_age"]
    assert alert.facts == {"host": "slow.example"}
    assert alert.value == pytest.approx(120, abs=1)
    assert "slow.example" in wording.sentence(alert)
    assert wording.place(alert) == "/admin/crawlservice/host/?q=slow.example"
    assert task.pk


def test_a_node_that_is_gone_until_it_is_back(look: Look) -> None:
    life = Generation.objects.create(
        node="beta", machine="m", pid=1, offline=True, given_back=3, ended_at=Now()
    )
    alert = look()["node_gone"]
    said = "Node beta died or is cut off; 3 requests were given back."
    assert wording.sentence(alert) == said
    assert wording.place(alert) == f"/admin/crawlservice/generation/{life.pk}/change/"
    Generation.objects.update(offline=False)
    assert look() == {}


def test_code_that_a_node_refused(look: Look, join: Callable[..., int]) -> None:
    problem = "/srv/shop.py:3: SyntaxError: bad\n  Traceback"
    life = join("alpha", version="1f00", state="refused", candidate="2f00", problem=problem)
    join("beta", version="1f00", state="live")
    join("gone", version="1f00", state="refused", problem="x", lease=-1)
    alert = look()["code_refused"]
    assert wording.sentence(alert) == "alpha refused 2f00: /srv/shop.py:3: SyntaxError: bad"
    assert wording.place(alert) == f"/admin/crawlservice/generation/{life}/change/"
    join("alpha", version="2f00", state="live")
    assert look() == {}


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ({"pull_problem": "conflict in shop.py"}, "alpha could not pull: conflict in shop.py"),
        ({"problem": "shop.py:1: x"}, "Some code does not load on alpha: shop.py:1: x"),
    ],
)
def test_code_that_does_not_load_or_come(
    look: Look, join: Callable[..., int], code: dict[str, str], says: str
) -> None:
    join("alpha", version="1f00", state="live", **code)
    assert wording.sentence(look()["code_refused"]) == says


def test_a_disk_that_is_nearly_full(look: Look, join: Callable[..., int]) -> None:
    join("alpha", health=NodeHealth(disk=89))
    assert look() == {}
    life = join("beta", health=NodeHealth(disk=93))
    alert = look()["disk"]
    assert wording.sentence(alert).startswith(
        "The disk with the var directory of node beta is 93 % full;"
    )
    assert wording.place(alert) == f"/admin/crawlservice/generation/{life}/change/"


def test_a_node_of_an_older_release_has_no_disk(service: Frontier) -> None:
    old = NodeInfo(1, "a", "a", "p", 1, 0.0, 2, 9.0)
    assert replace(old, code=CodeState()).health.disk == 0


def test_a_steward_that_dies_again_and_again_or_fails(
    look: Look, join: Callable[..., int], led: datetime
) -> None:
    join("alpha", health=NodeHealth(restarts=2))
    assert look() == {}
    life = join("beta", health=NodeHealth(restarts=3))
    alert = look()["chores"]
    assert (alert.subject, alert.severity) == ("beta", Severity.SEVERE)
    assert wording.sentence(alert) == (
        "The steward of beta dies again and again: see the log of the node."
    )
    assert wording.place(alert) == f"/admin/crawlservice/generation/{life}/change/"
    nodes = {node.node: node for node in known_nodes.read()}
    assert nodes["beta"].condition == known_nodes.ABNORMAL
    assert any("steward died" in trouble for trouble in nodes["beta"].troubles)
    registry = CollectorRegistry()
    registry.register(Cluster())
    told = generate_latest(registry).decode()
    assert 'crawlframe_node_steward_deaths{node="beta"} 3.0' in told
    # The web finds it, too: such a leader may never come to look.
    Alert.objects.all().delete()
    assert leader_watch.look(led)
    assert open_alerts()["chores"].subject == "beta"
    join("gamma", health=NodeHealth(failures=1, waits="watch 3: TypeError: no"))
    leader_watch.look(led)
    failing = Alert.objects.get(subject="gamma")
    assert wording.sentence(failing) == (
        "Chores of the cluster fail on gamma: watch 3: TypeError: no"
    )


def test_redis_that_no_node_may_claim_from(look: Look, service: Frontier, led: datetime) -> None:
    """The web looks every 5 s, and so does the leader, if it comes to it."""
    assert not leader_watch.look(led)
    service.eras.doubt()
    assert leader_watch.look(led)
    alert = open_alerts()["chores"]
    assert alert.severity == Severity.SEVERE
    assert wording.sentence(alert) == (
        "No node may claim requests: Redis has lost data, and is not filled again."
    )
    assert wording.place(alert) == "/admin/crawlservice/generation/"
    assert look().keys() == {"chores"}
    renew(service)
    assert look() == {}
    for _ in range(2):
        renew(service)
    assert wording.sentence(look()["chores"]) == (
        "Redis has lost data again and again within 10 minutes."
    )


def test_schedules_that_cannot_start_or_missed_a_start(look: Look) -> None:
    values: dict[str, Any] = {"spider": "shop", "every": 60}
    bad = Schedule.objects.create(name="bad", problem="there is no spider", **values)
    off = Schedule.objects.create(name="off", problem="x", enabled=False, **values)
    late = Schedule.objects.create(name="late", **values)
    now = clock.now()
    for schedule, minutes, outcome in (
        (late, 2, "submitted"), (late, 1, "missed"), (off, 1, "missed"), (bad, 2, "missed"),
        (bad, 1, "submitted"),
    ):  # fmt: skip
        Run.objects.create(schedule=schedule, due_at=now - minutes * MINUTE, outcome=outcome)
    found = look()
    assert {*found} == {"schedule", "schedule_missed"}
    assert wording.sentence(found["schedule"]) == "Schedule bad cannot start: there is no spider"
    assert wording.place(found["schedule"]) == f"/admin/crawlservice/schedule/{bad.pk}/change/"
    assert found["schedule_missed"].facts["schedule"] == "late"
    assert found["schedule_missed"].since == now - MINUTE
    Run.objects.create(schedule=late, due_at=now, outcome="submitted")
    assert {*look()} == {"schedule"}


def test_redis_that_is_nearly_full(look: Look, service: Frontier) -> None:
    redis = service.store.redis
    used = redis.info("memory")["used_memory"]
    try:
        redis.config_set("maxmemory", int(used * 100))
        assert look() == {}
        redis.config_set("maxmemory", int(used * 1.02))
        alert = look()["redis_memory"]
        assert alert.value is not None
        assert alert.value > 85
        assert wording.place(alert) == "/admin/crawlservice/generation/"
    finally:
        redis.config_set("maxmemory", 0)


def test_items_whose_quality_failed(look: Look) -> None:
    task = add_task(outcome="failed")
    Profile.objects.create(task=task, spider=task.spider, arguments_hash=1, judged=True)
    common = {"task": task, "spider": task.spider, "source": "monitor", "unit": "share"}
    for number in range(4):
        Finding.objects.create(**common, monitor="filled", field=f"f{number}", seen=0.03, low=0.98)
    alert = look()["quality"]
    text = wording.sentence(alert)
    assert "f0 has a value in 3 % of the items; expected: at least 98 % · f1 " in text
    assert "f3" not in text
    assert text.endswith("· and 1 more")
    assert wording.place(alert) == f"/admin/crawlservice/task/{task.pk}/change/"


def test_an_alert_that_goes_on_has_the_labels_of_its_latest_task(look: Look) -> None:
    found = {"monitor": "filled", "field": "price", "unit": "share", "seen": 0.0, "low": 0.95}
    for team in ("red", "blue", ""):
        task = add_task(outcome="failed")
        Profile.objects.create(task=task, spider=task.spider, arguments_hash=1, judged=True)
        Finding.objects.create(task=task, spider=task.spider, source="monitor", **found)
        if team:
            Label.objects.create(task=task, name="team", value=team)
        assert look()["quality"].labels == ({"team": team} if team else {})
    assert Alert.objects.filter(kind="quality").count() == 1


def test_each_run_with_other_arguments_is_an_alert_of_its_own(
    look: Look, monitor: AlertMonitor
) -> None:
    found = {"monitor": "filled", "field": "price", "unit": "share", "seen": 0.0, "low": 0.95}
    tasks = []
    for digest in (1, 2, 2):
        task = add_task(digest=digest, outcome="finished_with_errors", reason="quality: price")
        Profile.objects.create(task=task, spider=task.spider, arguments_hash=digest, judged=True)
        Finding.objects.create(task=task, spider=task.spider, source="monitor", **found)
        tasks.append(task.pk)
    monitor.look(clock.now(), {})
    alerts = Alert.objects.filter(resolved_at=None)
    # That they finished with errors says only that their quality failed.
    assert {*alerts.values_list("kind", flat=True)} == {"quality"}
    assert sorted(alert.facts["task"] for alert in alerts) == [tasks[0], tasks[2]]


@pytest.mark.parametrize("kind", ["quality", "task_failed"])
def test_a_task_that_failed_needs_somebody_once(look: Look, kind: str) -> None:
    reason, judge, other = {
        "quality": ("quality: price is missing", "filled", "task_failed"),
        "task_failed": ("60 of 63 pages ended in error", "errors", "quality"),
    }[kind]
    task = add_task(outcome="failed", reason=reason)
    Profile.objects.create(task=task, spider=task.spider, arguments_hash=1, judged=True)
    Finding.objects.create(
        task=task, spider=task.spider, source="expectation", monitor=judge, field="price",
        unit="share", seen=0.0, low=0.98,
    )  # fmt: skip
    assert {*look()} == {"quality", "task_failed"}  # rules may want either
    dashboard_summary.snapshot.clear()
    assert [group.kind for group in dashboard_summary.snapshot().groups] == [kind]
    Alert.objects.filter(kind=kind).update(acknowledged_at=Now())
    dashboard_summary.snapshot.clear()
    assert dashboard_summary.snapshot().groups == []
    Alert.objects.filter(kind=kind).update(resolved_at=Now())
    dashboard_summary.snapshot.clear()
    assert [group.kind for group in dashboard_summary.snapshot().groups] == [other]


def test_rows_that_another_database_refuses_or_that_wait_for_it(look: Look) -> None:
    values = {"database": "warehouse", "rows": [], "size": 1, "page": "0" * 32, "version": "v"}
    task = add_task()
    waiting = RowDelivery.objects.create(task=task.pk, **values)
    assert look() == {}
    RowDelivery.objects.update(problem="no route", created_at=clock.now() - 2 * MINUTE)
    alert = look(MINUTE)["delivery"]
    assert wording.sentence(alert) == "Rows for the database warehouse wait: no route"
    assert wording.place(alert) == "/admin/crawlservice/rowdelivery/?database=warehouse"
    RowDelivery.objects.update(refused=True, problem="stock.Part.name: duplicate")
    alert = look(2 * MINUTE)["delivery"]
    assert wording.sentence(alert) == (
        "The database warehouse refuses rows of a page: stock.Part.name: duplicate"
    )
    assert wording.place(alert) == f"/admin/crawlservice/rowdelivery/{waiting.pk}/change/"
    waiting.delete()
    assert look(3 * MINUTE) == {}


def test_exports_whose_target_fails(look: Look) -> None:
    since = clock.now() - MINUTE / 2
    values = {
        "target": {"kind": "http", "url": "https://a.example"}, "problem": "503\nmore",
        "problem_since": since,
    }  # fmt: skip
    export = Export.objects.create(name="push", spider="shop", **values)
    Export.objects.create(name="paused", paused=True, **values)
    Export.objects.create(name="well", target={"kind": "files", "url": "x"})
    assert look() == {}
    alert = look(MINUTE)["delivery"]
    assert wording.sentence(alert) == "The target of export push fails: 503"
    assert wording.place(alert) == f"/admin/crawlservice/export/{export.pk}/change/"
    assert (alert.spider, alert.since, alert.severity) == ("shop", since, Severity.SEVERE)
    Export.objects.update(problem="", problem_since=None)
    assert look(2 * MINUTE) == {}


def test_many_findings_of_one_run_hide_no_other_spider(
    look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawlservice.alerts.conditions.quality.MAX_SUBJECTS", 2)
    for spider, count in (("first", 1), ("often", 5)):
        for _ in range(2):
            task = add_task(spider, outcome="failed")
            Profile.objects.create(task=task, spider=spider, arguments_hash=1, judged=True)
            common = {"task": task, "spider": spider, "source": "monitor", "unit": "share"}
            for number in range(count):
                Finding.objects.create(**common, monitor="filled", field=f"f{number}", seen=0)
    with contextlib.suppress(AssertionError):
        look()
    alerts = Alert.objects.filter(kind="quality", resolved_at=None).order_by("spider")
    assert [(one.spider, one.facts["more"]) for one in alerts] == [("first", 0), ("often", 2)]


def test_findings_that_are_accepted_or_followed_by_a_good_run_need_nobody(look: Look) -> None:
    task = add_task(outcome="finished")
    Profile.objects.create(task=task, spider=task.spider, arguments_hash=1, judged=True)
    found = {"task": task, "spider": task.spider, "monitor": "items", "unit": "", "seen": 5}
    Finding.objects.create(**found, source="monitor")
    assert {*look()} == {"quality"}
    accept(task.pk)
    assert look() == {}
    Finding.objects.create(**found, source="expectation")
    assert {*look()} == {"quality"}
    later = add_task(outcome="finished")
    Profile.objects.create(
        task=later, spider=later.spider, arguments_hash=1, judged=True, good=True
    )
    assert look() == {}


# -- as a whole ------------------------------------------------------------------------------------


def test_what_redis_does_not_answer_for_stays_as_it_was(
    look: Look, monitor: AlertMonitor, join: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    join("alpha", version="1f00", state="refused", candidate="2f00", problem="x")
    look()

    class Away:
        def __getattr__(self, name: str) -> Any:
            raise RedisConnectionError("away")

    monkeypatch.setattr(monitor, "_frontier", Away())
    Host.objects.create(name="a.example", held_why="blocked")
    found = look()
    assert {*found} == {"code_refused", "host_held"}


def test_facts_of_another_release_still_have_a_sentence(orm: str) -> None:
    alert = Alert(kind="disk", subject="alpha", severity=2, facts={"x": 1})
    assert wording.sentence(alert) == "disk nearly full: alpha"
    alert = Alert(pk=4, kind="future", subject="x", severity=2, facts={"text": "New."})
    assert wording.sentence(alert) == "New."
    assert wording.place(alert) == "/admin/crawlservice/alert/4/change/"


def test_it_costs_the_same_however_much_is_wrong(look: Look, monitor: AlertMonitor) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connection) as queries:
            monitor.look(clock.now(), {})
        return len(queries)

    add_task(outcome="failed")
    Host.objects.create(name="0.example", held_why="blocked")
    monitor.look(clock.now(), {})
    before = cost()
    for number in range(1, 30):
        add_task(digest=number, outcome="failed")
        Host.objects.create(name=f"{number}.example", held_why="blocked")
    monitor.look(clock.now(), {})
    assert cost() == before
    assert Alert.objects.filter(resolved_at=None).count() == 59


# -- no leader -------------------------------------------------------------------------------------


@pytest.fixture
def led(monitor: AlertMonitor) -> datetime:
    """The time at which a leader looked last."""
    now = clock.now()
    monitor.look(now, {})
    return now


def test_nobody_leads_and_there_is_work(
    led: datetime, monitor: AlertMonitor, service: Frontier
) -> None:
    add_task()
    assert not leader_watch.look(led + MINUTE / 3)
    assert leader_watch.look(led + MINUTE)
    alert = open_alerts()["no_leader"]
    assert (alert.since, alert.facts) == (led, {"why": "nodes"})
    assert "No node is running, or none can lead." in wording.sentence(alert)
    with redis_at("redis://127.0.0.1:1/0"):
        leader_watch.look(led + 2 * MINUTE)
    assert "Redis does not answer." in wording.sentence(open_alerts()["no_leader"])
    service.store.redis.config_set("maxmemory", 1)
    leader_watch.look(led + 2 * MINUTE)
    service.store.redis.config_set("maxmemory", 0)
    assert "Redis refuses: command not allowed" in wording.sentence(open_alerts()["no_leader"])
    monitor.look(led + 3 * MINUTE, {})
    assert open_alerts() == {}


def test_a_leader_of_an_older_release_leads(
    led: datetime, service: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "mark_checked", lambda now: None)  # as it does not
    monkeypatch.setattr("crawlservice.steward.steward.LEADER_FOR", 3600.0)
    steward = Steward(Settings(), service)
    steward.tick()
    add_task()
    assert not leader_watch.look(led + MINUTE)
    steward.resign()
    assert leader_watch.look(led + 2 * MINUTE)
    Steward(Settings(), service)._elect()
    assert not leader_watch.look(led + 3 * MINUTE)
    assert open_alerts() == {}


def test_without_work_nobody_must_lead(led: datetime) -> None:
    Schedule.objects.create(name="off", spider="shop", every=60, enabled=False)
    assert not leader_watch.look(led + 60 * MINUTE)
    Schedule.objects.update(enabled=True)
    assert leader_watch.look(led + 60 * MINUTE)


def test_a_service_that_never_had_a_node_has_no_alert(service: Frontier) -> None:
    Installation.objects.get_or_create(pk=1)
    add_task()
    assert state.checked_at() is None
    assert not leader_watch.look(clock.now())


def test_the_metrics_count_open_alerts(look: Look) -> None:
    add_task(outcome="failed")
    look()
    page = Client(SERVER_NAME="localhost").get("/metrics").content.decode()
    assert 'crawlframe_alerts{severity="severe"} 1.0' in page
    assert 'crawlframe_alerts{severity="notice"} 0.0' in page
    assert "\ncrawlframe_alerts_checked_seconds " in page
