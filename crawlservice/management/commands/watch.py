"""watch: begins to watch a spider's pages, or steers a watch."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from crawlframe.base.program import command
from crawlservice.accounts.journal import record
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.cli.secret_input import with_secrets
from crawlservice.cli.terminal import add_settings
from crawlservice.tasks.arguments.spider_arguments import parse_pairs
from crawlservice.tasks.overrides import parse_settings
from crawlservice.tasks.submit import published
from crawlservice.watches import editing

VERBS = {"pause": editing.pause, "resume": editing.resume, "end": editing.end}


class Command(ServiceCommand):
    help = "Begins to watch the pages of a spider, or changes a watch."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("what", help="a spider's name, or the number of a watch to change")
        parser.add_argument(
            "-a", dest="arguments", action="append", default=[], metavar="NAME=VALUE",
            help="an argument of the spider; may be repeated. A secret given as - is asked for",
        )  # fmt: skip
        add_settings(parser)
        parser.add_argument("--priority", type=int, help="-100 to 100; higher runs first (0)")
        parser.add_argument(
            "--budget", metavar="N", help="requests per day in place of the spider's; 0: as it says"
        )
        parser.add_argument("--host-budget", metavar="N", help="the same, for each host")
        some = parser.add_mutually_exclusive_group()
        for verb, what in (
            ("pause", "make no rounds"),
            ("resume", "go on"),
            ("end", "for ever; what it knows stays"),
        ):
            some.add_argument(f"--{verb}", action="store_true", help=what)
        some.add_argument(
            "--visit-now", nargs="*", metavar="URL",
            help="visit these pages before all others; without any, run start",
        )  # fmt: skip

    def handle(self, *args: Any, **options: Any) -> None:
        budgets = {
            name: _number(options[name], name)
            for name in ("budget", "host_budget")
            if options[name] is not None
        }
        if options["what"].isdecimal():
            self._change(int(options["what"]), budgets, options)
            return
        if any(options[verb] for verb in VERBS) or options["visit_now"] is not None:
            raise CommandError(
                f"{options['what']!r} is no number of a watch; list them: {command('watches')}"
            )
        info = published(options["what"])
        watch = editing.begin(
            info.name,
            with_secrets(info, parse_pairs(options["arguments"])),
            priority=options["priority"] or 0,
            from_text=True,
            settings=parse_settings(options["overrides"]),
            info=info,
            budget=budgets.get("budget"),
            host_budget=budgets.get("host_budget"),
        )
        record("begin watch", command=True, watch=watch.pk, spider=watch.spider)
        self.stdout.write(f"watch {watch.pk} begins: {watch.spider}")
        self.stdout.write(f"Look at it: {command(f'watches {watch.pk}')}")

    def _change(self, number: int, budgets: dict[str, Any], options: dict[str, Any]) -> None:
        if options["arguments"] or options["overrides"] or options["priority"] is not None:
            raise CommandError(
                f"{number} is the number of a watch, whose arguments, settings and priority do not "
                "change; end it, and begin another one"
            )
        verb = next((verb for verb in VERBS if options[verb]), "")
        if not (verb or budgets or options["visit_now"] is not None):
            raise CommandError(
                f"say what to do with watch {number}: --pause, --resume, --end, --visit-now, "
                "--budget or --host-budget"
            )
        if budgets:
            editing.set_budget(number, **budgets)
            record("change watch", command=True, watch=number, **budgets)
            self.stdout.write(f"watch {number} has a new budget")
        if verb:
            watch = VERBS[verb](number)
            record(f"{verb} watch", command=True, watch=number)
            self.stdout.write(f"watch {number} is {watch.state}")
        elif options["visit_now"] is not None:
            urls = options["visit_now"]
            pages = editing.visit_now(number, urls=urls)
            record("visit now", command=True, watch=number, pages=pages)
            what = f"{pages} pages are visited" if urls else "start runs"
            self.stdout.write(f"{what} with the next round")


def _number(text: str, name: str) -> float | None:
    try:
        return float(text) or None
    except ValueError:
        raise CommandError(
            f"--{name.replace('_', '-')} is {text!r}; give a number of requests per day"
        ) from None
