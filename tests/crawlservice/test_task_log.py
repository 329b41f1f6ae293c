"""The log of a task: bounded in the database, on the task page, in the API and in the terminal."""

from __future__ import annotations

import io
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from crawlframe.frontier import Frontier
from crawlframe.run.ledger import LogLine as Line
from crawlservice.cli.task import view
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import LogLine, Page, Task, TaskLog
from crawlservice.tasks.progress import log
from crawlservice.tasks.removal import remove
from tests.crawlservice.programs import person, program
from tests.crawlservice.web import log_in_as, rows, texts

both = pytest.mark.databases("sqlite", "postgres")

AT = datetime(2026, 1, 31, 12, 0, 0, 250_000, tzinfo=UTC)


def line(
    task: int, text: str, level: int = logging.INFO, url: str = "http://shop.example/1"
) -> Line:
    return Line(task, AT.timestamp(), level, "spider.shop", b"r" * 16, url, text)


def add(task: Task, *texts: str, lost: int = 0, level: int = logging.INFO) -> None:
    lines = [line(task.pk, text, level) for text in texts]
    DjangoLedger().activity.add_log(lines, {task.pk: lost} if lost else {})


def stored(task: Task) -> list[str]:
    return list(log.lines_of(task.pk).values_list("text", flat=True))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "MAX_LINES", 10)
    monkeypatch.setattr(log, "MAX_SIZE", 1000)


@both
def test_lines_are_stored_as_they_are(ended_task: Task) -> None:
    add(ended_task, "a\0\ud800b")
    row = LogLine.objects.get()
    assert (row.task_id, row.at, row.level, row.logger) == (ended_task.pk, AT, 20, "spider.shop")
    assert row.rid is not None
    assert row.rid.bytes == b"r" * 16
    assert (row.url, row.text[0], row.text[-1]) == ("http://shop.example/1", "a", "b")


@both
@pytest.mark.usefixtures("small")
def test_the_oldest_lines_are_dropped_and_counted(ended_task: Task) -> None:
    add(ended_task, *"abcdefghij")
    assert stored(ended_task) == [*"abcdefghij"]
    add(ended_task, "k", lost=5)
    assert stored(ended_task) == [
        *"cdefghijk"
    ]  # 9 of 10 are kept, so that not each line costs this
    assert log.dropped(ended_task.pk) == 2 + 5
    add(ended_task, "x" * 600)
    add(ended_task, "y" * 600)
    assert stored(ended_task) == ["y" * 600]
    counted = TaskLog.objects.get()
    assert (counted.lines, counted.dropped) == (1, 17)
    assert counted.size == 600 + len("http://shop.example/1")


@both
def test_lines_of_deleted_tasks_are_left_out(ended_task: Task) -> None:
    other = ended_task.pk + 1
    DjangoLedger().activity.add_log([line(other, "gone"), line(ended_task.pk, "here")], {other: 3})
    assert stored(ended_task) == ["here"]
    assert not LogLine.objects.filter(task=other).exists()
    assert TaskLog.objects.count() == 1


def test_the_log_goes_with_its_task(service: Frontier) -> None:
    task = Task.objects.create(
        spider="shop", seeds=b"", state="finished", finished_at=timezone.now()
    )
    add(task, "a", "b")
    list(remove(Task.objects.all()))
    assert not LogLine.objects.exists()
    assert not TaskLog.objects.exists()


def test_the_api_pages_through_it_and_goes_on(ended_task: Task) -> None:
    api = program(person("viewer"), "read")
    path = f"tasks/{ended_task.pk}/log"
    assert api.get(path).json() == {"lines": [], "next": None, "dropped": 0}
    add(ended_task, "a", "b", "c", lost=4)
    add(ended_task, "bad", level=logging.ERROR)
    first = api.get(path, limit=3).json()
    assert [one["text"] for one in first["lines"]] == ["a", "b", "c"]
    assert first["dropped"] == 4
    second = api.get(path, after=first["next"]).json()
    (one,) = second["lines"]
    assert second["next"] is None
    assert one["worker"] == ""
    assert {name: one[name] for name in ("level", "logger", "url", "at")} == {
        "level": "ERROR",
        "logger": "spider.shop",
        "url": "http://shop.example/1",
        "at": "2026-01-31T12:00:00.250Z",
    }
    add(ended_task, "later")
    assert [o["text"] for o in api.get(path, after=one["id"]).json()["lines"]] == ["later"]
    assert [o["text"] for o in api.get(path, level="error").json()["lines"]] == ["bad"]
    assert api.get(path, level="loud").status_code == 422
    assert api.get("tasks/99/log").status_code == 404


