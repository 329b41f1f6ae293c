"""Evidence: samples for the learner, from kept pages."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from crawlframe.aliases.content import content_of
from crawlframe.aliases.learn import Sample
from crawlframe.aliases.rule import MAX_URL, origin_of
from crawlframe.base.program import command
from crawlframe.errors import ArgumentError, BadRequest, PageDamaged, StoreError
from crawlframe.pages.stored import LEFT_OUT
from crawlframe.request.record import read_head
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.robots.state import MAX_ORIGIN
from crawlservice.models import KeptPage, Task
from crawlservice.pages.bodies import batches, read

log = logging.getLogger(__name__)

MAX_PAGES = 50_000  # pages that are read, the latest ones
AT_A_TIME = 50  # bodies


@dataclass(frozen=True)
class Where:
    """The kept pages to learn from: of a task, of all tasks of a spider, or of a host."""

    task: int | None = None
    spider: str = ""
    host: str = ""


def pages(where: Where) -> QuerySet[KeptPage]:
    """The pages that may prove something. Raises ArgumentError if nothing is asked for, or nothing
    is there."""
    rows = KeptPage.objects.filter(reason="", method="GET", status__range=(200, 299))
    if where.task is not None:
        rows = rows.filter(task__in=Task.objects.filter(pk=where.task))  # of any size
    if where.spider:
        rows = rows.filter(task__spider=where.spider)
    if where.host:
        rows = rows.filter(host=where.host)
    if where == Where():
        raise ArgumentError("say from which pages to learn: a task, --spider NAME or --host HOST")
    if not rows.exists():
        raise ArgumentError(_why_none(where))
    return rows


def _why_none(where: Where) -> str:
    if where.task is not None and not Task.objects.filter(pk=where.task).exists():
        return f"there is no task {where.task}; list them: {command('tasks')}"
    parts = {"task": where.task, "spider": where.spider, "host": where.host}
    asked = ", ".join(f"{name} {value}" for name, value in parts.items() if value)
    if where.host:
        others = KeptPage.objects.filter(host__startswith=f"{where.host}:").order_by("host")
        if names := [*others.values_list("host", flat=True).distinct()[:5]]:
            return f"no pages are kept of {asked}; say the port: {', '.join(names)}"
    return f'no pages are kept of {asked}; keep = "all" keeps them, see docs/howto/kept-pages.md'


def samples(where: Where) -> Iterator[Sample]:
    """Raises as ``pages``."""
    columns = ("pk", "url", "record", "status", "headers", "body")
    rows = [*pages(where).order_by("-pk").values_list("pk", "body__size")[:MAX_PAGES]]
    for numbers in batches(rows, AT_A_TIME):
        some = [*KeptPage.objects.filter(pk__in=numbers).values(*columns)]
        bodies = _bodies({row["body"] for row in some})
        for row in some:
            body = bodies.get(row["body"])
            sample = None if body is None else _sample(row, body)
            if sample is not None:
                yield sample


def _sample(row: dict[str, Any], body: bytes) -> Sample | None:
    headers = row["headers"]
    try:
        request = Request(read_head(bytes(row["record"])).url)
    except BadRequest:
        return None
    if headers.get("rendered"):  # what a browser shows depends on when it was read
        return None
    if not _is_fit(request.url):
        return None
    received = [
        (name, value) for name, value in headers.get("received", ()) if name.lower() not in LEFT_OUT
    ]
    content = content_of(Response(row["url"], row["status"], received, body, request))
    return (
        Sample(request.url, row["url"], content.exact, content.unordered)
        if content.proves
        else None
    )


def _is_fit(url: str) -> bool:
    """Whether a rule may be about it: which is no place for names and passwords, either."""
    if len(url) > MAX_URL:
        return False
    origin = origin_of(url)
    return len(origin) <= MAX_ORIGIN and "@" not in origin


def _bodies(numbers: set[int]) -> dict[int, bytes]:
    try:
        return read(numbers)
    except (PageDamaged, StoreError) as error:
        if len(numbers) == 1:
            log.warning("a kept page is left out: %s", error)
            return {}
        return {n: body for one in numbers for n, body in _bodies({one}).items()}
