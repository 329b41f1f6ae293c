"""Settings of single tasks: from the command line, the form, the API and schedules to the task."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from crawlframe.errors import ArgumentError
from crawlframe.frontier import Frontier
from crawlframe.identity.tls import Tls
from crawlframe.spider.settings import SpiderSettings
from crawlframe.spider.spider import SpiderInfo
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Action, Schedule, Task
from crawlservice.scheduling.schedules import run_now
from crawlservice.tasks.overrides import as_pairs, detail, parse_settings
from crawlservice.tasks.progress import outcomes
from crawlservice.tasks.stored_limits import limits_as_written, limits_of, stored_limits
from crawlservice.tasks.submit import submit
from tests.crawlservice.forms import filled_in
from tests.crawlservice.programs import person, program
from tests.crawlservice.web import log_in_as, texts

ULM = {"city": "Ulm"}
FORM = "/admin/submit/?spider=shop"


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("delay=2", 2), ("delay=0.5", 0.5), ("delay=auto", "auto"), ("robots=no", False),
        ("handle_statuses=404,410", [404, 410]), ("purpose=null", None),
        ("purpose=search", "search"), ("user_agent=me/1", "me/1"), ("failed_share=0.1", 0.1),
    ],
)  # fmt: skip
def test_they_are_read_from_text(typed: str, value: Any) -> None:
    name = typed.partition("=")[0]
    given = parse_settings([typed])
    assert given == {name: value}
    assert parse_settings(as_pairs(given)) == given


def test_parts_of_tables_are_read_from_text() -> None:
    given = parse_settings(["reuse=60", "reuse.conditional=yes", "near_duplicates.within=books"])
    reuse = {"max_age": 60, "conditional": True}
    assert given == {"reuse": reuse, "near_duplicates": {"within": "books"}}
    assert parse_settings(as_pairs(given)) == given


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["delay"], "'delay' is not a setting; give name=value, such as delay=2"),
        (["delay=1", "delay=2"], "setting 'delay' is given twice"),
        (["delay=soon"], "setting 'delay': 'soon' is not accepted; give a number or one of auto"),
        (["DOWNLOAD_DELAY=1"], "DOWNLOAD_DELAY is Scrapy's name; write 'delay'"),
        (["headers={}"], "headers are set in the code of the spider"),
    ],
)
def test_what_cannot_be_read_is_refused(typed: list[str], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        parse_settings(typed)


def test_a_task_has_them_in_the_frontier_and_in_the_workers(published: Frontier) -> None:
    given = {"delay": 4, "robots": False, "page_limit": 7, "failed_share": 0.25, "retries": 0}
    task = submit("shop", ULM, settings=given)
    task = Task.objects.get(pk=task.pk)
    limits = limits_of(task)
    assert (limits.delay, limits.robots, limits.page_limit) == (4000, False, 8)
    assert limits.concurrency == 3  # the spider's own
    assert task.settings["failed_share"] == 0.25
    assert task.overrides == given
    spec = DjangoLedger().tasks.spec(task.pk)
    assert spec is not None
    assert spec.settings == given


def test_runs_with_other_settings_are_not_compared(published: Frontier) -> None:
    plain, limited = submit("shop", ULM), submit("shop", ULM, settings={"page_limit": 7})
    assert plain.arguments_hash != limited.arguments_hash
    assert plain.arguments_hash == outcomes.arguments_hash("shop", plain.arguments)
    assert limited.arguments_hash == submit("shop", ULM, settings={"page_limit": 7}).arguments_hash


def test_a_wrong_one_submits_nothing(published: Frontier) -> None:
    with pytest.raises(ArgumentError, match="delay must not be negative"):
        submit("shop", ULM, settings={"delay": -1})
    with pytest.raises(ArgumentError, match="text that cannot be stored"):
        submit("shop", ULM, settings={"downloader": "\0"})
    assert not Task.objects.exists()


def test_the_api_takes_and_shows_settings(published: Frontier) -> None:
    api = program(person("operator"))
    body = {"spider": "shop", "arguments": ULM, "settings": {"delay": 4, "robots": False}}
    made = api.post("tasks", body)
    assert made.status_code == 201
    assert made.json()["settings"] == body["settings"]
    assert made.json()["limits"]["delay"] == 4
    assert made.json()["robots"] is False
    assert Action.objects.get().detail["settings"] == body["settings"]
    wrong = api.post("tasks", {**body, "settings": {"delay": "4"}})
    assert wrong.status_code == 422
    assert "delay must be a number or auto" in wrong.json()["error"]["message"]


def test_a_key_repeats_the_same_settings_only(published: Frontier) -> None:
    api = program(person("operator"))
    body: dict[str, Any] = {"spider": "shop", "arguments": ULM}
    key = {"Idempotency-Key": "k"}
    assert api.post("tasks", body, **key).status_code == 201
    assert api.post("tasks", {**body, "settings": {}}, **key).status_code == 200
    assert api.post("tasks", {**body, "settings": {"delay": 9}}, **key).status_code == 409


def test_only_operators_make_a_task_rougher_to_hosts(published: Frontier) -> None:
    submitter, operator = program(person("submitter")), program(person("operator"))
    settings: list[tuple[dict[str, Any], str]] = [
        (
            {"robots": False},
            "setting 'robots' must stay true, as its spider has it; only operators",
        ),
        ({"user_agent": "Mozilla/5.0"}, "setting 'user_agent' must stay unset"),
        ({"delay": 1}, "setting 'delay' must be at least 1.5"),
        ({"delay": "auto"}, "setting 'min_delay' must be at least 1.5"),
        ({"concurrency": 9}, "setting 'concurrency' must be at most 3"),
        ({"retry_statuses": [404]}, "setting 'retry_statuses' must have nothing but 408, 429, 500"),
        ({"handle_statuses": [429]}, "setting 'handle_statuses' must not have 403, 429, 503"),
        ({"max_body": 10**12}, "setting 'max_body' must be at most 33554432"),
        ({"timeout": 86_400}, "setting 'timeout' must be at most 30"),
    ]
    for setting, words in settings:
        body = {"spider": "shop", "arguments": ULM, "settings": setting}
        for refused in (submitter.post("tasks", body), submitter.post("tasks", [body])):
            assert refused.status_code == 422
            assert words in refused.content.decode()
        assert operator.post("tasks", body).status_code == 201
    gentle = {"delay": 9, "concurrency": 1, "ip": {"delay": 2}}
    body = {"spider": "shop", "arguments": ULM, "settings": gentle}
    assert submitter.post("tasks", body).status_code == 201


def sent(client: Client, place: str = FORM, **changes: str) -> str:
    form = filled_in(client.get(place).content.decode()) | {"city": "Ulm"}
    data = {
        name if name == "priority" or name.startswith("setting-") else f"argument-{name}": value
        for name, value in form.items()
        if name != "csrfmiddlewaretoken"
    }
    data |= {f"setting-{name}": text for name, text in changes.items()}
    return str(client.post(place, data, follow=True).content.decode())


def test_the_form_takes_shows_and_clones_them(published: Frontier) -> None:
    client = log_in_as("operator")
    empty = client.get(FORM).content.decode()
    assert "the spider: 1.5" in empty
    assert '<details class="cf-fold cf-before">' in empty
    sent(client, delay="4", robots="false", handle_statuses="404")
    task = Task.objects.get()
    assert task.overrides == {"delay": 4, "robots": False, "handle_statuses": [404]}
    settings = client.get(f"/admin/crawlservice/task/{task.pk}/settings/").content.decode()
    assert "delay4task" in texts(settings, "tr")
    assert Action.objects.exclude(verb="login").get().detail["settings"] == task.overrides
    clone = client.get(f"{FORM}&clone={task.pk}").content.decode()
    values = filled_in(clone)
    assert (values["setting-delay"], values["setting-robots"]) == ("4", "false")
    assert '<details class="cf-fold cf-before" open>' in clone


def test_the_form_says_which_setting_is_wrong(published: Frontier) -> None:
    client = log_in_as("submitter")
    assert "setting-robots" not in filled_in(client.get(FORM).content.decode())
    assert "the spider: 1.5; must be at least 1.5" in client.get(FORM).content.decode()
    page = sent(client, delay="soon", retries="-1")
    assert "give a number or one of auto" in page
    assert "retries must be a whole number, at least 0" in sent(client, retries="-1")
    assert "only operators may go beyond that" in sent(client, concurrency="99")
    assert not Task.objects.exists()
    sent(client, robots="false")  # a field that this user does not have
    assert Task.objects.get().overrides == {}


def test_a_schedule_gives_them_to_its_tasks(published: Frontier, shop: SpiderInfo) -> None:
    client = log_in_as("operator")
    place = "/admin/crawlservice/schedule/add/?spider=shop"
    form = filled_in(client.get(place).content.decode())
    data = {f"argument-{n}" if n in ("city", "pages") else n: v for n, v in form.items()}
    buttons = ("_addanother", "_continue", "crawlservice_schedule_save_and_run", "_save")
    data = {n: v for n, v in data.items() if n not in buttons and "save_and_run" not in n}
    data |= {"name": "daily", "every": "3600", "argument-city": "Ulm", "setting-delay": "4"}
    page = client.post(place, data, follow=True).content.decode()
    made = Schedule.objects.get()
    assert made.overrides == {"delay": 4}, page
    run = run_now(made)
    assert run.task is not None
    assert run.task.overrides == {"delay": 4}
    change = client.get(f"/admin/crawlservice/schedule/{made.pk}/change/").content.decode()
    assert filled_in(change)["setting-delay"] == "4"
    shown = program(person("viewer")).get(f"schedules/{made.pk}").json()
    assert shown["settings"] == {"delay": 4}


def test_hosts_that_are_not_verified_are_shown_and_journaled(published: Frontier) -> None:
    settings = SpiderSettings(tls={"old.example": Tls(verify=False), "own.example": Tls(ca="a")})
    task = Task.objects.create(spider="shop", settings=stored_limits(settings))
    assert limits_as_written(task)["unverified"] == ["old.example"]
    assert detail(task) == {"unverified": ["old.example"]}
    usual = Task.objects.create(spider="shop", settings=stored_limits(SpiderSettings()))
    assert detail(usual) == {}
