"""Output: files that cannot be written, readers that go away, and items on the standard output."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from io import BytesIO, StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from crawlservice.cli.crawl import Crawl
from crawlservice.cli.listing import PipeConsole
from crawlservice.models import Page, Task
from crawlservice.tasks.results.export import STDOUT, ExportError, check_target, export
from tests.crawlservice.test_commands import Manage

ITEMS = [{"n": 1, "title": "ü"}, {"n": 2}]


@pytest.fixture
def task(ended_task: Task, add_page: Callable[..., Page]) -> Task:
    task = Task.objects.create(spider="shop", seeds=b"", state="finished")
    add_page(task, b"one", items=ITEMS)
    return task


# -- places that cannot be written -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("x" * 300 + ".csv", "cannot be written: File name too long"),
        ("x" * 248 + ".csv", "cannot be written: File name too long"),  # a draft adds to it
        ("a\0.csv", "cannot be written: "),
        ("pipe.csv", "is not a regular file"),
        ("file.csv/a.csv", "there is no directory"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is_done(
    tmp_path: Path, name: str, words: str
) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "file.csv").touch()
    with pytest.raises(ExportError, match=words) as caught:
        check_target(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_what_cannot_be_written_at_the_end_is_one_sentence(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(ExportError, match=r"out\.csv cannot be written: No space left on device"):
        export(task, tmp_path / "out.csv")
    assert not [*tmp_path.glob("*out*")]


# -- standard output -------------------------------------------------------------------------------


def test_items_on_the_standard_output(task: Task) -> None:
    out = BytesIO()
    assert export(task, STDOUT, stdout=out) == 2
    assert [json.loads(line) for line in out.getvalue().splitlines()] == ITEMS
    out = BytesIO()
    export(task, STDOUT, "csv", stdout=out)
    assert out.getvalue().decode().splitlines() == ["n,title", "1,ü", "2,"]


def test_a_format_by_name_counts_more_than_the_suffix(task: Task, tmp_path: Path) -> None:
    path = tmp_path / "items.txt"
    with pytest.raises(ExportError, match="the suffix decides the format"):
        export(task, path)
    export(task, path, "jsonl")
    assert len(path.read_text().splitlines()) == 2


@pytest.fixture
def buffered(manage_env: dict[str, str]) -> dict[str, str]:
    """The environment of a shell: Python buffers its output until it ends."""
    del manage_env["PYTHONUNBUFFERED"]
    return manage_env


def test_the_command_tells_what_it_did_beside_the_items(task: Task, manage: Manage) -> None:
    done = manage("task", "export", task.pk, "-o", "-")
    assert [json.loads(line) for line in done.stdout.splitlines()] == ITEMS
    assert done.stderr == f"2 items of task {task.pk} written to standard output\n"


# -- readers that go away --------------------------------------------------------------------------


@pytest.mark.usefixtures("buffered")
@pytest.mark.parametrize("words", ["task list", "task export 2 -o -"])
def test_a_reader_that_has_gone_is_no_error(task: Task, manage: Manage, words: str) -> None:
    assert task.pk == 2
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = manage(*words.split(), capture_output=False, stdout=writer, stderr=subprocess.PIPE)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.usefixtures("buffered")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux")
@pytest.mark.parametrize("words", ["task list", "task export 2 -o -"])
def test_a_full_disk_is_one_sentence(task: Task, manage: Manage, words: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = manage(*words.split(), capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    text = "CommandError: standard output cannot be written: No space left on device\n"
    assert done.stderr == text


def test_a_console_says_that_its_reader_has_gone() -> None:
    class Gone(BytesIO):
        def write(self, data: Any) -> int:
            raise BrokenPipeError

    console = PipeConsole(file=Gone())  # type: ignore[arg-type]
    with pytest.raises(BrokenPipeError):
        console.print("x")


def test_a_crawl_whose_reader_has_gone_puts_its_task_aside(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put_aside: list[int] = []

    def gone(*_: Any) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("crawlservice.cli.crawl.watch", gone)
    monkeypatch.setattr(Crawl, "_put_aside", lambda self, task: put_aside.append(task.pk))
    crawl = Crawl("shop", {}, Console(file=StringIO()))
    task: Any = SimpleNamespace(pk=7, spider="shop")
    with pytest.raises(BrokenPipeError):
        crawl._crawl(task, NoNode(tmp_path))  # type: ignore[arg-type]
    assert put_aside == [7]


class NoNode:
    def __init__(self, log: Path) -> None:
        self.log = log

    def run(self, *_: object, **options: object) -> AbstractContextManager[None]:
        return nullcontext()
