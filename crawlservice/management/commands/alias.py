"""alias: rules that make several URLs one page."""

from __future__ import annotations

from argparse import ArgumentParser
from functools import partial
from typing import Any

from django.core.management.base import CommandError

from crawlframe.aliases.verify import PAIRS
from crawlframe.base.program import command
from crawlservice.accounts.journal import record
from crawlservice.aliases import rules
from crawlservice.aliases.fetching import DELAY, Where
from crawlservice.aliases.rules import check, propose
from crawlservice.cli.command import ServiceCommand, add_dry_run, add_json
from crawlservice.cli.listing import Listing, attributes, plain
from crawlservice.cli.noun import Noun
from crawlservice.connections.frontier import frontier
from crawlservice.identity.papers import identity_here
from crawlservice.models import AliasRule

MAX_EXAMPLES = 5  # examples
RULES = Listing[AliasRule](
    "rules",
    {
        **attributes("id=pk", "origin"),
        "rule": lambda row: str(rules.rule_of(row)),
        **attributes("state", "for=support", "against=contradictions", "compared", "problem"),
    },
    "no rules",
    folded=("rule", "problem"),
)


class LearnRules(ServiceCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("task", nargs="?", type=int, help="from the pages of this task")
        parser.add_argument("--spider", metavar="NAME", help="of all tasks of a spider")
        parser.add_argument("--host", help="only from pages of this host, or host:port")
        parser.add_argument(
            "--pairs", type=int, default=PAIRS,
            help="of URLs that are fetched to verify a rule, two or three fetches each; 0: none, "
            "the rules stay proposals (%(default)s)",
        )  # fmt: skip
        parser.add_argument(
            "--delay", type=float, default=DELAY,
            help="seconds between two fetches of a host, at least (%(default)g)",
        )  # fmt: skip

    def handle(self, *args: Any, **options: Any) -> None:
        pairs, delay = options["pairs"], options["delay"]
        if not 0 <= pairs <= 100:
            raise CommandError(f"--pairs is {pairs}; it must be from 0 to 100")
        if not 0 <= delay <= 3600:
            raise CommandError(f"--delay is {delay:g}; it must be from 0 to 3600 seconds")
        where = Where(options["task"], options["spider"] or "", options["host"] or "")
        with self.progress("reading pages"):
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
        if pairs:
            identity, lacks = identity_here()
            if lacks:
                self.stderr.write(f"note: {lacks}")
            for row in check(learned, frontier().permits, identity, pairs=pairs, delay=delay):
                problem = f": {row.problem}" if row.problem else ""
                self.stdout.write(plain(f"{row.pk} {_told(row)} is {row.state}{problem}"))
        numbers = [row.pk for row, _ in learned.waiting]
        waits = AliasRule.objects.filter(pk__in=numbers, state=AliasRule.State.PROPOSED).count()
        told = f"; {waits} of them are only proposed, and not used: learn again to verify them"
        if numbers:
            undo = f"alias forget {' '.join(map(str, numbers))}"
            self.done(f"{len(numbers)} rules learned{told if waits else ''}", undo)


class ListRules(ServiceCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--state", choices=AliasRule.State.values)
        parser.add_argument("--host", help="only rules of this host, or host:port")
        add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        rows = AliasRule.objects.order_by("origin", "pk")
        if options["state"]:
            rows = rows.filter(state=options["state"])
        if options["host"]:
            rows = rows.filter(origin__in=[f"{s}://{options['host']}" for s in ("http", "https")])
        self.show_list(RULES, [*rows], options["json"])
        if not rows and not options["json"]:
            self.stdout.write(f"learn some: {command('alias learn TASK')}")


class ShowRule(ServiceCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=int)
        add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        row = rules.get(options["id"])
        if options["json"]:
            examples = {"equal": row.examples, "different": row.counterexamples}
            self.show_json(RULES.as_json([row])["rules"][0] | examples)
            return
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


class ChangeRules(ServiceCommand):
    """Revokes or forgets rules."""

    def __init__(self, verb: str) -> None:
        super().__init__()
        self._verb = verb

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=int, nargs="+")
        add_dry_run(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        rows = [rules.get(number) for number in options["id"]]
        told = [_told(row) for row in rows]
        if self.only_shows(options, plain(f"{self._verb} {'; '.join(told)}")):
            return
        if self._verb == "revoke":
            undo = f"alias forget {' '.join(str(row.pk) for row in rows)}"
            n = rules.revoke(rows)
            done = f"{n} revoked; tasks that were submitted before continue to use them"
        else:
            undo, done = "alias learn TASK", f"{len(rows)} forgotten; they may be learned again"
            for row in rows:
                rules.forget(row)
        self.done(done, undo)
        record(f"{self._verb} aliases", command=True, rules=told)


class Command(Noun):
    verbs = {
        "list": ListRules,
        "show": ShowRule,
        "learn": LearnRules,
        "revoke": partial(ChangeRules, "revoke"),
        "forget": partial(ChangeRules, "forget"),
    }


def _told(row: AliasRule) -> str:
    return f"{row.origin}: {rules.rule_of(row)}"
