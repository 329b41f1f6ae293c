"""Changes of a task: its limits, its state, and runs of its requests and pages again."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from functools import partial
from typing import Any

from django.core.management.base import CommandError
from django.db import transaction

from crawlframe.base.program import command
from crawlframe.errors import ArgumentError
from crawlservice.accounts.journal import change, record
from crawlservice.cli.command import ServiceCommand, add_yes
from crawlservice.cli.listing import plain
from crawlservice.cli.moment import ago, read_moment
from crawlservice.cli.task.report import examples_of, report
from crawlservice.cli.terminal import watch
from crawlservice.models import BulkRetry, Page
from crawlservice.reparse import submission
from crawlservice.reparse.submission import as_given, in_words, reparse_of
from crawlservice.tasks import bulk_retry, submit
from crawlservice.tasks.bulk_retry import WantedErrors
from crawlservice.tasks.limits import AUTO, Delay, change_limits
from crawlservice.tasks.progress import outcomes
from crawlservice.tasks.retry import retry
from crawlservice.tasks.stored_limits import limits_as_written
from crawlservice.tasks.submit import get_task

WHO: dict[str, Any] = {"command": True}


class RetryErrors(ServiceCommand):
    help = "Runs the failed requests of an ended task, or of all tasks of a spider, again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=int, nargs="?", help="a task; or give --spider")
        parser.add_argument("--spider", metavar="NAME", help="over all its tasks that have ended")
        parser.add_argument(
            "--since",
            type=read_moment,
            metavar="TIME",
            help="with --spider: errors since 2026-01-31T18:00 (UTC), or of the last 90m, 2h, 3d",
        )
        parser.add_argument("--reason", help="with --spider: only errors with this reason")
        parser.add_argument(
            "--group", type=int, metavar="ID", help="with --spider: only errors with this cause"
        )
        add_yes(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        of_spider = [name for name in ("since", "reason", "group", "yes") if options[name]]
        if options["id"] is not None and not options["spider"]:
            if of_spider:
                raise CommandError(f"--{of_spider[0]} needs --spider, without the number of a task")
            self._of_task(options["id"], options)
        elif options["spider"] and options["id"] is None:
            self._of_spider(options)
        else:
            raise CommandError("give the number of a task, or --spider NAME; not both")

    def _of_task(self, task: int, options: dict[str, Any]) -> None:
        if options["dry_run"]:
            errors = Page.objects.filter(task=get_task(task), state=Page.State.ERROR).count()
            self.only_shows(options, f"run task {task} again, with {errors:,} failed requests")
            return
        failed = retry(task)
        record("retry", task=task, requests=failed, **WHO)
        self.done(f"task {task} runs again, with {failed:,} failed requests", f"task cancel {task}")

    def _of_spider(self, options: dict[str, Any]) -> None:
        since = ago(options["since"])
        wanted = WantedErrors(options["spider"], options["reason"] or "", options["group"], since)
        found = bulk_retry.extent(wanted)
        tasks = f"{found.errors:,} errors in {len(found.tasks):,} ended tasks of {wanted.spider}"
        self.stdout.write(plain(tasks))
        if found.active:
            self.stdout.write(
                f"left out: {found.active_errors:,} errors of {found.active:,} tasks that still run"
            )
        if self.only_shows(options, "retry them"):
            return
        if found.tasks and not options["yes"] and not self.asks("Retry them?"):
            raise CommandError("nothing was retried")
        row = bulk_retry.start(wanted, WHO)
        with self.progress("retrying", row.all_tasks) as advance:
            while bulk_retry.step(row.pk):
                before, row = row.position, bulk_retry.get(row.pk)
                advance(row.position - before)
                if not self.error_console.is_terminal:
                    self.stdout.write(_told(row))
        row = bulk_retry.get(row.pk)
        for task, why in row.skipped:
            self.stdout.write(plain(f"task {task} was not retried: {why}"))
        self.done(_told(row), None, by_hand=f"{command('task cancel ID')}, for each task")


def _told(row: BulkRetry) -> str:
    done = f"{row.position:,} of {row.all_tasks:,} tasks"
    return f"{done}: {row.retried_errors:,} of {row.all_errors:,} requests"


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
            task = submission.submit(**_source(options["what"]), since=since, **asked)
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


class SetTask(ServiceCommand):
    help = "Changes limits of a task, at once on all nodes."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=int)
        parser.add_argument(
            "--delay",
            type=read_delay,
            metavar="SECONDS",
            help="between two requests to a host, or auto",
        )
        parser.add_argument("--concurrency", type=int, metavar="N", help="in flight per host")
        parser.add_argument(
            "--page-limit", type=int, metavar="N", help="pages of the task; 0: no limit"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        names = ("delay", "concurrency", "page_limit")
        given = {name: options[name] for name in names if options[name] is not None}
        before = limits_as_written(get_task(options["id"]))
        change_limits(options["id"], {"command": True}, **given)
        undo = " ".join(f"--{name.replace('_', '-')} {before[name]}" for name in given)
        changes = ", ".join(f"{name} {before[name]} -> {value}" for name, value in given.items())
        self.done(f"task {options['id']}: {changes}", f"task set {options['id']} {undo}")


def read_delay(text: str) -> Delay:
    try:
        return AUTO if text == AUTO else float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is neither a number of seconds nor auto") from None


class SteerTask(ServiceCommand):
    """``told``: the change of the task. ``undo``: the verb that takes it back."""

    def __init__(self, verb: str, told: str, undo: str = "") -> None:
        super().__init__()
        self._verb, self._told, self._undo = verb, told, undo

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=int)

    def handle(self, *args: Any, **options: Any) -> None:
        task = options["id"]
        change(self._verb, getattr(submit, self._verb), task, command=True)
        self.done(f"task {task} {self._told}", self._undo and f"task {self._undo} {task}")


PAUSE = partial(SteerTask, "pause", "is paused", "resume")
RESUME = partial(SteerTask, "resume", "runs again", "pause")
CANCEL = partial(SteerTask, "cancel", "is being cancelled")
