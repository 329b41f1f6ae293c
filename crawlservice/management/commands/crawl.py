"""crawl: a whole crawl on this machine: checks, submits, crawls, shows progress and a summary."""

from __future__ import annotations

import signal
import sys
from argparse import ArgumentParser
from typing import Any

from crawlframe.base.urls import normalise
from crawlframe.errors import ArgumentError
from crawlservice.cli.command import ServiceCommand
from crawlservice.cli.crawl import Crawl
from crawlservice.cli.exit_code import ExitCode
from crawlservice.cli.terminal import ASKED, add_arguments, add_labels, add_output, add_settings
from crawlservice.tasks.arguments.spider_arguments import parse_pairs
from crawlservice.tasks.labels import parse_all
from crawlservice.tasks.overrides import parse_settings
from crawlservice.tasks.results.export import STDOUT


class Command(ServiceCommand):
    help = (
        "Crawls with one spider on this machine, from start to end. Exits with 0 when the task has "
        "finished, with or without errors, 1 when it has failed, 3 when it was cancelled."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("spider", help="its name; check lists them")
        add_arguments(parser, ASKED)
        add_settings(parser)
        add_labels(parser)
        parser.add_argument("--url", help="short for -a url=URL")
        add_output(parser)
        parser.add_argument(
            "--cache", nargs="?", const="on", default="", choices=("on", "refresh"),
            help="fetch each page once, and replay it in later runs; refresh: fetch all again",
        )  # fmt: skip
        parser.add_argument("--workers", type=int, help="processes; by default one per CPU")
        parser.add_argument("--concurrency", type=int, help="requests in flight per worker")
        parser.add_argument(
            "--priority", type=int, default=0, help="-100 to 100; higher runs first"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        # A terminal that closes, or `kill`, must stop the node in the same way as Ctrl-C.
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler)
        try:
            self.run(options["spider"], arguments_of(options), options)
        except KeyboardInterrupt:
            sys.exit(ExitCode.INTERRUPTED)

    def run(self, spider: str, arguments: dict[str, str], options: dict[str, Any]) -> None:
        Crawl(spider, arguments, **self.common(options)).run()

    def common(self, options: dict[str, Any]) -> dict[str, Any]:
        """The parameters of Crawl, without spider and arguments. Raises ArgumentError."""
        return {
            "console": self.error_console if options["output"] == STDOUT else self.console,
            "priority": options["priority"],
            "settings": parse_settings(options["overrides"]),
            "labels": parse_all(options["labels"]),
            "workers": options["workers"],
            "concurrency": options["concurrency"],
            "output": options["output"],
            "format": options["format"],
            "cache": options["cache"],
        }


def arguments_of(options: dict[str, Any]) -> dict[str, str]:
    """Raises ArgumentError or BadRequest."""
    given = parse_pairs(options["arguments"])
    if options["url"] is not None:
        if "url" in given:
            raise ArgumentError("give either --url or -a url=…")
        given["url"] = normalise(options["url"])
    return given
