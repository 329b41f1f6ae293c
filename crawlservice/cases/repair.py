"""Repair: proposals for the lost fields of a case, made in the rounds after it was opened or
continued, each once."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from crawlframe.errors import SpiderError
from crawlframe.markup import parsers
from crawlframe.recipes.loading import recipe_of_stored
from crawlframe.recipes.recipe import Recipe
from crawlservice.cases.diagnosis import SeenPage
from crawlservice.cases.evidence import compared_pages
from crawlservice.cases.expressions import ReadPage
from crawlservice.cases.proposals import ProvedExample, propose
from crawlservice.connections.contained import contained
from crawlservice.models import Case, CaseSpider, Task
from crawlservice.recipes.current import current

log = logging.getLogger(__name__)

OF_MARKUP = (Case.Cause.RENAMED, Case.Cause.MOVED, Case.Cause.REDESIGN, Case.Cause.UNKNOWN)
MAX_PAGES = 60  # of the good runs, and of the bad one
MAX_TEXT = 4_000_000  # characters of new pages, which are parsed
MAX_FIELDS = 10
MAX_ROWS = 20  # of a round


def make_proposals(seconds: float, still_here: Callable[[], None]) -> None:
    """Makes proposals for spiders of live cases that have none, for about this long. ``still_here``
    is called repeatedly. Raises django.db.Error."""
    until = time.monotonic() + seconds
    rows = CaseSpider.objects.filter(CaseSpider.LIVE, proposals__isnull=True)
    for row in rows.filter(case__cause__in=OF_MARKUP).order_by("pk")[:MAX_ROWS]:
        _store(row, {})  # not again, if this one fails
        with contained(f"proposals for {row.spider}"):
            _store(row, _proposals(row, still_here))
        if parsers.stuck():  # of a page that is made for it; a thread cannot be stopped
            log.error("a page of %s takes its parser too long; the steward exits", row.spider)
            os._exit(1)
        if time.monotonic() > until:
            return


def _store(row: CaseSpider, found: dict[str, Any]) -> None:
    CaseSpider.objects.filter(pk=row.pk).update(proposals=found)


def _proposals(row: CaseSpider, still_here: Callable[[], None]) -> dict[str, Any]:
    task = Task.objects.defer("seeds").filter(pk=row.last_task).first()
    old, new = compared_pages(task, MAX_PAGES) if task and row.fields else ([], [])
    pages, recipe = [*map(ReadPage, _some(new))], _recipe_of(row.spider)
    found = {}
    for name in row.fields[:MAX_FIELDS] if old and pages else ():
        still_here()
        some = propose(name, old, pages, recipe)
        found[name] = [
            {**one._asdict(), "examples": [*map(ProvedExample._asdict, one.examples)]}
            for one in some
        ]
    return found


def _some(pages: Iterable[SeenPage]) -> Iterator[SeenPage]:
    left = MAX_TEXT
    for page in pages:
        left -= len(page.text)
        if left > 0:
            yield page


def _recipe_of(spider: str) -> Recipe | None:
    """The current recipe of the database, if the spider is one."""
    row = current(spider)
    try:
        return row and recipe_of_stored(row.text)
    except SpiderError as error:
        log.warning("recipe %s cannot be read: %s", spider, error)
        return None
