"""Pruning: old rows are deleted in batches; rows that may still be needed stay."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import Model
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from crawlframe.conf import Settings
from crawlframe.frontier import Frontier
from crawlservice.models import (
    Action,
    Delivery,
    Event,
    Generation,
    Run,
    Sample,
    Schedule,
    Submission,
    Task,
    Token,
    Webhook,
)
from crawlservice.steward import pruning, sampling
from crawlservice.steward.pruning import Pruner, delete
from crawlservice.steward.steward import Steward
from crawlservice.webhooks import deliveries
from crawlservice.webhooks.deliveries import create_deliveries
from tests.crawlservice.beside import another_transaction

both = pytest.mark.databases("sqlite", "postgres")

BIG = 20_000  # rows, enough for an index to be used
WAITING = dict.fromkeys(("nf", "ne", "items", "ready", "in_progress", "delayed", "parked"), 0)


@pytest.fixture
def task(orm: str) -> Task:
    return Task.objects.create(spider="shop", seeds=b"")


@pytest.fixture
def schedule(orm: str) -> Schedule:
    return Schedule.objects.create(name="daily", spider="shop", every=60)


@pytest.fixture
def webhook(orm: str) -> Webhook:
    return Webhook.objects.create(name="all", url="http://receiver.example/", sealed_secret="s")


def ago(days: float) -> datetime:
    return timezone.now() - timedelta(days=days)


def prune(*living: int, rounds: int = 20) -> None:
    pruner = Pruner(lambda: living)
    for _ in range(rounds):
        pruner.tick()


def left(model: type[Model]) -> list[int]:
    return sorted(model._default_manager.values_list("pk", flat=True))


def run(schedule: Schedule, days: float, outcome: str = "submitted") -> int:
    due = ago(days)
    return Run.objects.create(schedule=schedule, due_at=due, created_at=due, outcome=outcome).pk


def event(task: Task, days: float, handed: bool = True) -> int:
    at = ago(days)
    return Event.objects.create(
        task=task, kind="finished", created_at=at, delivered_at=at if handed else None
    ).pk


def delivery(webhook: Webhook, event: int, **fields: Any) -> int:
    arrived = {"next_at": None, "delivered_at": timezone.now()}
    return Delivery.objects.create(webhook=webhook, event_id=event, **{**arrived, **fields}).pk


@both
def test_old_runs_go_but_for_the_last_of_each_schedule_and_those_that_wait(
    schedule: Schedule,
) -> None:
    rare = Schedule.objects.create(name="yearly", spider="shop", every=60)
    run(rare, 800)
    last_of_rare = run(rare, 400)
    run(schedule, 100)
    waits = run(schedule, 95, outcome="waiting")
    young = run(schedule, 89)
    prune()
    assert left(Run) == sorted([last_of_rare, waits, young])


def test_a_run_of_long_ago_that_was_written_down_just_now_stays(schedule: Schedule) -> None:
    missed = Run.objects.create(schedule=schedule, due_at=ago(200), outcome="missed")
    last = run(schedule, 1)
    prune()
    assert left(Run) == [missed.pk, last]


@both
def test_events_go_when_all_of_their_deliveries_are_done(task: Task, webhook: Webhook) -> None:
    other = Webhook.objects.create(name="other", url="http://other.example/", sealed_secret="s")
    arrived, given_up, waits, not_handed, _nobody_wants, young, newest = (
        event(task, 40, handed=n != 3) for n in range(7)
    )
    Event.objects.filter(pk__in=[young, newest]).update(created_at=ago(29))
    for one in (arrived, waits, young):
        delivery(webhook, one)
    delivery(webhook, given_up, delivered_at=None, attempts=8)
    open_one = delivery(other, waits, next_at=timezone.now(), delivered_at=None)
    prune()
    assert left(Event) == [waits, not_handed, young, newest]
    assert {*Delivery.objects.values_list("event", flat=True)} == {waits, young}
    assert Delivery.objects.filter(pk=open_one).exists()
    create_deliveries()  # and then it arrives after all
    Delivery.objects.update(next_at=None)
    prune()
    assert left(Event) == [young, newest]


def test_the_stream_of_events_goes_on_after_its_last_event_is_pruned(task: Task) -> None:
    known, *_ = (event(task, 40) for _ in range(3))
    newest = event(task, 40)
    prune()
    assert left(Event) == [newest]
    assert deliveries.newest() == newest  # so that no delivery starts over
    fresh = event(task, 0)
    assert [one.pk for one in deliveries.after(known)] == [newest, fresh]
    assert [one.pk for one in deliveries.after(newest)] == [fresh]


@both
def test_the_journal_and_the_tokens_that_it_names(orm: str) -> None:
    user = User.objects.create_user("ada")
    long_ago, not_yet = {"expires_at": ago(400)}, {"revoked_at": ago(300)}
    gone, named, fresh, alive = (
        Token.objects.create(user=user, name="t", start="cf_", digest=str(n), **fields)
        for n, fields in enumerate((long_ago, long_ago, not_yet, {}))
    )
    for token in (gone, None):
        Action.objects.create(verb="submit", token=token, at=ago(366))
    kept = Action.objects.create(verb="submit", token=named, at=ago(364))
    prune()
    assert left(Action) == [kept.pk]
    assert left(Token) == [named.pk, fresh.pk, alive.pk]


def test_lives_that_are_over_go_but_for_the_newest(orm: str) -> None:
    lives = [
        Generation.objects.create(node="alpha", machine="m", pid=1, started_at=ago(days)).pk
        for days in (300, 200, 10, 100)
    ]
    prune(lives[1])
    assert left(Generation) == lives[1:]


@both
def test_samples_and_keys_of_submissions(task: Task) -> None:
    user = User.objects.create_user("ada")
    keys = [
        Submission.objects.create(user=user, key=str(days), digest="", created_at=ago(days)).pk
        for days in (2, 0.9)
    ]
    samples = [
        Sample.objects.create(
            task=task, at=timezone.now() - sampling.SAMPLE_AGE + later, **WAITING
        ).pk
        for later in (-timedelta(hours=1), timedelta(hours=1))
    ]
    prune()
    assert left(Submission) == keys[1:]
    assert left(Sample) == samples[1:]


@both
def test_zero_days_are_for_ever(task: Task, schedule: Schedule, webhook: Webhook) -> None:
    for _ in range(2):
        run(schedule, 9000)
        delivery(webhook, event(task, 9000))
        Action.objects.create(verb="submit", at=ago(9000))
    with override_settings(KEEP_RUNS=0, KEEP_EVENTS=0, KEEP_JOURNAL=0):
        prune()
    for model in (Run, Event, Delivery, Action):
        assert len(left(model)) == 2, model


def test_a_batch_in_a_round_and_a_rest_when_all_is_done(
    orm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "ROWS_PER_DELETE", 3)
    Action.objects.bulk_create(Action(verb="submit", at=ago(400)) for _ in range(7))
    pruner = Pruner(lambda: ())
    seen = []
    for _ in range(30):
        pruner.tick()
        seen.append(Action.objects.count())
    assert sorted({*seen}, reverse=True) == [7, 4, 1, 0]
    with CaptureQueriesContext(connection) as queries:
        pruner.tick()
    assert not queries.captured_queries
    Action.objects.create(verb="submit", at=ago(400))
    pruner._next = 0.0  # a minute later
    for _ in range(30):
        pruner.tick()
    assert not Action.objects.exists()


def test_rows_are_deleted_by_their_numbers_and_never_loaded(schedule: Schedule) -> None:
    for days in range(100, 110):
        run(schedule, days)
    with CaptureQueriesContext(connection) as queries:
        delete(pruning.old_runs())
    selects = [query["sql"] for query in queries if "SELECT" in query["sql"]]
    deletes = [query["sql"] for query in queries if query["sql"].startswith("DELETE")]
    assert (len(selects), len(deletes)) == (1, 1)
    assert "outcome" not in selects[0].partition("FROM")[0]
    assert left(Run) == left(Run)[-1:]


@both
def test_what_somebody_changes_just_now_is_left_alone_and_holds_nobody_up(
    task: Task, webhook: Webhook
) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    held, free = (delivery(webhook, event(task, 40)) for _ in range(2))
    event(task, 0)
    with another_transaction(
        lambda: Delivery.objects.filter(pk=held).update(next_at=timezone.now())
    ):
        prune()
        assert left(Delivery) == [held]
    prune()
    assert left(Delivery) == [held]
    assert free not in left(Delivery)


@both
def test_a_look_reads_no_large_table_from_end_to_end(
    task: Task, schedule: Schedule, webhook: Webhook
) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("its plans have no numbers of rows")
    fill(BIG, task, schedule, webhook)
    with CaptureQueriesContext(connection) as queries:
        prune()
    looks = [query["sql"] for query in queries if query["sql"].startswith("SELECT")]
    assert len(looks) >= 8
    for sql in looks:
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN {sql}")
            plan = "\n".join(line for (line,) in cursor.fetchall())
        assert not any(
            f"Seq Scan on crawlservice_{name}" in plan
            for name in ("run", "event", "delivery", "action", "sample", "submission", "generation")
        ), f"{sql}\n{plan}"


def fill(rows: int, task: Task, schedule: Schedule, webhook: Webhook) -> None:
    """Adds ``rows`` of each kind; the oldest may soon be deleted."""
    user = User.objects.create_user("ada")
    series = f"FROM generate_series(1, {rows}) n"
    numbers = ", ".join(WAITING)
    with connection.cursor() as cursor:
        for statement in (
            f"INSERT INTO crawlservice_run (schedule_id, due_at, outcome, problem, created_at) "
            f"SELECT {schedule.pk}, t, 'submitted', '', t FROM "
            f"(SELECT now() - n * interval '80 days' / {rows} AS t {series}) x",
            f"INSERT INTO crawlservice_event (id, task_id, kind, created_at, delivered_at) "
            f"SELECT n, {task.pk}, 'finished', t, t FROM "
            f"(SELECT n, now() - ({rows} - n) * interval '29 days' / {rows} AS t {series}) x",
            f"INSERT INTO crawlservice_delivery "
            f"(webhook_id, event_id, attempts, next_at, delivered_at, problem) "
            f"SELECT {webhook.pk}, n, 1, NULL, now(), '' {series}",
            f"INSERT INTO crawlservice_action (at, name, verb, detail) "
            f"SELECT now() - n * interval '360 days' / {rows}, 'ada', 'submit', '{{}}' {series}",
            f"INSERT INTO crawlservice_sample (at, task_id, {numbers}) "
            f"SELECT now() - n * interval '6 days' / {rows}, {task.pk}, 0, 0, 0, 0, 0, 0, 0 "
            f"{series}",
            f"INSERT INTO crawlservice_submission (user_id, key, digest, tasks, created_at) "
            f"SELECT {user.pk}, n::text, '', '[]', now() - n * interval '23 hours' / {rows} "
            f"{series}",
            f"INSERT INTO crawlservice_generation (node, machine, pid, started_at) "
            f"SELECT 'alpha', 'm', 1, now() - ({rows} - n) * interval '80 days' / {rows} {series}",
            "ANALYZE",
        ):
            cursor.execute(statement)


def test_the_leading_steward_prunes(published: Frontier, join: Callable[..., int]) -> None:
    steward = Steward(Settings(), published)
    steward.tick()  # the first era starts
    living, newest = join("alpha"), join("alpha")
    dead = Generation.objects.create(node="beta", machine="m", pid=1).pk
    last = Generation.objects.create(node="gamma", machine="m", pid=1).pk
    Generation.objects.update(started_at=ago(100))
    Action.objects.create(verb="submit", at=ago(400))
    for _ in range(20):
        steward.tick()
    assert not Action.objects.exists()
    assert left(Generation) == [living, newest, last]
    assert dead not in left(Generation)
    steward.resign()
