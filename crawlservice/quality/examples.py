"""Examples: items and pages that show a finding."""

from __future__ import annotations

from typing import Any

from crawlservice.models import Item, Page
from crawlservice.quality.deviation import Deviation
from crawlservice.quality.sketch import hash_of
from crawlservice.quality.texts import is_broken
from crawlservice.tasks.results.item_filter import is_empty
from crawlservice.tasks.results.task_rows import of_task

LATEST_ROWS = 200  # latest items, and latest pages
MAX_EXAMPLES = 3  # examples of one finding
LENGTH = 200  # characters of a value


class Examples:
    """Those of one task; its latest rows are read once. Raises django.db.Error."""

    def __init__(self, task: int) -> None:
        self._task = task
        self._items: list[Item] | None = None

    def of(self, found: Deviation) -> list[dict[str, Any]]:
        """``item`` (number), ``rid``, ``url`` and ``value`` of up to MAX_EXAMPLES."""
        if found.monitor in ("errors", "status"):
            return self._pages(found)
        if not found.field:
            return []
        items = [one for one in self._latest() if _shows(found, one.data)]
        if found.monitor == "unique":
            items = _repeated(items, found.field)
        chosen = items[:MAX_EXAMPLES]
        rids = {one.rid for one in chosen}
        urls = dict(Page.objects.filter(rid__in=rids).values_list("rid", "url"))
        return [
            {
                "item": one.pk,
                "rid": str(one.rid),
                "url": urls.get(one.rid, ""),
                "value": _short(one.data.get(found.field)),
            }
            for one in chosen
        ]

    def _latest(self) -> list[Item]:
        if self._items is None:
            rows = of_task(Item.objects.only("rid", "data", "task_id"), self._task, newest=True)
            self._items = [one for one in rows[:LATEST_ROWS] if isinstance(one.data, dict)]
        return self._items

    def _pages(self, found: Deviation) -> list[dict[str, Any]]:
        rows = of_task(Page.objects.filter(state=Page.State.ERROR), self._task, newest=True)
        if found.monitor == "status":
            rows = of_task(Page.objects.filter(status=int(found.subject)), self._task, newest=True)
        some = rows.values_list("rid", "url", "reason")[:MAX_EXAMPLES]
        return [
            {"item": None, "rid": str(rid), "url": url, "value": reason}
            for rid, url, reason in some
        ]


def _shows(found: Deviation, data: dict[str, Any]) -> bool:
    value = data.get(found.field)
    match found.monitor:
        case "filled":
            return is_empty(value)
        case "zero":
            return value == 0 and not isinstance(value, bool)
        case "broken":
            return isinstance(value, str) and is_broken(value)
        case "length":
            long = len(value) if isinstance(value, str | list | dict) else 0
            return not _within(long, found)
        case "value":
            return isinstance(value, int | float) and not _within(value, found)
        case "choice" | "section":
            return False  # it is gone
        case _:
            return not is_empty(value)


def _within(value: float, found: Deviation) -> bool:
    low, high = found.low, found.high
    return (low is None or value >= low) and (high is None or value <= high)


def _repeated(items: list[Item], field: str) -> list[Item]:
    seen: dict[int, list[Item]] = {}
    for one in items:
        seen.setdefault(hash_of(str(one.data.get(field))), []).append(one)
    return [one for some in seen.values() if len(some) > 1 for one in some]


def _short(value: Any) -> Any:
    if isinstance(value, str | list | dict):
        text = value if isinstance(value, str) else repr(value)
        return text if len(text) <= LENGTH else f"{text[: LENGTH - 1]}…"
    return value
