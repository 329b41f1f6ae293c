"""Terminal: the live view of a task, keys, and options that several commands have."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from django.db import DatabaseError, connection
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from crawlservice.cli.listing import status
from crawlservice.display import duration
from crawlservice.hosts.host_labels import wait_of
from crawlservice.tasks.progress.forecast import Forecast, forecast
from crawlservice.tasks.progress.progress import Progress, RateMeter, read
from crawlservice.tasks.results.export import FORMATS
from crawlservice.tasks.submit import get_task

PLAIN_EVERY = 2.0  # seconds between two lines where no live view is possible
LIVE_EVERY = 0.25
ASKED = ". A secret given as - is asked for"


def add_output(parser: ArgumentParser, *, required: bool = False) -> None:
    """Adds the options that say where items are written."""
    parser.add_argument(
        "-o", "--output", type=Path, required=required, metavar="FILE",
        help="write the items to this file, .jsonl, .csv or .parquet; - is the standard output",
    )  # fmt: skip
    parser.add_argument(
        "--format", choices=[suffix.removeprefix(".") for suffix in FORMATS],
        help="of the items; by default by the file's suffix, and jsonl for -",
    )  # fmt: skip


def add_arguments(parser: ArgumentParser, more: str = "") -> None:
    """Adds the option that gives arguments of a spider."""
    parser.add_argument(
        "-a", dest="arguments", action="append", default=[], metavar="NAME=VALUE",
        help=f"an argument of the spider; may be repeated{more}",
    )  # fmt: skip


def add_settings(parser: ArgumentParser) -> None:
    """Adds the option that changes settings for one task."""
    parser.add_argument(
        "-s", dest="overrides", action="append", default=[], metavar="NAME=VALUE",
        help="a setting of this task in place of its spider's, such as delay=2; may be "
        "repeated",
    )  # fmt: skip


def add_labels(parser: ArgumentParser) -> None:
    """Adds the option that gives a task labels."""
    parser.add_argument(
        "--label", dest="labels", action="append", default=[], metavar="NAME=VALUE",
        help="a label for searches, such as domain=news; may be repeated",
    )  # fmt: skip


def bar(known: Forecast, width: int) -> ProgressBar:
    """A task's progress; while it is unknown, the bar only shows activity."""
    total = known.total and float(known.total)
    return ProgressBar(total, known.progress.ended_requests, width, pulse=total is None)


def share(known: Forecast) -> str:
    """``83 %``, ``about 26 % of 61 as last time``; "" if unknown."""
    return f"{known.share} of {known.total:,} as last time" if known.is_estimate else known.share


def time_left(known: Forecast, rate: float) -> str:
    """``about 1:15 left``; "" if unknown."""
    seconds = known.seconds(rate)
    if seconds is None:
        return ""
    return f"{'about ' if known.is_estimate else ''}{duration(seconds)} left"


class TaskProgressView:
    """A running task: live on a terminal, otherwise one line at a time."""

    def __init__(self) -> None:
        self.meter = RateMeter()
        self.known: Forecast | None = None

    def show(self, known: Forecast) -> None:
        self.known = known
        if known.progress.live:
            self.meter.show(known.progress.worked)

    def __rich__(self) -> RenderableType:
        if self.known is None:
            return Text("starting …")
        known, now = self.known, self.known.progress
        speed = Table.grid(padding=(0, 2))
        rate = f"{self.meter.rate:,.0f} pages/s"
        far = "" if now.ended else share(known) or known.words
        speed.add_row(bar(known, 16), far, rate, time_left(known, self.meter.rate))
        counts = Table.grid(padding=(0, 2))
        counts.add_row(*(f"{name} {number:,}" for name, number in _numbers(now).items()))
        waiting = {"ready": now.ready, "in flight": now.in_progress}
        waiting |= {"delayed": now.delayed, "parked": now.parked, "known links": now.duplicates}
        detail = "  ".join(f"{name} {number:,}" for name, number in waiting.items() if number)
        if now.wait is not None:
            detail = wait_of(now.wait)
        head = Text.assemble(
            (f"{now.task}  ", "bold"), status(now.task), (f"  {duration(now.age)}", "bold")
        )
        return Group(head, speed, counts, Text(detail, style="dim"))

    def line(self) -> str:
        if self.known is None:
            return "starting"
        now = self.known.progress
        parts = (
            duration(now.age),
            str(now.task),
            status(now.task).plain,
            f"{self.meter.rate:,.0f} pages/s",
            *(f"{name} {number:,}" for name, number in _numbers(now).items()),
            "" if now.ended else share(self.known),
            time_left(self.known, self.meter.rate),
            f"parked {now.parked:,}" if now.parked else "",
            wait_of(now.wait) if now.wait else "",
        )
        return "  ".join(filter(None, parts))


def _numbers(now: Progress) -> dict[str, int]:
    numbers = {"requests": now.na, "done": now.nf, "errors": now.errors, "left": now.nr}
    rare = {"cancelled": now.cancelled, "excluded": now.excluded}
    return numbers | {name: n for name, n in rare.items() if n} | {"items": now.items}


def watch(
    task_id: int,
    console: Console,
    each_time: Callable[[Progress], None] = lambda _: None,
    interruption: Callable[[], Callable[[], None] | None] = lambda: None,
) -> Progress:
    """Shows a task until it has ended. Returns its last numbers.

    ``each_time`` is called after each refresh; its exceptions end the watching. The function that
    ``interruption`` returns is called while nothing is shown."""
    view = TaskProgressView()
    if console.is_terminal:
        with Live(view, console=console, refresh_per_second=8) as live:

            def look(progress: Progress) -> None:
                if (interrupt := interruption()) is not None:
                    live.stop()
                    interrupt()
                    live.start(refresh=True)
                each_time(progress)

            return _follow(task_id, view, LIVE_EVERY, look, lambda: None)

    def print_line() -> None:
        print(view.line(), file=console.file, flush=True)

    return _follow(task_id, view, PLAIN_EVERY, each_time, print_line)


def _follow(
    task_id: int,
    view: TaskProgressView,
    every: float,
    each_time: Callable[[Progress], None],
    print_line: Callable[[], None],
) -> Progress:
    said = 0.0
    while True:
        began = time.monotonic()
        known = _read_forecast(task_id)
        progress = None if known is None else known.progress
        took = time.monotonic() - began
        if known is not None and progress is not None:
            view.show(known)
            each_time(progress)
        ended = progress is not None and progress.ended
        if ended or time.monotonic() - said >= every:
            said = time.monotonic()
            print_line()
        if progress is not None and ended:
            return progress
        time.sleep(max(LIVE_EVERY, 10 * took))  # counting millions of items takes long


def _read_forecast(task_id: int) -> Forecast | None:
    """None while the database is unreachable: nodes wait for it too."""
    try:
        return forecast(read([get_task(task_id)])[0])
    except DatabaseError:
        connection.close()
        return None


class Keyboard:
    """``key`` waits up to a number of seconds for a key; "" if none came, or there is no
    keyboard."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def key(self, seconds: float) -> str:
        watched = [] if self._descriptor is None else [self._descriptor]
        readable, _, _ = select.select(watched, [], [], seconds)
        if not readable or self._descriptor is None:
            return ""
        pressed = os.read(self._descriptor, 1)
        if not pressed:  # end of input: nothing more will come
            self._descriptor = None
        return pressed.decode(errors="replace")


@contextmanager
def keyboard() -> Iterator[Keyboard]:
    """Restores the terminal afterwards. Ctrl-C still interrupts."""
    descriptor = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None
    if descriptor is None:
        yield Keyboard(None)
        return
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield Keyboard(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
