"""Schedules: each due time is submitted or reported once, whatever happens in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.utils import timezone
from redis import Redis

from crawlframe.base import faults
from crawlframe.base.faults import Faults
from crawlframe.conf import Settings
from crawlframe.errors import ArgumentError, FrontierError, UnknownSpider
from crawlframe.frontier import Frontier
from crawlservice.ledger.recovery import renew
from crawlservice.models import Delivery, Event, Run, Schedule, Task, Webhook
from crawlservice.scheduling import schedules, timing
from crawlservice.scheduling.schedules import plan, run_now, start_due, upcoming
from crawlservice.steward import task_chore
from crawlservice.steward.steward import Steward
from crawlservice.tasks.submit import cancel, pause
from crawlservice.webhooks.deliveries import body, create_deliveries
from tests.conftest import CHECKOUT
from tests.crawlservice.chores import at_once
from tests.crawlservice.conftest import redis_at

both = pytest.mark.databases("sqlite", "postgres")

HOUR = 3600
Add = Callable[..., Schedule]


@pytest.fixture
def add(published: Frontier) -> Add:
    """Adds a schedule whose start was due ``late`` seconds ago; keywords are its fields."""

    def add(late: float = 1, **fields: Any) -> Schedule:
        values = {"name": "daily", "spider": "shop", "arguments": {"city": "Ulm"}, "every": HOUR}
        next_at = timezone.now() - timedelta(seconds=late)
        return Schedule.objects.create(**{**values, "next_at": next_at, **fields})

    return add


def fall_due(schedule: Schedule, late: float = 0) -> None:
    # The clock of SQLite knows milliseconds only.
    schedule.next_at = timezone.now() - timedelta(seconds=late, milliseconds=2)
    Schedule.objects.filter(pk=schedule.pk).update(next_at=schedule.next_at)


def outcomes(schedule: Schedule) -> list[str]:
    return list(schedule.runs.order_by("due_at").values_list("outcome", flat=True))


def end(task: int) -> None:
    Task.objects.filter(pk=task).update(state=Task.State.FINISHED)


# -- due runs -------------------------------------------------------------------------------------


@both
def test_what_is_due_is_submitted_once(add: Add, published: Frontier) -> None:
    schedule = add(priority=5)
    start_due()
    start_due()
    (task,) = Task.objects.all()
    assert (task.spider, task.arguments, task.priority) == ("shop", {"city": "Ulm"}, 5)
    assert (task.schedule, task.user) == (schedule, None)
    (run,) = schedule.runs.all()
    assert (run.outcome, run.task, run.problem) == ("submitted", task, "")
    assert run.due_at == schedule.next_at
    counts = published.counts(task.pk)
    assert counts is not None
    assert counts.na == 1


def test_the_next_time_keeps_to_the_grid_of_an_interval(add: Add) -> None:
    schedule = add(late=7, every=HOUR)
    start_due()
    assert schedule.next_at is not None
    assert Schedule.objects.get().next_at == schedule.next_at + timedelta(seconds=HOUR)


def test_what_is_not_due_or_disabled_waits(add: Add) -> None:
    add(late=-30)
    add(name="off", enabled=False)
    start_due()
    assert not Run.objects.exists()
    assert not Task.objects.exists()


@both
def test_the_clock_of_the_database_decides(add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    add(late=-30)
    add(late=1, name="due")
    day = timedelta(days=1)
    for shift in (day, -day):
        monkeypatch.setattr(timezone, "now", lambda shift=shift: datetime.now(UTC) + shift)
        start_due()
    assert [run.schedule.name for run in Run.objects.all()] == ["due"]


def test_one_that_nobody_has_planned_is_planned(add: Add) -> None:
    add(next_at=None, every=None, cron="0 0 1 1 *")
    start_due()
    found = Schedule.objects.get().next_at
    assert found is not None
    assert found > timezone.now()
    assert (found.month, found.day, found.hour) == (1, 1, 0)
    assert not Run.objects.exists()


@both
def test_planning_counts_from_now_on(add: Add) -> None:
    schedule = add(late=5 * HOUR)
    plan(schedule)
    left = (Schedule.objects.get().next_at or timezone.now()) - timezone.now()
    assert HOUR - 60 < left.total_seconds() <= HOUR
    Schedule.objects.update(enabled=False)
    plan(schedule)
    assert Schedule.objects.get().next_at is None


def test_the_next_times_are_shown_in_the_schedules_zone(add: Add) -> None:
    next_at = datetime(2026, 3, 28, 1, 30, tzinfo=UTC)
    schedule = add(every=None, cron="30 2 * * *", timezone="Europe/Berlin", next_at=next_at)
    assert [f"{due:%d %H:%M}" for due in upcoming(schedule, 3)] == [
        "28 02:30", "29 03:00", "30 02:30",
    ]  # fmt: skip


# -- overlap --------------------------------------------------------------------------------------


def test_skip(add: Add) -> None:
    schedule = add(overlap="skip")
    start_due()
    task = Task.objects.get()
    for _ in range(2):
        fall_due(schedule)
        start_due()
    assert outcomes(schedule) == ["submitted", "skipped", "skipped"]
    assert schedule.runs.first().problem == f"task {task.pk} was still running"  # type: ignore[union-attr]
    end(task.pk)
    fall_due(schedule)
    start_due()
    assert outcomes(schedule)[-1] == "submitted"
    assert Task.objects.count() == 2


def test_a_paused_task_still_runs(add: Add) -> None:
    schedule = add(overlap="skip")
    start_due()
    pause(Task.objects.get().pk)
    fall_due(schedule)
    start_due()
    assert outcomes(schedule) == ["submitted", "skipped"]


def test_tasks_of_others_do_not_count(add: Add) -> None:
    add(overlap="skip")
    add(overlap="skip", name="other")
    start_due()
    assert Task.objects.count() == 2


@both
def test_queue(add: Add) -> None:
    schedule = add(overlap="queue")
    start_due()
    for _ in range(2):
        fall_due(schedule)
        start_due()
    assert outcomes(schedule) == ["submitted", "waiting", "waiting"]
    first = Task.objects.get()
    end(first.pk)
    start_due()
    start_due()
    assert outcomes(schedule) == ["submitted", "submitted", "waiting"]
    end(Task.objects.latest("pk").pk)
    start_due()
    assert outcomes(schedule) == ["submitted"] * 3
    assert len({run.task_id for run in Run.objects.all()}) == 3


def test_what_falls_due_does_not_overtake_what_waits(add: Add) -> None:
    schedule = add(overlap="queue")
    start_due()
    fall_due(schedule)
    start_due()
    end(Task.objects.get().pk)
    fall_due(schedule)
    start_due()
    assert outcomes(schedule) == ["submitted", "submitted", "waiting"]


def test_a_queue_has_an_end(add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "MAX_WAITING", 2)
    schedule = add(overlap="queue")
    for _ in range(4):
        start_due()
        fall_due(schedule)
    assert outcomes(schedule) == ["submitted", "waiting", "waiting", "skipped"]


def test_disabling_ends_the_wait(add: Add) -> None:
    schedule = add(overlap="queue")
    start_due()
    fall_due(schedule)
    start_due()
    Schedule.objects.update(enabled=False)
    start_due()
    assert outcomes(schedule) == ["submitted", "skipped"]
    assert schedule.runs.latest("due_at").problem == "disabled while it waited"


def test_cancel_previous(add: Add, published: Frontier) -> None:
    schedule = add(overlap="cancel")
    start_due()
    fall_due(schedule)
    start_due()
    first, second = Task.objects.order_by("pk")
    assert (first.state, second.state) == ("cancelling", "running")
    counts = published.counts(first.pk)
    assert counts is not None
    assert counts.state == "cancelling"
    assert outcomes(schedule) == ["submitted", "submitted"]


def test_nothing_is_cancelled_for_one_that_cannot_start(add: Add) -> None:
    schedule = add(overlap="cancel")
    start_due()
    Schedule.objects.update(arguments={"town": "Ulm"})
    fall_due(schedule)
    start_due()
    assert Task.objects.get().state == "running"
    assert outcomes(schedule) == ["submitted", "failed"]


def test_allow(add: Add) -> None:
    schedule = add(overlap="allow")
    for _ in range(3):
        start_due()
        fall_due(schedule)
    assert outcomes(schedule) == ["submitted"] * 3


# -- missed runs ----------------------------------------------------------------------------------


@both
def test_many_missed_starts_are_made_up_for_once(add: Add) -> None:
    schedule = add(late=10 * HOUR + 600, missed="once", overlap="allow", timezone="Asia/Shanghai")
    start_due()
    start_due()
    (run,) = schedule.runs.all()
    assert schedule.next_at is not None
    assert (run.outcome, run.due_at) == ("submitted", schedule.next_at + timedelta(hours=10))
    since = schedule.next_at.astimezone(schedules.timing_of(schedule).zone)
    assert run.problem == f"also for those missed since {since:%Y-%m-%d %H:%M:%S}"
    assert Schedule.objects.get().next_at == schedule.next_at + timedelta(hours=11)


def test_missed_starts_are_left_out_when_that_is_wanted(add: Add) -> None:
    schedule = add(late=10 * HOUR + 600, missed="skip")
    start_due()
    start_due()
    assert not Task.objects.exists()
    (run,) = schedule.runs.all()
    assert (run.outcome, run.task) == ("missed", None)
    fall_due(schedule)
    start_due()
    assert Task.objects.count() == 1


def test_after_a_time_away_what_is_due_now_is_started(add: Add) -> None:
    schedule = add(late=10 * HOUR + 2, missed="skip")
    start_due()
    assert outcomes(schedule) == ["missed", "submitted"]
    assert Task.objects.count() == 1


def test_a_start_that_is_late_once_is_made_up_for(add: Add) -> None:
    late = add(late=600, missed="once")
    little = add(late=20, missed="skip", name="b")  # another node took over
    start_due()
    runs = Run.objects.order_by("pk").values_list("schedule", "outcome", "problem")
    assert {*runs} == {(one.pk, "submitted", "") for one in (late, little)}


# -- failures -------------------------------------------------------------------------------------


def test_a_failing_start_is_recorded_and_tried_at_the_next_time(add: Add) -> None:
    wrong = add(arguments={"city": 3})
    gone = add(name="gone", spider="shopp")
    good = add(name="good")
    start_due()
    start_due()
    assert [outcomes(one) for one in (wrong, gone, good)] == [["failed"], ["failed"], ["submitted"]]
    assert "argument 'city'" in wrong.runs.get().problem
    assert "did you mean 'shop'" in gone.runs.get().problem
    Schedule.objects.filter(pk=wrong.pk).update(arguments={"city": "Ulm"})
    fall_due(wrong)
    start_due()
    assert outcomes(wrong) == ["failed", "submitted"]


@both
def test_a_failing_schedule_is_marked_with_one_event(add: Add) -> None:
    schedule = add(name="gone", spider="shopp")
    webhook = Webhook.objects.create(name="w", url="http://h.example/", spider="shopp")
    add(name="good")
    start_due()
    marked = Schedule.objects.get(pk=schedule.pk)
    assert "did you mean 'shop'" in marked.problem
    out = StringIO()
    call_command("schedule", "list", stdout=out)
    assert f"gone cannot start: {marked.problem}" in out.getvalue()
    assert "good cannot start" not in out.getvalue()
    assert marked.problem_since is not None
    event = Event.objects.get()
    assert (event.kind, event.schedule, event.task) == ("schedule_failed", schedule, None)
    fall_due(schedule)
    start_due()
    assert outcomes(schedule) == ["failed", "failed"]
    assert Event.objects.count() == 1
    assert Schedule.objects.get(pk=schedule.pk).problem_since == marked.problem_since
    # Webhooks of its spider get an event that names the reason.
    assert create_deliveries()
    assert Delivery.objects.get().webhook == webhook
    told = json.loads(body(event))
    assert (told["kind"], told["task"]) == ("schedule_failed", None)
    assert (told["schedule"]["name"], told["schedule"]["problem"]) == ("gone", marked.problem)
    # A successful start clears the problem; the next failure is an event again.
    Schedule.objects.filter(pk=schedule.pk).update(spider="shop")
    schedule.spider = "shop"
    fall_due(schedule)
    start_due()
    row = Schedule.objects.get(pk=schedule.pk)
    assert (row.problem, row.problem_since) == ("", None)
    Schedule.objects.filter(pk=schedule.pk).update(arguments={"city": 3}, overlap="allow")
    fall_due(schedule)
    start_due()
    assert "argument 'city'" in Schedule.objects.get(pk=schedule.pk).problem
    assert Event.objects.count() == 2


def test_a_run_by_hand_that_goes_well_takes_the_mark_away(add: Add) -> None:
    schedule = add(arguments={"city": 3})
    start_due()
    assert Schedule.objects.exclude(problem="").exists()
    Schedule.objects.filter(pk=schedule.pk).update(arguments={"city": "Ulm"})
    run_now(schedule)
    assert not Schedule.objects.exclude(problem="").exists()


def test_before_any_node_has_said_what_it_has_starts_wait(
    add: Add, redis_client: Redis, service: Frontier, shop: Any
) -> None:
    schedule = add()
    redis_client.flushall()  # and no node has loaded its code since
    start_due()
    assert outcomes(schedule) == []
    service.spiders.publish([shop])
    start_due()
    assert outcomes(schedule) == ["submitted"]


def test_a_timing_that_came_past_the_form_is_disabled(add: Add) -> None:
    schedule = add(every=None, cron="0 0 * *", name="bad")
    good = add()
    start_due()
    start_due()
    row = Schedule.objects.get(pk=schedule.pk)
    assert (row.enabled, row.next_at) == (False, None)
    assert "has 4 fields" in schedule.runs.get().problem
    assert "has 4 fields" in row.problem
    assert Event.objects.get().schedule == row
    assert outcomes(good) == ["submitted"]


def test_redis_away(add: Add, redis_url: str) -> None:
    schedule = add()
    with redis_at("redis://127.0.0.1:1/0"), pytest.raises(FrontierError):
        start_due()
    assert outcomes(schedule) == []
    assert not Task.objects.exists()
    with redis_at(redis_url):
        start_due()
    assert outcomes(schedule) == ["submitted"]


def test_a_next_time_that_was_written_back_starts_nothing(add: Add) -> None:
    schedule = add(overlap="allow")
    start_due()
    Schedule.objects.update(next_at=schedule.next_at)
    start_due()
    assert outcomes(schedule) == ["submitted"]
    assert Task.objects.count() == 1
    following = Schedule.objects.get().next_at
    assert following is not None
    assert following > timezone.now()


@both
def test_many_stewards_at_a_time_start_it_once(add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [add(overlap="allow", name=f"{n}") for n in range(5)]
    monkeypatch.setattr(faults, "at", Faults("schedule.before:1:delay").at)
    at_once(*[start_due] * 4)
    assert [outcomes(schedule) for schedule in made] == [["submitted"]] * 5
    assert Task.objects.count() == 5


@both
def test_many_stewards_at_a_time_end_a_wait_once(add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = add(overlap="queue")
    for _ in range(2):
        start_due()
        fall_due(schedule)
    Schedule.objects.update(next_at=timezone.now() + timedelta(hours=1))
    end(Task.objects.get().pk)
    monkeypatch.setattr(faults, "at", Faults("schedule.before:1:delay").at)
    at_once(*[start_due] * 4)
    assert outcomes(schedule) == ["submitted", "submitted"]
    assert Task.objects.count() == 2


CHILD = """
import django
django.setup()
from crawlservice.scheduling.schedules import start_due
start_due()
"""


@pytest.mark.parametrize(
    ("fault", "runs"),
    [
        ("schedule.before:1:kill", 0),  # the transaction is gone with it
        ("submit.recorded:1:kill", 1),  # committed; Redis does not know the task
        ("open.before:1:kill", 1),
        ("open.after:1:kill", 1),
    ],
)
def test_a_steward_that_dies_in_the_middle(
    add: Add,
    orm: str,
    redis_url: str,
    redis_client: Redis,
    published: Frontier,
    fault: str,
    runs: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(task_chore, "OPEN_SECONDS", 0.0)
    add(overlap="skip")
    connection.close()
    env = {
        **os.environ, "DATABASE_URL": orm, "REDIS_URL": redis_url, "FAULT": fault,
        "DJANGO_SETTINGS_MODULE": "crawlservice.node_settings",
    }  # fmt: skip
    child = subprocess.run([sys.executable, "-c", CHILD], env=env, cwd=CHECKOUT, timeout=60)
    assert child.returncode == -signal.SIGKILL
    assert Run.objects.count() == Task.objects.count() == runs

    successor = Steward(Settings(), published)
    renew(published)
    successor.tick()
    successor.tick()
    successor.resign()
    task, run = Task.objects.get(), Run.objects.get()
    assert (run.outcome, run.task) == ("submitted", task)
    counts = published.counts(task.pk)
    assert counts is not None
    assert (counts.state, counts.na) == ("running", 1)


def test_the_steward_runs_schedules(
    add: Add, published: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = add(every=1, overlap="allow")
    monkeypatch.setattr(timing, "LEAST_EVERY", 1)
    steward, other = (Steward(Settings(), published) for _ in range(2))
    deadline = time.monotonic() + 60
    while len(outcomes(schedule)) < 3 and time.monotonic() < deadline:
        steward.tick()
        other.tick()  # does not lead
        time.sleep(0.1)
    for one in (steward, other):
        one.resign()
    dues = list(schedule.runs.values_list("due_at", flat=True))
    assert len(set(dues)) == len(dues) == Task.objects.count() >= 3


# -- by hand --------------------------------------------------------------------------------------


@both
def test_run_now_leaves_the_plan_alone(add: Add) -> None:
    user = User.objects.create(username="ann")
    schedule = add(late=-500, enabled=False)
    run = run_now(schedule, user)
    assert (run.outcome, run.task) == ("submitted", Task.objects.get())
    assert Task.objects.get().user == user
    assert Schedule.objects.get().next_at == schedule.next_at


def test_run_now_keeps_to_the_overlap_policy(add: Add) -> None:
    schedule = add(late=-500, overlap="skip")
    run_now(schedule)
    assert run_now(schedule).outcome == "skipped"
    cancel(Task.objects.get().pk)
    assert run_now(schedule).outcome == "skipped"  # requests in flight end first


def test_run_now_says_what_is_wrong(add: Add) -> None:
    wrong: list[tuple[dict[str, Any], type[Exception]]] = [
        ({"spider": "no"}, UnknownSpider), ({"arguments": {}}, ArgumentError),
    ]  # fmt: skip
    for fields, kind in wrong:
        with pytest.raises(kind):
            run_now(add(late=-500, name=str(kind), **fields))
    assert not Run.objects.exists()
