"""BadRun: a run that went wrong, with its evidence as the database has it. Of long tables only the
latest rows are read, and of kept pages a few."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

from django.db.models import Q

from crawlframe.errors import CrawlframeError
from crawlframe.markup import parsers
from crawlframe.pages.reparse import SourcePage, is_failed
from crawlframe.render.knowledge import form_of
from crawlframe.request.record import RecordHeader, read_head
from crawlframe.request.request import END_URL, ROOT_URL, Request
from crawlframe.run.reasons import NO_ERRORS
from crawlservice.cases.diagnosis import HOST_SHARE, REFUSED, Evidence, HostTally, SeenPage
from crawlservice.models import CaseSpider, ErrorGroup, Finding, Item, KeptPage, Page, Profile, Task
from crawlservice.pages.sources import source_pages

ROWS = 2_000  # latest rows of a task
HEADS = 400  # kept pages among which some are chosen
CHOSEN = 12  # pages of a run that are compared
# Pages that stay, all and of a callback and template: of good runs, and of the first bad one.
HELD_PAGES, HELD_OF_KIND = 40, 10
HELD_BAD, HELD_BAD_OF_KIND = 20, 5
RUNS = 50  # good runs of which kept pages are used
ITEMS = 2_000  # items of the chosen pages
UNPARSED = 8 << 10  # characters of a page in error that are read: no worker may have parsed it
MIN_ERRORS = 3  # pages in a new group of errors
LOST = frozenset({"filled", "kind", "choice"})  # monitors of values that are not there
TELLING = (*REFUSED, "callback", "http_503")  # reasons of error pages that tell a cause


class KeptHead(NamedTuple):
    """A kept page without its body."""

    number: int
    rid: UUID
    url: str
    reason: str
    asked: str
    callback: str

    @property
    def kind(self) -> tuple[str, str]:
        return self.callback, form_of(self.url)


@dataclass
class BadRun:
    """``good``: the last good task; 0: there is none. ``old_pages``: the chosen pages of good runs.
    ``held``: as in CaseSpider."""

    task: Task
    evidence: Evidence
    since: datetime
    url: str
    good: int
    old_pages: list[int]
    held: list[int]


def bad_run(task: Task) -> BadRun | None:
    """None if nothing is wrong with the run, or a later one with the same arguments was good.
    Raises django.db.Error."""
    findings = [*Finding.objects.filter(task=task.pk, accepted_at=None).order_by("pk")]
    same = Profile.objects.filter(good=True, spider=task.spider, arguments_hash=task.arguments_hash)
    if task.reparse is not None or same.filter(task__gt=task.pk).exists():
        return None
    rows = [*_rows(task.pk)]
    if not findings and not _is_bad(task, rows):
        return None
    good = _good_tasks(task)
    version = next((one.version for one in findings if one.version), "") or _version_of(task.pk)
    old_heads, new_heads = _both_heads(task.pk, good)
    old, new = _compared(old_heads, new_heads, CHOSEN)
    lost = [one.field for one in findings if one.field and one.monitor in LOST]
    odd = [one.field for one in findings if one.field and one.monitor not in LOST]
    known = (
        frozenset(_host_of(row.url) for row in _rows(good[0]) if not row.error) if good else None
    )
    versions = (_version_of(good[0]) if good else "", version)
    evidence = Evidence(old, new, lost, odd, _tallies(rows), known, versions)
    held = [head.number for head in _evenly(old_heads, HELD_PAGES, HELD_OF_KIND)]
    held += [head.number for head in _evenly(new_heads, HELD_BAD, HELD_BAD_OF_KIND)]
    since, url = _beginning(task, findings, rows, evidence)
    old_numbers = [page.number for page in old]
    return BadRun(task, evidence, since, url, good[0] if good else 0, old_numbers, held)


def compared_pages(task: Task, most: int) -> tuple[list[SeenPage], list[SeenPage]]:
    """Kept pages of the last good runs and of this one, at most so many of each, those of the same
    addresses first. Raises django.db.Error."""
    return _compared(*_both_heads(task.pk, _good_tasks(task)), most)


class RunRow(NamedTuple):
    """A request that ended. ``error``: the reason of one that ended in error."""

    url: str
    error: str
    group: int | None
    at: datetime


def _rows(task: int) -> Iterator[RunRow]:
    """The latest ones, without requests that politeness or people ended."""
    found = Page.objects.filter(task=task).exclude(url__in=(ROOT_URL, END_URL))
    found = found.exclude(reason__in=NO_ERRORS).order_by("-pk")
    columns = ("url", "state", "reason", "error_group", "created_at")
    for url, state, reason, group, at in found.values_list(*columns)[:ROWS]:
        yield RunRow(url, reason if state == Page.State.ERROR else "", group, at)


def _is_bad(task: Task, rows: Sequence[RunRow]) -> bool:
    """Whether it failed, has many errors of one reason, or errors that are new."""
    if task.outcome == Task.Outcome.FAILED:
        return True
    reasons = Counter(row.error for row in rows if row.error)
    if max(reasons.values(), default=0) > max(MIN_ERRORS - 1, HOST_SHARE * len(rows)):
        return True
    groups = Counter(row.group for row in rows if row.group is not None)
    many = [group for group, number in groups.items() if number >= MIN_ERRORS]
    return ErrorGroup.objects.filter(pk__in=many, created_at__gte=task.created_at).exists()


def _good_tasks(task: Task) -> list[int]:
    """The last good tasks before, with the same arguments if there are some, without those that
    cases are about."""
    rows = Profile.objects.filter(good=True, spider=task.spider, task__lt=task.pk)
    for one in CaseSpider.objects.filter(CaseSpider.LIVE, spider=task.spider):
        rows = rows.exclude(task__gte=one.first_task, task__lte=one.last_task)
    same = rows.filter(arguments_hash=task.arguments_hash)
    for some in (same, rows):
        if found := [*some.order_by("-task").values_list("task", flat=True)[:RUNS]]:
            return found
    return []


def _version_of(task: int) -> str:
    """The version that ran the latest page of a task."""
    rows = Page.objects.filter(task=task).exclude(version="").order_by("-pk")
    return rows.values_list("version", flat=True).first() or ""


def _host_of(url: str) -> str:
    return urlsplit(url).netloc


def _tallies(rows: Iterable[RunRow]) -> dict[str, HostTally]:
    found: defaultdict[str, HostTally] = defaultdict(HostTally)
    for row in rows:
        tally = found[_host_of(row.url)]
        tally.pages += 1
        if row.error:
            tally.reasons[row.error] += 1
    return dict(found)


def _beginning(
    task: Task, findings: Sequence[Finding], rows: Sequence[RunRow], evidence: Evidence
) -> tuple[datetime, str]:
    """When the problem began, and a page that shows it."""
    errors = [row for row in rows if row.error]
    times = [one.since for one in findings if one.since]
    if findings:
        pages = [one["url"] for finding in findings for one in finding.examples if one.get("url")]
        some = [page.asked for page in evidence.new if not page.items]
        return min(times, default=task.created_at), next(iter([*pages, *some]), "")
    return (errors[-1].at, errors[-1].url) if errors else (task.created_at, "")


# -- kept pages ------------------------------------------------------------------------------------


def _both_heads(task: int, good: Sequence[int]) -> tuple[list[KeptHead], list[KeptHead]]:
    wanted = Q(reason__in=("", "item", *TELLING))
    old = _heads(KeptPage.objects.filter(task__in=good, reason=""))
    return [*old], [*_heads(KeptPage.objects.filter(wanted, task=task))]


def _compared(
    old: Sequence[KeptHead], new: Sequence[KeptHead], most: int
) -> tuple[list[SeenPage], list[SeenPage]]:
    asked = {head.asked for head in old} & {head.asked for head in new}
    one, other = (
        _seen(_evenly(sorted(some, key=lambda head: head.asked not in asked), most, most))
        for some in (old, new)
    )
    return one, other


def _heads(rows: Any) -> Iterator[KeptHead]:
    """The latest kept pages. A request whose record cannot be read is left out."""
    columns = ("pk", "rid", "url", "reason", "record")
    for pk, rid, url, reason, record in rows.order_by("-pk").values_list(*columns)[:HEADS]:
        try:
            head: RecordHeader = read_head(bytes(record))
        except CrawlframeError:
            continue
        yield KeptHead(pk, rid, url, reason, head.url, head.callback)


def _evenly(heads: Iterable[KeptHead], most: int, most_of_kind: int) -> list[KeptHead]:
    """Some of each callback and template, in turn."""
    kinds: defaultdict[tuple[str, str], list[KeptHead]] = defaultdict(list)
    for head in heads:
        kinds[head.kind].append(head)
    turns = ([some[n] for some in kinds.values() if n < len(some)] for n in range(most_of_kind))
    return [head for turn in turns for head in turn][:most]


def _seen(heads: Sequence[KeptHead]) -> list[SeenPage]:
    """The pages with their texts and the values of their items. Pages without a text, or whose
    body cannot be read, are left out."""
    known = {head.number: head for head in heads}
    left, pages = {*known}, dict[int, SourcePage]()
    while left:
        found, left = source_pages(left)
        pages |= found
    items: defaultdict[UUID, list[dict[str, Any]]] = defaultdict(list)
    rows = Item.objects.filter(rid__in={head.rid for head in heads}).order_by("pk")
    for rid, data in rows.values_list("rid", "data")[:ITEMS]:
        items[rid].append(data if isinstance(data, dict) else {"": data})
    seen = []
    for number, head in known.items():
        if (page := pages.get(number)) is None or page.problem:
            continue
        failed = is_failed(head.reason)
        try:
            response = page.response(Request(page.url))
            text = response.text[:UNPARSED] if failed else response.text
            if len(text) > UNPARSED:
                response.tree  # noqa: B018  # it must be safe to parse
        except CrawlframeError:
            if parsers.stuck():
                break
            continue
        some = items[head.rid]
        values: defaultdict[str, list[Any]] = defaultdict(list)
        for item in some:
            for name, value in item.items():
                values[name].append(value)
        seen.append(
            SeenPage(
                number, head.asked, head.url, text, head.callback, dict(values), len(some), failed
            )
        )
    return seen
