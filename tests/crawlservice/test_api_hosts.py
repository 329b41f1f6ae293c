"""Hosts and limits through the API and on the command line."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from crawlframe.frontier import Frontier
from crawlframe.frontier.hosts import HostOrder
from crawlframe.request.request import Admission, make_rid
from crawlservice.models import Action, Host, Task
from crawlservice.tasks.submit import submit
from tests.crawlservice.conftest import redis_at
from tests.crawlservice.programs import Program, person, program
from tests.crawlservice.test_api_tasks import error
from tests.crawlservice.test_hosts import hold

NAME = "shop.example"


@pytest.fixture
def caller(published: Frontier) -> Program:
    return program(person("operator"))


def run(*arguments: str, noun: str = "host") -> str:
    out = StringIO()
    call_command(noun, *arguments, stdout=out, stderr=out)
    return out.getvalue()


def busy(frontier: Frontier) -> Task:
    """A task with three ready requests of the host, which rests after the last claim."""
    task = submit("shop", {"city": "Ulm"})
    some = [Admission(make_rid(task.pk, b"%d" % n), 0, NAME, 0, b"") for n in range(3)]
    frontier.admit(task.pk, some)
    keys, soon = frontier.store.keys[0], round(1000 * (time.time() + 1000))
    frontier.store.redis.hset(keys("HOST", NAME), "n", soon)
    return task


# -- API -------------------------------------------------------------------------------------------


def test_hosts_are_paged_searched_and_filtered(caller: Program) -> None:
    for n in range(5):
        Host.objects.create(name=f"h{n}.example", errors=n // 4)
    Host.objects.filter(name="h2.example").update(held_why="blocked")
    Host.objects.filter(name="h3.example").update(paused=True, ordered_at=timezone.now())

    def names(**query: Any) -> list[str]:
        return [host["name"][:2] for host in caller.get("hosts", **query).json()["hosts"]]

    first = caller.get("hosts", limit=3).json()
    assert [host["name"][:2] for host in first["hosts"]] == ["h4", "h3", "h2"]
    assert names(limit=3, after=first["next"]) == ["h1", "h0"]
    assert names(q="H3") == ["h3"]
    assert names(q="3") == []
    found = {which: names(which=which) for which in ("held", "paused", "ordered", "errors")}
    assert found == {"held": ["h2"], "paused": ["h3"], "ordered": ["h3"], "errors": ["h4"]}
    error(caller.get("hosts", which="odd"), 422, "invalid")


def test_one_host_with_its_state_now(caller: Program, service: Frontier) -> None:
    statuses = {"200": 8, "404": 2}
    Host.objects.create(name=NAME, pages=10, errors=2, statuses=statuses, last_status=404)
    busy(service)
    told = caller.get(f"hosts/{NAME}").json()
    assert (told["condition"], told["live"], told["queued"]) == ("waiting", True, 3)
    assert (told["gap"], told["allowed"], told["concurrency_in_force"]) == (1.5, 0.667, 1)
    # One at a time, as the next request brings the robots.txt.
    assert (told["pages"], told["errors"], told["statuses"]) == (10, 2, statuses)
    hold(service, NAME, "blocked")
    told = caller.get(f"hosts/{NAME}").json()
    assert (told["condition"], told["why"], told["until"]) == ("held", "blocked", None)
    with redis_at("redis://127.0.0.1:1/0"):
        told = caller.get(f"hosts/{NAME}").json()
    assert (told["condition"], told["live"], told["queued"]) == ("unknown", False, 0)
    error(caller.get("hosts/nothing.example"), 404, "unknown_host")
    error(caller.get("hosts/a b"), 422, "invalid")


def test_orders_through_the_api(caller: Program, service: Frontier) -> None:
    until = (timezone.now() + timedelta(hours=2)).isoformat()
    body = {"delay": 2.0, "concurrency": 1, "until": until, "note": "night"}
    told = caller.put(f"hosts/{NAME}/order", body).json()
    assert (told["delay"], told["concurrency"], told["note"]) == (2.0, 1, "night")
    assert (told["ordered_by"], told["condition"]) == ("operator", "idle")
    told = caller.post(f"hosts/{NAME}/pause", {"note": "they asked"}).json()
    assert (told["condition"], told["why"], told["note"]) == ("paused", "paused", "they asked")
    assert service.hosts.states([NAME])[NAME].order == HostOrder(2.0, 1, True, None)
    assert caller.post(f"hosts/{NAME}/resume").json()["condition"] == "idle"
    assert caller.delete(f"hosts/{NAME}/order").json()["ordered_at"] is None
    assert caller.post(f"hosts/{NAME}/forget-robots").status_code == 200
    found = Action.objects.order_by("pk").values_list("verb", "name", "token__name")
    verbs = ["order host", "pause host", "resume host", "clear host", "forget robots"]
    assert [*found] == [(verb, "operator", "test") for verb in verbs]


def test_bad_orders_name_the_field(caller: Program) -> None:
    place = f"hosts/{NAME}/order"
    for body, field in (
        ({}, "delay"),
        ({"delay": -1.0}, "delay"),
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": 1, "until": "2026-01-31T12:00"}, "until"),  # without a time zone
        ({"concurrency": 1, "until": "2020-01-31T12:00Z"}, "until"),
        ({"concurrency": 1, "colour": "red"}, "colour"),
    ):
        told = error(caller.put(place, body), 422, "invalid")
        assert told["field"].endswith(field), body
    assert not Host.objects.exists()


def test_an_order_while_redis_is_away_is_accepted(caller: Program, service: Frontier) -> None:
    with redis_at("redis://127.0.0.1:1/0"):
        answer = caller.post(f"hosts/{NAME}/pause")
    assert answer.status_code == 202
    assert Host.objects.get().paused


def test_limits_through_the_api(caller: Program, service: Frontier) -> None:
    task = submit("shop", {"city": "Ulm"})
    told = caller.patch(f"tasks/{task.pk}", {"delay": 0.5, "page_limit": 0}).json()
    assert (told["limits"]["delay"], told["limits"]["page_limit"]) == (0.5, 0)
    assert told["limits"]["concurrency"] == 3
    assert caller.patch(f"tasks/{task.pk}", {"delay": "auto"}).status_code == 200
    for body in ({}, {"delay": -1.0}, {"delay": "slow"}, {"priority": 3}):
        error(caller.patch(f"tasks/{task.pk}", body), 422, "invalid")
    error(caller.patch("tasks/4711", {"delay": 1.0}), 404, "unknown_task")
    with redis_at("redis://127.0.0.1:1/0"):
        assert caller.patch(f"tasks/{task.pk}", {"delay": 1.0}).status_code == 202
    Task.objects.update(state="finished")
    error(caller.patch(f"tasks/{task.pk}", {"delay": 1.0}), 409, "wrong_state")


# -- the terminal ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("service")
def test_the_command_lists_hosts() -> None:
    assert "no hosts" in run("list")
    for n in range(3):
        Host.objects.create(name=f"h{n}.example", pages=1000 * n, last_status=200)
    Host.objects.filter(name="h1.example").update(paused=True)
    assert [line.split()[0] for line in run("list").splitlines()] == [
        "host", "h2.example", "h1.example", "h0.example",
    ]  # fmt: skip
    assert "2,000" in run("list", "--begins", "h2")
    assert "h1.example" in run("list", "--paused")
    assert "h2.example" not in run("list", "--paused")
    assert "… and older ones" in run("list", "-n", "2")
    found = json.loads(run("list", "--json", "-n", "1"))
    assert [host["name"] for host in found["hosts"]] == ["h2.example"]


def test_the_command_gives_orders(published: Frontier) -> None:
    busy(published)
    text = run("set", NAME, "--delay", "250", "--until", "2h", "--note", "night")
    assert "delay 250 s" in text
    assert f"Undo: python manage.py host clear {NAME}" in text
    assert "by a command" in text
    assert "night" in text
    (host,) = Host.objects.all()
    assert host.order_until is not None
    assert timedelta(minutes=119) < host.order_until - timezone.now() <= timedelta(hours=2)
    assert "paused: until an operator resumes it" in run("pause", NAME)
    assert "waiting" in run("resume", NAME)
    assert json.loads(run("show", NAME, "--json"))["condition"] == "waiting"
    assert "tasks" in run("show", NAME)
    assert f"Undo: python manage.py host set {NAME} --delay=250.0" in run("clear", NAME)
    assert run("forget-robots", NAME).endswith("This cannot be undone.\n")
    assert Host.objects.get().ordered_at is None
    assert {row.detail["command"] for row in Action.objects.all()} == {True}


def test_the_command_refuses_what_makes_no_sense(service: Frontier) -> None:
    for arguments, words in (
        (["pause"], "required: name"),
        (["pause", NAME, "--delay", "1"], "unrecognized arguments: --delay"),
        (["set", NAME, "--until", "2h"], "give a delay"),
        (["set", NAME, "--delay", "1", "--until", "soon"], "'soon' is no time"),
        (["set", NAME, "--delay", "-1"], "delay is -1.0"),
        (["pause", "a/b"], "'a/b' is not a host"),
        (["show", "nothing.example"], "nothing is known"),
    ):
        with pytest.raises(CommandError, match=words):
            run(*arguments)
        assert not Action.objects.exists()


def test_the_command_changes_limits(published: Frontier) -> None:
    task = submit("shop", {"city": "Ulm"})
    text = run("set", str(task.pk), "--delay", "4", "--concurrency", "2", noun="task")
    assert "-> 4.0, concurrency" in text
    assert f"Undo: python manage.py task set {task.pk} --delay" in text
    run("set", str(task.pk), "--delay", "auto", noun="task")
    assert Task.objects.get().settings["adaptive"]
    with pytest.raises(CommandError, match="'x' is neither"):
        run("set", str(task.pk), "--delay", "x", noun="task")
