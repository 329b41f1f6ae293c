"""What commands share: errors in plain words, tables, and the live view of a task."""

from __future__ import annotations

import os
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

from django.core.management.base import BaseCommand, CommandError, OutputWrapper
from django.db import DatabaseError, connection
from redis import RedisError
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from crawlframe.errors import CrawlframeError
from crawlframe.frontier.connection import complaint
from crawlservice import environment
from crawlservice.checks import missing_right
from crawlservice.database import mend, prepare
from crawlservice.export import FORMATS
from crawlservice.models import Task
from crawlservice.progress import Progress, RateMeter, read
from crawlservice.submit import get_task

PIPE_WIDTH = 4096  # columns where no terminal sets a limit: nothing is folded there
PLAIN_EVERY = 2.0  # seconds between two lines where no live view is possible
LIVE_EVERY = 0.25


class Command(BaseCommand):
    """A command of this project: bad input and missing servers are told in plain words, and the
    tables of the database are there (unless ``needs_database`` is off)."""

    needs_database: bool = True
    requires_system_checks = ()

    def execute(self, *args: Any, **options: Any) -> str | None:
        for warning in environment.warnings(os.environ):
            self.stderr.write(f"warning: {warning}")
        try:
            if self.needs_database:
                for warning in prepare():
                    self.stderr.write(f"warning: {warning}")
            told = super().execute(*args, **options)
            self._flush()
            return told
        except CrawlframeError as error:
            _close_broken()
            raise CommandError(str(error)) from None
        except RedisError as error:
            away = f"{complaint(error)}; try again when it is well"
            raise CommandError(missing_right(error) or away) from None
        except DatabaseError as error:
            reason = " ".join(str(error).split())
            raise CommandError(f"the database failed: {reason}{mend(reason)}") from None
        except BrokenPipeError:  # the reader, such as head, has seen enough
            _close_broken()
            return None
        except OSError:
            self._flush()  # says so when it is the output that failed
            raise

    def _flush(self) -> None:
        """What is only flushed when Python ends fails with a traceback."""
        try:
            for out in (self.stdout, self.stderr):
                out.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            _close_broken()
            raise CommandError(f"standard output cannot be written: {error.strerror}") from None

    @cached_property
    def console(self) -> Console:
        """Standard output for tables."""
        return _console(self.stdout)

    @cached_property
    def error_console(self) -> Console:
        """Standard error, where the standard output is for data."""
        return _console(self.stderr)


class PipeConsole(Console):
    """Raises BrokenPipeError, where rich would exit."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        raise BrokenPipeError


def _console(wrapper: OutputWrapper) -> Console:
    """Nothing in a text is read as markup: URLs have brackets."""
    out: TextIO = wrapper._out  # type: ignore[assignment]
    width = None if out.isatty() else PIPE_WIDTH
    return PipeConsole(file=out, width=width, markup=False, emoji=False, highlight=False)


def _close_broken() -> None:
    """Python flushes both streams when it ends, and must not fail then."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def add_output(parser: ArgumentParser, *, required: bool = False) -> None:
    """The options that say where items are written."""
    parser.add_argument(
        "-o", "--output", type=Path, required=required, metavar="FILE",
        help="write the items to this file, .jsonl, .csv or .parquet; - is the standard output",
    )  # fmt: skip
    parser.add_argument(
        "--format", choices=[suffix.removeprefix(".") for suffix in FORMATS],
        help="of the items; by default that of the file's suffix, and jsonl for -",
    )  # fmt: skip


def plain(text: str) -> str:
    """``text`` with what could steer a terminal made harmless."""
    return "".join(mark if mark.isprintable() or mark == "\n" else "\ufffd" for mark in text)


def duration(seconds: float | None) -> str:
    """``75`` -> ``1:15``, hours and days when there are any; ``-`` for None."""
    if seconds is None:
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    text = f"{hours}:{minutes:02}:{rest:02}" if hours or days else f"{minutes}:{rest:02}"
    return f"{days} d {text}" if days else text


