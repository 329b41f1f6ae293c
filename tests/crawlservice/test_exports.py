"""Continuous exports: every committed row once and in order, wherever a process dies."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from crawlframe.base import faults
from crawlframe.conf import Settings
from crawlservice.exports import changes, exporter, source
from crawlservice.exports.exporter import Exporter
from crawlservice.models import Export, Item, Label, Page, Task
from crawlservice.outbox.outbox import JITTER
from tests.crawlservice.exporting import add, commit, drive, fill, made_task, records, stored

pytestmark = pytest.mark.usefixtures("orm", "place")
both = pytest.mark.databases("sqlite", "postgres")

POINTS = [point for point in faults.POINTS if point.startswith("export.")]


@pytest.fixture
def place(tmp_path: Path, settings_with: Callable[..., None]) -> Path:
    """The directory of exports."""
    settings_with(EXPORT_DIR=tmp_path / "exports")
    return tmp_path / "exports" / "out"


def files(**more: Any) -> dict[str, Any]:
    return {"kind": "files", "url": "out", "max_minutes": 0, **more}


class Killed(BaseException):
    """A crash that a process does not survive."""


def kill_at(monkeypatch: pytest.MonkeyPatch, point: str, nth: int = 1) -> None:
    """The next exporter dies there."""
    left = [nth]

    def at(name: str, *rest: Any) -> None:
        if name == point:
            left[0] -= 1
            if left[0] == 0:
                raise Killed

    monkeypatch.setattr(faults, "at", at)


@both
def test_items_are_written_in_commit_order_with_their_keys(place: Path) -> None:
    task = made_task()
    fill(task, 4)
    row = drive(add(files()))
    found = records(place)
    assert [one["n"] for one in found] == stored()
    item = Item.objects.earliest("pk")
    first = found[0]
    assert first["_key"] == f"{item.rid.hex}-{item.ordinal}"
    assert (first["_item"], first["_task"], first["_spider"]) == (item.pk, task.pk, "shop")
    assert (first["_request"], first["_position"]) == (item.rid.hex, item.ordinal)
    assert (row.rows, row.batches, row.problem, row.planned) == (12, 1, "", None)
    last = Item.objects.latest("pk").pk
    assert row.position == last
    assert [path.name for path in place.iterdir()] == [
        f"houses.{row.pk}.1.{1:012d}-{last:012d}.jsonl"
    ]
    assert drive(row).batches == 1
    fill(task, 1, start=9)
    assert drive(row).rows == 15
    assert [one["n"] for one in records(place)] == stored()


@both
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("nth", [1, 3])
def test_wherever_it_dies_nothing_is_lost_double_or_half(
    place: Path, monkeypatch: pytest.MonkeyPatch, point: str, nth: int
) -> None:
    fill(made_task(), 5)
    export = add(files(max_rows=4))
    with monkeypatch.context() as patch:
        kill_at(patch, point, nth)
        with pytest.raises(Killed):
            drive(export)
    fill(Task.objects.get(), 1, start=7)  # another leader sees more rows than the first
    drive(export)
    found = records(place)
    assert [one["n"] for one in found] == stored()
    assert len({one["_key"] for one in found}) == len(found) == 18


@both
def test_two_leaders_at_once_write_the_same_files(place: Path) -> None:
    fill(made_task(), 6)
    export = add(files(max_rows=5))
    one, other = Exporter(export.pk, Settings()), Exporter(export.pk, Settings())
    for _ in range(8):
        one.step()
        other.step()
    one.close()
    other.close()
    assert [row["n"] for row in records(place)] == stored()
    assert Export.objects.get().rows == 18


def test_a_node_that_stopped_in_the_middle_does_no_harm_later(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has planned a batch and hangs; another node takes over and continues; then it wakes up."""
    fill(made_task(), 4)
    export = add(files(max_rows=5))
    slow = Exporter(export.pk, Settings())
    fired: list[str] = []

    def at(name: str, *rest: Any) -> None:
        if name == "export.write.before" and not fired:
            fired.append(name)
            drive(export)

    monkeypatch.setattr(faults, "at", at)
    for _ in range(6):
        slow.step()
    slow.close()
    row = Export.objects.get()
    assert [one["n"] for one in records(place)] == stored()
    assert (row.rows, row.batches, row.problem) == (12, 3, "")


