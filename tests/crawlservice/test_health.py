"""Health, readiness and metrics: their content, and the right to read it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from ipaddress import ip_network
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from crawlframe.frontier import Frontier
from crawlservice.api import health
from crawlservice.connections import database
from crawlservice.ledger.recovery import renew
from crawlservice.management.commands.startproject import TEMPLATES
from crawlservice.models import Installation, Page, Schedule, Task
from crawlservice.tasks import spider_runs
from crawlservice.tasks.submit import cancel, submit
from tests.conftest import NewDatabase, django_on
from tests.crawlservice.conftest import redis_at
from tests.crawlservice.programs import FAR, person, program
from tests.crawlservice.web import login

both = pytest.mark.databases("sqlite", "postgres")

AWAY = "redis://127.0.0.1:1/0"


def get(path: str, **where: Any) -> Any:
    return Client(SERVER_NAME="localhost", **where).get(path)


def ready() -> dict[str, bool]:
    answer = get("/readyz", REMOTE_ADDR=FAR)
    told: dict[str, bool] = answer.json()
    assert answer.status_code == (200 if all(told.values()) else 503)
    return told


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state of a process that has not checked yet."""
    monkeypatch.setattr(health, "_migrated", False)


@both
def test_ready_means_that_work_can_be_taken(service: Frontier) -> None:
    assert ready() == {"migrated": True, "redis": True, "installation": True, "era": True}
    with redis_at(AWAY):
        assert ready() == {"migrated": True, "redis": False, "installation": True, "era": False}
        assert get("/healthz").json() == {"database": True, "redis": False, "installation": True}


def test_a_redis_that_lost_something_is_not_ready(service: Frontier) -> None:
    renew(service)
    assert ready()["era"] is True
    service.eras.doubt()
    assert ready()["era"] is False
    renew(service)
    assert ready()["era"] is True
    service.store.redis.flushall()
    assert ready() == {"migrated": True, "redis": True, "installation": True, "era": False}


def test_a_database_without_the_latest_tables_is_not_ready(service: Frontier) -> None:
    graph = MigrationLoader(connection).graph
    (latest,) = graph.leaf_nodes("crawlservice")
    before = max(one.key[1] for one in graph.node_map[latest].parents if one.key[0] == latest[0])
    call_command("migrate", "crawlservice", before, verbosity=0)
    assert ready()["migrated"] is False
    call_command("migrate", verbosity=0)
    assert ready()["migrated"] is True


@pytest.mark.parametrize(("path", "part"), [("/healthz", "database"), ("/readyz", "migrated")])
def test_without_the_database_a_browser_that_is_logged_in_is_answered_too(
    service: Frontier, path: str, part: str
) -> None:
    browser = login(is_superuser=True)
    assert browser.get(path).status_code == 200
    health._migrated = False
    with django_on("postgres://nobody@127.0.0.1:1/none"):
        answer = browser.get(path)
    assert answer.status_code == 503
    assert answer.json()[part] is False


def test_an_empty_database_is_not_ready(service: Frontier, new_database: NewDatabase) -> None:
    with django_on(new_database("sqlite", empty=True)):
        assert ready() == {"migrated": False, "redis": True, "installation": True, "era": False}


