"""The API: tasks are submitted, listed, shown and controlled."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from crawlframe.frontier import Frontier
from crawlservice.models import Action, Page, Submission, Task
from crawlservice.tasks import bulk_submit
from crawlservice.tasks.submit import cancel, submit
from tests.crawlservice.chores import at_once
from tests.crawlservice.conftest import redis_at
from tests.crawlservice.programs import FAR, Program, person, program

ULM = {"spider": "shop", "arguments": {"city": "Ulm"}}


@pytest.fixture
def api(published: Frontier) -> Program:
    return program(person("operator"))


def error(answer: Any, status: int, code: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.content
    assert answer["Content-Type"].startswith("application/json")
    body = answer.json()
    assert set(body) == {"error"}
    assert body["error"]["code"] == code
    told: dict[str, Any] = body["error"]
    return told


def test_one_task_is_submitted_and_shown(api: Program, published: Frontier) -> None:
    made = api.post("tasks", {**ULM, "priority": 5})
    assert made.status_code == 201
    told = made.json()
    task = Task.objects.get()
    assert (task.spider, task.arguments, task.priority) == ("shop", {"city": "Ulm"}, 5)
    assert (told["id"], told["state"], told["user"]) == (task.pk, "running", "operator")
    assert (told["live"], told["na"], told["nr"], told["ready"]) == (True, 1, 1, 1)
    assert published.open_tasks() == [task.pk]
    assert api.get(f"tasks/{task.pk}").json() == told
    action = Action.objects.get()
    assert (action.verb, action.task, action.address) == ("submit", task, FAR)
    assert action.user is not None
    assert action.token is not None


def test_many_are_submitted_in_order(api: Program, published: Frontier) -> None:
    made = api.post("tasks", [{**ULM, "arguments": {"city": str(n)}} for n in range(5)])
    assert made.status_code == 201
    told = made.json()["tasks"]
    assert [task["arguments"]["city"] for task in told] == ["0", "1", "2", "3", "4"]
    assert sorted(published.open_tasks()) == sorted(task["id"] for task in told)
    assert Action.objects.filter(verb="submit").count() == 5


def test_of_many_all_or_none_are_submitted(api: Program, published: Frontier) -> None:
    wrong = error(api.post("tasks", [ULM, {"spider": "shop"}, ULM]), 422, "argument")
    assert wrong["field"] == "1"
    assert "needs the argument 'city'" in wrong["message"]
    wrong = error(api.post("tasks", [ULM, {**ULM, "priority": 101}]), 422, "invalid")
    assert wrong["field"] == "1.priority"
    error(api.post("tasks", [ULM, {"spider": "shp"}]), 422, "unknown_spider")
    assert not Task.objects.exists()
    assert not Action.objects.exists()
    assert not list(published.open_tasks())


def test_a_wrong_submission_is_refused(api: Program) -> None:
    for body, code, field in (
        ({}, "invalid", "spider"),
        ({"spider": 7}, "invalid", "spider"),
        ({**ULM, "priority": "5"}, "invalid", "priority"),
        ({**ULM, "priority": True}, "invalid", "priority"),
        ({**ULM, "priority": 1.0}, "invalid", "priority"),
        ({**ULM, "colour": "red"}, "invalid", "colour"),
        ({**ULM, "arguments": []}, "invalid", "arguments"),
        ({**ULM, "arguments": {"city": 7}}, "argument", None),
        ({**ULM, "arguments": {"city": "Ulm", "pages": "2"}}, "argument", None),
        ({**ULM, "arguments": {"city": "a\0b"}}, "argument", None),
        ({**ULM, "arguments": {"city": "Ulm", "colour": "red"}}, "argument", None),
        ({"spider": "shp", "arguments": {}}, "unknown_spider", None),
        ([], "invalid", "body"),
        ([ULM] * 1001, "invalid", "body"),
        ("null", "invalid", None),
        ('"shop"', "invalid", None),
    ):
        told = error(api.post("tasks", body), 422, code)
        assert field is None or told["field"] == field
        assert not Task.objects.exists()


def test_a_body_that_is_no_json_or_too_large_is_refused(api: Program) -> None:
    error(api.post("tasks", "{"), 400, "bad_json")
    error(api.post("tasks", b"\xff\xfe"), 400, "bad_json")
    error(api.post("tasks", "[" * 100_000), 400, "bad_json")
    error(api.post("tasks", "9" * 5000), 400, "bad_json")
    error(api.post("tasks", {**ULM, "arguments": {"city": "x" * (1 << 20)}}), 413, "too_large")
    for depth in (100, 400, 900, 2000, 20_000):
        deep = '{"spider": "shop", "arguments": {"city": %s}}' % ("[" * depth + "]" * depth)
        assert api.post("tasks", deep, **keyed("deep")).status_code in (400, 422)
    assert not Task.objects.exists()


FORM = "multipart/form-data; boundary=x"  # without a boundary it cannot be read at all


def test_a_body_must_be_declared_as_json(api: Program) -> None:
    text = json.dumps(ULM)
    for kind in ("text/plain", "application/x-www-form-urlencoded", FORM, ""):
        for path in ("tasks", "new_task", "/new_task"):
            error(api.post(path, text, **{"content-type": kind}), 415, "content_type")
    assert not Task.objects.exists()
    declared = {"content-type": "application/json; charset=utf-8"}
    assert api.post("tasks", text, **declared).status_code == 201
    task = Task.objects.get().pk
    assert api.post(f"tasks/{task}/pause", **{"content-type": "text/plain"}).status_code == 200


def test_long_arguments_are_refused_and_cut_in_lists(api: Program) -> None:
    told = error(api.post("tasks", {**ULM, "arguments": {"city": "x" * 70_000}}), 422, "argument")
    assert "at most 65,536" in told["message"]
    assert len(told["message"]) < 500
    made = api.post("tasks", {**ULM, "arguments": {"city": "ü" * 30_000, "pages": 3}}).json()
    assert made["arguments"]["city"] == "ü" * 30_000
    (listed,) = api.get("tasks").json()["tasks"]
    assert listed["arguments"] == {"city": "ü" * 199 + "…", "pages": 3}
    assert api.get(f"tasks/{made['id']}").json()["arguments"] == made["arguments"]
    assert Action.objects.latest("pk").detail["arguments"] == listed["arguments"]


def test_the_address_of_the_older_system(api: Program) -> None:
    for path in ("/new_task", "new_task"):
        for body in (
            {"spider": "shop", "city": "Ulm", "priority": 3},
            {"spider": "shop", "args": {"city": "Ulm"}, "priority": 3},
        ):
            made = api.post(path, body)
            assert made.status_code == 201, made.content
            task = Task.objects.get(pk=made.json()["id"])
            assert (task.arguments, task.priority) == ({"city": "Ulm"}, 3)
    error(api.post("/new_task", {"spider": "shop", "args": {}, "city": "Ulm"}), 422, "invalid")
    error(api.post("/new_task", {"spider": "shop", "town": "Ulm"}), 422, "argument")
    error(Program().post("/new_task", {"spider": "shop", "city": "Ulm"}), 401, "unauthorized")


# -- once, though sent twice -----------------------------------------------------------------------


def keyed(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key}


def test_the_same_key_and_body_answer_the_same_tasks(api: Program) -> None:
    first = api.post("tasks", [ULM, ULM], **keyed("k1"))
    again = api.post("tasks", [ULM, ULM], **keyed("k1"))
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert Task.objects.count() == 2
    told = error(api.post("tasks", [ULM], **keyed("k1")), 409, "key_reused")
    assert told["field"] == "Idempotency-Key"
    assert api.post("tasks", [ULM, ULM], **keyed("k2")).status_code == 201
    other = program(person("submitter"))
    assert other.post("tasks", [ULM, ULM], **keyed("k1")).status_code == 201
    assert Task.objects.count() == 6


def test_a_key_is_forgotten_after_a_day(api: Program) -> None:
    assert api.post("tasks", ULM, **keyed("k")).status_code == 201
    Submission.objects.update(created_at=timezone.now() - bulk_submit.KEY_AGE)
    assert api.post("tasks", {**ULM, "priority": 1}, **keyed("k")).status_code == 201
    assert Task.objects.count() == 2
    assert Submission.objects.count() == 1


def test_a_key_of_a_refused_submission_is_free(api: Program) -> None:
    error(api.post("tasks", {"spider": "shop"}, **keyed("k")), 422, "argument")
    assert api.post("tasks", ULM, **keyed("k")).status_code == 201


def test_a_key_that_is_none_is_refused(api: Program) -> None:
    for key in ("", "a b", "ä", "x" * 201):
        error(api.post("tasks", ULM, **keyed(key)), 422, "invalid")


def test_two_at_the_same_time_with_one_key_are_one(
    api: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither has found the key when it continues."""
    both = threading.Barrier(2, timeout=60)
    look = bulk_submit._published

    def meet(*arguments: Any) -> Any:
        both.wait()
        return look(*arguments)

    monkeypatch.setattr(bulk_submit, "_published", meet)
    answers = at_once(*[lambda: api.post("tasks", ULM, **keyed("k"))] * 2)
    assert sorted(answer.status_code for answer in answers) == [200, 201]
    assert answers[0].json()["id"] == answers[1].json()["id"]
    assert Task.objects.count() == 1
    assert Action.objects.filter(verb="submit").count() == 1


