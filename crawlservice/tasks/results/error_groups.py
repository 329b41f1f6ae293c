"""Errors of all tasks, grouped by their cause. Retried and removed pages are gone, and no longer
count."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from django.db.models import OuterRef, Q, QuerySet, Subquery

from crawlservice.connections.lookup import NotFound
from crawlservice.models import ErrorGroup, Page
from crawlservice.tasks.results.task_rows import all_before

MAX_GROUPS = 3_000  # groups that are read, the latest by first error
MAX_COUNT = 1_000  # errors of each group that are counted in lists
COUNTED_OF_ONE = 20_000  # errors that are counted of a single group
PAGE_GROUPS = 50  # groups
REASONS = 100  # reasons offered
FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)$', re.M)
LIBRARIES = re.compile(r"/(?:site|dist)-packages/|/lib/python3[^/]*/")


class ErrorText(NamedTuple):
    """The parts of an error's detail, which is a message or a traceback. ``message``: the first
    line that belongs to no frame, without the URL of the request. ``place``, such as
    ``shop.py:12``, and ``source``, its line of code: of ``own_frame``. Empty: there is none.
    ``more``: the detail says more than the message."""

    message: str
    more: bool
    place: str = ""
    source: str = ""

    @classmethod
    def of(cls, detail: str, url: str = "") -> ErrorText:
        lines = (line.rstrip() for line in detail.splitlines())
        said = (line for line in lines if line[:1].strip() and not line.endswith(":"))
        message = re.sub(rf"^{re.escape(url)}(: | )[: ]*", "", next(said, ""))
        more = "\n" in detail.strip()
        if (frame := own_frame(detail)) is None:
            return cls(message, more)
        below = detail[frame.end() + 1 :].partition("\n")[0]
        source = below.strip() if below.startswith("    ") else ""
        return cls(message, more, f"{frame['file']}:{frame['line']}", source)


def own_frame(detail: str) -> re.Match[str] | None:
    """The innermost frame of authors' code, or else of a library's; None without a traceback."""
    frames = [*FRAME.finditer(detail)]
    own = [frame for frame in frames if not LIBRARIES.search(frame["file"])]
    return next(reversed(own or frames), None)


class GroupNow(NamedTuple):
    """``errors``: those in the ledger, in the time that was asked for; ``more``: at least so
    many. ``example``: the latest one."""

    row: ErrorGroup
    errors: int
    more: bool
    example: Page

    @property
    def last_at(self) -> datetime:
        return self.example.created_at

    @property
    def message(self) -> str:
        """The message of the latest example; the reason if it has none."""
        return self.text.message or self.row.reason

    @property
    def text(self) -> ErrorText:
        return ErrorText.of(self.example.detail, self.example.url)

    @property
    def shown_count(self) -> str:
        return f"{self.errors:,}{'+' if self.more else ''}"


class Groups(NamedTuple):
    """The groups that were seen last come first. ``more``: there are more of them. ``partial``:
    only the MAX_GROUPS groups that are the newest were looked at."""

    groups: list[GroupNow]
    more: bool
    partial: bool


def latest(
    *,
    spider: str = "",
    reason: str = "",
    since: datetime | None = None,
    count: int = PAGE_GROUPS,
) -> Groups:
    """The groups with errors, of all spiders or of one."""
    rows = matching(spider, reason).order_by("-created_at")
    wanted = Q() if since is None else from_time(since)
    last = _of_group(OuterRef("pk")).filter(wanted).values("pk")[:1]
    seen = [*rows.annotate(last=Subquery(last)).values_list("pk", "last")[: MAX_GROUPS + 1]]
    found = sorted(((n, pk) for pk, n in seen[:MAX_GROUPS] if n is not None), reverse=True)
    chosen = {pk: n for n, pk in found[:count]}
    groups = _read(chosen, wanted, MAX_COUNT)
    return Groups(groups, len(found) > count, len(seen) > MAX_GROUPS)


def one(group: int) -> GroupNow:
    """One group with errors. Raises NotFound."""
    numbers = _of_group(group).values_list("pk", flat=True)[:1]
    found = _read({group: numbers[0]}, Q(), COUNTED_OF_ONE) if numbers else []
    if not found:
        raise NotFound(
            "group", f"there is no group {group} of errors, or all its errors were retried"
        )
    return found[0]


def matching(spider: str = "", reason: str = "") -> QuerySet[ErrorGroup]:
    """The groups of a spider, of a reason, or of both."""
    rows = ErrorGroup.objects.all()
    if spider:
        rows = rows.filter(spider=spider)
    return rows.filter(reason=reason) if reason else rows


def reasons(spider: str = "") -> list[str]:
    """The reasons of all groups, or of a spider's."""
    rows = matching(spider).order_by("reason").values_list("reason", flat=True)
    return [*rows.distinct()[:REASONS]]


def versions(group: int, looked: int = 1_000) -> list[tuple[str, int]]:
    """The number of the latest errors of a group by code version, the latest version first."""
    counts: dict[str, int] = {}
    for version in _of_group(group).values_list("version", flat=True)[:looked]:
        counts[version] = counts.get(version, 0) + 1
    return [*counts.items()]


def _read(chosen: dict[int, int], wanted: Q, counted: int) -> list[GroupNow]:
    """``chosen``: the latest page of each group, in the order of the result. ``wanted``: condition
    of the counted pages."""
    rows = ErrorGroup.objects.in_bulk(chosen)
    known = Page.objects.defer("follow_ups", "request", "exchange").in_bulk(chosen.values())
    found = []
    for pk, page in chosen.items():
        if pk in rows and page in known:  # otherwise it was retried just now
            n = _of_group(pk).filter(wanted)[: counted + 1].count()
            found.append(GroupNow(rows[pk], min(n, counted), n > counted, known[page]))
    return found


def _of_group(group: int | OuterRef) -> QuerySet[Page]:
    """The pages of a group, the latest first. A range over one number means the same as the number,
    and makes PostgreSQL use the index that has both (as in task_rows.py)."""
    rows = Page.objects.filter(error_group__gte=group, error_group__lte=group)
    return rows.order_by("-error_group", "-pk")


def from_time(since: datetime) -> Q:
    """The pages of that time and later. Raises django.db.Error."""
    return Q(pk__gt=all_before(Page, since), created_at__gte=since)


def pages_of(groups: Collection[int]) -> QuerySet[Page]:
    """The pages of several groups, in no order."""
    return Page.objects.filter(error_group__in=groups).order_by()
