"""watch: pages that are visited again when they may have changed."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from django.core.management.base import CommandError

from crawlframe.base.program import command
from crawlservice.accounts.journal import record
from crawlservice.cli.command import JsonCommand, ServiceCommand, add_json
from crawlservice.cli.listing import Listing, attributes, plain
from crawlservice.cli.noun import Noun
from crawlservice.cli.secret_input import with_secrets
from crawlservice.cli.terminal import ASKED, add_arguments, add_settings
from crawlservice.models import Watch, WatchedPage
from crawlservice.tasks.arguments.spider_arguments import parse_pairs
from crawlservice.tasks.overrides import parse_settings
from crawlservice.tasks.submit import published
from crawlservice.watches import editing
from crawlservice.watches.clock import NOW
from crawlservice.watches.overview import Numbers, numbers_of, rate_of

MAX_PAGES = 20  # pages
COUNTS = ("pages", "due", "new", "gone", "failed", "today")


class WatchNow(NamedTuple):
    watch: Watch
    numbers: Numbers


class ListWatches(JsonCommand):
    def handle(self, *args: Any, **options: Any) -> None:
        watches = [*Watch.objects.all()]
        numbers = numbers_of([watch.pk for watch in watches])
        listing = Listing[WatchNow](
            "watches",
            {
                **attributes("id=watch.pk", "spider=watch.spider", "state=watch.state"),
                **attributes(*(f"{n}=numbers.{n}" for n in COUNTS)),
                "up to date": lambda now: _percent(now.numbers.fresh),
            },
            f"no watches; start one: {command('watch start SPIDER')}",
        )
        found = [WatchNow(watch, numbers[watch.pk]) for watch in watches]
        self.show_list(listing, found, options["json"])
        for watch in watches if not options["json"] else ():
            if watch.problem:
                self.stdout.write(f"\n{plain(f'watch {watch.pk}: {watch.problem}')}")


class ShowWatch(ServiceCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        _add_id(parser)
        parser.add_argument("--search", metavar="TEXT", help="only pages with this in their URL")
        parser.add_argument(
            "--state", choices=WatchedPage.State.values, help="only pages in this state"
        )
        add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        watch = editing.get(options["id"])
        n = numbers_of([watch.pk])[watch.pk]
        rows = WatchedPage.objects.filter(watch=watch)
        rows = rows.filter(url__icontains=options["search"]) if options["search"] else rows
        rows = rows.filter(state=options["state"]) if options["state"] else rows
        pages = [*rows.order_by("next_at", "pk")[:MAX_PAGES]]
        listing = Listing[WatchedPage](
            "due",
            {
                **attributes("url", "state"),
                "next": lambda page: _time(page.next_at),
                **attributes("last=last_visit", "visits", "changes"),
                "per day": lambda page: rate_of(watch, page),
                **attributes("importance"),
            },
            "no such pages",
            folded=("url",),
        )
        if options["json"]:
            names = ("id", "spider", "state", "problem")
            told = {name: getattr(watch, name) for name in names} | n._asdict()
            self.show_json(told | listing.as_json(pages))
            return
        self.stdout.write(
            f"watch {watch.pk} of {watch.spider} is {watch.state}: {n.pages:,} pages, {n.due:,} "
            f"due, {n.visits:,} visits, {n.changes:,} changes"
        )
        if watch.problem:
            self.stdout.write(plain(watch.problem))
        self.show_list(listing, pages, False)


class StartWatch(ServiceCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("spider", help="the spider's name")
        add_arguments(parser, ASKED)
        add_settings(parser)
        parser.add_argument(
            "--priority", type=int, default=0, help="-100 to 100; higher runs first"
        )
        _add_budgets(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        info = published(options["spider"])
        budgets = _budgets(options)
        watch = editing.begin(
            info.name,
            with_secrets(info, parse_pairs(options["arguments"])),
            priority=options["priority"],
            from_text=True,
            settings=parse_settings(options["overrides"]),
            info=info,
            budget=budgets.get("budget"),
            host_budget=budgets.get("host_budget"),
        )
        record("begin watch", command=True, watch=watch.pk, spider=watch.spider)
        self.done(f"watch {watch.pk} begins: {watch.spider}", f"watch end {watch.pk}")
        self.stdout.write(f"Look at it: {command(f'watch show {watch.pk}')}")


class SetWatch(ServiceCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        _add_id(parser)
        _add_budgets(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        number, budgets = options["id"], _budgets(options)
        if not budgets:
            raise CommandError("give --budget, --host-budget or both")
        before = editing.get(number)
        undo = [
            f"--{name.replace('_', '-')} {getattr(before, name) or 0:g}" for name in sorted(budgets)
        ]
        editing.set_budget(number, **budgets)
        record("change watch", command=True, watch=number, **budgets)
        self.done(f"watch {number} has a new budget", f"watch set {number} {' '.join(undo)}")


class TurnWatch(ServiceCommand):
    """``undo``: the verb that takes the turn back."""

    def __init__(self, verb: str, undo: str = "") -> None:
        super().__init__()
        self._verb, self._undo = verb, undo

    def add_arguments(self, parser: ArgumentParser) -> None:
        _add_id(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        number = options["id"]
        watch = getattr(editing, self._verb)(number)
        record(f"{self._verb} watch", command=True, watch=number)
        self.done(f"watch {number} is {watch.state}", self._undo and f"watch {self._undo} {number}")


class VisitPages(ServiceCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        _add_id(parser)
        parser.add_argument("urls", nargs="*", metavar="URL", help="without any, start runs")

    def handle(self, *args: Any, **options: Any) -> None:
        number, urls = options["id"], options["urls"]
        pages = editing.visit_now(number, urls=urls)
        record("visit now", command=True, watch=number, pages=pages)
        what = f"{pages} pages are visited" if urls else "start runs"
        self.done(f"{what} with the next round", None)


class Command(Noun):
    verbs = {
        "list": ListWatches,
        "show": ShowWatch,
        "start": StartWatch,
        "set": SetWatch,
        "pause": partial(TurnWatch, "pause", "resume"),
        "resume": partial(TurnWatch, "resume", "pause"),
        "end": partial(TurnWatch, "end"),
        "visit": VisitPages,
    }


def _add_id(parser: ArgumentParser) -> None:
    parser.add_argument("id", type=int, help=f"number of a watch; {command('watch list')} has all")


def _add_budgets(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--budget", metavar="N", help="requests per day in place of the spider's; 0: as it says"
    )
    parser.add_argument("--host-budget", metavar="N", help="the same, for each host")


def _budgets(options: dict[str, Any]) -> dict[str, Any]:
    """The budgets that are given. Raises CommandError."""
    return {
        name: _number(options[name], name)
        for name in ("budget", "host_budget")
        if options[name] is not None
    }


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{share:.0%}"


def _time(moment: datetime | None) -> datetime | str | None:
    return "now" if moment is not None and moment <= NOW else moment


def _number(text: str, name: str) -> float | None:
    try:
        return float(text) or None
    except ValueError:
        raise CommandError(
            f"--{name.replace('_', '-')} is {text!r}; give a number of requests per day"
        ) from None