# -- lists -----------------------------------------------------------------------------------------


def test_tasks_are_listed_page_by_page(api: Program) -> None:
    tasks = [submit("shop", {"city": "Ulm"}) for _ in range(5)]
    cancel(tasks[1].pk)
    numbers = [task.pk for task in reversed(tasks)]

    def pages(**query: Any) -> list[list[int]]:
        found: list[list[int]] = []
        after: dict[str, int] = {}
        while True:
            told = api.get("tasks", **query, **after).json()
            found.append([task["id"] for task in told["tasks"]])
            if told["next"] is None:
                return found
            after = {"after": told["next"]}

    assert pages() == [numbers]
    assert pages(limit=2) == [numbers[:2], numbers[2:4], numbers[4:]]
    assert pages(limit=5) == [numbers]
    assert pages(state="cancelling") == [[tasks[1].pk]]
    assert pages(spider="shop", limit=4) == [numbers[:4], numbers[4:]]
    assert pages(spider="shp") == [[]]


def test_a_wrong_query_is_refused(api: Program) -> None:
    for query, field in (
        ({"limit": 0}, "limit"),
        ({"limit": 1001}, "limit"),
        ({"limit": "x"}, "limit"),
        ({"after": -1}, "after"),
        ({"after": 2**63}, "after"),
        ({"state": "walking"}, "state"),
        ({"outcome": "good"}, "outcome"),
        ({"spider": ""}, "spider"),
        ({"spider": "a\0"}, "spider"),
        ({"page": 2}, "page"),
        ({"spider": ["shop", "site"]}, "spider"),
    ):
        assert error(api.get("tasks", **query), 422, "invalid")["field"] == field


