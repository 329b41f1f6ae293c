"""Parsing again from the terminal, the API and the admin: rights, refusals, results."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from crawlframe.spider.spider import describe
from crawlservice.models import Action, Item, KeptPage, Page, Task
from tests.crawlservice.programs import Program, person, program
from tests.crawlservice.reparsing import Crawling
from tests.crawlservice.test_reparse import (
    Mended,
    Richer,
    crawling,
    in_the_loop,
    mended,
)
from tests.crawlservice.web import login, login_as, rows, texts

__all__ = ("crawling", "in_the_loop")

URL = "http://shop.example/"


@pytest.fixture
def database(new_database: Any) -> str:
    """SQLite only: the functions that they call are tested on both."""
    made: str = new_database("sqlite")
    return made


@pytest.fixture
def first(crawling: Crawling) -> Task:
    """A task whose parser did not know two pages; the new one is published."""
    task = crawling.crawl()
    mended(crawling)
    crawling.frontier.spiders.publish([describe(Mended)])
    return task


def run(*arguments: object) -> str:
    out = StringIO()
    call_command(*map(str, arguments), stdout=out, stderr=out)
    return " ".join(out.getvalue().split())


def newest() -> Task:
    task = Task.objects.order_by("-pk").first()
    assert task is not None
    return task


def test_the_command_starts_a_task_and_says_what_differs(first: Task, crawling: Crawling) -> None:
    text = run("task", "reparse", first.pk, "--dry-run", "--background", "--reason", "callback")
    task = newest()
    assert f"task {task.pk} parses pages of task {first.pk} with reason callback, dry run" in text
    assert Action.objects.get(verb="reparse").detail == {
        "parses": {"task": first.pk, "reason": "callback", "dry_run": True}, "command": True,
    }  # fmt: skip
    crawling.run(task)
    text = run("task", "show", task.pk)
    assert "pages that differ 2" in text
    assert "repaired 2 pages in error would be done" in text
    assert "items would be added 2 removed 0 changed 0" in text
    assert "fields price 2 url 2" in text


def test_the_command_shows_examples(first: Task, crawling: Crawling) -> None:
    from crawlservice.cli.task.report import examples_of

    lines = [*examples_of(crawling.parse(first))]
    assert lines[:4] == [
        f"{URL}1: 0 items before, 1 after, it was an error",
        "  added 0",
        f'    url: "{URL}1"',
        "    price: 1",
    ]


def test_the_command_refuses_bad_input(first: Task) -> None:
    for words, problem in (
        (["99"], "there is no task 99"),
        (["9" * 30], "there is no task 999"),
        (["barns"], "there is no task of spider 'barns'"),
        (["houses", "--follow"], "follow needs a task"),
        (["1", "--follow", "--dry-run"], "a dry run follows nothing"),
        (["1", "--reason", "timeout"], "no kept page of task 1 is as asked for"),
        (["1", "--since", "then"], "'then' is no time"),
        (["1", "--priority", "1000"], "priority 1000"),
    ):
        with pytest.raises(CommandError) as raised:
            run("task", "reparse", *words, "--background")
        assert problem in str(raised.value)
        assert Task.objects.count() == 1


# -- the API --------------------------------------------------------------------------------------


@pytest.fixture
def api(first: Task) -> Program:
    return program(person("operator"))


def test_the_api_starts_a_task_and_tells_what_differs(
    api: Program, first: Task, crawling: Crawling
) -> None:
    made = api.post(f"tasks/{first.pk}/reparse", {"key": "url"})
    assert made.status_code == 201, made.content
    task = Task.objects.get(pk=made.json()["id"])
    assert task.reparse == {"task": first.pk, "key": "url", "last": KeptPage.objects.count()}
    crawling.run(task)
    told = api.get(f"tasks/{task.pk}/changes", limit=1).json()
    (page,) = told.pop("examples")
    following = told.pop("next")
    assert told == {
        "parses": {"task": first.pk, "key": "url"}, "pages": 2, "repaired": 2, "added": 2,
        "removed": 0, "changed": 0, "links": 0, "fields": {"price": 2, "url": 2}, "complete": True,
    }  # fmt: skip
    assert (page["url"], page["before"], page["after"], page["repaired"]) == (f"{URL}1", 0, 1, True)
    assert page["examples"] == [
        {
            "kind": "added",
            "key": f"{URL}1",
            "fields": {"url": [None, f"{URL}1"], "price": [None, 1]},
        }
    ]
    more = api.get(f"tasks/{task.pk}/changes", limit=1, after=following).json()
    assert (more["examples"][0]["url"], more["next"]) == (f"{URL}4", None)


def test_the_api_for_all_tasks_of_a_spider(api: Program, first: Task) -> None:
    made = api.post("spiders/houses/reparse", {"since": "2020-01-01T00:00:00", "dry_run": True})
    assert made.status_code == 201, made.content
    assert newest().reparse == {
        "spider": "houses", "since": 1577836800.0, "dry_run": True, "last": 7,
    }  # fmt: skip


def test_the_api_refuses_bad_input(api: Program) -> None:
    for path, body, status, code in (
        ("tasks/99/reparse", {}, 404, "unknown_task"),
        ("tasks/1/reparse", {"follow": True, "dry_run": True}, 422, "argument"),
        ("tasks/1/reparse", {"reason": "x" * 101}, 422, "invalid"),
        ("tasks/1/reparse", {"dry": True}, 422, "invalid"),
        ("spiders/houses/reparse", {"wait": True}, 422, "invalid"),
        ("spiders/barns/reparse", {}, 422, "argument"),
    ):
        answer = api.post(path, body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
        assert Task.objects.count() == 1


def test_a_task_that_fetches_has_no_changes(api: Program, first: Task) -> None:
    answer = api.get(f"tasks/{first.pk}/changes")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "not_a_reparse")


def test_who_may_not_control_a_task_may_make_a_dry_run(first: Task) -> None:
    other = program(person("submitter"))
    for path in (f"tasks/{first.pk}/reparse", "spiders/houses/reparse"):
        assert other.post(path, {}).status_code == 403
        assert other.post(path, {"dry_run": True}).status_code == 201
    assert program(person("viewer")).post(f"tasks/{first.pk}/reparse", {}).status_code == 403


# -- the admin ------------------------------------------------------------------------------------


def page_of(client: Client, task: Task, part: str = "change") -> str:
    answer = client.get(f"/admin/crawlservice/task/{task.pk}/{part}/")
    assert answer.status_code == 200
    return str(answer.content.decode())


def test_the_page_of_a_task_leads_to_the_form(first: Task, crawling: Crawling) -> None:
    client = login(is_superuser=True)
    assert texts(page_of(client, first), "#cf-reparse") == ["manage_search Parse again"]
    form = page_of(client, first, "reparse")
    assert "7 pages are kept." in form
    assert texts(form, "select[name=reason] option") == ["all", "callback", "http_404"]
    answer = client.post(
        f"/admin/crawlservice/task/{first.pk}/reparse/", {"reason": "callback", "key": "url"}
    )
    task = newest()
    assert answer["Location"] == f"/admin/crawlservice/task/{task.pk}/change/"
    assert task.user is not None
    crawling.run(task)
    shown = page_of(client, task)
    tiles = dict(zip(texts(shown, "#cf-changes dt"), texts(shown, "#cf-changes dd"), strict=True))
    assert tiles == {
        "Pages that differ": "2", "Errors repaired": "2", "Items added": "2",
        "Items removed": "0", "Items changed": "0", "New links": "0",
    }  # fmt: skip
    assert rows(shown, "#cf-changes tbody tr") == [["price", "2"], ["url", "2"]]
    assert rows(shown, "#cf-changed-pages tbody tr") == [
        [f"{URL}{n} repaired", "0 → 1", f"url: {URL}{n}price: {n}"] for n in (1, 4)
    ]
    assert texts(shown, "#cf-reparse") == []
    assert Item.objects.filter(task=first).count() == 6


def test_a_dry_run_says_what_would_differ(first: Task, crawling: Crawling) -> None:
    client = login(is_superuser=True)
    client.post(f"/admin/crawlservice/task/{first.pk}/reparse/", {"dry_run": "on"})
    shown = page_of(client, crawling.run(newest()))
    assert texts(shown, "#cf-changes h2") == ["Expected differences"]
    assert Item.objects.filter(task=first).count() == 4


def test_the_form_says_why_nothing_is_started(first: Task) -> None:
    client = login(is_superuser=True)
    answer = client.post(
        f"/admin/crawlservice/task/{first.pk}/reparse/", {"callback": "nobody", "dry_run": "on"}
    )
    assert answer.status_code == 302  # its pages are looked at when it runs
    KeptPage.objects.all().delete()
    answer = client.post(f"/admin/crawlservice/task/{first.pk}/reparse/", {"dry_run": "on"})
    assert "no page of task 1 is kept" in answer.content.decode()


def test_a_submitter_makes_dry_runs_of_the_tasks_of_others(first: Task) -> None:
    client, _ = login_as("submitter")
    client.post(f"/admin/crawlservice/task/{first.pk}/reparse/", {})
    assert (newest().reparse or {})["dry_run"] is True
    viewer = Client(SERVER_NAME="localhost")
    viewer.force_login(person("viewer", is_staff=True))
    assert viewer.get(f"/admin/crawlservice/task/{first.pk}/reparse/").status_code == 403


def test_the_page_of_a_request_shows_what_was_replaced(first: Task, crawling: Crawling) -> None:
    crawling.spider = Richer
    task = crawling.parse(first)
    client = login(is_superuser=True)
    page = Page.objects.get(task=first, url=f"{URL}2")
    answer = client.get(f"/admin/crawlservice/page/{page.pk}/change/").content.decode()
    ((_, by, version, data),) = rows(answer, "#cf-replaced tbody tr")
    assert (by, version) == (str(task.pk), "first")
    assert '"price": 2' in data
