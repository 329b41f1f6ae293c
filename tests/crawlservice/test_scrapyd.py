"""The API of scrapyd: the same tasks and rights as in ours, in the words of its clients."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from crawlframe.frontier import Frontier
from crawlservice.accounts import tokens
from crawlservice.models import Action, Label, LogLine, Page, Task
from crawlservice.tasks.submit import pause, submit
from tests.crawlservice.conftest import redis_at
from tests.crawlservice.programs import person

PROJECT = "tests"  # the package of the spider "shop"


def browser() -> Client:
    return Client(SERVER_NAME="localhost", enforce_csrf_checks=True)


class Caller:
    """A client of scrapyd with a user's name and token."""

    def __init__(self, user: User, scope: str = "operate") -> None:
        _, secret = tokens.make(user, "a program", scope)
        self.client, self.login = browser(), basic(user.get_username(), secret)

    def get(self, path: str, **query: str) -> Any:
        return self.client.get(f"/{path}", query, headers={"Authorization": self.login})

    def post(self, path: str, **form: Any) -> Any:
        return self.client.post(f"/{path}", form, headers={"Authorization": self.login})

    def ok(self, answer: Any) -> dict[str, Any]:
        assert answer.status_code == 200
        told: dict[str, Any] = answer.json()
        assert told.pop("status") == "ok", told
        assert told.pop("node_name")
        return told

    def schedule(self, **form: Any) -> str:
        form = {"project": PROJECT, "spider": "shop", "city": "Ulm"} | form
        return str(self.ok(self.post("schedule.json", **form))["jobid"])


