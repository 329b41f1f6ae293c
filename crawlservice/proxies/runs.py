"""Runs: the tasks whose spider names the proxies of a list. Proxies that a page names enter the
pool in the transaction of the page; proxies that a complete run did not name leave it."""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Max, Min

from crawlframe.base.limits import (
    DEPTH_LIMIT,
    HOST_BYTE_LIMIT,
    HOST_PAGE_LIMIT,
    LINKS_PER_PAGE,
    PAGE_LIMIT,
    QUERY_PERMUTATIONS,
    REPEATED_SEGMENTS,
    TRAP,
    UNFOLLOWED,
    URL_LENGTH,
)
from crawlframe.errors import ArgumentError, UnknownSpider
from crawlframe.run.ledger import LedgerRefused
from crawlframe.run.outcome import Outcome
from crawlframe.run.participant import Participant
from crawlservice.accounts.journal import record
from crawlservice.connections import clock
from crawlservice.connections.contained import contained
from crawlservice.models import ProxySource, Stat, Task
from crawlservice.proxies.entry import BadProxy, entry_of, store
from crawlservice.proxies.sources import RETRY, due_now
from crawlservice.security.sealing import SealError, unseal
from crawlservice.tasks import submit
from crawlservice.tasks.arguments.secrets import revealed, unwrapped
from crawlservice.tasks.spider_switch import SpiderDisabled

log = logging.getLogger(__name__)

AT_A_TIME = 20  # ended tasks of one list that are judged in one round
LIMITS = (
    *(PAGE_LIMIT, HOST_PAGE_LIMIT, HOST_BYTE_LIMIT, DEPTH_LIMIT, LINKS_PER_PAGE, URL_LENGTH),
    *(REPEATED_SEGMENTS, QUERY_PERMUTATIONS, TRAP),
)
FEWER_LINKS = [UNFOLLOWED + limit for limit in LIMITS]


# -- proxies named by pages ------------------------------------------------------------------------


class FoundProxies(Participant):
    """Puts proxies that pages have named into the pool. Raises LedgerRefused for a task that
    refreshes no list."""

    takes = ("results.proxies",)

    def write(self, outcomes: list[Outcome]) -> None:
        found: dict[int, list[Any]] = {}
        for outcome in outcomes:
            found.setdefault(outcome.task, []).extend(outcome.results.proxies or ())
        lists = {task: _list_of_task(task) for task in found}
        for task, source in sorted(lists.items(), key=lambda item: (item[1].pk, item[0])):
            # Locked, so that pages of one list are put in one after the other.
            locked = ProxySource.objects.select_for_update().filter(pk=source.pk).first()
            if locked is None:
                raise LedgerRefused(f"the list of proxies {source.name!r} was deleted")
            source = locked
            try:
                store([entry_of(proxy, source) for proxy in found[task]], source, task)
            except BadProxy as error:
                raise LedgerRefused(f"a Proxy of the list {source.name!r}: {error}") from None


def _list_of_task(task: int) -> ProxySource:
    row = Task.objects.only("spider", "arguments").filter(pk=task).first()
    if row is None:
        raise LedgerRefused(f"there is no task {task}")
    try:
        source = list_of(row)
    except SealError as error:
        raise LedgerRefused(f"the arguments of a list of proxies cannot be read: {error}") from None
    if source is None:
        raise LedgerRefused(
            f"the spider {row.spider} yields Proxy items, and no list of proxies names it with "
            "these arguments; add one in the admin, under Hosts, Proxy lists, or by the API"
        )
    return source


def list_of(task: Task) -> ProxySource | None:
    """The list that a task refreshes: the list that has started it, or else the list of its spider
    with the most arguments in common."""
    rows = [*ProxySource.objects.filter(spider=task.spider).order_by("pk")]
    for row in rows:
        if row.run == task.pk:
            return row
    given = unwrapped(revealed(task.arguments)) if rows else {}
    fits = []
    for row in rows:
        own = arguments_of(row)
        if all(name in given and given[name] == value for name, value in own.items()):
            fits.append((-len(own), row.pk, row))
    return min(fits)[2] if fits else None


