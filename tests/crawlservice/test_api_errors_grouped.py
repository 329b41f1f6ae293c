"""The bad morning through the API: spiders, grouped errors, their retry, and one request."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from crawlframe.frontier import Frontier
from crawlframe.request.request import make_rid
from crawlframe.run.outcome import Outcome, Verdict
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Action, ErrorGroup, Page, Task
from crawlservice.tasks import bulk_retry
from crawlservice.tasks.submit import submit
from tests.crawlservice.programs import Program, person, program
from tests.crawlservice.test_api_tasks import error

EXCHANGE = {"method": "GET", "url": "http://a.example/", "sent": [["Accept", "*/*"]]}


@pytest.fixture
def caller(published: Frontier) -> Program:
    return program(person("operator"))


def failed(reason: str = "timeout", version: str = "1f00", ended: bool = True) -> Task:
    task = submit("shop", {"city": "Ulm"})
    outcome = Outcome(
        make_rid(task.pk, b"a"), task.pk, "h", b"record", 0, 0, url="http://a.example/"
    )
    outcome.version, outcome.fetch.exchange = version, EXCHANGE
    outcome.end(Verdict.ERROR, reason, "what happened")
    DjangoLedger().commit([outcome])
    if ended:
        state = {"state": Task.State.FINISHED, "outcome": Task.Outcome.FAILED}
        Task.objects.filter(pk=task.pk).update(**state, finished_at=timezone.now(), na=1, ne=1)
    return task


def test_errors_are_grouped(caller: Program) -> None:
    failed()
    last = failed(version="2f00")
    failed("http_404")
    told = caller.get("errors").json()
    assert [(group["reason"], group["errors"]) for group in told["groups"]] == [
        ("http_404", 1),
        ("timeout", 2),
    ]
    (timeouts,) = caller.get("errors", reason="timeout", spider="shop").json()["groups"]
    page = Page.objects.get(task=last)
    assert timeouts["example"] == {
        "task": last.pk,
        "rid": str(page.rid),
        "url": "http://a.example/",
        "detail": "what happened",
    }
    assert (timeouts["first_version"], timeouts["last_version"]) == ("1f00", "2f00")
    shown = caller.get(f"errors/{timeouts['id']}").json()
    assert shown == {**timeouts, "versions": {"2f00": 1, "1f00": 1}}
    soon = (timezone.now() + timedelta(hours=1)).isoformat()
    assert caller.get("errors", since=soon).json()["groups"] == []
    assert caller.get("errors", limit=1).json()["more"] is True
    error(caller.get("errors/17"), 404, "unknown_group")
    error(caller.get("errors", since="2026-01-31T12:00"), 422, "invalid")  # without a time zone
    error(caller.get("errors", since=datetime(9999, 1, 1, tzinfo=UTC).isoformat()), 422, "invalid")


def test_they_are_counted_and_retried(caller: Program, published: Frontier) -> None:
    failed("http_404")
    tasks = [failed(), failed()]
    failed(ended=False)
    group = ErrorGroup.objects.get(reason="timeout").pk
    wanted = {"spider": "shop", "group": group}
    counted = caller.get("retries/count", **wanted).json()
    assert counted == {"errors": 2, "tasks": 2, "active": 1, "active_errors": 1}
    told = caller.post("retries", wanted)
    assert told.status_code == 201
    made = told.json()
    assert (made["state"], made["tasks"], made["errors"], made["user"]) == (
        *("running", 2, 2, "operator"),
    )
    for task in tasks:  # the fixture's were never crawled
        for keys in published.store.keys:
            published.store.redis.delete(keys("TASK", task.pk))
    while bulk_retry.step(made["id"]):
        pass
    done = caller.get(f"retries/{made['id']}").json()
    assert (done["state"], done["tasks_done"], done["errors_retried"]) == ("done", 2, 2)
    assert caller.get("retries").json() == {"retries": [done], "next": None}
    error(caller.post(f"retries/{made['id']}/stop"), 409, "wrong_state")
    error(caller.get("retries/99"), 404, "unknown_retry")
    error(caller.post("retries", wanted), 409, "wrong_state")
    error(caller.post("retries", {"spider": "shop", "group": 1, "rids": []}), 422, "invalid")
    error(caller.post("retries", {"reason": "timeout"}), 422, "invalid")
    first = Action.objects.order_by("pk").first()
    assert first is not None
    assert (first.verb, first.name, first.detail["errors"]) == ("retry errors", "operator", 2)


def test_one_request_has_its_headers(caller: Program, published: Frontier) -> None:
    task = failed()
    page = Page.objects.get()
    shown = caller.get(f"tasks/{task.pk}/pages/{page.rid}").json()
    assert (shown["exchange"], shown["spider"], shown["task"]) == (EXCHANGE, "shop", task.pk)
    assert shown["error_group"] == page.error_group
    (listed,) = caller.get(f"tasks/{task.pk}/pages").json()["pages"]
    assert listed.items() < shown.items()
    other = failed("http_404")
    error(caller.get(f"tasks/{other.pk}/pages/{page.rid}"), 404, "unknown_page")
    error(caller.get(f"tasks/99/pages/{page.rid}"), 404, "unknown_task")


def test_spiders_have_their_last_run_and_are_disabled(caller: Program) -> None:
    assert caller.get("spiders/shop").json()["last"] is None
    task = failed()
    Task.objects.create(spider="gone", seeds=b"")
    told = {spider["name"]: spider for spider in caller.get("spiders").json()["spiders"]}
    assert (told["shop"]["published"], told["gone"]["published"]) == (True, False)
    last = told["shop"]["last"]
    assert (last["task"], last["outcome"], last["errors"]) == (task.pk, "failed", 1)
    assert told["gone"]["arguments"] == {}
    off = caller.post("spiders/gone/disable", {"reason": "the site is gone"}).json()
    assert off["disabled"]["reason"] == "the site is gone"
    assert off["disabled"]["user"] == "operator"
    assert caller.get("spiders/gone").json() == off
    assert caller.post("spiders/gone/enable").json()["disabled"] is None
    error(caller.post("spiders/unknown/disable", {"reason": "no"}), 404, "unknown_spider")
    error(caller.post("spiders/gone/disable", {"reason": " "}), 422, "argument")
    error(caller.post("spiders/gone/disable", {}), 422, "invalid")
    assert [*Action.objects.order_by("pk").values_list("verb", flat=True)] == [
        "disable spider",
        "enable spider",
    ]
