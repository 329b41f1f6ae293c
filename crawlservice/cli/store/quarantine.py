"""store quarantine, store cache: unreadable rows of Redis, and the page cache of crawls."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings

from crawlframe.errors import CacheUnusable
from crawlframe.fetch.page_cache import PLACE, PageCache
from crawlframe.frontier.client.rows import SetAside
from crawlservice.accounts.journal import record
from crawlservice.cli.command import JsonCommand, ServiceCommand, add_dry_run
from crawlservice.cli.listing import Listing, attributes
from crawlservice.connections.frontier import frontier

ROWS = Listing[SetAside](
    "rows",
    attributes("time=at", "row=name", "value"),
    "no unreadable rows in Redis",
    folded=("value",),
)


class ListQuarantine(JsonCommand):
    help = (
        "Lists rows of Redis that could not be read and were set aside, so that they do not "
        "disturb anything else: when, which hash and field, and how the value begins."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        self.show_list(ROWS, frontier().rows.quarantined(), options["json"])


class ClearQuarantine(ServiceCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        add_dry_run(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        rows = len(frontier().rows.quarantined())
        if options["dry_run"] or not rows:
            self.stdout.write(f"{rows} rows would be deleted")
            return
        frontier().rows.clear_quarantine()
        record("forget unreadable rows", command=True, rows=rows)
        self.done(f"{rows} rows deleted", None)


class ShowCache(ServiceCommand):
    needs_database = False

    def handle(self, *args: Any, **options: Any) -> None:
        path = settings.VAR_DIR / PLACE
        if not path.exists():
            self.stdout.write(f"no pages: there is no {path}")
            return
        cache = PageCache(path)
        try:
            pages, size = cache.extent()
        finally:
            cache.close()
        self.stdout.write(f"kept: {pages:,} pages, {size / (1 << 20):,.1f} MiB, in {path}")


class ClearCache(ServiceCommand):
    needs_database = False

    def handle(self, *args: Any, **options: Any) -> None:
        path = settings.VAR_DIR / PLACE
        if not path.exists():
            self.stdout.write(f"no pages: there is no {path}")
            return
        try:
            cache = PageCache(path)
            try:
                pages, size = cache.extent()
                cache.clear()
            finally:
                cache.close()
        except CacheUnusable:
            PageCache.delete(path)
            self.done(f"deleted: {path}, which could not be read", None)
            return
        self.done(f"deleted: {pages:,} pages, {size / (1 << 20):,.1f} MiB, in {path}", None)
