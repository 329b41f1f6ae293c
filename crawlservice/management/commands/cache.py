"""cache: what the development cache holds; or empties it."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings

from crawlframe.errors import CacheUnusable
from crawlframe.fetch.page_cache import PLACE, PageCache
from crawlservice.cli.command import Command as ServiceCommand


class Command(ServiceCommand):
    help = "Shows how much the cache of `crawl --cache` holds, or empties it."
    needs_database = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--clear", action="store_true", help="delete all pages of the cache")

    def handle(self, *args: Any, **options: Any) -> None:
        path = settings.VAR_DIR / PLACE
        if not path.exists():
            self.stdout.write(f"no pages: there is no {path}")
            return
        try:
            cache = PageCache(path)
            try:
                pages, size = cache.extent()
                if options["clear"]:
                    cache.clear()
            finally:
                cache.close()
        except CacheUnusable:
            if not options["clear"]:
                raise
            PageCache.delete(path)
            self.stdout.write(f"deleted: {path}, which could not be read")
            return
        done = "deleted" if options["clear"] else "kept"
        self.stdout.write(f"{done}: {pages:,} pages, {size / (1 << 20):,.1f} MiB, in {path}")
