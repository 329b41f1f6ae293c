"""Repair: proposals for the lost fields of a case, made in the round that opens or continues it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from crawlframe.errors import SpiderError
from crawlframe.recipes.loading import recipe_of_stored
from crawlframe.recipes.recipe import Recipe
from crawlservice.cases.diagnosis import SeenPage
from crawlservice.cases.evidence import compared_pages
from crawlservice.cases.expressions import ReadPage
from crawlservice.cases.proposals import ProvedExample, propose
from crawlservice.models import Case, CaseSpider, Task
from crawlservice.recipes.current import current

log = logging.getLogger(__name__)

OF_MARKUP = (Case.Cause.RENAMED, Case.Cause.MOVED, Case.Cause.REDESIGN, Case.Cause.UNKNOWN)
MAX_PAGES = 60  # of the good runs, and of the bad one
MAX_TEXT = 8_000_000  # characters of new pages, which are parsed
MAX_FIELDS = 10


def add_proposals(case: Case, task: Task, still_here: Callable[[], None]) -> None:
    """Stores proposals for the fields of a bad run's spider that have none. ``still_here`` is
    called repeatedly. Raises django.db.Error."""
    if case.cause not in OF_MARKUP:
        return
    row = case.spiders.filter(spider=task.spider).first()
    if row is None:
        return
    known: dict[str, Any] = row.proposals or {}
    names = [name for name in row.fields[:MAX_FIELDS] if not known.get(name)]
    old, new = compared_pages(task, MAX_PAGES) if names else ([], [])
    if not old or not new:
        return
    pages, recipe = [*map(ReadPage, _some(new))], _recipe_of(task.spider)
    for name in names:
        still_here()
        found = propose(name, old, pages, recipe)
        known[name] = [
            {**one._asdict(), "examples": [*map(ProvedExample._asdict, one.examples)]}
            for one in found
        ]
    CaseSpider.objects.filter(pk=row.pk).update(proposals=known)


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
