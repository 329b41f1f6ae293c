"""startspider: writes a new spider to start from, and its first test."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management import call_command

from crawlframe.base.program import command
from crawlframe.code.registry import find_package
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.cli.new_spider import write_spider, write_test


class Command(ServiceCommand):
    help = "Creates spiders/NAME.py and tests/test_NAME.py from templates."
    needs_database = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="letters, digits and _; also the spider's name")
        parser.add_argument("url", nargs="?", default="https://example.com/", help="where to start")
        parser.add_argument(
            "--record", action="store_true", help="also record pages for tests, as `record` does"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["name"]
        package = settings.CRAWLFRAME.spiders
        directory = find_package(package) or settings.BASE_DIR / package.replace(".", "/")
        path = write_spider(directory, package, name, options["url"])
        self.stdout.write(f"wrote {path}")
        test = write_test(directory, package, name, options["url"])
        if test is not None:
            self.stdout.write(f"wrote {test}")
        url = options["url"]
        if options["record"]:
            call_command("record", name, stdout=self.stdout, stderr=self.stderr)
        else:
            self.stdout.write(f"Keep pages for its tests: {command(f'record {name}')}")
        self.stdout.write(f"Try it: {command(f'fetch {url} --shell')}")
        self.stdout.write(f"Run it: {command(f'crawl {name} -o {name}.jsonl')}")
