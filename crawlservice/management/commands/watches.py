"""watches: the watches, or one of them with the pages that are due next."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import datetime
from typing import Any

from rich.table import Table

from crawlframe.base.program import command
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.cli.terminal import plain
from crawlservice.models import Watch, WatchedPage
from crawlservice.watches import editing
from crawlservice.watches.clock import NOW
from crawlservice.watches.overview import numbers_of, rate_of

MAX_PAGES = 20  # pages


class Command(ServiceCommand):
    help = "Lists watches, or shows one of them with the pages that are due next."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("watch", nargs="?", type=int, help="the number of one")
        parser.add_argument("--search", metavar="TEXT", help="only pages with this in their URL")
        parser.add_argument(
            "--state", choices=WatchedPage.State.values, help="only pages in this state"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["watch"] is None:
            self._list()
        else:
            self._show(editing.get(options["watch"]), options["search"], options["state"])

    def _list(self) -> None:
        watches = [*Watch.objects.all()]
        if not watches:
            self.stdout.write(f"no watches; begin one: {command('watch SPIDER')}")
            return
        numbers = numbers_of([watch.pk for watch in watches])
        table = Table("id", "spider", "state", box=None, pad_edge=False, header_style="bold")
        for column in ("pages", "new", "gone", "failed", "due", "today", "up to date"):
            table.add_column(column, justify="right")
        for watch in watches:
            n = numbers[watch.pk]
            counts = (n.pages, n.new, n.gone, n.failed, n.due, n.today)
            cells = (str(watch.pk), watch.spider, watch.state, *(f"{one:,}" for one in counts))
            table.add_row(*map(plain, cells), "-" if n.fresh is None else f"{n.fresh:.0%}")
        self.console.print(table)
        for watch in watches:
            if watch.problem:
                self.stdout.write(f"\n{plain(f'watch {watch.pk}: {watch.problem}')}")

    def _show(self, watch: Watch, search: str | None, state: str | None) -> None:
        n = numbers_of([watch.pk])[watch.pk]
        self.stdout.write(
            f"watch {watch.pk} of {watch.spider} is {watch.state}: {n.pages:,} pages, {n.due:,} "
            f"due, {n.visits:,} visits, {n.changes:,} changes"
        )
        if watch.problem:
            self.stdout.write(plain(watch.problem))
        rows = WatchedPage.objects.filter(watch=watch)
        rows = rows.filter(url__icontains=search) if search else rows
        rows = rows.filter(state=state) if state else rows
        table = Table("url", "state", box=None, pad_edge=False, header_style="bold")
        for column in ("visits", "changes", "per day", "importance"):
            table.add_column(column, justify="right")
        table.add_column("last")
        table.add_column("next")
        for page in rows.order_by("next_at", "pk")[:MAX_PAGES]:
            rate = rate_of(watch, page)
            cells = (
                page.url,
                page.state,
                f"{page.visits:,}",
                f"{page.changes:,}",
                "-" if rate is None else f"{rate:.3g}",
                f"{page.importance:g}",
                _time(page.last_visit),
                _time(page.next_at),
            )
            table.add_row(*map(plain, cells))
        self.console.print(table)


def _time(moment: datetime | None) -> str:
    if moment is None:
        return "-"
    return "now" if moment <= NOW else f"{moment:%Y-%m-%d %H:%M}"
