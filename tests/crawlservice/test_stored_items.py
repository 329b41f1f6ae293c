"""Items as they come back from both databases: fields in their order, integers exact."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from django.core.management import call_command

from crawlframe.items.encode import encode_item
from crawlframe.run.outcome import Outcome
from crawlservice.exports.source import parts
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Export, Item, Task
from crawlservice.tasks.results.export import check_installed, export
from crawlservice.tasks.results.item_table import latest

pytestmark = [pytest.mark.usefixtures("orm"), pytest.mark.databases("sqlite", "postgres")]

BIG = 12345678901234567890123
ITEMS: list[dict[str, Any]] = [
    {"title": "x", "id": BIG, "price": 1.5, "a": {"zz": -BIG, "b": [{"y": 1, "x": BIG}]}},
    {"id": -BIG, "title": "y", "ids": [2**64, 2**64 + 1], "c": None},
]


@pytest.fixture
def task() -> Task:
    task = Task.objects.create(spider="s", seeds=b"")
    page = Outcome(b"p" * 16, task.pk, "h", b"record", 1, 2, url="http://h/p")
    page.results.items = [encode_item(item) for item in ITEMS]
    DjangoLedger().commit([page])
    return task


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, also in the order of keys, and in types."""
    return json.dumps(one) == json.dumps(other)


def test_items_come_back_as_they_were(task: Task, tmp_path: Path) -> None:
    rows = Item.objects.order_by("pk")
    assert same([row.data for row in rows], ITEMS)
    assert same([row.data for row in latest(task.pk).rows], ITEMS[::-1])
    export(task, tmp_path / "x.jsonl")
    assert same([*map(json.loads, (tmp_path / "x.jsonl").read_text().splitlines())], ITEMS)
    export(task, tmp_path / "x.csv")
    with (tmp_path / "x.csv").open(newline="") as file:
        head, first, second = csv.reader(file)
    assert head == ["title", "id", "price", "a", "ids", "c"]
    assert first[:4] == ["x", str(BIG), "1.5", json.dumps(ITEMS[0]["a"])]
    assert second[4] == "[18446744073709551616, 18446744073709551617]"
    wanted = Export(name="e", what=Export.What.ITEMS)
    found = [row.record for part in parts(wanted, 0, rows[1].pk) for row in part.rows]
    own = [{k: v for k, v in row.items() if k[:1] != "_"} for row in found]
    assert same(own, ITEMS)
    call_command(
        "task",
        "export",
        str(task.pk),
        "-o",
        str(tmp_path / "y.csv"),
        "--fields",
        "id, none,title",
    )
    assert (tmp_path / "y.csv").read_text().splitlines() == [
        "id,none,title", f"{BIG},,x", f"{-BIG},,y"
    ]  # fmt: skip


def test_integers_are_exact_in_parquet(task: Task, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    check_installed()
    export(task, tmp_path / "x.parquet")
    table = pq.read_table(tmp_path / "x.parquet").to_pylist()
    assert [orjson.loads(f"[{row['id']}]") is not None and int(row["id"]) for row in table] == [
        BIG, -BIG
    ]  # fmt: skip