def test_a_task_that_is_not_there(api: Program) -> None:
    for path in ("tasks/7", "tasks/7/items", "tasks/7/pages", "tasks/7/export"):
        error(api.get(path), 404, "unknown_task")
    for verb in ("pause", "resume", "cancel"):
        error(api.post(f"tasks/7/{verb}"), 404, "unknown_task")
    for number in (0, -1, 2**63, "x"):
        error(api.get(f"tasks/{number}"), 422, "invalid")


def test_an_unknown_address_is_an_error_in_the_same_form(api: Program) -> None:
    for path in ("nothing", "tasks/1/nothing", "tasks/", "", "/api/v2/tasks"):
        error(api.get(path), 404, "not_found")
    told = api.post("nodes", {})
    error(told, 405, "method")
    assert told["Allow"] == "GET"


# -- steering --------------------------------------------------------------------------------------


def test_a_task_is_paused_resumed_and_cancelled(api: Program) -> None:
    task = submit("shop", {"city": "Ulm"})
    for verb, state in (
        ("pause", "paused"),
        ("pause", "paused"),
        ("resume", "running"),
        ("cancel", "cancelling"),
    ):
        told = api.post(f"tasks/{task.pk}/{verb}")
        assert told.status_code == 200, told.content
        assert told.json()["state"] == Task.objects.get().state == state
    told = error(api.post(f"tasks/{task.pk}/pause"), 409, "wrong_state")
    assert "is cancelling and cannot be paused" in told["message"]
    verbs = Action.objects.order_by("pk").values_list("verb", "task_id")
    assert [*verbs] == [(verb, task.pk) for verb in ("pause", "pause", "resume", "cancel")]


def test_a_task_tells_how_it_ended(api: Program, ended_task: Task) -> None:
    running = submit("shop", {"city": "Bonn"})
    told = api.get(f"tasks/{ended_task.pk}").json()
    assert (told["state"], told["outcome"]) == ("finished", "finished_with_errors")
    assert told["reason"] == ended_task.reason
    assert (told["expected"], told["expected_basis"]) == (3, "admitted")
    told = api.get(f"tasks/{running.pk}").json()
    assert (told["outcome"], told["reason"]) == (None, "")
    assert (told["expected"], told["expected_basis"]) == (None, None)
    like = api.post("tasks", ULM).json()
    assert (like["expected"], like["expected_basis"]) == (3, "last_run")
    found = api.get("tasks", outcome="finished_with_errors").json()["tasks"]
    assert [task["id"] for task in found] == [ended_task.pk]
    assert api.get("tasks", outcome="failed").json()["tasks"] == []