def test_missing_tables_are_checked_until_none_is_missing(
    service: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check walks through all migrations; load balancers ask every second."""
    assert ready()["migrated"]
    monkeypatch.setattr(database, "is_behind", lambda: pytest.fail("asked again"))
    assert ready()["migrated"]


# -- metrics ---------------------------------------------------------------------------------------


def numbers(answer: Any) -> dict[tuple[str, ...], float]:
    """(name, values of labels in their alphabetical order) -> value."""
    assert answer.status_code == 200, answer.content
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.content.decode())
        for sample in family.samples
    }


@both
def test_metrics_count_what_there_is(
    ended_task: Task, add_page: Callable[..., Page], join: Callable[..., int]
) -> None:
    tasks = [submit("shop", {"city": "Ulm"}) for _ in range(3)]
    cancel(tasks[0].pk)
    alpha = join("alpha", version="1f00", workers=3, state="live", reloads=2, seconds=0.5)
    join("beta", version="1f00", workers=2, state="refused")
    join("gamma", version="2f00", state="live")
    join("gone", lease=-5)
    Schedule.objects.create(name="nightly", spider="shopp", every=60, problem="no such spider")
    Schedule.objects.create(name="daily", spider="shop", every=60, enabled=False)
    found = numbers(get("/metrics"))
    expected = {
        ("crawlframe_up", "database"): 1,
        ("crawlframe_up", "redis"): 1,
        ("crawlframe_pages_total",): 3,
        ("crawlframe_items_total",): 2,
        ("crawlframe_tasks_submitted_total",): 4,
        ("crawlframe_generations_total",): 4,
        ("crawlframe_tasks", "finished"): 1,
        ("crawlframe_tasks", "running"): 2,
        ("crawlframe_tasks", "cancelling"): 1,
        ("crawlframe_tasks", "paused"): 0,
        ("crawlframe_ended_tasks", "finished_with_errors"): 1,
        ("crawlframe_ended_tasks", "failed"): 0,
        ("crawlframe_active_requests", "NA"): 3,
        ("crawlframe_active_requests", "NE"): 1,
        ("crawlframe_active_requests", "errors"): 0,
        ("crawlframe_active_requests", "cancelled"): 1,
        ("crawlframe_remaining_requests", "delayed"): 0,
        ("crawlframe_schedules", "enabled"): 1,
        ("crawlframe_schedules", "disabled"): 1,
        ("crawlframe_schedule_failing", "nightly", "shopp"): 1,
        ("crawlframe_schedule_failing", "daily", "shop"): 0,
        ("crawlframe_era",): 0,
        ("crawlframe_era_whole",): 1,
        ("crawlframe_nodes", "live"): 2,
        ("crawlframe_nodes", "refused"): 1,
        ("crawlframe_nodes", "offline"): 1,
        ("crawlframe_code_versions", "1f00"): 2,
        ("crawlframe_code_versions", "2f00"): 1,
        ("crawlframe_code_skew",): 1,
        ("crawlframe_node_generation", "alpha"): alpha,
        ("crawlframe_node_workers", "alpha"): 3,
        ("crawlframe_node_reloads", "alpha"): 2,
        ("crawlframe_node_reload_seconds", "alpha"): 0.5,
        ("crawlframe_node_skew", "alpha"): 0,
        ("crawlframe_node_skew", "gamma"): 1,
        ("crawlframe_node_info", "alpha.example", "alpha", "live", "1f00"): 1,
    }
    assert {name: found.get(name) for name in expected} == expected
    counts = {name: found["crawlframe_active_requests", name] for name in ("NA", "NF", "NE", "NR")}
    assert counts["NA"] == counts["NF"] + counts["NE"] + counts["NR"]
    waiting = sum(value for name, value in found.items() if "remaining_requests" in name[0])
    assert waiting == counts["NR"]


@both
def test_metrics_of_spiders_are_those_of_the_last_run_that_ended(ended_task: Task) -> None:
    submit("shop", {"city": "Ulm"})
    end = ended_task.finished_at
    assert end is not None
    name = "crawlframe_spider_last"
    expected = {
        ("crawlframe_spider_open_tasks", "shop"): 1,
        (f"{name}_pages", "shop"): 3,
        (f"{name}_errors", "shop"): 1,
        (f"{name}_items", "shop"): 2,
        (f"{name}_failed", "shop"): 0,
        (f"{name}_timestamp_seconds", "shop"): end.timestamp(),
        (f"{name}_good_timestamp_seconds", "shop"): end.timestamp(),
        (f"{name}_duration_seconds", "shop"): (end - ended_task.created_at).total_seconds(),
        ("crawlframe_spiders_left_out",): 0,
    }
    found = numbers(get("/metrics"))
    assert {one: found.get(one) for one in expected} == pytest.approx(expected)

    later = Task.objects.get(pk=ended_task.pk)
    later.pk, later.items, later.outcome = None, 0, Task.Outcome.FAILED
    later.finished_at = end + timedelta(seconds=60)
    later.save()
    reparse = Task.objects.get(pk=ended_task.pk)
    reparse.pk, reparse.items, reparse.reparse = None, 9, {"task": ended_task.pk}
    reparse.save()
    found = numbers(get("/metrics"))
    assert (found[f"{name}_failed", "shop"], found[f"{name}_items", "shop"]) == (1, 0)
    assert found[f"{name}_good_timestamp_seconds", "shop"] == pytest.approx(end.timestamp())


def test_metrics_have_the_first_spiders_by_name_and_say_so(
    service: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spider_runs, "MAX_SPIDERS", 2)
    monkeypatch.setattr(spider_runs, "ENDED", spider_runs.ENDED.replace("LIMIT 1000", "LIMIT 2"))
    ended = {"outcome": "finished", "state": "finished", "finished_at": timezone.now()}
    for name in ("c", "a", "b"):
        Task.objects.create(spider=name, seeds=b"", **ended)
        Task.objects.create(spider=name, seeds=b"")
    found = numbers(get("/metrics"))
    assert found["crawlframe_spiders_left_out",] == 1
    for series in ("last_items", "open_tasks"):
        names = [name[1] for name in found if name[0] == f"crawlframe_spider_{series}"]
        assert names == ["a", "b"]


@both
def test_files_of_deploy_name_metrics_that_there_are(
    ended_task: Task, join: Callable[..., int]
) -> None:
    join("alpha", version="1f00", state="live")
    Schedule.objects.create(name="nightly", spider="shop", every=60)
    Installation.objects.update(checked_at=timezone.now())
    there = {name for name, *_ in numbers(get("/metrics"))}
    for file in ("rules.yml.txt", "grafana.json.txt"):
        text = (TEMPLATES / "deploy/deploy/monitoring" / file).read_text()
        named = {*re.findall(r"crawlframe_\w+", text)}
        assert len(named) > 8
        assert named <= there


@both
def test_a_node_that_lives_twice_for_a_moment_is_listed_once(join: Callable[..., int]) -> None:
    join("alpha", version="1f00", leaving=True)
    latest = join("alpha", version="2f00")
    found = numbers(get("/metrics"))
    assert found["crawlframe_node_generation", "alpha"] == latest


@both
def test_numbers_that_only_grow_do_not_go_back(
    ended_task: Task, add_page: Callable[..., Page]
) -> None:
    before = numbers(get("/metrics"))
    ended_task.delete()
    assert not Page.objects.exists()
    after = numbers(get("/metrics"))
    for name in ("pages", "items", "tasks_submitted"):
        assert after[f"crawlframe_{name}_total",] == before[f"crawlframe_{name}_total",]


def test_what_a_server_that_is_away_would_tell_is_left_out(service: Frontier) -> None:
    with redis_at(AWAY):
        found = numbers(get("/metrics"))
    assert found["crawlframe_up", "redis"] == 0
    assert found["crawlframe_up", "database"] == 1
    assert not any(name[0].startswith("crawlframe_nodes") for name in found)
    assert ("crawlframe_tasks", "running") in found


def test_who_may_read_the_metrics(service: Frontier, settings_with: Callable[..., None]) -> None:
    def status(**where: str) -> int:
        code: int = get("/metrics", **where).status_code
        return code

    assert status(REMOTE_ADDR="127.0.0.1") == status(REMOTE_ADDR="::1") == 200
    assert status(REMOTE_ADDR=FAR) == status(REMOTE_ADDR="") == 401
    for header in ("X_FORWARDED_FOR", "X_REAL_IP", "FORWARDED", "VIA"):
        where = {"REMOTE_ADDR": "127.0.0.1", f"HTTP_{header}": "127.0.0.1"}
        assert status(**where) == 401, header
    assert program(person("viewer"), "read").get("/metrics").status_code == 200
    assert program(person("")).get("/metrics").status_code == 401
    settings_with(METRICS_ALLOW=[ip_network("203.0.113.0/24")])
    assert status(REMOTE_ADDR=FAR) == 200
    assert status(REMOTE_ADDR="127.0.0.1") == 401
