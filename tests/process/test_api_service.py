"""The API of a whole service: events are streamed by a real web server, and a script that uses only
the API does a whole day's work."""

from __future__ import annotations

import csv
import io
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from io import StringIO
from typing import Any

import pytest
import requests
from django.core.management import call_command

from crawlservice.models import Event, Task
from examples.demo_site import DemoServer
from tests.conftest import Running
from tests.crawlservice.programs import person
from tests.process.conftest import LONGEST_WAIT

pytestmark = pytest.mark.process

TIMEOUT = 60  # seconds of silence


class Script:
    """A user's script: it has an address, a token and HTTP."""

    def __init__(self, url: str, secret: str) -> None:
        self.url = f"{url}api/v1/"
        self.session = requests.Session()
        self.session.headers["Authorization"] = f"Bearer {secret}"

    def get(self, path: str, **query: Any) -> Any:
        answer = self.session.get(self.url + path, params=query, timeout=TIMEOUT)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None, **headers: str) -> requests.Response:
        return self.session.post(self.url + path, json=body, headers=headers, timeout=TIMEOUT)

    def rows(self, path: str, name: str, **query: Any) -> Iterator[Any]:
        """All rows of a list, page by page."""
        after = None
        while True:
            page = self.get(path, **query, **({} if after is None else {"after": after}))
            yield from page[name]
            after = page["next"]
            if after is None:
                return

    def events(self, after: int | None = None, **query: Any) -> requests.Response:
        headers = {} if after is None else {"Last-Event-ID": str(after)}
        answer = self.session.get(
            f"{self.url}events", params=query, headers=headers, stream=True, timeout=TIMEOUT
        )
        assert answer.status_code == 200, answer.text
        return answer


def messages(stream: requests.Response) -> Iterator[dict[str, str]]:
    """Messages of a stream of events, to its end."""
    fields: dict[str, str] = {}
    for line in stream.iter_lines(chunk_size=1, decode_unicode=True):
        if not line:
            yield fields
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value


@pytest.fixture
def up(
    start_manage: Callable[..., Running],
    orm: str,
) -> tuple[Running, Script]:
    """A running service, and a script with a token of an operator."""
    running = start_manage("up", "--bind", "127.0.0.1:0", "--workers", "1", "--no-reload")
    running.wait_for("Ctrl-C stops everything.")
    found = re.search(r"http://\S+/", running.output)
    assert found
    person("operator", "script")
    made = StringIO()
    call_command("token", "add", "script", "--name", "test", "--scope", "submit", stdout=made)
    return running, Script(found[0], made.getvalue().strip())


def test_events_are_streamed_as_they_happen(up: tuple[Running, Script]) -> None:
    running, script = up
    task = Task.objects.create(spider="shop", seeds=b"", state="finished")
    first = Event.objects.create(task=task, kind="cancelled")
    with closing(script.events()) as stream:
        assert stream.headers["Content-Type"] == "text/event-stream"
        told = messages(stream)
        assert next(told) == {"id": str(first.pk)}
        second = Event.objects.create(task=task, kind="finished")
        message = next(told)
        assert (message["id"], message["event"]) == (str(second.pk), "finished")
        assert json.loads(message["data"])["task"] == task.pk

    # The reader was disconnected meanwhile, and asks for one kind.
    third = Event.objects.create(task=task, kind="cancelled")
    fourth = Event.objects.create(task=task, kind="finished")
    with closing(script.events(after=second.pk, kind="finished")) as stream:
        assert next(messages(stream))["id"] == str(fourth.pk)
        assert third.pk < fourth.pk

    # Readers see a regular end when the service ends; they are not cut off.
    with closing(script.events()) as stream:
        told = messages(stream)
        next(told)
        running.process.terminate()
        assert list(told) == []
    assert running.process.wait(LONGEST_WAIT) == 0


@pytest.mark.databases("postgres")
def test_a_script_does_a_whole_days_work(up: tuple[Running, Script]) -> None:
    _, script = up
    deadline = time.monotonic() + LONGEST_WAIT
    while not any(spider["name"] == "listings" for spider in script.get("spiders")["spiders"]):
        assert time.monotonic() < deadline, "no node published its spiders"
        time.sleep(0.2)
    schema = script.get("spiders/listings")["arguments"]
    assert schema["properties"]["city"]["type"] == "string"

    with DemoServer(listings=100, error_rate=0.02) as demo:
        stream = script.events()  # before there is something to miss
        wanted = [{"spider": "listings", "arguments": {"site": demo.url}}] * 2
        made = script.post("tasks", wanted, **{"Idempotency-Key": "today"})
        assert made.status_code == 201, made.text
        again = script.post("tasks", wanted, **{"Idempotency-Key": "today"})
        assert again.status_code == 200
        tasks = [task["id"] for task in made.json()["tasks"]]
        assert tasks == [task["id"] for task in again.json()["tasks"]]

        ended: dict[int, str] = {}
        last = None
        deadline = time.monotonic() + LONGEST_WAIT
        while set(ended) != set(tasks):
            for message in messages(stream):
                last = int(message["id"])
                if "data" in message:
                    told = json.loads(message["data"])
                    ended[told["task"]] = told["kind"]
                if set(ended) == set(tasks) or time.monotonic() > deadline:
                    break
            assert time.monotonic() < deadline, ended
            stream.close()
            stream = script.events(after=last)
        stream.close()
        assert set(ended.values()) == {"finished"}
        items = list(demo.site.expected_items())

    for number in tasks:
        task = script.get(f"tasks/{number}")
        assert (task["state"], task["nr"], task["ne"]) == ("finished", 0, 0)
        found = [row["data"] for row in script.rows(f"tasks/{number}/items", "items", limit=30)]
        assert sorted(found, key=lambda item: item["id"]) == items
        assert task["items"] == len(items)
        done = script.rows(f"tasks/{number}/pages", "pages", state="done", limit=20)
        assert len(list(done)) == task["nf"] == task["na"]

        export = f"{script.url}tasks/{number}/export"
        with script.session.get(export, stream=True, timeout=TIMEOUT) as lines:
            assert [json.loads(line) for line in lines.iter_lines()] == found
        table = script.session.get(export, params={"format": "csv"}, timeout=TIMEOUT).content
        assert len(list(csv.DictReader(io.StringIO(table.decode())))) == len(items)

    assert {task["id"] for task in script.rows("tasks", "tasks", state="finished")} == set(tasks)
    (node,) = script.get("nodes")["nodes"]
    assert node["state"] == "live"
    assert script.post(f"tasks/{tasks[0]}/pause").status_code == 409
