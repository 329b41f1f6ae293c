"""startspider: writes a new spider to start from."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings

from crawlframe.code.registry import find_package
from crawlframe.program import command
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.cli.new_spider import write_spider


class Command(ServiceCommand):
    help = "Creates spiders/NAME.py from a template."
    needs_database = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="letters, digits and _; also the spider's name")
        parser.add_argument("url", nargs="?", default="https://example.com/", help="where to start")

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["name"]
        package = settings.CRAWLFRAME.spiders
        directory = find_package(package) or settings.BASE_DIR / package.replace(".", "/")
        path = write_spider(directory, package, name, options["url"])
        self.stdout.write(f"wrote {path}")
        url = options["url"]
        self.stdout.write(f"Try it: {command(f'fetch {url} --shell')}")
        self.stdout.write(f"Run it: {command(f'crawl {name} -o {name}.jsonl')}")