def arguments_of(source: ProxySource) -> dict[str, Any]:
    """The arguments of its tasks. Raises SealError."""
    found: dict[str, Any] = json.loads(unseal(source.sealed_place) or "{}")
    return found


# -- starting --------------------------------------------------------------------------------------


def start_due() -> None:
    """Starts the spiders of the lists whose time has come. Raises redis.RedisError, FrontierError
    and django.db.Error."""
    rows = ProxySource.objects.filter(due_now(), every__gt=0).exclude(spider="")
    for pk in rows.order_by("pk").values_list("pk", flat=True):
        with contained(f"list of proxies {pk}"):
            _start(pk)


@transaction.atomic
def _start(pk: int) -> None:
    source = ProxySource.objects.select_for_update().filter(pk=pk, enabled=True).first()
    now = clock.now()
    if source is None or (source.next_at is not None and source.next_at > now):
        return  # another steward has done it
    pause = timedelta(seconds=min(RETRY, source.every))
    if not Task.objects.filter(pk=source.run, state__in=Task.ACTIVE).exists():
        try:
            task = submit.submit(source.spider, arguments_of(source))
        except (SpiderDisabled, UnknownSpider, ArgumentError, SealError) as error:
            source.problem = f"cannot be started: {' '.join(str(error).split())}"[:500]
        else:
            source.run, pause = task.pk, timedelta(seconds=source.every)
            record("submit", task=task, proxy_list=source.name, by_itself=True)
    source.next_at = now + pause
    source.save(update_fields=("run", "problem", "next_at"))


# -- ends ------------------------------------------------------------------------------------------


def begin(source: ProxySource) -> None:
    """Marks where a new list starts, or one that gets another spider: earlier tasks do not count.
    Called before it is saved."""
    source.judged = Task.objects.aggregate(last=Max("pk"))["last"] or 0
    source.run = 0


def judge_ended() -> None:
    """Removes proxies that complete runs did not name. Raises django.db.Error."""
    for source in ProxySource.objects.exclude(spider=""):
        ended = Task.objects.filter(spider=source.spider, pk__gt=source.judged)
        ended = ended.filter(reparse__isnull=True)
        # In their order, so that a short run does not hide a longer one that began before it.
        first = ended.filter(state__in=Task.ACTIVE).aggregate(first=Min("pk"))["first"]
        if first is not None:
            ended = ended.filter(pk__lt=first)
        with contained(f"list of proxies {source.pk}"):
            for task in ended.exclude(state__in=Task.ACTIVE).order_by("pk")[:AT_A_TIME]:
                _judge(source.pk, task)


@transaction.atomic
def _judge(pk: int, task: Task) -> None:
    source = ProxySource.objects.select_for_update().filter(pk=pk, spider=task.spider).first()
    if source is None or source.judged >= task.pk:
        return
    source.judged = task.pk
    try:
        own = list_of(task)
    except SealError:
        own = None
    if own is not None and own.pk == source.pk:
        source.problem = _problem_of(source, task)
        if not source.problem:
            source.proxies.filter(named_by__lt=task.pk).delete()
            source.read_at = clock.now()
        source.found = source.proxies.count()
    source.save(update_fields=("judged", "problem", "read_at", "found"))


def _problem_of(source: ProxySource, task: Task) -> str:
    """Why a run is not complete, so that nothing is removed after it; "" if it is."""
    kept = "so no proxy was removed"
    if task.outcome != Task.Outcome.FINISHED or task.ne or task.closing:
        why = task.closing or task.reason or f"{task.ne} requests ended in error"
        return f"task {task.pk} is not complete ({why}), {kept}"[:500]
    if Stat.objects.filter(task_id=task.pk, name__in=FEWER_LINKS).exists():
        return f"task {task.pk} did not follow all its links, because of a limit, {kept}"
    if not source.proxies.filter(named_by__gte=task.pk).exists():
        return f"task {task.pk} has named no proxy, {kept}"
    return ""
