"""top: the whole cluster, live, in the terminal."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.db import DatabaseError, connection
from django.utils import timezone
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from crawlframe.base.program import command
from crawlframe.errors import ArgumentError
from crawlservice.cli.command import ServiceCommand
from crawlservice.cli.listing import plain, status
from crawlservice.cli.terminal import PLAIN_EVERY, bar, keyboard
from crawlservice.display import duration
from crawlservice.models import Task
from crawlservice.monitoring import nodes
from crawlservice.monitoring.nodes import Node
from crawlservice.tasks.progress.forecast import Forecast, forecasts
from crawlservice.tasks.progress.progress import Progress, RateMeter, read

MAX_TASKS = 200  # latest tasks that are read
MIN_COLUMNS = 100  # least columns of a terminal for bars
GOOD, BAD = ("live", "checking"), ("refused", nodes.OFFLINE)


class Command(ServiceCommand):
    help = (
        "Shows the cluster live: its speed, its nodes and its running tasks. q or Ctrl-C "
        "quits. Without a terminal, it writes a line at intervals."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--every", type=float, metavar="SECONDS",
            help=f"between two updates (1; {PLAIN_EVERY:g} without a terminal)",
        )  # fmt: skip
        parser.add_argument("-n", type=int, metavar="COUNT", help="quit after this many updates")

    def handle(self, *args: Any, **options: Any) -> None:
        every = options["every"]
        if every is not None and not 0 < every < 3600:
            raise ArgumentError(f"--every {every:g} must be more than 0 and less than 3600 seconds")
        try:
            if self.console.is_terminal:
                self._live(every or 1.0, options["n"])
            else:
                looks = options["n"]
                view = ClusterView()
                while looks is None or looks > 0:
                    view.refresh()
                    print(view.line(), file=self.console.file, flush=True)
                    looks = looks and looks - 1
                    if looks != 0:
                        time.sleep(every or PLAIN_EVERY)
        except KeyboardInterrupt:
            pass

    def _live(self, every: float, looks: int | None) -> None:
        view = ClusterView()
        screen = Live(view, console=self.console, screen=True, auto_refresh=False)
        with keyboard() as keys, screen:
            while looks is None or looks > 0:
                view.refresh()
                screen.refresh()
                looks = looks and looks - 1
                if keys.key(every) in ("q", "Q"):
                    return


@dataclass
class Meters:
    """The rate meters of one task."""

    pages: RateMeter = field(default_factory=RateMeter)
    items: RateMeter = field(default_factory=RateMeter)
    errors: RateMeter = field(default_factory=RateMeter)

    def show(self, now: Progress) -> None:
        self.pages.show(now.worked)
        self.items.show(now.items)
        self.errors.show(now.errors)


class ClusterView:
    """The cluster as of the last ``refresh``, drawn for a terminal or as one line."""

    def __init__(self) -> None:
        self.tasks: list[Forecast] = []
        self.nodes: list[Node] = []
        self.problem = ""
        self._meters: dict[int, Meters] = {}

    def refresh(self) -> None:
        """Reads the cluster. If the database or Redis is unreachable, that is the problem shown."""
        self.problem = ""
        known = nodes.by_generation()
        if known is None:
            self.problem = nodes.why_unknown()
        self.nodes = list((known or {}).values())
        try:
            self._refresh_tasks()
        except DatabaseError as error:
            connection.close()
            self.problem = f"the database failed: {' '.join(str(error).split())}"

    def _refresh_tasks(self) -> None:
        rows = Task.objects.defer("seeds")
        active = list(rows.filter(state__in=Task.ACTIVE)[:MAX_TASKS])
        # Pages of a task between the last refresh and its end count too.
        ended = rows.filter(pk__in=self._meters.keys() - {task.pk for task in active})
        found = read([*active, *ended])
        for now in found:
            # Pages before the first refresh do not count in the rates.
            if now.live or (now.ended and now.task.pk in self._meters):
                self._meters.setdefault(now.task.pk, Meters()).show(now)
        self.tasks = forecasts(now for now in found if not now.ended)
        for now in found:
            if now.ended and self._meters[now.task.pk].pages.rate == 0:
                del self._meters[now.task.pk]

    def rates(self) -> tuple[float, float, float]:
        """Pages, items and errors per second, over the last ten seconds."""
        meters = self._meters.values()
        pages = sum(one.pages.rate for one in meters)
        return pages, sum(one.items.rate for one in meters), sum(one.errors.rate for one in meters)

    def line(self) -> str:
        pages, items, errors = self.rates()
        waiting = "  ".join(f"{name} {number:,}" for name, number in self._waiting())
        line = (
            f"{pages:,.0f} pages/s  {items:,.0f} items/s  {errors:,.1f} errors/s  "
            f"tasks {len(self.tasks):,}  nodes {self._living()}  {waiting}"
        )
        return f"{line}  {plain(self.problem)}" if self.problem else line

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        pages, items, errors = self.rates()
        head = Table.grid(padding=(0, 3))
        head.add_row(
            Text("Crawlframe", style="bold"),
            *(
                Text.assemble((f"{value:,.{digits}f}", "bold cyan"), f" {unit}")
                for value, digits, unit in (
                    (pages, 0, "pages/s"), (items, 0, "items/s"), (errors, 1, "errors/s"),
                )
            ),
            f"{timezone.now():%H:%M:%S} UTC",
        )  # fmt: skip
        yield head
        yield Text("   ".join(f"{name} {number:,}" for name, number in self._waiting()), "dim")
        if self.problem:
            yield Text(plain(self.problem), style="bold red")
        yield Text()
        yield self._node_table()
        yield Text()
        # Only as many rows as fit: a list that scrolls cannot be read at a glance.
        room = max(3, (options.max_height or console.height) - len(self.nodes) - 10)
        yield self._task_table(room, options.max_width >= MIN_COLUMNS)
        if any(known.is_estimate for known in self.tasks[:room]):
            yield Text("~: estimated from the requests of the last run", "dim")

    def _node_table(self) -> Table:
        table = _table("node", "state", "for", "code")
        for name in ("workers", "reloads"):
            table.add_column(name, justify="right")
        table.add_column("problem", overflow="ellipsis", no_wrap=True)
        for node in self.nodes:
            style = "green" if node.state in GOOD else "red" if node.state in BAD else "yellow"
            since = (timezone.now() - node.since).total_seconds() if node.since else None
            code = f"{node.version or '-'}{' (differs)' if node.skew else ''}"
            table.add_row(
                plain(node.node), Text(node.state, style), duration(since and max(0.0, since)),
                plain(code), str(node.workers), f"{node.reloads:,}", plain(node.headline),
            )  # fmt: skip
        if not self.nodes:
            table.add_row(f"none; start one: {command('runcrawler')}")
        return table

    def _task_table(self, room: int, wide: bool) -> Table:
        table = _table("task", "state", *([""] * wide))
        table.add_column(justify="right", no_wrap=True, min_width=5)
        for name in ("pages/s", "requests", "done", "errors", "left", "items", "time left"):
            table.add_column(name, justify="right", no_wrap=True)
        for known in self.tasks[:room]:
            now, task = known.progress, known.progress.task
            rate = (self._meters.get(task.pk) or Meters()).pages.rate
            about, seconds = "~" * known.is_estimate, known.seconds(rate)
            table.add_row(
                plain(str(task)), status(task), *([bar(known, 20)] * wide),
                "-" if known.percent is None else f"{about}{known.percent} %", f"{rate:,.0f}",
                *(f"{number:,}" for number in (now.na, now.nf, now.errors, now.nr, now.items)),
                "-" if seconds is None else f"{about}{duration(seconds)}",
            )  # fmt: skip
        if not self.tasks:
            table.add_row("none")
        if (more := len(self.tasks) - room) > 0:
            table.add_row(f"… {more:,} more")
        return table

    def _waiting(self) -> Iterator[tuple[str, int]]:
        tasks = [known.progress for known in self.tasks]
        yield "ready", sum(now.ready for now in tasks)
        yield "in flight", sum(now.in_progress for now in tasks)
        yield "delayed", sum(now.delayed for now in tasks)
        yield "parked", sum(now.parked for now in tasks)

    def _living(self) -> str:
        living = sum(node.state != nodes.OFFLINE for node in self.nodes)
        return f"{living} of {len(self.nodes)}" if living < len(self.nodes) else f"{living}"


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, no_wrap=True)
    return table
