"""store cache, store clear-cache: the page cache of ``crawl --cache``."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from django.conf import settings

from crawlframe.errors import CacheUnusable
from crawlframe.fetch.page_cache import PLACE, PageCache
from crawlservice.cli.command import ServiceCommand


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
    def handle(self, *args: Any, **options: Any) -> None:
        if (path := self.find()) is None:
            return
        try:
            with closing(PageCache(path)) as cache:
                gone = _extent(cache)
                cache.clear()
        except CacheUnusable:
            PageCache.delete(path)
            self.done(f"deleted: {path}, which could not be read", None)
            return
        self.done(f"deleted: {gone}, in {path}", None)


def _extent(cache: PageCache) -> str:
    pages, size = cache.extent()
    return f"{pages:,} pages, {size / (1 << 20):,.1f} MiB"