def test_the_page_of_the_task_shows_the_newest_first(ended_task: Task) -> None:
    client = log_in_as("viewer")
    page = f"/admin/crawlservice/task/{ended_task.pk}/"
    empty = client.get(f"{page}log/").content.decode()
    assert "The spider has logged and printed nothing." in empty
    add(ended_task, "old", lost=1200)
    add(ended_task, "<b>new", level=logging.WARNING)
    shown = client.get(f"{page}log/").content.decode()
    assert [row[1:] for row in rows(shown, "#cf-tab tbody tr")] == [
        ["WARNING", "<b>newhttp://shop.example/1"],
        ["INFO", "oldhttp://shop.example/1"],
    ]
    assert texts(shown, "#cf-tab .cf-note") == ["1,200 older lines were dropped."]
    assert client.get(f"{page}log/now/").status_code == 200  # the last lines may still arrive
    Task.objects.update(finished_at=timezone.now() - timedelta(minutes=1))
    assert client.get(f"{page}log/now/").status_code == 286
    file = client.get(f"{page}log.txt")
    assert file["Content-Type"] == "text/plain; charset=utf-8"
    assert b"".join(file.streaming_content).decode().splitlines() == [  # type: ignore[attr-defined]
        "2026-01-31 12:00:00.250 INFO    old  [http://shop.example/1]",
        "2026-01-31 12:00:00.250 WARNING <b>new  [http://shop.example/1]",
    ]


def test_the_log_is_only_for_those_who_may_see_tasks(ended_task: Task) -> None:
    from tests.crawlservice.web import login

    client = login()
    for part in ("log/", "log.txt"):
        answer = client.get(f"/admin/crawlservice/task/{ended_task.pk}/{part}")
        assert answer.status_code == 403


def shown(task: Task, *options: str) -> list[str]:
    out = io.StringIO()
    call_command("task", "show", task.pk, *options, stdout=out)
    return out.getvalue().splitlines()


def test_the_command_prints_it(ended_task: Task) -> None:
    add(ended_task, "two\nlines\x1b[0m", lost=3)
    add(ended_task, "bad", level=logging.ERROR)
    assert shown(ended_task, "--log") == [
        "(3 older lines were dropped)",
        "2026-01-31 12:00:00.250 INFO    two  [http://shop.example/1]",
        "    lines\ufffd[0m",
        "2026-01-31 12:00:00.250 ERROR   bad  [http://shop.example/1]",
    ]
    assert len(shown(ended_task, "--log", "--level", "error")) == 2
    DjangoLedger().activity.add_log(
        [line(ended_task.pk, "last")._replace(worker="crawl-2/4711")], {}
    )
    assert shown(ended_task, "--log")[-1].endswith("last  [http://shop.example/1]  [crawl-2/4711]")
    with pytest.raises(CommandError, match="--level is about the log; add --log"):
        shown(ended_task, "--level", "error")


def test_an_error_of_a_callback_is_shown_with_its_place(
    ended_task: Task, add_page: Callable[..., Page], service: Frontier
) -> None:
    trace = (
        'Traceback (most recent call last):\n  File "/lib/engine.py", line 9, in run\n    call()\n'
        '  File "/spiders/shop.py", line 42, in parse\n    x["a"]\nKeyError: \'a\''
    )
    for name, detail in ((b"x", trace), (b"y", "too slow")):
        add_page(ended_task, name, state="error", reason=f"of_{name.decode()}", detail=detail)
    text = "".join("".join(shown(ended_task)).split())
    assert "KeyError:'a'(/spiders/shop.py:42)" in text
    assert "tooslow" in text
    assert "tooslow(" not in text


def test_it_is_followed_until_the_last_lines_have_come(
    ended_task: Task, published: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        if now == 101:
            add(ended_task, "second")
            Task.objects.update(state=Task.State.FINISHED)
        if now == 102:
            add(ended_task, "late")

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    Task.objects.update(state=Task.State.RUNNING)
    add(ended_task, "first")
    found: list[str] = []
    view.follow_log(ended_task.pk, "debug", found.append)
    assert [text.split()[3] for text in found] == ["first", "second", "late"]
