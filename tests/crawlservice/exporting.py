"""Shared parts of tests of exports: rows as nodes commit them, and an exporter in steps."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from crawlframe.conf import Settings
from crawlframe.request.request import make_rid
from crawlframe.run.outcome import Outcome
from crawlservice.exports import changes
from crawlservice.exports.definition import Definition
from crawlservice.exports.exporter import Exporter
from crawlservice.ledger.rows import insert
from crawlservice.models import Export, Item, Task


def made_task(spider: str = "shop") -> Task:
    return Task.objects.create(spider=spider, seeds=b"")


def commit(task: Task, name: str, items: Sequence[dict[str, Any]]) -> None:
    """A page with items, as a worker commits it."""
    rid = make_rid(task.pk, name.encode())
    outcome = Outcome(rid, task.pk, "h", b"record", 1, 1, url=f"http://h/{name}")
    outcome.results.items = [orjson.dumps(item) for item in items]
    insert([outcome])


def fill(task: Task, pages: int, each: int = 3, start: int = 0) -> None:
    """Pages with items, each with a number of its own as ``n``."""
    for page in range(start, start + pages):
        commit(task, f"p{page}", [{"n": page * each + k, "s": f"é{k}"} for k in range(each)])


def add(target: dict[str, Any], begin: str = "beginning", **fields: Any) -> Export:
    definition = Definition.model_validate({"name": "houses", **fields, "target": target})
    return changes.add(definition, begin)[0]


def drive(export: Export, steps: int = 50, node: Settings | None = None) -> Export:
    """Steps until there is nothing more to do at once."""
    exporter = Exporter(export.pk, node or Settings())
    try:
        for _ in range(steps):
            if exporter.step() != 0:
                break
    finally:
        exporter.close()
    return Export.objects.get(pk=export.pk)


def records(directory: Path) -> list[dict[str, Any]]:
    """The records of all files, in the order of their names."""
    found: list[dict[str, Any]] = []
    for path in sorted(directory.iterdir()):
        assert not path.name.startswith("."), "a half file was left"
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
        if ".csv" in path.name:
            found += csv.DictReader(text.splitlines())
        else:
            found += [json.loads(line) for line in text.splitlines()]
    return found


def stored() -> list[int]:
    """The ``n`` of all items in commit order."""
    return [data["n"] for data in Item.objects.order_by("pk").values_list("data", flat=True)]
