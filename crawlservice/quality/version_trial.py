"""VersionTrial: the rows of one code version from now on, judged as a running task is. Nothing is
stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from crawlframe.base.expect import Expect
from crawlframe.request.request import END_URL, ROOT_URL
from crawlframe.run.reasons import NO_ERRORS
from crawlservice.models import Finding, Item, Page, Task
from crawlservice.quality.norms import History, Totals, history_of
from crawlservice.quality.reader import Bounds, expected_of
from crawlservice.quality.rules import deviations
from crawlservice.quality.run import RunStats
from crawlservice.quality.wording import sentence_of

ROWS = 2_000  # of each kind, in one check


class _Part(NamedTuple):
    """The rows of the version in one task."""

    spider: str
    run: RunStats
    history: History
    expect: Expect


class VersionTrial:
    """``bounds`` returns how far items and pages can be read. Raises django.db.Error."""

    def __init__(self, version: str, bounds: Callable[[], Bounds]) -> None:
        self._version = version
        self._bounds = bounds
        self._parts: dict[int, _Part] = {}
        self._last = Bounds(_newest(Item), _newest(Page))

    def check(self) -> str:
        """Reads new rows. Returns the first deviation, as a sentence; "" if there is none."""
        bounds = self._bounds()
        item = self._read_items(bounds.item)
        page = self._read_pages(bounds.page)
        self._last = Bounds(item, page)
        for task, part in self._parts.items():
            content = part.run.content()
            totals = Totals(content.items, content.pages, None)
            for one in deviations(
                part.run, part.history.norms, part.expect, totals=totals, ended=False
            ):
                what = ("unit", "low", "high", "usual", "seen", "monitor", "field", "subject")
                finding = Finding(**{name: getattr(one, name) for name in what})
                return f"task {task} of spider {part.spider}: {sentence_of(finding)}"
        return ""

    def _read_items(self, bound: int) -> int:
        rows = Item.objects.filter(pk__gt=self._last.item, pk__lte=bound, version=self._version)
        some = [*rows.order_by("pk").values_list("pk", "task", "data", "created_at")[:ROWS]]
        for _, task, data, at in some:
            if (part := self._part(task)) is None:
                continue
            part.run.add_item(data, self._version, at.timestamp(), part.expect.unique)
        return _reached(some, self._last.item, bound)

    def _read_pages(self, bound: int) -> int:
        rows = Page.objects.filter(pk__gt=self._last.page, pk__lte=bound, version=self._version)
        rows = rows.exclude(url__in=(ROOT_URL, END_URL)).exclude(reason__in=NO_ERRORS)
        columns = ("pk", "task", "url", "status", "items", "state", "created_at")
        some = [*rows.order_by("pk").values_list(*columns)[:ROWS]]
        for _, task, url, status, items, state, at in some:
            if (part := self._part(task)) is None:
                continue
            part.run.add_page(
                url,
                status,
                items,
                failed=state == Page.State.ERROR,
                version=self._version,
                at=at.timestamp(),
            )
        return _reached(some, self._last.page, bound)

    def _part(self, number: int) -> _Part | None:
        """None if the task was removed meanwhile."""
        if number not in self._parts:
            task = Task.objects.defer("seeds").filter(pk=number).first()
            if task is None:
                return None
            expect = expected_of(task)
            self._parts[number] = _Part(task.spider, RunStats(), history_of(task), expect)
        return self._parts[number]


def _newest(model: type[Item | Page]) -> int:
    return model.objects.order_by("-pk").values_list("pk", flat=True).first() or 0


def _reached(some: list[Any], last: int, bound: int) -> int:
    return int(some[-1][0]) if len(some) == ROWS else max(last, bound)
