"""Export: every item, in order, in files that other programs read without harm."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crawlservice.export import CHUNK, ExportError, check_target, export
from crawlservice.models import Page, Task

ITEMS: list[Any] = [
    {"url": "http://a/", "price": -5, "title": 'Häuser\n„zwei“, "drei"'},
    {"url": "http://b/", "tags": ["x", "y"], "sold": True, "note": None},
    {"title": "=1+1", "share": 0.5, "=cmd": "@x", "plus": "+49 30", "minus": "-2.5"},
]


@pytest.fixture
def task(ended_task: Task, add_page: Callable[..., Page]) -> Task:
    other = Task.objects.create(spider="shop", seeds=b"")
    add_page(other, b"elsewhere", items=[{"other": "task"}])
    task = Task.objects.create(spider="shop", seeds=b"")
    add_page(task, b"one", items=ITEMS[:2])
    add_page(task, b"two", items=ITEMS[2:])
    return task


def test_json_lines_hold_every_item_as_it_is(task: Task, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    assert export(task, path) == 3
    lines = path.read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == ITEMS
    assert "Häuser" in lines[0]
    assert [*tmp_path.glob("*out*")] == [path]


def test_csv_has_all_columns_and_no_formulas(task: Task, tmp_path: Path) -> None:
    path = tmp_path / "out.CSV"
    assert export(task, path) == 3
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert set(rows[0]) == {
        "url", "price", "title", "tags", "sold", "note", "share", "'=cmd", "plus", "minus",
    }  # fmt: skip
    first, second, third = (dict(zip(rows[0], row, strict=True)) for row in rows[1:])
    assert (first["price"], first["title"], first["tags"]) == ("-5", ITEMS[0]["title"], "")
    assert (second["tags"], second["sold"], second["note"]) == ('["x", "y"]', "true", "")
    assert (third["title"], third["'=cmd"], third["plus"]) == ("'=1+1", "'@x", "'+49 30")
    assert (third["minus"], third["share"], third["url"]) == ("-2.5", "0.5", "")


def test_columns_stand_in_the_order_they_were_first_seen(
    ended_task: Task, add_page: Callable[..., Page], tmp_path: Path
) -> None:
    task = Task.objects.create(spider="shop", seeds=b"")
    add_page(task, b"x", items=[{"b": 1}, {"a": 2}, {"b": 3, "c": 4}])
    export(task, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().splitlines() == ["b,a,c", "1,,", ",2,", "3,,4"]


def test_more_items_than_one_chunk(
    ended_task: Task, add_page: Callable[..., Page], tmp_path: Path
) -> None:
    task = Task.objects.create(spider="shop", seeds=b"")
    items = [{"n": n} for n in range(CHUNK + 1)]
    add_page(task, b"many", items=items)
    assert export(task, tmp_path / "out.jsonl") == len(items)
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == items


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_task_without_items_gives_an_empty_file(
    ended_task: Task, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"out{suffix}"
    assert export(Task.objects.create(spider="shop", seeds=b""), path) == 0
    assert path.read_text().strip() == ""


def test_a_directory_that_takes_no_file_is_noticed_beforehand(tmp_path: Path) -> None:
    directory = tmp_path
    if os.geteuid() == 0:  # whom only the system itself refuses
        directory = Path("/proc")
    else:
        directory.chmod(0o500)
    with pytest.raises(ExportError, match=f"written to the directory {directory}"):
        check_target(directory / "out.csv")


@pytest.mark.parametrize("name", ["out.xlsx", "out", "nowhere/out.csv", "."])
def test_what_cannot_be_written_is_refused_beforehand(tmp_path: Path, name: str) -> None:
    with pytest.raises(ExportError, match=r"suffix|directory"):
        check_target(tmp_path / name)
