"""The API: items, pages, files, spiders, nodes, schedules and eras are read."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from crawlframe.frontier import Frontier
from crawlservice.models import Action, Era, Item, Page, Run, Schedule, Task
from crawlservice.tasks.results.export import CHUNK
from tests.crawlservice.programs import Program, person, program
from tests.crawlservice.test_api_tasks import error

both = pytest.mark.databases("sqlite", "postgres")


@pytest.fixture
def api(published: Frontier) -> Program:
    return program(person("viewer"), "read")


def walk(api: Program, path: str, name: str, **query: Any) -> list[Any]:
    """All rows of a list, page by page."""
    rows: list[Any] = []
    after: dict[str, int] = {}
    while True:
        told = api.get(path, **query, **after).json()
        assert set(told) == {name, "next"}
        rows += told[name]
        if told["next"] is None:
            return rows
        assert told[name], "a page that is not the last one is not empty"
        after = {"after": told["next"]}


@both
def test_items_are_paged_in_the_order_they_were_stored(
    api: Program, ended_task: Task, add_page: Callable[..., Page]
) -> None:
    other = Task.objects.create(spider="shop", seeds=b"")
    add_page(other, b"elsewhere", items=[{"n": 99}])
    odd = {"title": "<script>", "=cmd": None, "list": [1, {"a": "ä"}]}
    add_page(ended_task, b"c", items=[odd, {"n": 3}, {"n": 4}], version="1f00c0ffee00")
    path = f"tasks/{ended_task.pk}/items"
    rows = walk(api, path, "items", limit=2)
    assert rows == walk(api, path, "items", limit=5) == walk(api, path, "items")
    assert [row["data"] for row in rows] == [{"n": 1}, {"n": 2}, odd, {"n": 3}, {"n": 4}]
    assert [row["ordinal"] for row in rows] == [0, 1, 0, 1, 2]
    first = Item.objects.filter(task=ended_task).order_by("pk")[0]
    assert rows[0] == {
        "id": first.pk,
        "rid": str(first.rid),
        "ordinal": 0,
        "data": {"n": 1},
        "version": "",
        "created_at": rows[0]["created_at"],
    }
    assert datetime.fromisoformat(rows[0]["created_at"]).tzinfo is not None


@both
def test_pages_tell_the_ledger(api: Program, ended_task: Task) -> None:
    path = f"tasks/{ended_task.pk}/pages"
    rows = walk(api, path, "pages", limit=1)
    assert [row["url"].rpartition("/")[2] for row in rows] == ["start:", "a", "b"]
    assert rows[2]["state"] == "error"
    assert (rows[2]["reason"], rows[2]["detail"]) == ("http_404", "answered 404")
    assert {"follow_ups", "request"}.isdisjoint(rows[0])
    assert walk(api, path, "pages", state="error") == [rows[2]]
    assert walk(api, path, "pages", state="done", limit=1) == rows[:2]
    item = walk(api, f"tasks/{ended_task.pk}/items", "items")[0]
    assert walk(api, path, "pages", rid=item["rid"]) == [rows[1]]
    assert walk(api, path, "pages", rid=str(UUID(int=7))) == []
    error(api.get(path, rid="x"), 422, "invalid")
    error(api.get(path, state="walking"), 422, "invalid")


@both
def test_items_are_exported_while_they_are_read(
    api: Program,
    ended_task: Task,
    add_page: Callable[..., Page],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    items: list[Any] = [{"n": n, "title": "=1+1"} for n in range(CHUNK + 1)]
    task = Task.objects.create(spider="shop", seeds=b"")
    add_page(task, b"many", items=items)

    lines = api.get(f"tasks/{task.pk}/export")
    assert lines.streaming
    assert lines["Content-Type"] == "application/jsonl"
    assert lines["Content-Disposition"] == f'attachment; filename="shop-{task.pk}.jsonl"'
    pieces = [*lines.streaming_content]
    assert len(pieces) == 2
    assert [json.loads(line) for line in b"".join(pieces).splitlines()] == items

    table = api.get(f"tasks/{task.pk}/export", format="csv")
    assert table["Content-Type"].startswith("text/csv")
    rows = [*csv.reader(io.StringIO(table.getvalue().decode()))]
    assert rows[:2] == [["n", "title"], ["0", "'=1+1"]]
    assert len(rows) == 1 + len(items)

    error(api.get(f"tasks/{task.pk}/export", format="xlsx"), 422, "invalid")
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as if it were not installed
    error(api.get(f"tasks/{task.pk}/export", format="parquet"), 422, "refused")
    assert [*Action.objects.values_list("verb", "task_id")] == [("export", task.pk)] * 2


def test_spiders_are_listed_with_the_schemas_of_their_arguments(api: Program) -> None:
    (shop,) = api.get("spiders").json()["spiders"]
    assert shop == api.get("spiders/shop").json()
    assert shop["arguments"]["required"] == ["city"]
    assert shop["arguments"]["properties"]["pages"] == {"type": "integer", "default": 1}
    assert shop["settings"]["delay"] == 1.5
    assert "never run here" in shop["doc"]
    error(api.get("spiders/shp"), 404, "unknown_spider")


def test_nodes_are_listed(api: Program, join: Callable[..., int]) -> None:
    alpha = join("alpha", version="1f00c0ffee00", workers=3, state="live", changed_at=1.7e9)
    join("beta", lease=-5)
    nodes = {node["node"]: node for node in api.get("nodes").json()["nodes"]}
    assert set(nodes) == {"alpha", "beta"}
    assert nodes["alpha"]["generation"] == alpha
    assert (nodes["alpha"]["workers"], nodes["alpha"]["state"]) == (3, "live")
    assert datetime.fromisoformat(nodes["alpha"]["since"]).timestamp() == 1.7e9
    assert nodes["beta"]["state"] == "offline"
    assert datetime.fromisoformat(nodes["beta"]["since"]) < datetime.now(UTC)


def test_schedules_are_listed_with_their_runs(api: Program, ended_task: Task) -> None:
    due = datetime(2026, 1, 31, 6, tzinfo=UTC)
    night = Schedule.objects.create(name="night", spider="shop", cron="0 6 * * *", next_at=due)
    Schedule.objects.create(name="often", spider="shop", every=60, enabled=False)
    Run.objects.create(schedule=night, due_at=due, outcome="submitted", task=ended_task)
    rows = walk(api, "schedules", "schedules", limit=1)
    assert [row["name"] for row in rows] == ["night", "often"]
    assert rows[0]["next_at"] == "2026-01-31T06:00:00Z"
    shown = api.get(f"schedules/{night.pk}").json()
    assert shown.pop("runs") == [
        {
            "due_at": "2026-01-31T06:00:00Z",
            "outcome": "submitted",
            "task": ended_task.pk,
            "task_outcome": "finished_with_errors",
            "problem": "",
        }
    ]
    assert shown == rows[0]
    error(api.get("schedules/999"), 404, "unknown_schedule")


def test_eras_are_listed_the_latest_first(api: Program) -> None:
    for number in (1, 2, 3):
        Era.objects.create(number=number, reason=f"reason {number}")
    rows = walk(api, "eras", "eras", limit=2)
    assert [row["number"] for row in rows] == [3, 2, 1]
    assert rows[0]["reason"] == "reason 3"
    assert rows[0]["opened_at"] is None
