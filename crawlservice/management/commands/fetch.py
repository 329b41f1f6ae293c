"""fetch: fetches one page as a node would, and prints it or opens a prompt with it."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from crawlframe.load_spiders import load_spiders
from crawlframe.request.downloader_names import known
from crawlframe.spider.spider import Spider
from crawlservice.cli.command import ServiceCommand
from crawlservice.cli.fetch_shell import PageFetcher, shell
from crawlservice.cli.listing import plain
from crawlservice.cli.named_spider import NamedSpiders
from crawlservice.identity.papers import identity_here
from crawlservice.proxies.pool import pool_here


class Command(ServiceCommand):
    help = (
        "Fetches one URL and prints the body. Redirects and unusual statuses go to standard error."
    )
    needs_database = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("url", nargs="?", help="may be left out with --shell")
        parser.add_argument("--spider", help="use this spider's settings and middlewares")
        parser.add_argument("--downloader", choices=known())
        parser.add_argument("--robots", action="store_true", help="ask robots.txt first")
        parser.add_argument("--headers", action="store_true", help="print status and headers only")
        parser.add_argument(
            "--shell", action="store_true", help="a prompt with `response`, `fetch` and `view`"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["spider"]
        spider = self._spider(name) if name else None
        identity, lacks = identity_here()
        if lacks:
            self.stderr.write(f"note: {lacks}")
        fetcher = PageFetcher(
            *(settings.CRAWLFRAME, spider, options["downloader"], options["robots"], identity),
            pick=pool_here(),
        )
        if options["url"] is None and not options["shell"]:
            raise CommandError("give a URL, or --shell")
        if options["shell"]:
            shell(fetcher, fetcher.fetch(options["url"]) if options["url"] else None)
            return
        with self.progress("fetching"):
            response = fetcher.fetch(options["url"])
        for url in response.redirects:
            self.stderr.write(f"redirected from {url}")
        if options["headers"]:
            self.stdout.write(f"{response.status} {response.url}")
            for header, value in response.headers.items():
                self.stdout.write(plain(f"{header}: {value}"))
            return
        if not response.ok:
            self.stderr.write(f"status {response.status}")
        self.write_body(response)

    def _spider(self, name: str) -> Spider:
        named = NamedSpiders(load_spiders(settings.CRAWLFRAME)).get(name)
        if named.note:
            self.stderr.write(f"note: {named.note}")
        return named.kind()
