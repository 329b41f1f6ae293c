"""proxies: the pool of proxies: import, list, check."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import transaction
from rich.table import Table

from crawlservice.accounts.journal import record
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.cli.terminal import plain
from crawlservice.connections import clock
from crawlservice.connections.frontier import frontier
from crawlservice.hosts.names import check_name
from crawlservice.models import Proxy
from crawlservice.proxies.check import AT_A_TIME, check_all
from crawlservice.proxies.entry import BadProxy, check_fields, read_lines, store
from crawlservice.proxies.use import problems

MAX_PROBLEMS = 10  # problems of a file


class Command(ServiceCommand):
    help = "Imports, lists, checks and deletes the proxies of the pool."

    def add_arguments(self, parser: ArgumentParser) -> None:
        what = parser.add_subparsers(
            dest="what", required=True, metavar="import | list | check | delete"
        )
        add = what.add_parser("import", help="add those of a file, one in each line")
        add.add_argument("file", help="its path; - is the standard input")
        add.add_argument("--tag", action="append", default=[], help="may be given more than once")
        add.add_argument("--tier", type=int, default=0, help="0 is used first (%(default)s)")
        add.add_argument("--country", default="", help="two letters")
        add.add_argument(
            "--max-concurrency", type=int, default=0, help="requests in flight; 0: no limit"
        )
        show = what.add_parser("list", help="list them, without their credentials")
        show.add_argument("--host", help="what is known of them at this host, from Redis")
        check = what.add_parser("check", help="check them now")
        check.add_argument("url", nargs="*", help="only these; without, all that are enabled")
        delete = what.add_parser("delete", help="delete those with this URL, or with a tag")
        delete.add_argument("url", nargs="?", help="as it is listed")
        delete.add_argument("--tag", help="all that have it")

    def handle(self, *args: Any, **options: Any) -> None:
        {
            "import": self._import,
            "list": self._list,
            "check": self._check,
            "delete": self._delete,
        }[options["what"]](options)

    def _import(self, options: dict[str, Any]) -> None:
        path = options["file"]
        try:
            text = sys.stdin.read() if path == "-" else Path(path).read_text(errors="replace")
        except OSError as error:
            raise CommandError(f"{path} cannot be read: {error.strerror}") from None
        fields = {
            "tier": options["tier"],
            "tags": options["tag"],
            "country": options["country"],
            "most": options["max_concurrency"],
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
            record("import proxies", command=True, new=done.new, changed=done.changed)
        self.stdout.write(
            f"{done.new} new, {done.changed} changed, {done.unchanged} unchanged; new ones, and "
            "those with other credentials, are used when a node has checked them"
        )

    def _list(self, options: dict[str, Any]) -> None:
        if options["host"]:
            return self._list_at(options["host"])
        names = "url", "login", "tier", "tags", "country", "at most", "state", "problem"
        table = Table(*names, box=None, pad_edge=False)
        rows = [*Proxy.objects.order_by("url", "pk")]
        known = problems(rows)
        for row in rows:
            table.add_row(
                row.url,
                "yes" if row.sealed_login else "no",
                str(row.tier),
                row.tags,
                row.country,
                str(row.max_concurrency or ""),
                row.state if row.enabled else "disabled",
                plain(known[row.pk]),
            )
        self.console.print(table)

    def _list_at(self, name: str) -> None:
        """Those that were used at the host of late, or rest there."""
        host, now = check_name(name), clock.now().timestamp()
        urls = dict(Proxy.objects.order_by("url", "pk").values_list("pk", "url"))
        use = frontier().proxies.use(urls)
        names = "url", "in flight here", "in all", "rests", "why"
        table = Table(*names, box=None, pad_edge=False)
        for pk, state in frontier().proxies.at(host, urls).items():
            rests = max(0.0, state.resting_until - now)
            table.add_row(
                urls[pk],
                str(state.in_flight),
                str(use[pk].in_flight),
                f"{rests:.0f} s" if rests else "",
                state.why if rests else "",
            )
        self.console.print(table)

    def _check(self, options: dict[str, Any]) -> None:
        rows = Proxy.objects.order_by("url", "pk")
        rows = rows.filter(url__in=options["url"]) if options["url"] else rows.filter(enabled=True)
        wanted, failed = [*rows], 0
        echo = settings.CRAWLFRAME.proxy_echo
        good = "works" if echo else "connected only"
        if not wanted:
            raise CommandError("there is no such proxy" if options["url"] else "there are none")
        for start in range(0, len(wanted), AT_A_TIME):
            some = wanted[start : start + AT_A_TIME]
            for pk, checked in check_all(settings.CRAWLFRAME, some).items():
                url = next(row.url for row in some if row.pk == pk)
                failed += bool(checked.problem)
                self.stdout.write(f"{url}: {checked.problem or f'{good}, {checked.seconds:.2f} s'}")
        of = f"{len(wanted) - failed} of {len(wanted)}"
        self.stdout.write(
            f"{of} work"
            if echo
            else f"{of} accept connections; set CRAWLFRAME_PROXY_ECHO to a page that they must "
            "fetch, so that their logins and answers are checked, too"
        )

    def _delete(self, options: dict[str, Any]) -> None:
        if bool(options["url"]) == bool(options["tag"]):
            raise CommandError("give a URL, or --tag")
        rows = Proxy.objects.filter(url=options["url"]) if options["url"] else None
        found = (
            [*rows]
            if rows is not None
            else [row for row in Proxy.objects.all() if options["tag"] in row.tags.split()]
        )
        if not found:
            raise CommandError("there is no such proxy")
        with transaction.atomic():
            Proxy.objects.filter(pk__in=[row.pk for row in found]).delete()
            record("delete proxies", command=True, number=len(found))
        self.stdout.write(f"{len(found)} deleted; nodes stop using them within some seconds")