def basic(name: str, secret: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()


def refused(answer: Any, status: int = 200) -> str:
    assert answer.status_code == status, answer.content
    told = answer.json()
    assert told["status"] == "error"
    return str(told["message"])


@pytest.fixture
def caller(published: Frontier) -> Caller:
    return Caller(person("operator"))


def test_a_job_from_schedule_to_its_end(
    caller: Caller, published: Frontier, add_page: Callable[..., Page]
) -> None:
    assert caller.ok(caller.get("listprojects.json")) == {"projects": [PROJECT]}
    assert caller.ok(caller.get("listspiders.json", project=PROJECT)) == {"spiders": ["shop"]}
    job = caller.schedule(
        pages="2",
        priority="1.0",
        setting=["DOWNLOAD_DELAY=2.5", "ROBOTSTXT_OBEY=True", "page_limit=7"],
    )
    task = Task.objects.get()
    assert (task.spider, task.priority) == ("shop", 1)
    assert task.arguments == {"city": "Ulm", "pages": 2}  # text, read as the spider declares it
    assert task.overrides == {"delay": 2.5, "robots": True, "page_limit": 7}
    assert task.user is not None
    assert published.open_tasks() == [task.pk]
    assert Label.objects.get().value == job
    assert [one.verb for one in Action.objects.all()] == ["submit"]

    listed = caller.ok(caller.get("listjobs.json", project=PROJECT))
    (running,) = listed["running"]
    assert (running["id"], running["spider"], running["project"]) == (job, "shop", PROJECT)
    assert caller.ok(caller.get("status.json", job=job)) == {"currstate": "running"}
    assert caller.ok(caller.get("daemonstatus.json")) == {
        "pending": 0, "running": 1, "finished": 0,
    }  # fmt: skip
    pause(task.pk)
    assert caller.ok(caller.get("status.json", job=job)) == {"currstate": "pending"}
    assert caller.ok(caller.post("cancel.json", project=PROJECT, job=job)) == {
        "prevstate": "pending"
    }
    assert Task.objects.get().state in (Task.State.CANCELLING, Task.State.CANCELLED)
    Task.objects.update(state="cancelled", outcome="cancelled", finished_at=task.created_at)
    (ended,) = caller.ok(caller.get("listjobs.json"))["finished"]
    assert ended["end_time"].startswith(str(task.created_at.year))
    again = caller.post("cancel.json", project=PROJECT, job=job)
    assert caller.ok(again) == {"prevstate": None}

    add_page(task, b"1", items=[{"name": "tea"}])
    LogLine.objects.create(task=task, at=task.created_at, level=20, logger="shop", text="<b>hi")
    assert b'"name":"tea"' in b"".join(caller.get(ended["items_url"][1:])).replace(b": ", b":")
    assert b"<b>hi" in b"".join(caller.get(ended["log_url"][1:]))
    other = ended["log_url"][1:].replace("shop", "other")
    assert "there is no job" in refused(caller.get(other), 404)


def test_a_job_sent_twice_is_submitted_once(caller: Caller) -> None:
    assert caller.schedule(jobid="2026-11-30T19_00_00") == "2026-11-30T19_00_00"
    caller.schedule(jobid="2026-11-30T19_00_00")
    assert Task.objects.count() == 1
    other = {"project": PROJECT, "spider": "shop", "city": "Bonn", "jobid": "2026-11-30T19_00_00"}
    assert "already used" in refused(caller.post("schedule.json", **other))
    caller.schedule()
    caller.schedule()
    assert Task.objects.count() == 3


def test_jobs_of_other_origin_have_their_number(caller: Caller) -> None:
    task = submit("shop", {"city": "Ulm"})
    (running,) = caller.ok(caller.get("listjobs.json"))["running"]
    assert running["id"] == str(task.pk)
    told = caller.ok(caller.post("cancel.json", project=PROJECT, job=str(task.pk), signal="TERM"))
    assert told == {"prevstate": "running"}
    for unknown in ("77", "9" * 30, "²", "none"):
        gone = caller.post("cancel.json", project=PROJECT, job=unknown)
        assert caller.ok(gone) == {"prevstate": None}
        assert caller.ok(caller.get("status.json", job=unknown)) == {"currstate": None}


def test_a_wrong_request_is_refused_by_name(caller: Caller) -> None:
    shop = {"project": PROJECT, "spider": "shop", "city": "Ulm"}
    for form, words in (
        ({"spider": "shop"}, "'project' parameter is required"),
        ({"project": PROJECT}, "'spider' parameter is required"),
        (shop | {"project": "other"}, "there is no project 'other'"),
        (shop | {"spider": "shp"}, "has no spider 'shp'"),
        (shop | {"pages": "two"}, "pages"),
        (shop | {"colour": "red"}, "colour"),
        (shop | {"city": ["Ulm", "Bonn"]}, "'city' is given more than once"),
        (shop | {"priority": "high"}, "priority 'high'"),
        (shop | {"priority": "inf"}, "priority 'inf'"),
        (shop | {"priority": "101"}, "priority 101"),
        (shop | {"setting": "DOWNLOAD_DELAY"}, "is not a setting"),
        (shop | {"setting": "LOG_FILE=x"}, "LOG_FILE"),
        (shop | {"setting": ["DOWNLOAD_DELAY=1", "delay=2"]}, "given twice"),
        (shop | {"_version": "1.0"}, "version '1.0' does not run"),
        (shop | {"jobid": "x" * 101}, "jobid"),
    ):
        assert words in refused(caller.post("schedule.json", **form)), form
    assert "'job' parameter is required" in refused(caller.post("cancel.json", project=PROJECT))
    killed = caller.post("cancel.json", project=PROJECT, job="1", signal="KILL")
    assert "signal 'KILL'" in refused(killed)
    assert "no parameter 'colour'" in refused(caller.get("listjobs.json", colour="red"))
    for verb in ("addversion", "delversion", "delproject"):
        assert "push the commit" in refused(caller.post(f"{verb}.json", project=PROJECT))
    assert caller.get("schedule.json").status_code == 405
    assert not Task.objects.exists()


def test_rights_are_those_of_the_user_and_of_the_token(published: Frontier) -> None:
    task = submit("shop", {"city": "Ulm"})
    viewer, reader = Caller(person("viewer")), Caller(person("operator", "reader"), "read")
    submitter = Caller(person("submitter"))
    shop = {"project": PROJECT, "spider": "shop", "city": "Ulm"}
    assert "may not do this" in refused(viewer.post("schedule.json", **shop), 403)
    assert "scope submit" in refused(reader.post("schedule.json", **shop), 403)
    assert reader.ok(reader.get("listjobs.json"))["running"]
    assert submitter.schedule()
    cancelled = submitter.post("cancel.json", project=PROJECT, job=str(task.pk))
    assert "you may not cancel" in refused(cancelled, 403)
    assert Task.objects.get(pk=task.pk).state == "running"


def test_a_login_is_a_name_and_a_token_of_this_user(published: Frontier) -> None:
    one, other = person("operator"), person("viewer")
    _, secret = tokens.make(one, "a program", "operate")
    client = browser()
    for login in (
        *("", "Basic", "Basic !", "Basic /w==", f"Bearer {secret}"),
        *(basic(other.get_username(), secret), basic("", secret)),
        *(basic(one.get_username(), wrong) for wrong in ("", "secret", secret[:-1])),
    ):
        answer = client.get("/daemonstatus.json", headers={"Authorization": login} if login else {})
        assert "log in" in refused(answer, 401), login
        assert answer["WWW-Authenticate"].startswith("Basic ")
    known = {"Authorization": basic(one.get_username(), secret)}
    assert client.get("/daemonstatus.json", headers=known).json()["status"] == "ok"
    # A form of another site, in a browser that remembers the credentials.
    form = {"project": PROJECT, "spider": "shop", "city": "Ulm"}
    origin = known | {"Origin": "https://other.example"}
    refused(client.post("/schedule.json", form, headers=origin), 403)
    assert not Task.objects.exists()


def test_the_page_of_jobs(caller: Caller) -> None:
    job = caller.schedule(jobid="<b>&")
    text = caller.get("jobs").content.decode()
    assert "<h1>Jobs</h1>" in text
    assert "<td>&lt;b&gt;&amp;</td>" in text
    assert job not in text


def test_without_redis_it_says_so(caller: Caller) -> None:
    with redis_at("redis://127.0.0.1:9/0"):
        assert "Redis" in refused(caller.get("listprojects.json"))
        form = {"project": PROJECT, "spider": "shop", "city": "Ulm"}
        told = refused(caller.post("schedule.json", **form))
        assert "127.0.0.1" not in told
    assert not Task.objects.exists()
