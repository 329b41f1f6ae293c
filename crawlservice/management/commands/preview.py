"""preview: what a change of the code does to the data, tried on kept pages."""

from __future__ import annotations

import signal
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from crawlservice import project
from crawlservice.cli.command import ServiceCommand
from crawlservice.cli.preview_report import as_json, markdown, show
from crawlservice.preview.ordered import run_order
from crawlservice.preview.preview import DEADLINE, PreviewOrder
from crawlservice.preview.result import LIVE

FORMATS = ("text", "markdown", "json")


class Command(ServiceCommand):
    help = (
        "Runs two versions of the spiders over kept pages, each in processes of its own, and shows "
        "by spider and field what differs, with examples. Nothing is fetched, and nothing is "
        "stored. Exits with 1 if a difference is an error by preview.toml in the package of the "
        "spiders; without this file, lost values and new errors are."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "revision", nargs="?", default="",
            help="a branch, tag or commit; by default the files as they are",
        )  # fmt: skip
        parser.add_argument(
            "--against", default=LIVE, metavar="REVISION",
            help="another revision; by default live, the commit that the nodes run",
        )  # fmt: skip
        parser.add_argument(
            "--spider", action="append", default=[], metavar="NAME",
            help="only this spider; * and ? stand for other characters; may be repeated",
        )  # fmt: skip
        parser.add_argument(
            "--pages", type=_positive, default=200, help="of each spider; 200 by default"
        )
        parser.add_argument(
            "--all", action="store_true", help="also spiders whose code is the same in both"
        )
        parser.add_argument(
            "--deadline", type=_positive, default=int(DEADLINE), metavar="SECONDS",
            help=f"that a page may take; {DEADLINE:g} by default",
        )  # fmt: skip
        parser.add_argument("--format", choices=FORMATS, default="text")
        # A node runs the preview with this number, which a user has ordered.
        parser.add_argument("--order", type=_positive, help=SUPPRESS)

    def handle(self, *args: Any, **options: Any) -> None:
        # A job that is cancelled must leave no files of a revision, as after Ctrl-C.
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler)
        if options["order"]:
            run_order(options["order"], project.directory(), settings.CRAWLFRAME)
            return
        preview = PreviewOrder(
            project.directory(),
            settings.CRAWLFRAME,
            options["revision"],
            options["against"],
            options["spider"],
            options["pages"],
            options["all"],
            options["deadline"],
            self.progress,
        ).run()
        match options["format"]:
            case "json":
                self.show_json(as_json(preview))
            case "markdown":
                self.stdout.write(markdown(preview), ending="")
            case _:
                show(preview, self.console)
        if preview.regressions:
            raise CommandError("\n".join(map(str, preview.regressions)))


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise ArgumentTypeError(f"{text!r} must be a number from 1 on")
    return int(text)
