"""task prune: deletes old tasks with all their data."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Collection
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError

from crawlservice.accounts.journal import record
from crawlservice.cli.command import ServiceCommand, add_yes
from crawlservice.connections import clock
from crawlservice.exports.source import held
from crawlservice.tasks.removal import RemovalExtent, ended_before, extent, remove

MAX_DAYS = 36_500  # days


class PruneTasks(ServiceCommand):
    help = (
        "Deletes tasks that ended long ago, with their pages, items and events. Nodes may "
        "keep running. If it is interrupted, run it again to continue."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument(
            "--tasks-older-than", type=_days, metavar="DAYS", dest="days",
            help="delete tasks that ended at least this many days ago",
        )  # fmt: skip
        which.add_argument(
            "--task", type=int, nargs="+", metavar="ID", dest="tasks", help="delete these tasks"
        )
        parser.add_argument("--spider", default="", help="only tasks of this spider")
        add_yes(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        moment = clock.now() - timedelta(days=options["days"] or 0)
        tasks = ended_before(moment, options["spider"])
        of = f" of {options['spider']}" if options["spider"] else ""
        which = f"tasks{of} that ended before {moment:%Y-%m-%d %H:%M} UTC"
        if options["tasks"] is not None:
            tasks = tasks.filter(pk__in=options["tasks"])
            which += " among the given ones"
        found = extent(tasks)
        if not found.tasks:
            self.stdout.write(f"there are no {which}")
            return
        self.stdout.write(f"{_text(found)}: {which}")
        if self.only_shows(options, "delete them"):
            return
        if options["yes"] or self.asks("Delete them for good?"):
            self._remove(tasks, found, options)
        else:
            raise CommandError("nothing was deleted")

    def _held(self, group: Collection[int]) -> Collection[int]:
        """The tasks that exports still need; prints them."""
        found = held(group)
        for task, names in found.items():
            self.stdout.write(
                f"task {task} is kept: export {', '.join(names)} has not exported all of it"
            )
        return found

    def _remove(self, tasks: Any, found: RemovalExtent, options: dict[str, Any]) -> None:
        gone = RemovalExtent()
        try:
            with self.progress("deleting", sum(found)) as advance:
                for some in remove(tasks, self._held):
                    gone = RemovalExtent(*map(sum, zip(gone, some, strict=True)))
                    advance(sum(some))
        finally:
            if any(gone):
                asked = {name: options[name] for name in ("days", "spider") if options[name]}
                told = {**asked, **gone._asdict()}
                record("prune", command=True, **told)
                self.done(f"deleted: {_text(gone)}", None)


def _days(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) > MAX_DAYS:
        raise ArgumentTypeError(f"{text!r} must be a whole number of days, 0 to {MAX_DAYS}")
    return int(text)


def _text(much: RemovalExtent) -> str:
    return f"{much.tasks:,} tasks, {much.pages:,} pages, {much.items:,} items"
