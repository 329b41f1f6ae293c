"""store cache, store clear-cache: the page cache of ``crawl --cache``."""

from __future__ import annotations

from argparse import ArgumentParser
from contextlib import closing
from pathlib import Path
from typing import Any

from django.conf import settings

from crawlframe.errors import CacheUnusable
from crawlframe.fetch.page_cache import PLACE, PageCache
from crawlservice.cli.command import ServiceCommand, add_dry_run


class CacheCommand(ServiceCommand):
    needs_database = False

    def find(self) -> Path | None:
        """The cache; None, and a word about it, if there is none."""
        path: Path = settings.VAR_DIR / PLACE
        if path.exists():
            return path
        self.stdout.write(f"no pages: there is no {path}")
        return None


class ShowCache(CacheCommand):
    def handle(self, *args: Any, **options: Any) -> None:
        if path := self.find():
            with closing(PageCache(path)) as cache:
                self.stdout.write(f"kept: {_extent(cache)}, in {path}")


class ClearCache(CacheCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        add_dry_run(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        if (path := self.find()) is None:
            return
        try:
            with closing(PageCache(path)) as cache:
                gone = f"{_extent(cache)}, in {path}"
                if self.only_shows(options, f"delete {gone}"):
                    return
                cache.clear()
        except CacheUnusable:
            gone = f"{path}, which could not be read"
            if self.only_shows(options, f"delete {gone}"):
                return
            PageCache.delete(path)
        self.done(f"deleted: {gone}", None)


def _extent(cache: PageCache) -> str:
    pages, size = cache.extent()
    return f"{pages:,} pages, {size / (1 << 20):,.1f} MiB"
