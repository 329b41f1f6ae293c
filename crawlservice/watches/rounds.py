"""Rounds: the leading steward submits what is due of each watch as a task, within the budget, and
takes back what a task that has ended did not visit.

A round is made in one transaction that locks the row of its watch: its task, the pages that belong
to it and what is left of the budget. So of two stewards that believe they lead, one makes it; if
Redis missed the task, a steward adds it later, as it does for any task.

Failures: pages of rounds that have ended without a recorded visit, and starts that failed. A
page that is missing twice is gone; what failed otherwise ends, or has a next time if its Revisit
says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from uuid import UUID

from django.db import DatabaseError, transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from msgspec.structs import replace

from crawlframe.base import faults
from crawlframe.errors import ArgumentError, UnknownSpider
from crawlframe.request.request import Admission, make_rid, root_admission
from crawlframe.revisit.declared import ALL, START, Revisit, policy_of
from crawlframe.revisit.rates import Evidence, learn
from crawlframe.revisit.trust import Trust
from crawlframe.spider.spider import SpiderInfo
from crawlservice.connections.contained import contained, text_of
from crawlservice.models import Event, Page, Task, Watch, WatchDay, WatchedItem, WatchedPage
from crawlservice.security.sealing import SealError
from crawlservice.tasks import spider_switch, submit
from crawlservice.tasks.arguments.secrets import revealed
from crawlservice.watches import clock, editing, overview, tuning
from crawlservice.watches.editing import NOTHING, Parked
from crawlservice.watches.group import PageGroup, as_kept, groups_of
from crawlservice.watches.tuning import Picker, patience, waiting_pages
from crawlservice.watches.visits import VISITED, confirm, plan, trusts_of

MISSING = (404, 410)
MISSES = 2  # visits in a row that find no page, after which it is gone
CONFIRM_SPAN = timedelta(days=1)  # until the next look at a page that was not seen, at most
NOT_MODIFIED = 304
RETRY_SPAN = timedelta(minutes=1)  # before what was cancelled is submitted again
START_AGAIN = timedelta(hours=1)  # after a start that failed
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
            work(watch.pk, info, problem, still_here, editing.find(watch))
        if failed:
            with contained(f"watch {watch.pk}"):
                _mark(watch, f"it cannot go on: {text_of(failed[0])}")
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
    """One step of a watch: returns the round that was made. ``info``: what is published of its
    spider; if there is none, ``problem`` says why. ``waiting``: its visits that no running code can
    take. Raises as ``tick`` does."""
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
    """What is published of its spider. Called before the transaction, which must not wait for
    Redis."""
    if off := spider_switch.find(watch.spider):
        return None, f"the spider is disabled: {off.reason}"
    try:
        return submit.published(watch.spider), ""
    except UnknownSpider as error:
        return None, str(error)


def _with_own(watch: Watch, policies: dict[str, Revisit]) -> dict[str, Revisit]:
    """With the budgets that people gave the watch."""
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
    """Pages of rounds that have ended, of which no visit is recorded: it failed, was cancelled, or
    the round was removed."""
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
    # Nor must rounds of which only visits are left that wait for code.
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
    overview.update(sorted(pages, key=lambda page: page.pk), ("round", "rid"))
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
    """Notes when all pages have been visited once: what is found later is new."""
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


def take_back(
    watch: Watch, pages: Collection[WatchedPage], policies: Mapping[str, Revisit], now: datetime
) -> None:
    """In the caller's transaction, which has locked watch and pages. Raises django.db.Error."""
    rows = Page.objects.filter(rid__in=[page.rid for page in pages])
    found = {row.rid: row for row in rows.only("rid", "task", "state", "reason", "status")}
    groups = groups_of(watch.groups)
    trusts = trusts_of(watch.pk, {page.host for page in pages})
    errors = 0
    for page in pages:
        row = found.get(page.rid) if page.rid is not None else None
        page.round = page.rid = None
        if row is None or row.is_cancelled:
            page.next_at = now + RETRY_SPAN
            continue
        policy = policy_of({**policies}, page.callback)
        group = groups.get(page.group, PageGroup())
        trust = trusts.get(page.host, Trust())
        before, page.last_visit = page.last_visit, now
        page.visits, page.status, page.reason = page.visits + 1, row.status, row.reason
        page.said_at = None
        if row.state == Page.State.DONE:
            _confirmed(page, row, before, group)
        elif row.status in MISSING:
            _missed(watch, page, row, now)
        else:
            errors += 1
            page.state = WatchedPage.State.FAILED
        if _is_over(page, policy):
            page.next_at = None
        elif policy is not None:
            plan(page, policy, group, trust)
            # What a sitemap has said is still to be seen.
            unseen = page.misses or (policy.by and page.state == WatchedPage.State.FAILED)
            if unseen and page.next_at is not None:
                page.next_at = min(page.next_at, now + CONFIRM_SPAN)
    overview.update(pages, VISITED)
    if errors:
        day, _ = WatchDay.objects.get_or_create(watch=watch, day=now.date())
        WatchDay.objects.filter(pk=day.pk).update(errors=F("errors") + errors)


def _is_over(page: WatchedPage, policy: Revisit | None) -> bool:
    """Whether it is not visited again."""
    if page.state == WatchedPage.State.FAILED:
        return policy is None or not policy.errors
    return page.state == WatchedPage.State.GONE


def _confirmed(page: WatchedPage, row: Page, before: datetime | None, group: PageGroup) -> None:
    """It was answered without its callback, as when it is not modified."""
    page.state, page.misses, page.reason = WatchedPage.State.LIVE, 0, ""
    if row.status == NOT_MODIFIED and page.last_visit is not None:
        confirm([page], page.last_visit)
    if before is not None and row.status == NOT_MODIFIED and page.last_visit is not None:
        interval = (page.last_visit - before).total_seconds()
        known = Evidence(page.shape, page.time)
        page.shape, page.time = learn(group.prior, known, interval, changed=False)


def _missed(watch: Watch, page: WatchedPage, row: Page, now: datetime) -> None:
    if page.state == WatchedPage.State.GONE:  # it was looked at again
        page.gone_at = now
        return
    page.misses += 1
    if page.misses < MISSES:
        return
    page.state, page.gone_at = WatchedPage.State.GONE, now
    WatchedItem.objects.filter(page=page, gone_at=None).update(gone_at=now)
    Event.objects.create(
        kind=Event.Kind.PAGE_GONE,
        task_id=row.task_id,
        detail={"watch": watch.pk, "url": page.url, "status": row.status},
    )


def check_start(watch: Watch, group: PageGroup, now: datetime) -> None:
    """After a round that was to run ``start``: if that did not end, it runs again soon; if it
    failed, after some time, not only when it is due. Raises django.db.Error."""
    number = group.round
    tasks = Task.objects.filter(pk=number)
    if not number or tasks.filter(Q(state__in=Task.ACTIVE) | Q(unwritten__isnull=False)).exists():
        return
    group.round = 0
    row = Page.objects.filter(rid=UUID(bytes=root_admission(number).rid)).first()
    if row is None or row.is_cancelled:
        watch.start_at = min(watch.start_at, now + RETRY_SPAN)
    elif row.state == Page.State.ERROR:
        watch.start_at = min(watch.start_at, now + START_AGAIN)
