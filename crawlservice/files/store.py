"""The file store of this installation."""

from __future__ import annotations

from functools import cache

from django.conf import settings

from crawlframe.files.opening import open_store
from crawlframe.files.store import FileStore


@cache
def store() -> FileStore:
    return open_store(settings.CRAWLFRAME)