def test_ended_tasks_keep_their_state(api: Program, ended_task: Task) -> None:
    for verb in ("pause", "resume", "cancel"):
        error(api.post(f"tasks/{ended_task.pk}/{verb}"), 409, "wrong_state")


# -- servers that are away -------------------------------------------------------------------------


def test_while_redis_is_away_tasks_are_read_and_steered(api: Program) -> None:
    task = submit("shop", {"city": "Ulm"})
    with redis_at("redis://127.0.0.1:1/0"):
        assert api.get(f"tasks/{task.pk}").json()["live"] is False
        told = error(api.post("tasks", ULM), 503, "redis_away")
        assert "127.0.0.1" not in told["message"]
        error(api.get("nodes"), 503, "redis_away")
        paused = api.post(f"tasks/{task.pk}/pause")
        assert (paused.status_code, paused.json()["state"]) == (202, "paused")


def test_what_redis_did_not_take_is_submitted_all_the_same(
    api: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = bulk_submit._published

    def then_away(*arguments: Any) -> Any:
        found = known(*arguments)
        away.__enter__()
        return found

    away = redis_at("redis://127.0.0.1:1/0")
    monkeypatch.setattr(bulk_submit, "_published", then_away)
    made = api.post("tasks", [ULM, ULM], **keyed("k"))
    away.__exit__(None, None, None)
    monkeypatch.undo()
    assert made.status_code == 201, made.content
    assert [task["live"] for task in made.json()["tasks"]] == [False, False]
    again = api.post("tasks", [ULM, ULM], **keyed("k"))
    assert [task["id"] for task in again.json()["tasks"]] == [
        task["id"] for task in made.json()["tasks"]
    ]
    assert Task.objects.count() == 2


def test_a_defect_is_reported_without_its_details(
    api: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: Any) -> Any:
        raise KeyError("secret")

    monkeypatch.setattr("crawlservice.api.tasks.tasks.read", broken)
    told = error(api.get("tasks"), 500, "internal")
    assert "secret" not in told["message"]


def test_every_answer_has_the_id_of_its_request(api: Program) -> None:
    given = api.get("tasks")
    assert len(given["X-Request-Id"]) == 32
    assert api.get("tasks")["X-Request-Id"] != given["X-Request-Id"]
    client = api._client
    named = client.get("/api/v1/tasks", headers={"X-Request-Id": "mine-1"})
    assert named["X-Request-Id"] == "mine-1"
    odd = client.get("/api/v1/nothing", headers={"X-Request-Id": "a b\r\nX: y"})
    assert len(odd["X-Request-Id"]) == 32


def test_pages_of_a_list_cost_the_same_however_many(
    api: Program, add_page: Callable[..., Page]
) -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    def cost(path: str) -> int:
        assert api.get(path).status_code == 200
        with CaptureQueriesContext(connection) as queries:
            api.get(path)
        return len(queries)

    task = submit("shop", {"city": "Ulm"})
    add_page(task, b"0", items=[{"n": 0}])
    paths = ("tasks", f"tasks/{task.pk}/items", f"tasks/{task.pk}/pages")
    before = [cost(path) for path in paths]
    for n in range(1, 6):
        submit("shop", {"city": "Ulm"}, user=person("viewer", f"v{n}"))
        add_page(task, f"{n}".encode(), items=[{"n": n}])
    assert [cost(path) for path in paths] == before


def test_too_many_requests_are_refused_with_a_time_to_retry(
    api: Program, settings_with: Callable[..., None]
) -> None:
    settings_with(API_RATE=3)
    for _ in range(7):  # a minute may end in between
        answer = api.get("tasks")
        if answer.status_code == 429:
            break
    error(answer, 429, "too_many_requests")
    assert 1 <= int(answer["Retry-After"]) <= 60
    assert program(person("viewer"), "read").get("tasks").status_code == 200
    error(Program("cf_wrong").get("tasks"), 401, "unauthorized")
    with redis_at("redis://127.0.0.1:1/0"):
        assert api.get("tasks").status_code == 200
