"""Export: every item, in order, in files that other programs read without harm."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from crawlservice.models import Page, Task
from crawlservice.tasks.results import export as exporting
from crawlservice.tasks.results.export import (
    CHUNK,
    ExportError,
    ParquetMissing,
    check_target,
    export,
    stream,
)

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
    assert export(task, tmp_path / "out.parquet") == len(items)
    assert read_parquet(tmp_path / "out.parquet") == ({"n": "int64"}, items)
    assert len([*stream(task, ".parquet")]) == 3  # two chunks, and the end


def read_parquet(path: Path) -> tuple[dict[str, str], list[Any]]:
    """Columns with their types, and the rows."""
    table = pq.read_table(path)
    return {field.name: str(field.type) for field in table.schema}, table.to_pylist()


def test_parquet_has_a_type_for_each_column(
    ended_task: Task, add_page: Callable[..., Page], tmp_path: Path
) -> None:
    task = Task.objects.create(spider="shop", seeds=b"")
    items: list[Any] = [
        {"title": "Häuser", "rooms": 3, "price": 5, "sold": True, "tags": ["a", {"b": 1}]},
        {"title": None, "rooms": None, "price": 0.5, "mixed": 1, "big": 2**63, "none": None},
        {"mixed": "=1+1", "nested": {"x": "ü"}},
    ]
    add_page(task, b"some", items=items)
    path = tmp_path / "out.parquet"
    assert export(task, path) == 3
    types, rows = read_parquet(path)
    assert types == {
        "title": "string", "rooms": "int64", "price": "double", "sold": "bool", "tags": "string",
        "mixed": "string", "big": "string", "none": "string", "nested": "string",
    }  # fmt: skip
    assert [row["title"] for row in rows] == ["Häuser", None, None]
    assert [row["price"] for row in rows] == [5.0, 0.5, None]
    assert [row["rooms"] for row in rows] == [3, None, None]
    assert json.loads(rows[0]["tags"]) == items[0]["tags"]
    assert [json.loads(row["mixed"]) for row in rows[1:]] == [1, "=1+1"]
    assert rows[2]["nested"] == '{"x": "ü"}'


def test_an_export_has_the_items_of_its_beginning(
    task: Task, add_page: Callable[..., Page]
) -> None:
    found = stream(task, ".csv")
    first = next(found)
    add_page(task, b"late", items=[{"late": 1}])
    text = (first + b"".join(found)).decode()
    assert len([*csv.reader(io.StringIO(text))]) == 4
    assert "late" not in text


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_task_without_items_gives_an_empty_file(
    ended_task: Task, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"out{suffix}"
    assert export(Task.objects.create(spider="shop", seeds=b""), path) == 0
    assert path.read_text().strip() == ""


def test_a_parquet_file_without_items_is_one(ended_task: Task, tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    assert export(Task.objects.create(spider="shop", seeds=b""), path) == 0
    assert read_parquet(path) == ({}, [])


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


@pytest.mark.parametrize("before", ["", " ", "\ufeff", "\u3000", "\u200b"])
def test_what_a_spreadsheet_would_run_is_made_harmless(before: str) -> None:
    for sign in "=+-@|%\t\r\n＝＋－＠｜％﹢﹣﹦﹫−\v\f\x85\u2028":
        if not (before and sign.isspace()):
            text = f"{before}{sign}1+cmd|' /C calc'!A0"
            assert exporting._harmless(text) == f"'{text}"


def test_what_is_harmless_stays() -> None:
    for text in ("-5", "+4.5e3", "1=2", "a@b", "x", "", " x", "½"):
        assert exporting._harmless(text) == text


def test_parquet_without_its_extra_is_refused_by_name(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as if it were not installed
    path = tmp_path / "out.parquet"
    for refused in (lambda: check_target(path), lambda: stream(task, ".parquet")):
        with pytest.raises(ParquetMissing, match=r"pip install 'crawlframe\[parquet\]'"):
            refused()
    assert export(task, tmp_path / "out.csv") == 3
