"""proxy: the pool of proxies."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import transaction

from crawlframe.base.program import command
from crawlservice.accounts.journal import record
from crawlservice.cli.command import ServiceCommand, add_dry_run, add_json
from crawlservice.cli.listing import Listing, attributes
from crawlservice.cli.noun import Noun
from crawlservice.connections import clock
from crawlservice.connections.frontier import frontier
from crawlservice.hosts.orders import check_name
from crawlservice.models import Proxy
from crawlservice.proxies.check import AT_A_TIME, check_all
from crawlservice.proxies.entry import BadProxy, check_fields, read_lines, store
from crawlservice.proxies.use import problems

MAX_PROBLEMS = 10  # problems of a file


class ImportProxies(ServiceCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help="its path; - is the standard input")
        parser.add_argument("--tag", action="append", default=[], help="may be repeated")
        parser.add_argument("--tier", type=int, default=0, help="0 is used first (%(default)s)")
        parser.add_argument("--country", default="", help="two letters")
        parser.add_argument(
            "--max-concurrency", type=int, default=0, help="requests in flight; 0: no limit"
        )
        add_dry_run(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        path = options["file"]
        try:
            text = sys.stdin.read() if path == "-" else Path(path).read_text(errors="replace")
        except OSError as error:
            raise CommandError(f"{path} cannot be read: {error.strerror}") from None
        fields = {
            "tier": options["tier"],
            "tags": options["tag"],
            "country": options["country"],
            "max_concurrency": options["max_concurrency"],
        }
        try:
            check_fields(**fields)
        except BadProxy as error:
            raise CommandError(str(error)) from None
        entries, problems = read_lines(text.splitlines(), **fields)
        for problem in problems[:MAX_PROBLEMS]:
            self.stderr.write(problem)
        if problems:
            wrong = "1 line is" if len(problems) == 1 else f"{len(problems)} lines are"
            raise CommandError(f"nothing was imported: {wrong} wrong")
        with transaction.atomic():
            done = store(entries)
            if options["dry_run"]:
                transaction.set_rollback(True)
            else:
                record("import proxies", command=True, new=done.new, changed=done.changed)
        told = f"{done.new} new, {done.changed} changed, {done.unchanged} unchanged"
        if self.only_shows(options, f"import proxies: {told}"):
            return
        self.done(
            f"{told}; new ones, and those with other credentials, are used when a node has checked "
            "them",
            "proxy delete URL",
        )


class ListProxies(ServiceCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", help="their state at this host, from Redis")
        add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["host"]:
            self._at(options["host"], options["json"])
            return
        rows = [*Proxy.objects.order_by("url", "pk")]
        known = problems(rows)
        listing = Listing[Proxy](
            "proxies",
            {
                **attributes("url"),
                "state": lambda row: row.state if row.enabled else "disabled",
                **attributes("tier", "tags", "country"),
                "at most": lambda row: row.max_concurrency or None,
                "login": lambda row: bool(row.sealed_login),
                "problem": lambda row: known[row.pk],
            },
            f"no proxies; add some: {command('proxy import FILE')}",
            folded=("problem",),
        )
        self.show_list(listing, rows, options["json"])

    def _at(self, name: str, as_json: bool) -> None:
        """The proxies that were used at the host of late, or rest there."""
        host, now = check_name(name), clock.now().timestamp()
        urls = dict(Proxy.objects.order_by("url", "pk").values_list("pk", "url"))
        use = frontier().proxies.use(urls)
        states = frontier().proxies.at(host, urls)
        listing = Listing[int](
            "proxies",
            {
                "url": lambda pk: urls[pk],
                "in flight here": lambda pk: states[pk].in_flight,
                "in all": lambda pk: use[pk].in_flight,
                "rests": lambda pk: max(0, round(states[pk].resting_until - now)) or None,
                "why": lambda pk: states[pk].why if states[pk].resting_until > now else None,
            },
            "no proxy was used there of late",
        )
        self.show_list(listing, [*states], as_json)


class CheckProxies(ServiceCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("url", nargs="*", help="only these; without, all that are enabled")

    def handle(self, *args: Any, **options: Any) -> None:
        rows = Proxy.objects.order_by("url", "pk")
        rows = rows.filter(url__in=options["url"]) if options["url"] else rows.filter(enabled=True)
        wanted, failed = [*rows], 0
        echo = settings.CRAWLFRAME.proxy_echo
        good = "works" if echo else "connected only"
        if not wanted:
            raise CommandError("there is no such proxy" if options["url"] else "there are none")
        with self.progress("checking", len(wanted)) as advance:
            for start in range(0, len(wanted), AT_A_TIME):
                batch = wanted[start : start + AT_A_TIME]
                some = {row.pk: row.url for row in batch}
                for pk, checked in check_all(settings.CRAWLFRAME, batch).items():
                    failed += bool(checked.problem)
                    told = checked.problem or f"{good}, {checked.seconds:.2f} s"
                    self.stdout.write(f"{some[pk]}: {told}")
                advance(len(some))
        of = f"{len(wanted) - failed} of {len(wanted)}"
        self.stdout.write(
            f"{of} work"
            if echo
            else f"{of} accept connections; set CRAWLFRAME_PROXY_ECHO to a page that they must "
            "fetch, so that their logins and answers are checked, too"
        )


class DeleteProxies(ServiceCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("url", nargs="?", help="as it is listed")
        parser.add_argument("--tag", help="all that have it")
        add_dry_run(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        if bool(options["url"]) == bool(options["tag"]):
            raise CommandError("give a URL, or --tag")
        if options["url"]:
            found = [*Proxy.objects.filter(url=options["url"])]
        else:
            found = [row for row in Proxy.objects.all() if options["tag"] in row.tags.split()]
        if not found:
            raise CommandError("there is no such proxy")
        if self.only_shows(options, "\n".join(["delete:", *(row.url for row in found)])):
            return
        with transaction.atomic():
            Proxy.objects.filter(pk__in=[row.pk for row in found]).delete()
            record("delete proxies", command=True, number=len(found))
        self.done(
            f"{len(found)} deleted; nodes stop using them within some seconds", "proxy import FILE"
        )


class Command(Noun):
    verbs = {
        "import": ImportProxies,
        "list": ListProxies,
        "check": CheckProxies,
        "delete": DeleteProxies,
    }