def test_files_are_rolled_by_size_and_by_age(place: Path) -> None:
    task = made_task()
    fill(task, 5)
    row = drive(add(files(max_rows=4, max_minutes=60)))
    assert (row.rows, row.batches) == (12, 3)  # the rest waits
    Item.objects.update(created_at=timezone.now() - timedelta(minutes=61))
    assert drive(row).rows == 15


def test_a_large_row_fills_a_file(place: Path) -> None:
    task = made_task()
    for n in range(4):
        commit(task, f"p{n}", [{"n": n, "text": "x" * 600_000}])
    row = drive(add(files(max_mb=1, max_minutes=60)))
    assert (row.rows, row.batches) == (4, 2)


def test_csv_has_the_columns_of_all_files_so_far(place: Path) -> None:
    task = made_task()
    commit(task, "a", [{"n": 1, "o": "=1+1"}])
    export = add(files(format="csv", max_rows=1, gzip=True))
    drive(export)
    commit(task, "b", [{"n": 2, "z": [1]}])
    commit(task, "c", [{"n": 3}])
    drive(export)
    found = records(place)
    assert [[*row][8:] for row in found] == [["n", "o"], ["n", "o", "z"], ["n", "o", "z"]]
    assert [row["n"] for row in found] == ["1", "2", "3"]
    assert found[0]["o"] == "'=1+1"
    assert found[1]["z"] == "[1]"


