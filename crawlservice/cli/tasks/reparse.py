"""task reparse: runs the code of today over pages that are kept, and replaces their items."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.db import transaction

from crawlframe.base.program import command
from crawlframe.errors import ArgumentError
from crawlservice.accounts.journal import record
from crawlservice.cli.changes import examples_of
from crawlservice.cli.command import ServiceCommand
from crawlservice.cli.moment import ago, read_moment
from crawlservice.cli.report import report
from crawlservice.cli.terminal import plain, watch
from crawlservice.reparse.submission import as_given, in_words, reparse_of, submit
from crawlservice.tasks.progress import outcomes


class Reparse(ServiceCommand):
    help = (
        "Parses kept pages by the code of today, without the network, and replaces the items of "
        "their requests. Shows the differences."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("what", metavar="TASK|SPIDER", help="whose pages")
        parser.add_argument(
            "--since",
            type=read_moment,
            metavar="TIME",
            help="pages fetched since 2026-01-31T18:00 (UTC), or in the last 90m, 2h, 3d",
        )
        parser.add_argument(
            "--reason", help='pages kept for this reason, such as callback; "": pages that are done'
        )
        parser.add_argument("--callback", default="", help="pages of this callback")
        parser.add_argument(
            "--key",
            metavar="FIELD",
            help="by which items of a page are compared; by default what the spider expects to be "
            "unique, or else their place",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="show the differences, and change nothing"
        )
        parser.add_argument(
            "--follow", action="store_true", help="fetch requests that the task did not know"
        )
        parser.add_argument(
            "--wait",
            action="store_true",
            help="of a task that still runs: parse until it has ended and all is parsed",
        )
        parser.add_argument(
            "--priority", type=int, default=0, help="-100 to 100; higher runs first"
        )
        parser.add_argument(
            "--background", action="store_true", help="do not wait until all is parsed"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        since = ago(options["since"])
        names = ("reason", "callback", "key", "dry_run", "follow", "wait", "priority")
        asked = {name: options[name] for name in names}
        with transaction.atomic():  # recorded even if Redis could not be updated
            task = submit(**_source(options["what"]), since=since, **asked)
            record("reparse", task=task, command=True, parses=as_given(task))
        parsed = reparse_of(task)
        assert parsed is not None
        told = plain(f"task {task.pk} parses {in_words(parsed)}")
        if options["dry_run"]:
            self.stdout.write(told)
        else:
            self.done(told, None)
        if options["background"]:
            self.stdout.write(f"Follow it: {command(f'task show {task.pk} --follow')}")
            return
        try:
            task = watch(task.pk, self.console).task
        except KeyboardInterrupt:
            self.stdout.write(f"It continues: {command(f'task show {task.pk}')}")
            return
        self.console.print(report(task))
        for line in examples_of(task):
            self.stdout.write(line)
        outcomes.check(task)


def _source(what: str) -> dict[str, Any]:
    """A number is a task; anything else is the name of a spider. Raises ArgumentError."""
    if what.isdecimal():
        if len(what) > 18:
            raise ArgumentError(f"there is no task {what[:30]}")
        return {"task": int(what)}
    return {"spider": what}
