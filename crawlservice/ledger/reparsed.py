"""Reparsed: which tasks other tasks have changed, by parsing their pages again."""

from __future__ import annotations

from collections.abc import Collection

from crawlservice.models import ParsedPage, Task


def sources(tasks: Collection[int]) -> set[int]:
    """The tasks whose pages these have parsed, if that has changed something and they are still to
    be marked as ended. Raises django.db.Error."""
    parsing = Task.objects.filter(pk__in=tasks, reparse__isnull=False, state__in=Task.ACTIVE)
    found = {pk for pk, dry in parsing.values_list("pk", "reparse__dry_run") if not dry}
    if not found:
        return set()
    rows = ParsedPage.objects.filter(ParsedPage.DIFFERS, task__in=found).order_by()
    return {*rows.values_list("source_task", flat=True).distinct()}