def task_table(tasks: Iterable[Progress]) -> Table:
    table = Table("id", "spider", "state", box=None, pad_edge=False, header_style="bold")
    for column in ("NA", "NF", "NE", "NR", "parked", "items", "time"):
        table.add_column(column, justify="right")
    for progress in tasks:
        task = progress.task
        waits = "" if progress.live or progress.ended else " (waits for Redis)"
        numbers = (progress.na, progress.nf, progress.ne, progress.nr, progress.parked)
        table.add_row(
            str(task.pk), task.spider, task.state + waits, *(f"{number:,}" for number in numbers),
            f"{progress.items:,}", duration(progress.age),
        )  # fmt: skip
    return table


def facts_table(facts: Iterable[tuple[str, str]], title: str | None = None) -> Table:
    """Two columns: what, and how much or where."""
    table = Table(show_header=False, box=None, pad_edge=False, title=title, title_justify="left")
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(name, plain(value))
    return table


class TaskView:
    """What is shown of a running task: live on a terminal, one line otherwise."""

    def __init__(self) -> None:
        self.meter = RateMeter()
        self.progress: Progress | None = None

    def show(self, progress: Progress) -> None:
        self.progress = progress
        if progress.live:
            self.meter.show(progress.nf + progress.ne)

    def __rich__(self) -> RenderableType:
        now = self.progress
        if now is None:
            return Text("starting …")
        done = now.nf + now.ne
        bar = ProgressBar(total=max(now.na, 1), completed=done, width=40)
        share = f"{done / now.na:.0%}" if now.na else "-"
        speed = Table.grid(padding=(0, 2))
        speed.add_row(bar, share, f"{self.meter.rate:,.0f} pages/s", f"ETA {self._eta(now)}")
        counts = Table.grid(padding=(0, 2))
        numbers = {"NA": now.na, "NF": now.nf, "NE": now.ne, "NR": now.nr, "items": now.items}
        numbers["errors"] = now.ne
        counts.add_row(*(f"{name} {number:,}" for name, number in numbers.items()))
        waiting = {"ready": now.ready, "in flight": now.in_progress}
        waiting |= {"delayed": now.delayed, "parked": now.parked, "known links": now.duplicates}
        detail = "  ".join(f"{name} {number:,}" for name, number in waiting.items() if number)
        head = Text(f"{now.task}  {now.task.state}  {duration(now.age)}", style="bold")
        return Group(head, speed, counts, Text(detail, style="dim"))

    def line(self) -> str:
        now = self.progress
        if now is None:
            return "starting"
        return (
            f"{duration(now.age)}  {now.task}  {now.task.state}  {self.meter.rate:,.0f} pages/s  "
            f"NA {now.na:,}  NF {now.nf:,}  NE {now.ne:,}  NR {now.nr:,}  items {now.items:,}  "
            f"errors {now.ne:,}  ETA {self._eta(now)}"
            + (f"  parked {now.parked:,}" if now.parked else "")
        )

    def _eta(self, now: Progress) -> str:
        return duration(self.meter.eta(now.nr)) if now.task.state == Task.State.RUNNING else "-"


def watch(
    task_id: int, console: Console, each_time: Callable[[Progress], None] = lambda _: None
) -> Progress:
    """Shows a task until it has ended, and answers its last numbers.

    ``each_time`` is called after each look; what it raises ends the watching."""
    view = TaskView()
    if console.is_terminal:
        with Live(view, console=console, refresh_per_second=8):
            return _follow(task_id, view, LIVE_EVERY, each_time, lambda: None)

    def say() -> None:
        print(view.line(), file=console.file, flush=True)

    return _follow(task_id, view, PLAIN_EVERY, each_time, say)


def _follow(
    task_id: int,
    view: TaskView,
    every: float,
    each_time: Callable[[Progress], None],
    say: Callable[[], None],
) -> Progress:
    said = 0.0
    while True:
        began = time.monotonic()
        progress = _look(task_id)
        took = time.monotonic() - began
        if progress is not None:
            view.show(progress)
            each_time(progress)
        ended = progress is not None and progress.ended
        if ended or time.monotonic() - said >= every:
            said = time.monotonic()
            say()
        if progress is not None and ended:
            return progress
        time.sleep(max(LIVE_EVERY, 10 * took))  # counting millions of items takes its time


def _look(task_id: int) -> Progress | None:
    """None while the database is away: nodes wait for its return too."""
    try:
        return read([get_task(task_id)])[0]
    except DatabaseError:
        connection.close()
        return None
