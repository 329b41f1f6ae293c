"""Changes: the differences over all pages that a task has parsed again."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q, Sum

from crawlservice.models import ParsedPage, Task
from crawlservice.monitoring.ttl_cache import ttl_cache

MAX_PAGES = 20_000  # pages whose fields are counted for a page of the admin
EXAMPLES = 20  # pages that are shown


@dataclass(frozen=True)
class Changes:
    """``pages``: pages that differ. ``before``, ``after``: their items. ``links``: requests new to
    their tasks. ``fields``: the number of items with a difference in each field, the most frequent
    first; of the first pages only if it is not ``complete``."""

    pages: int
    repaired: int
    added: int
    removed: int
    changed: int
    links: int
    before: int
    after: int
    fields: list[tuple[str, int]]
    complete: bool
    examples: list[ParsedPage]


def changes(task: int, most: int = 0, examples: int = EXAMPLES) -> Changes:
    """The changes of a task, or of its dry run. ``most``: pages whose fields are counted; 0: all.
    Raises django.db.Error."""
    rows = ParsedPage.objects.filter(task=task).order_by()
    names = ("added", "removed", "changed", "links")
    sums = {f"{name}_": Sum(name, default=0) for name in names}
    sums |= {
        f"{name}_": Sum(name, default=0, filter=ParsedPage.DIFFERS) for name in ("before", "after")
    }
    counts = {
        "pages_": Count("pk", filter=ParsedPage.DIFFERS),
        "repaired_": Count("pk", filter=Q(repaired=True)),
    }
    found = rows.aggregate(**sums, **counts)
    numbers = {name.removesuffix("_"): number for name, number in found.items()}
    fields: Counter[str] = Counter()
    differing = rows.filter(ParsedPage.DIFFERS).order_by("pk")
    some = differing[: most + 1] if most else differing
    seen = 0
    for one in some.values_list("fields", flat=True).iterator(chunk_size=500):
        seen += 1
        if most and seen > most:
            break
        fields.update(one)
    ordered = sorted(fields.items(), key=lambda pair: (-pair[1], pair[0]))
    complete = not most or seen <= most
    return Changes(**numbers, fields=ordered, complete=complete, examples=[*differing[:examples]])


def polled_changes(task: Task) -> Changes:
    """The changes of a task, for a page that polls while the task runs. Raises django.db.Error."""
    return (_summed if task.state in Task.ACTIVE else changes)(task.pk, MAX_PAGES)


_summed = ttl_cache(times=10)(changes)  # summing up millions of pages takes time


def as_json(row: ParsedPage) -> dict[str, Any]:
    """One page, for the API."""
    names = (
        *("id", "source_task", "source_rid", "url", "old_version", "version", "before", "after"),
        *("added", "removed", "changed", "fields", "examples", "links", "repaired", "created_at"),
    )
    return {name: getattr(row, name) for name in names}
