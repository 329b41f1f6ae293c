"""Sources: lists of proxies, files or pages, that the leading steward reads again and again."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext
from msgspec.structs import replace

from crawlframe.conf import Settings
from crawlframe.errors import (
    ArgumentError,
    BadRequest,
    ConfigError,
    FetchError,
    FieldError,
    FrontierError,
    UnknownSpider,
)
from crawlframe.fetch.downloader import Downloader
from crawlframe.request.request import Request
from crawlframe.spider.settings import SpiderSettings
from crawlservice.connections import clock
from crawlservice.models import Proxy, ProxySource
from crawlservice.proxies.entry import read_lines, store
from crawlservice.security.sealing import seal, unseal
from crawlservice.tasks.arguments import spider_arguments
from crawlservice.tasks.submit import published

MAX_BYTES = 16 << 20  # bytes of a list
RETRY = 60.0  # seconds until a list is read again that could not be, if it is not due before
LEAST_EVERY, MOST_EVERY = 10, 31_536_000  # seconds


class BadSource(FieldError):
    """A list of proxies cannot be read, or is not one. ``field``: where the mistake is."""

    def __init__(self, message: str, field: str = "place") -> None:
        super().__init__(field, message)


def check_place(place: str) -> str:
    """The URL of a page, or the path of a file. Raises BadSource."""
    if "://" in place:
        if not place.startswith(("http://", "https://")):
            raise BadSource("a list of proxies is an http(s) URL, or the path of a file")
        try:
            Request(place)
        except BadRequest:
            raise BadSource("the URL of the list is wrong") from None
    elif not Path(place).is_absolute():
        raise BadSource("the path of a list must be absolute: any node may read it")
    return place


def check_every(every: int, spider: str) -> None:
    """Raises BadSource for seconds between two reads that a list cannot have."""
    if every < LEAST_EVERY and not (spider and every == 0):
        text = gettext("It must be at least %(least)d seconds; for a spider with a schedule, 0.")
        raise BadSource(text % {"least": LEAST_EVERY}, "every")
    if every > MOST_EVERY:
        text = gettext("It must be at most %(most)d seconds.")
        raise BadSource(text % {"most": MOST_EVERY}, "every")


def sealed_place(place: str, spider: str, every: int, before: str = "") -> str:
    """The sealed URL or path of a list, or the sealed arguments of its spider, as JSON.
    ``before``: the present value; it stays if none is given. Raises BadSource, also for a spider
    that no node has published, and for arguments that it does not take."""
    if not place and before:
        return before
    if not spider:
        if not place:
            raise BadSource(gettext("Give a URL or a path, or a spider."))
        return seal(check_place(place))
    try:
        arguments = json.loads(place or "{}")
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        raise BadSource(gettext("The arguments of a spider are a JSON object."))
    _check_run(spider, arguments, complete=every > 0)
    return seal(json.dumps(arguments))


def _check_run(spider: str, arguments: dict[str, Any], *, complete: bool) -> None:
    """Raises BadSource for a task that could not be submitted. ``complete``: as it is; else a
    schedule may add arguments."""
    try:
        info = published(spider)
        if not complete:
            info = replace(info, arguments={**info.arguments, "required": []})
        spider_arguments.check(info, arguments, from_text=False)
    except (UnknownSpider, FrontierError) as error:
        raise BadSource(str(error), "spider") from None
    except ArgumentError as error:
        raise BadSource(str(error)) from None


def due_now() -> Q:
    """Enabled lists whose time has come."""
    return Q(enabled=True) & (Q(next_at__isnull=True) | Q(next_at__lte=clock.now()))


def _due() -> Q:
    return due_now() & Q(spider="")


def any_due() -> bool:
    """Whether a list is to be read."""
    return ProxySource.objects.filter(_due()).exists()


def read_due(settings: Settings) -> None:
    """Reads the lists whose time has come. Raises django.db.Error."""
    for source in ProxySource.objects.filter(_due()):
        refresh(source, settings)


def refresh(source: ProxySource, settings: Settings) -> None:
    """Brings the proxies of a list up to date; if it cannot be read, or has none, they stay. Raises
    django.db.Error."""
    now = clock.now()
    try:
        place = unseal(source.sealed_place)
        text = asyncio.run(_fetch(place, settings)) if "://" in place else _read(Path(place))
        entries, problems = read_lines(
            text.splitlines(),
            tier=source.tier,
            tags=source.tags.split(),
            country=source.country,
            max_concurrency=source.max_concurrency,
        )
        if not entries:
            raise BadSource(problems[0] if problems else "the list is empty")
    except (BadSource, FetchError, ConfigError, OSError) as error:
        source.problem = " ".join(str(error).split())[:500] or type(error).__name__
        source.next_at = now + timedelta(seconds=min(RETRY, source.every))
        source.save(update_fields=("problem", "next_at"))
        return
    with transaction.atomic():
        store(entries, source)
        keys = {entry.key for entry in entries}
        gone = [
            pk
            for pk, key in Proxy.objects.filter(source=source).values_list("pk", "key")
            if key not in keys
        ]
        Proxy.objects.filter(pk__in=gone).delete()
        source.found, source.read_at = len(entries), now
        source.problem = problems[0][:500] if problems else ""
        source.next_at = now + timedelta(seconds=max(LEAST_EVERY, source.every))
        source.save(update_fields=("found", "read_at", "problem", "next_at"))


def _read(path: Path) -> str:
    if path.stat().st_size > MAX_BYTES:
        raise BadSource(f"the list has more than {MAX_BYTES >> 20} MiB")
    return path.read_text(errors="replace")


async def _fetch(url: str, settings: Settings) -> str:
    downloader = Downloader(settings)
    own = SpiderSettings(timeout=60, cookies=False, max_body=MAX_BYTES)
    try:
        response = await downloader.fetch(Request(url), own)
    except FetchError as error:  # its text may have the key that the URL has
        raise BadSource(f"the list could not be fetched: {error.reason}") from None
    finally:
        await downloader.close()
    if not response.ok:
        raise BadSource(f"the list's server answered {response.status}")
    return response.text
