"""aliases: rules by which several URLs are one page: learn, list, show, revoke, forget."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from rich.table import Table

from crawlframe.aliases.verify import PAIRS
from crawlframe.base.program import command
from crawlservice.accounts.journal import record
from crawlservice.aliases import rules
from crawlservice.aliases.fetching import DELAY, Where
from crawlservice.aliases.rules import check, propose
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.cli.terminal import plain
from crawlservice.connections.frontier import frontier
from crawlservice.identity.papers import identity_here
from crawlservice.models import AliasRule

MAX_EXAMPLES = 5  # examples


class Command(ServiceCommand):
    help = "Learns, lists, shows, revokes and forgets rules by which several URLs are one page."

    def add_arguments(self, parser: ArgumentParser) -> None:
        what = parser.add_subparsers(
            dest="what", required=True, metavar="learn | list | show | revoke | forget"
        )
        learn = what.add_parser("learn", help="learn rules from kept pages, and verify them")
        learn.add_argument("task", nargs="?", type=int, help="from the pages of this task")
        learn.add_argument("--spider", metavar="NAME", help="from those of all tasks of a spider")
        learn.add_argument("--host", help="only from pages of this host, or host:port")
        learn.add_argument(
            "--pairs", type=int, default=PAIRS,
            help="of URLs that are fetched to verify a rule, two or three fetches each; 0: none, "
            "the rules stay proposals (%(default)s)",
        )  # fmt: skip
        learn.add_argument(
            "--delay", type=float, default=DELAY,
            help="seconds between two fetches of a host, at least (%(default)g)",
        )  # fmt: skip
        listing = what.add_parser("list", help="list the rules")
        listing.add_argument("--state", choices=AliasRule.State.values)
        listing.add_argument("--host", help="only those of this host, or host:port")
        show = what.add_parser("show", help="show a rule with examples")
        show.add_argument("id", type=int)
        revoke = what.add_parser("revoke", help="do not use rules any more, nor learn them again")
        revoke.add_argument("id", type=int, nargs="+")
        forget = what.add_parser("forget", help="delete rules, so that they may be learned again")
        forget.add_argument("id", type=int, nargs="+")

    def handle(self, *args: Any, **options: Any) -> None:
        {
            "learn": self._learn,
            "list": self._list,
            "show": self._show,
            "revoke": self._revoke,
            "forget": self._forget,
        }[options["what"]](options)

    def _learn(self, options: dict[str, Any]) -> None:
        pairs, delay = options["pairs"], options["delay"]
        if not 0 <= pairs <= 100:
            raise CommandError(f"--pairs is {pairs}; it must be from 0 to 100")
        if not 0 <= delay <= 3600:
            raise CommandError(f"--delay is {delay:g}; it must be from 0 to 3600 seconds")
        where = Where(options["task"], options["spider"] or "", options["host"] or "")
        learned = propose(where)
        told = f"{learned.pages:,} pages: {len(learned.waiting)} rules to be verified"
        if learned.others:
            told += f", {learned.others} verified before"
        if learned.refused:
            told += f"; {learned.refused} that were revoked or refuted are not learned again"
        self.stdout.write(told)
        record(
            "learn aliases", command=True, pages=learned.pages, rules=len(learned.waiting),
            task=where.task, spider=where.spider, host=where.host,
        )  # fmt: skip
        if not pairs:
            self._note_waiting(len(learned.waiting))
            return
        identity, lacks = identity_here()
        if lacks:
            self.stderr.write(f"note: {lacks}")
        waiting = 0
        for row in check(learned, frontier().permits, identity, pairs=pairs, delay=delay):
            waiting += row.state == AliasRule.State.PROPOSED
            problem = f": {row.problem}" if row.problem else ""
            self.stdout.write(plain(f"{row.pk} {_told(row)} is {row.state}{problem}"))
        self._note_waiting(waiting)

    def _note_waiting(self, waiting: int) -> None:
        if waiting:
            self.stdout.write(
                f"rules that are only proposed are not used: {waiting}; learn again to verify them"
            )

    def _list(self, options: dict[str, Any]) -> None:
        rows = AliasRule.objects.order_by("origin", "pk")
        if options["state"]:
            rows = rows.filter(state=options["state"])
        if options["host"]:
            rows = rows.filter(origin__in=[f"{s}://{options['host']}" for s in ("http", "https")])
        names = ("id", "origin", "rule", "state", "for", "against", "compared", "problem")
        table = Table(*names, box=None, pad_edge=False, header_style="bold")
        for row in rows:
            cells = (row.pk, row.origin, rules.rule_of(row), row.state)
            counts = (row.support, row.contradictions, row.compared)
            table.add_row(*(plain(str(cell)) for cell in (*cells, *counts, row.problem)))
        if table.row_count:
            self.console.print(table)
        else:
            self.stdout.write(f"no rules; learn some: {command('aliases learn TASK')}")

    def _show(self, options: dict[str, Any]) -> None:
        row = rules.get(options["id"])
        self.stdout.write(plain(f"{row.pk} {_told(row)} is {row.state}"))
        if row.problem:
            self.stdout.write(plain(row.problem))
        self.stdout.write(
            f"{row.support} pages for it, {row.contradictions} against it; {row.compared} pairs "
            f"compared, {row.fetches} fetches"
        )
        places = ", ".join(f"/{place}" for place in sorted(rules.rule_of(row).places))
        self.stdout.write(plain(f"holds at {places or 'no place'}"))
        for name, pairs in (("equal", row.examples), ("different", row.counterexamples)):
            for one, other in pairs[:MAX_EXAMPLES]:
                self.stdout.write(plain(f"{name}: {one}\n{' ' * len(name)}  {other}"))

    def _revoke(self, options: dict[str, Any]) -> None:
        rows = [rules.get(number) for number in options["id"]]
        n = rules.revoke(rows)
        record("revoke aliases", command=True, rules=[_told(row) for row in rows])
        self.stdout.write(f"{n} revoked; tasks that were submitted before continue to use them")

    def _forget(self, options: dict[str, Any]) -> None:
        rows = [rules.get(number) for number in options["id"]]
        for row in rows:
            rules.forget(row)
        record("forget aliases", command=True, rules=[_told(row) for row in rows])
        self.stdout.write(f"{len(rows)} forgotten; they may be learned again")


def _told(row: AliasRule) -> str:
    return f"{row.origin}: {rules.rule_of(row)}"
