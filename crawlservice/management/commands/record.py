"""record: fetches some pages of a spider and keeps them as tests that need no network."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from django.conf import settings

from crawlframe.base.program import command
from crawlframe.load_spiders import load_spiders
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.cli.named_spider import NamedSpiders
from crawlservice.cli.record_pages import PageRecorder
from crawlservice.cli.terminal import plain
from crawlservice.identity.papers import identity_here
from crawlservice.proxies.local_pool import pool_here
from crawlservice.tasks.arguments.spider_arguments import parse_pairs

MAX_PAGES = 1000  # pages
PLUGIN = "crawlframe.recorded.pytest_plugin"


class Command(ServiceCommand):
    help = (
        "Crawls some pages of a spider, one at a time, and writes them with what its callbacks "
        "make of them to tests/recorded/SPIDER, without secrets. pytest replays them without "
        "network. Again, it updates the folder and shows what has changed. Neither Redis nor a "
        "database is needed."
    )
    needs_database = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("spider")
        parser.add_argument(
            "-a", dest="arguments", action="append", default=[], metavar="NAME=VALUE",
            help="an argument of the spider; may be repeated; without any, those of an earlier "
            "recording are used",
        )  # fmt: skip
        parser.add_argument(
            "--pages", type=_pages, default=20, help="how many are fetched at most; 20 by default"
        )
        parser.add_argument(
            "-o", "--output", type=Path, metavar="DIR", help="in place of tests/recorded/SPIDER"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        registry = load_spiders(settings.CRAWLFRAME)
        named = NamedSpiders(registry).get(options["spider"])
        if named.note:
            self.stderr.write(f"note: {named.note}")
        identity, lacks = identity_here()
        if lacks:
            self.stderr.write(f"note: {lacks}")
        for problem in registry.broken.values():
            self.stderr.write(f"warning: not loaded: {problem.partition(chr(10))[0]}")
        recorder = PageRecorder(
            settings.CRAWLFRAME,
            named,
            parse_pairs(options["arguments"]),
            directory=options["output"],
            identity=identity,
            pick=pool_here(),
            say=lambda text: self.stdout.write(plain(text)),
        )
        made = recorder.record(options["pages"])
        folder = made.recording.directory
        self.stdout.write("Look at the files before you commit them: pages may hold personal data.")
        self.stdout.write(f"Test them: python -m pytest {_plugin()}{folder}")
        self.stdout.write(f"Record again: {command(f'record {named.kind.name}')}")


def _plugin() -> str:
    """The option without which pytest does not know recorded pages: in a checkout that is not
    installed, nothing else names the plug-in."""
    known = any(one.value == PLUGIN for one in entry_points(group="pytest11"))
    return "" if known else f"-p {PLUGIN} "


def _pages(text: str) -> int:
    try:
        pages = int(text)
    except ValueError:
        pages = 0
    if not 1 <= pages <= MAX_PAGES:
        raise ArgumentTypeError(f"{text!r} must be a number of pages from 1 to {MAX_PAGES}")
    return pages
