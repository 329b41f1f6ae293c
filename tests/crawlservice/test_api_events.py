"""Events: each once and in order, in whatever order transactions end; as a stream that ends."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from crawlframe.frontier import Frontier
from crawlservice.api import events
from crawlservice.models import Event, Task
from crawlservice.webhooks import deliveries
from tests.conftest import CHECKOUT
from tests.crawlservice.beside import another_transaction
from tests.crawlservice.chores import until
from tests.crawlservice.programs import Program, person, program
from tests.crawlservice.test_api_tasks import error


@pytest.fixture
def task(service: Frontier) -> Task:
    return Task.objects.create(spider="shop", seeds=b"")


@pytest.fixture
def api(service: Frontier) -> Program:
    return program(person("viewer"), "read")


def happen(task: Task, kind: str = "finished") -> int:
    return Event.objects.create(task=task, kind=kind).pk


def numbers(last: int) -> list[int]:
    return [event.pk for event in deliveries.after(last)]


def test_events_come_in_order(task: Task) -> None:
    made = [happen(task) for _ in range(3)]
    assert numbers(0) == made
    assert numbers(made[0]) == made[1:]
    assert numbers(made[2]) == []
    assert deliveries.newest() == made[2]


def test_an_event_is_not_passed_by_one_that_was_committed_before_it(task: Task) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    first = happen(task)
    with another_transaction(lambda: happen(task, "cancelled")) as slow:
        fast = happen(task)
        assert fast == slow + 1
        assert numbers(first) == []
    assert numbers(first) == [slow, fast]


def test_a_number_that_never_comes_is_waited_for_a_while_only(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, gone, last = (happen(task) for _ in range(3))
    Event.objects.filter(pk=gone).delete()
    monkeypatch.setattr(deliveries, "GAP_TIMEOUT", timedelta(hours=1))
    assert numbers(first) == []
    monkeypatch.setattr(deliveries, "GAP_TIMEOUT", timedelta(seconds=0.5))
    until(lambda: numbers(first) == [last])
    monkeypatch.undo()
    Event.objects.update(created_at=timezone.now() - timedelta(minutes=1))
    assert numbers(0) == [first, last]


def read(api: Program, **query: Any) -> list[dict[str, str]]:
    """Reads a stream to its end: its messages, as fields."""
    answer = api.get("events", **query)
    assert answer.status_code == 200, answer.content
    assert answer["Content-Type"] == "text/event-stream"
    text = b"".join(answer.streaming_content).decode()
    answer.close()
    assert text.endswith("\n\n")
    return [
        dict(line.split(": ", 1) for line in message.splitlines() if not line.startswith(":"))
        for message in text.removesuffix("\n\n").split("\n\n")
    ]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes streams end soon."""
    monkeypatch.setattr(events, "STREAM_SECONDS", 0.3)
    monkeypatch.setattr(events, "POLL", 0.05)


@pytest.mark.usefixtures("short")
def test_a_stream_tells_what_happened_after_an_event(api: Program, task: Task) -> None:
    first, second = happen(task), happen(task, "cancelled")
    told = read(api, after=first)
    assert [message["id"] for message in told] == [str(second)]
    assert told[0]["event"] == "cancelled"
    assert f'"task": {task.pk}, "spider": "shop", "kind": "cancelled"' in told[0]["data"]
    # Without a number it starts with the next event, and reports the current number.
    assert read(api) == [{"id": str(second)}]
    assert len(read(api, after=0)) == 2


@pytest.mark.usefixtures("short")
def test_the_documented_message_has_the_fields_of_a_real_one(api: Program, task: Task) -> None:
    happen(task)
    (told,) = read(api, after=0)
    text = (CHECKOUT / "docs" / "api.md").read_text()
    (example,) = re.findall(r"^event: finished\ndata: (.+)$", text, re.MULTILINE)
    assert json.loads(example).keys() == json.loads(told["data"]).keys()


@pytest.mark.usefixtures("short")
def test_a_reader_that_comes_again_counts_more(api: Program, task: Task) -> None:
    first, second = happen(task), happen(task)
    client = api._client
    again = client.get("/api/v1/events?after=0", headers={"Last-Event-ID": str(first)})
    text = b"".join(again.streaming_content).decode()  # type: ignore[attr-defined]
    assert f"id: {second}\nevent" in text
    assert f"id: {first}\n" not in text
    error(client.get("/api/v1/events", headers={"Last-Event-ID": "x"}), 422, "invalid")


@pytest.mark.usefixtures("short")
def test_a_stream_tells_what_was_asked_for(api: Program, task: Task) -> None:
    other = Task.objects.create(spider="site", seeds=b"")
    mine, gone, theirs = happen(task), happen(task, "cancelled"), happen(other)

    def told(**query: Any) -> list[int]:
        return [int(message["id"]) for message in read(api, after=0, **query) if "data" in message]

    assert told() == [mine, gone, theirs]
    assert told(task=task.pk) == [mine, gone]
    assert told(spider="site") == [theirs]
    assert told(kind="finished") == [mine, theirs]
    assert told(kind="finished", task=task.pk) == [mine]
    Event.objects.filter(pk=theirs).update(outcome="failed")
    assert told(outcome="failed") == [theirs]
    error(api.get("events", sort="id"), 422, "invalid")


@pytest.mark.usefixtures("short")
def test_there_are_not_more_streams_than_threads_to_spare(
    api: Program, task: Task, settings_with: Callable[..., None]
) -> None:
    settings_with(API_STREAMS=2)
    opened = [api.get("events") for _ in range(2)]
    full = api.get("events")
    error(full, 503, "too_many_streams")
    assert full["Retry-After"]
    opened[0].close()  # its reader left before anything was read
    read(api)
    b"".join(opened[1].streaming_content)
    opened[1].close()
    assert not events._open
