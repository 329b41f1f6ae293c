"""Rounds: the leading steward submits the due pages of each watch as a task, within the budget, and
takes back pages that an ended task did not visit.

A round is made in one transaction that locks the row of its watch: its task, the pages that belong
to it and the rest of the budget. So of two stewards that believe they lead, one makes it; if
Redis missed the task, a steward adds it later, as it does for any task."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID

from django.db import DatabaseError, transaction
from django.db.models import F
from django.db.models.functions import Now
from msgspec.structs import replace

from crawlframe.base import faults
from crawlframe.errors import ArgumentError, UnknownSpider
from crawlframe.request.request import Admission, make_rid, root_admission
from crawlframe.revisit.declared import ALL, START, Revisit
from crawlframe.spider.spider import SpiderInfo
from crawlservice.connections.contained import contained, text_of
from crawlservice.models import Task, Watch, WatchDay, WatchedPage
from crawlservice.security.sealing import SealError
from crawlservice.tasks import spider_switch, submit
from crawlservice.tasks.arguments.secrets import revealed
from crawlservice.watches import clock, page_rows, parked, tuning
from crawlservice.watches.failures import check_start, take_back
from crawlservice.watches.group import PageGroup, as_kept, groups_of
from crawlservice.watches.parked import NOTHING, Parked
from crawlservice.watches.picker import Picker, patience, waiting_pages

log = logging.getLogger(__name__)
ROUNDS = 4  # of one watch that may be under way, without slow ones
PAUSE = timedelta(seconds=5)  # between two rounds, if one is under way
SLOW_SPAN = timedelta(minutes=10)  # after which a round is slow
SLOW_ROUNDS = 100  # of one watch, at most


def tick(still_here: Callable[[], None] = lambda: None) -> None:
    """One round of the steward. A watch that cannot be worked on does not hold up the others.
    Raises redis.RedisError, FrontierError and django.db.Error."""
    for watch in Watch.objects.exclude(state=Watch.State.ENDED):
        with contained(f"watch {watch.pk}") as failed:
            info, problem = _look_up(watch)
            work(watch.pk, info, problem, still_here, parked.find(watch))
        if failed:
            with contained(f"watch {watch.pk}"):
                _mark(watch, f"it cannot continue: {text_of(failed[0])}")
        still_here()
    ended = Watch.objects.filter(state=Watch.State.ENDED, pk__in=waiting_pages().values("watch"))
    for watch in ended:
        with contained(f"watch {watch.pk}"), transaction.atomic():
            _take_back(watch, {}, clock.now())


def work(
    pk: int,
    info: SpiderInfo | None,
    problem: str = "",
    still_here: Callable[[], None] = lambda: None,
    waiting: Parked = NOTHING,
) -> Task | None:
    """One step of a watch: returns the round that was made. ``info``: of its spider, as published;
    if there is none, ``problem`` says why. ``waiting``: its visits that no running code can take.
    Raises as ``tick`` does."""
    with transaction.atomic():
        # A worker may have locked it for long; the next round of the steward comes soon.
        free = Watch.objects.select_for_update(no_key=True, skip_locked=True)
        watch = free.filter(pk=pk).first()
        if watch is None:
            return None
        now = clock.now()
        policies = info.revisit if info is not None else {}
        if policies:  # else it is not known whether errors end a page
            _take_back(watch, policies, now)
        if watch.state != Watch.State.RUNNING:
            return None
        if not policies and not problem:
            problem = f"spider {watch.spider!r} has no revisit any more"
        if problem:
            _mark(watch, problem)
            return None
        assert info is not None
        watch.problem = ""
        policies = _with_own(watch, policies)
        groups = groups_of(watch.groups)
        _regroup(watch, groups, policies)
        tuning.tune(watch, groups, policies, now, still_here)
        check_start(watch, groups[START], now)
        made = _make(watch, groups, policies, info, now, waiting)
        watch.problem = watch.problem or waiting.problem
        if kept := as_kept(groups):
            watch.groups = kept
        Watch.objects.filter(pk=pk).update(
            groups=watch.groups,
            round_at=watch.round_at,
            start_at=watch.start_at,
            settled_at=watch.settled_at,
            problem=watch.problem,
        )
    return made


def _look_up(watch: Watch) -> tuple[SpiderInfo | None, str]:
    """The published info of its spider. Called before the transaction, which must not wait for
    Redis."""
    if off := spider_switch.find(watch.spider):
        return None, f"the spider is disabled: {off.reason}"
    try:
        return submit.published(watch.spider), ""
    except UnknownSpider as error:
        return None, str(error)


def _with_own(watch: Watch, policies: dict[str, Revisit]) -> dict[str, Revisit]:
    """The policies with the budgets that people gave the watch."""
    found = {}
    for name, policy in policies.items():
        if policy.is_optimal:
            budget, host = watch.budget or policy.budget, watch.host_budget or policy.host_budget
            policy = replace(policy, budget=budget, host_budget=host)
        found[name] = policy
    return found


def _regroup(watch: Watch, groups: dict[str, PageGroup], policies: dict[str, Revisit]) -> None:
    """After a change of the code: pages go to the groups that its callbacks have now."""
    pages = WatchedPage.objects.filter(watch=watch)
    for name in groups.keys() - policies.keys():
        del groups[name]
        if ALL in policies:
            pages.filter(group=name).update(group=ALL)
    for name in policies.keys() - groups.keys() - {ALL} if groups else ():
        pages.filter(callback=name).update(group=name)


def _mark(watch: Watch, problem: str) -> None:
    if watch.problem != problem:
        log.warning("watch %d of spider %s: %s", watch.pk, watch.spider, problem)
        Watch.objects.filter(pk=watch.pk).update(problem=problem)


def _take_back(watch: Watch, policies: dict[str, Revisit], now: datetime) -> None:
    """Takes back pages of ended rounds without a recorded visit: it failed, was cancelled, or the
    round was removed."""
    waiting = waiting_pages().filter(watch=watch, round__isnull=False).order_by()
    numbers = {number or 0 for number in waiting.values_list("round", flat=True).distinct()}
    rows = Task.objects.filter(pk__in=numbers)
    active = {*rows.filter(state__in=Task.ACTIVE).values_list("pk", flat=True)}
    settling = {*rows.filter(unwritten__isnull=False).values_list("pk", flat=True)}
    for number in sorted(numbers - active - settling):
        pages = waiting_pages().filter(watch=watch, round=number).order_by("pk").select_for_update()
        take_back(watch, [*pages], policies, now)


def _make(
    watch: Watch,
    groups: dict[str, PageGroup],
    policies: dict[str, Revisit],
    info: SpiderInfo,
    now: datetime,
    waiting: Parked,
) -> Task | None:
    """Submits a round, if something is due."""
    _settle(watch, now)
    active = Task.objects.filter(watch=watch, state__in=Task.ACTIVE)
    # A host that makes a round slow, because it rests or is paused, must not hold up the others.
    slow = [*active.filter(created_at__lt=Now() - SLOW_SPAN).values_list("pk", flat=True)]
    # Nor must rounds whose remaining visits all wait for code.
    rounds = active.exclude(pk__in=[*slow, *waiting.rounds]).count()
    since = None if watch.round_at is None else now - watch.round_at
    if since is not None and since < timedelta(0):  # the clock was set back
        since = None
    recently = since is not None and since < PAUSE
    if rounds >= ROUNDS or len({*slow} - waiting.rounds) >= SLOW_ROUNDS or (rounds and recently):
        return None
    begins = watch.start_at <= now
    picker = Picker(watch, groups, policies, now, slow, waiting)
    pages = picker.pick()
    if not begins and (not pages or (since is not None and since < patience(pages, now))):
        return None
    try:
        task = submit.submit(
            watch.spider,
            revealed(watch.arguments),
            priority=watch.priority,
            info=info,
            user=watch.user,
            settings=watch.overrides,
            watch=watch,
            seeds=lambda task: [*_roots(task, begins), *(_visit(task, page) for page in pages)],
        )
    except (ArgumentError, SealError, spider_switch.SpiderDisabled) as error:
        watch.problem = str(error)
        return None
    for page in pages:
        page.round, page.rid = task.pk, UUID(bytes=make_rid(task.pk, page.key.bytes))
    page_rows.update(sorted(pages, key=lambda page: page.pk), ("round", "rid"))
    picker.spend()
    watch.round_at, watch.problem = now, ""
    if begins:
        groups[START].round = task.pk
        watch.start_at = now + timedelta(seconds=policies[START].interval)
    _count(watch, len(pages), picker.late(), now)
    faults.at("watch.round", DatabaseError)
    return task


def _roots(task: Task, begins: bool) -> list[Admission]:
    return [root_admission(task.pk, task.priority)] if begins else []


def _visit(task: Task, page: WatchedPage) -> Admission:
    rid = make_rid(task.pk, page.key.bytes)
    return Admission(rid, page.rank, page.host, 0, bytes(page.record))


def _settle(watch: Watch, now: datetime) -> None:
    """Records the time when all pages have been visited once: pages found later are new."""
    if watch.settled_at is not None:
        return
    states = Task.objects.filter(watch=watch).order_by("pk").values_list("state", flat=True)
    if states.first() in (None, *Task.ACTIVE):  # start runs in the first one
        return
    pages = WatchedPage.objects.filter(watch=watch)
    new = pages.filter(state=WatchedPage.State.NEW, visits=0)
    if pages.exists() and not new.exists():
        watch.settled_at = now


def _count(watch: Watch, visited: int, late: int, now: datetime) -> None:
    day, _ = WatchDay.objects.get_or_create(watch=watch, day=now.date())
    most = max(day.late, late)
    WatchDay.objects.filter(pk=day.pk).update(visited=F("visited") + visited, late=most)
