"""The journal: user, action, time and address; by commands and in the admin alike."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from crawlframe.base import faults
from crawlframe.base.faults import Faults
from crawlframe.errors import FrontierError
from crawlframe.frontier import Frontier
from crawlservice.accounts.journal import change, record
from crawlservice.models import Action, Schedule, Task, Token
from crawlservice.scheduling import schedules
from crawlservice.tasks.submit import WrongState, pause, submit

LIST = "/admin/crawlservice/action/"


@pytest.fixture
def ada(service: Frontier, settings_with: Callable[..., None]) -> User:
    """An administrator, whose password is not hashed for half a second."""
    settings_with(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"])
    return User.objects.create_superuser("ada", password="correct horse 9")


@pytest.fixture
def admin(ada: User) -> Client:
    client = Client(SERVER_NAME="localhost", REMOTE_ADDR="192.0.2.7")
    client.force_login(ada)
    return client


def told() -> list[tuple[str, str, int | None, Any]]:
    """The journal from its beginning, without logins."""
    rows = Action.objects.exclude(verb="login").order_by("id")
    return [(row.verb, row.name, row.task_id, row.detail) for row in rows]


def test_user_address_task_and_detail_are_recorded(ada: User, published: Frontier) -> None:
    task = submit("shop", {"city": "Ulm"})
    record("pause", user=ada, address="192.0.2.7", task=task, why="night")
    record("tidy", user=AnonymousUser(), address="", task=task.pk)
    first, second = Action.objects.order_by("id")
    assert (first.user, first.name, first.address) == (ada, "ada", "192.0.2.7")
    assert (first.task_id, first.detail) == (task.pk, {"why": "night"})
    assert (second.user, second.name, second.address) == (None, "", None)
    assert second.task_id == task.pk


def test_a_deleted_user_is_still_named(ada: User) -> None:
    record("pause", user=ada)
    ada.delete()
    assert [(row.user, row.name) for row in Action.objects.all()] == [(None, "ada")]


def test_commands_are_written_down(published: Frontier) -> None:
    call_command("submit", "shop", "-a", "city=Ulm", verbosity=0)
    task = Task.objects.get().pk
    for verb in ("pause", "resume", "cancel"):
        call_command("task", verb, str(task))
    by_command = {"command": True}
    assert told() == [
        (verb, "", task, by_command) for verb in ("submit", "pause", "resume", "cancel")
    ]


def test_what_other_commands_change_is_written_down(
    ended_task: Task, ada: User, published: Frontier, tmp_path: Path
) -> None:
    published.store.redis.delete(
        published.store.keys[0]("TASK", ended_task.pk)
    )  # as one that has ended
    call_command(
        "task", "export", str(ended_task.pk), "-o", str(tmp_path / "items.csv"), verbosity=0
    )
    call_command("task", "retry", str(ended_task.pk))
    call_command("store", "reconcile", str(ended_task.pk), "--dry-run")
    call_command("store", "reconcile", str(ended_task.pk))
    call_command("token", "add", "ada", "--name", "nightly")
    token = Token.objects.get()
    call_command("token", "revoke", str(token.pk))
    ada.delete()
    call_command("token", "setup-link")
    task, by_command = ended_task.pk, {"command": True}
    assert told() == [
        ("export", "", task, {**by_command, "format": "csv"}),
        ("retry", "", task, {**by_command, "requests": 1}),
        ("reconcile", "", task, by_command),
        ("add token", "", None, {**by_command, "name": "nightly", "of": "ada"}),
        ("revoke token", "", None, {**by_command, "name": "nightly"}),
        ("make setup link", "", None, by_command),
    ]
    told_of_whom = {row.verb for row in Action.objects.filter(detail__command=True)}
    assert len(told_of_whom) == 6


def test_what_schedules_do_is_written_down(published: Frontier, admin: Client) -> None:
    daily = {"name": "daily", "spider": "shop", "arguments": {"city": "Ulm"}, "every": 60}
    schedule = Schedule.objects.create(**daily, overlap="cancel", next_at=timezone.now())
    for _ in range(2):
        Schedule.objects.update(next_at=timezone.now() - timedelta(seconds=1))
        schedules.start_due()
    Schedule.objects.update(timezone="Mars", next_at=timezone.now() - timedelta(seconds=1))
    schedules.start_due()
    first, second = Task.objects.order_by("pk").values_list("pk", flat=True)
    who = {"schedule": "daily", "by_itself": True}
    assert told()[:3] == [
        ("submit", "", first, who),
        ("submit", "", second, who),
        ("cancel", "", first, who),
    ]
    ((verb, _, _, detail),) = told()[3:]
    assert verb == "disable schedule"
    assert "time zone" in detail["problem"]
    page = admin.get(LIST).content.decode()
    assert page.count("a schedule<") == 4
    schedule.refresh_from_db()
    assert not schedule.enabled


@pytest.mark.parametrize("verb", ["pause", "resume", "cancel"])
def test_what_is_done_in_the_admin_while_redis_is_away_is_written_down(
    admin: Client, published: Frontier, request: pytest.FixtureRequest, verb: str
) -> None:
    task = submit("shop", {"city": "Ulm"}).pk
    request.getfixturevalue("dead_redis")
    admin.post(f"/admin/crawlservice/task/{task}/{verb}/")
    ((told_verb, name, of, detail),) = told()
    assert (told_verb, name, of) == (verb, "ada", task)
    assert "in the database, but not in Redis" in detail["problem"]


def test_a_task_that_redis_does_not_know_is_recorded(
    admin: Client, published: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    def submit_from_form() -> None:
        form = {"argument-city": "Ulm", "argument-pages": "1", "priority": "0"}
        admin.post("/admin/submit/?spider=shop", form)

    def run_schedule() -> None:
        Schedule.objects.create(name="d", spider="shop", arguments={"city": "Ulm"}, every=60)
        form = {"action": "run", "_selected_action": [str(Schedule.objects.get().pk)]}
        admin.post("/admin/crawlservice/schedule/", form)

    def command() -> None:
        with pytest.raises(CommandError, match="in the database, but not in Redis"):
            call_command("submit", "shop", "-a", "city=Ulm")

    for number, do in enumerate((submit_from_form, run_schedule, command), 1):
        monkeypatch.setattr(faults, "at", Faults("submit.recorded:1:error").at)
        do()
        task = Task.objects.latest("pk").pk
        assert [one[2] for one in told()][number - 1 :] == [task], do
    assert [verb for verb, *_ in told()] == ["submit", "run schedule", "submit"]


def test_what_was_refused_is_not_written_down(ended_task: Task) -> None:
    with pytest.raises(WrongState):
        change("pause", pause, ended_task.pk)
    assert told() == []


def test_a_change_that_redis_did_not_hear_of_is_written_down(
    published: Frontier, request: pytest.FixtureRequest
) -> None:
    task = submit("shop", {"city": "Ulm"})
    request.getfixturevalue("dead_redis")
    with pytest.raises(FrontierError):
        change("pause", pause, task.pk)
    assert Task.objects.get().state == "paused"
    ((verb, _, of, detail),) = told()
    assert (verb, of) == ("pause", task.pk)
    assert "in the database, but not in Redis" in detail["problem"]


def test_actions_of_the_admin_are_written_down(admin: Client, published: Frontier) -> None:
    task = submit("shop", {"city": "Ulm"}).pk
    form = {"action": "pause", "_selected_action": [str(task)]}
    admin.post("/admin/crawlservice/task/", form)
    assert told() == [("pause", "ada", task, {})]
    assert Action.objects.latest("id").address == "192.0.2.7"


def test_logins_are_written_down_and_failed_ones_too(ada: User) -> None:
    client = Client(SERVER_NAME="localhost", REMOTE_ADDR="192.0.2.7")
    form = {"username": "ada", "password": "wrong"}
    client.post("/admin/login/", form)
    client.post("/admin/login/", {**form, "password": "correct horse 9"})
    client.post("/admin/logout/")
    rows = Action.objects.order_by("id")
    assert [(row.verb, row.name, row.address, row.detail) for row in rows] == [
        ("login_failed", "", "192.0.2.7", {"username": "ada"}),
        ("login", "ada", "192.0.2.7", {}),
        ("logout", "ada", "192.0.2.7", {}),
    ]


def test_the_list_is_filtered_and_costs_the_same_however_long(
    admin: Client, ada: User, published: Frontier
) -> None:
    def look(query: str = "") -> tuple[int, int]:
        with CaptureQueriesContext(connection) as queries:
            page = admin.get(f"{LIST}?{query}").content.decode()
        return page.count("field-shown_verb"), len(queries)

    task = submit("shop", {"city": "Ulm"})
    record("pause", user=ada, task=task)
    look()
    (shown, cost) = look()
    assert shown == 2  # with the login
    for _ in range(5):
        record("resume", task=task, command=True)
    assert look() == (7, cost)
    assert look("verb=pause")[0] == 1
    assert look(f"user={ada.pk}")[0] == 2
    assert look("user=0")[0] == 5
    assert look("user=x")[0] == look("at_to=2000-01-01")[0] == look("at_from=9999-12-31")[0] == 0
    assert look("at_from=2000-01-01")[0] == look("at_from=x")[0] == look("at_to=9999-12-31")[0] == 7
    first, last = Action.objects.earliest("id").at, Action.objects.latest("id").at
    assert look(f"at_from={first:%Y-%m-%d}&at_to={last:%Y-%m-%d}")[0] == 7


def test_it_cannot_be_rewritten(admin: Client, ada: User) -> None:
    row = record("pause", user=ada)
    for place in ("add/", f"{row.pk}/change/", f"{row.pk}/delete/"):
        assert admin.post(f"{LIST}{place}", {"post": "yes", "verb": "x"}).status_code == 403
    form = {"action": "delete_selected", "_selected_action": [str(row.pk)], "post": "yes"}
    admin.post(LIST, form)
    assert Action.objects.get(pk=row.pk).verb == "pause"