def test_columns_are_collected_where_there_are_some(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawlservice.exports.targets.files.COLUMNS", 12)
    task = made_task()
    commit(task, "a", [{f"key {n}": n for n in range(40)}])
    row = drive(add(files()))
    assert (row.rows, row.columns, row.problem) == (1, [], "")
    row.delete()
    row = drive(add(files(format="csv", url="csv")))
    assert "have more than 12 fields" in row.problem
    assert "choose fields of the export" in row.problem
    assert (row.rows, row.columns, row.planned) == (0, [], None)
    row.delete()
    row = drive(add(files(format="csv", url="csv"), fields=["key 7"]))
    assert (row.rows, len(row.columns)) == (1, 9)


def test_parquet(place: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    fill(made_task(), 2)
    drive(add(files(format="parquet")))
    (path,) = place.iterdir()
    assert pq.read_table(path).column("n").to_pylist() == stored()


@both
def test_pages_are_exported_too(place: Path) -> None:
    fill(made_task(), 3)
    drive(add(files(), what="pages"))
    pages = [*Page.objects.order_by("pk")]
    found = records(place)
    assert [row["url"] for row in found] == [page.url for page in pages]
    assert [row["_key"] for row in found] == [page.rid.hex for page in pages]
    assert found[0]["items"] == 3


@both
def test_only_what_it_names_is_exported(place: Path) -> None:
    shop, other, labelled = made_task(), made_task("news"), made_task()
    for n, task in enumerate((shop, other, labelled)):
        commit(task, f"p{n}", [{"n": n, "x": 1, "_key": "mine"}])
    Label.objects.create(task=labelled, name="domain", value="news")
    for fields, expected in (
        ({"spider": "shop"}, [0, 2]),
        ({"task": other.pk}, [1]),
        ({"labels": {"domain": "news"}}, [2]),
        ({"labels": {"domain": "news"}, "spider": "news"}, []),
    ):
        export = add({**files(), "url": f"{fields!r}".strip("{}")}, **fields)
        drive(export)
        directory = place.parent / f"{fields!r}".strip("{}")
        found = records(directory) if directory.exists() else []
        assert [one["n"] for one in found] == expected
        export.delete()
    drive(add(files(), fields=["n", "_key"]))
    assert [(one["n"], one["_key_"], "x" in one) for one in records(place)] == [
        (n, "mine", False) for n in range(3)
    ]


@both
def test_numbers_without_a_row_for_it_are_passed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "WINDOW", 7)
    monkeypatch.setattr(source, "CHUNK", 3)
    monkeypatch.setattr("crawlservice.exports.exporter.MAX_SKIPPED", 10)
    other, task = made_task("news"), made_task()
    fill(other, 20)
    export = add(files(), spider="shop")
    row = drive(export)
    assert (row.rows, row.position) == (0, 60)
    fill(task, 5)
    row = drive(row)
    assert row.rows == 15
    assert [one["n"] for one in records(place)] == [*range(15)]


@pytest.mark.parametrize(
    ("begin", "expected"),
    [("beginning", 6), ("now", 0), ("4", 3), ("2026-01-02", 3), ("2026-01-05T00:00Z", 0)],
)
def test_an_export_starts_at_the_chosen_point(place: Path, begin: str, expected: int) -> None:
    task = made_task()
    for n in range(6):
        commit(task, f"p{n}", [{"n": n}])
    first, second = ("2026-01-01T12:00Z", "2026-01-03T12:00Z")
    Item.objects.filter(pk__lte=3).update(created_at=first)
    Item.objects.filter(pk__gt=3).update(created_at=second)
    drive(add(files(), begin))
    assert len(records(place) if place.exists() else []) == expected


def test_a_run_that_is_started_again_has_files_of_its_own(place: Path) -> None:
    fill(made_task(), 2)
    export = drive(add(files()))
    changes.restart(export, "3")
    row = drive(export)
    assert (row.run, row.rows) == (2, 4)
    assert sorted(path.name.split(".")[2] for path in place.iterdir()) == ["1", "2"]


def test_a_paused_one_waits_and_goes_on(place: Path) -> None:
    task = made_task()
    fill(task, 1)
    export = drive(add(files()))
    changes.pause(export)
    fill(task, 1, start=4)
    assert drive(export).rows == 3
    changes.resume(export)
    assert drive(export).rows == 6


def test_a_node_with_another_directory_writes_nowhere_else(
    place: Path, tmp_path: Path, settings_with: Callable[..., None]
) -> None:
    fill(made_task(), 1)
    export = add(files(url=str(place)))
    settings_with(EXPORT_DIR=tmp_path / "other")
    assert "set CRAWLFRAME_EXPORT_DIR" in drive(export).problem
    assert not place.exists()


def test_what_fails_is_tried_again_after_growing_pauses(place: Path) -> None:
    place.parent.mkdir(parents=True)
    place.write_text("in the way")
    fill(made_task(), 1)
    export = add(files())
    for attempt, pause in enumerate((*exporter.RETRIES.pauses, exporter.RETRIES.pauses[-1]), 1):
        row = drive(export)
        assert row.attempts == attempt
        assert "out" in row.problem
        assert row.next_at is not None
        left = (row.next_at - timezone.now()).total_seconds()
        assert pause - 5 < left <= pause * (1 + JITTER)
        assert drive(export).attempts == attempt  # not before its time
        Export.objects.update(next_at=timezone.now() - timedelta(seconds=1))
    place.unlink()
    row = drive(export)
    assert (row.problem, row.attempts, row.next_at, row.problem_since) == ("", 0, None, None)
    assert [one["n"] for one in records(place)] == stored()


def test_items_that_were_deleted_while_they_were_sent_hold_nothing_up(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = made_task()
    fill(task, 1)
    export = add(files())
    with monkeypatch.context() as patch:
        kill_at(patch, "export.plan.after")
        with pytest.raises(Killed):
            drive(export)
    Item.objects.all().delete()
    row = drive(export)
    assert (row.planned, row.rows, row.batches) == (None, 0, 0)
    fill(task, 1, start=5)
    assert drive(row).rows == 3


@both
@pytest.mark.parametrize("end", ["first", "last"])
def test_a_row_that_goes_between_two_attempts_makes_no_second_file(
    place: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    fill(made_task(), 2)
    export = add(files())
    with monkeypatch.context() as patch:
        kill_at(patch, "export.cursor.before")
        with pytest.raises(Killed):
            drive(export)
    (gone,) = [getattr(Item.objects.order_by("pk"), end)()]
    gone.delete()
    drive(export)
    assert [one["n"] for one in records(place)] == stored()


def test_one_that_is_added_again_under_its_name_replaces_no_files(place: Path) -> None:
    fill(made_task(), 2)
    export = drive(add(files()))
    changes.delete(export)
    drive(add(files(), fields=["n"]))
    assert [one["n"] for one in records(place)] == stored() * 2


@both
def test_what_is_left_is_counted_within_limits(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(made_task(), 3)
    fill(made_task("news"), 1, start=10)
    export = add(files(), spider="shop")
    assert str(source.left(export)) == "9"
    monkeypatch.setattr(source, "COUNTED_ROWS", 5)
    assert str(source.left(export)) == "5+"
