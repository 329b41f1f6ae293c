"""Rounds: the leading steward submits what is due of each watch as a task, within the budget, and
takes back what a task that has ended did not visit.

A round is made in one transaction that locks the row of its watch: its task, the pages that belong
to it and what is left of the budget. So of two stewards that believe they lead, one makes it; if
Redis missed the task, a steward adds it later, as it does for any task."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.db import DatabaseError, transaction
from django.db.models import F, QuerySet
from msgspec.structs import replace

from crawlframe import faults
from crawlframe.errors import ArgumentError, UnknownSpider
from crawlframe.request import Admission, make_rid, root_admission
from crawlframe.revisit.declared import ALL, START, Revisit
from crawlframe.spider import SpiderInfo
from crawlservice.models import Task, Watch, WatchDay, WatchedHost, WatchedPage
from crawlservice.security.sealing import SealError
from crawlservice.tasks import spider_switch, submit
from crawlservice.tasks.secret_arguments import revealed
from crawlservice.watches import clock, failures, page_rows, tuning
from crawlservice.watches.group import Group, as_kept, groups_of, refilled

log = logging.getLogger(__name__)

MOST = 500  # pages of a round
ROUNDS = 4  # of one watch that may be under way
PAUSE = timedelta(seconds=5)  # between two rounds, unless one is full
NOW = datetime(1970, 1, 1, tzinfo=UTC)  # next_at of pages that somebody wants visited now


def tick(still_here: Callable[[], None] = lambda: None) -> None:
    """One round of the steward. Raises redis.RedisError, FrontierError and django.db.Error."""
    for pk in Watch.objects.exclude(state=Watch.State.ENDED).values_list("pk", flat=True):
        info, problem = _look_up(Watch.objects.get(pk=pk))
        work(pk, info, problem)
        still_here()
    ended = Watch.objects.filter(state=Watch.State.ENDED, pk__in=_waiting().values("watch"))
    for watch in ended:
        with transaction.atomic():
            _take_back(watch, {}, clock.now())


def work(pk: int, info: SpiderInfo | None, problem: str = "") -> Task | None:
    """One step of a watch: returns the round that was made. ``info``: what is published of its
    spider; if there is none, ``problem`` says why. Raises as ``tick`` does."""
    with transaction.atomic():
        watch = Watch.objects.select_for_update(no_key=True).filter(pk=pk).first()
        if watch is None:
            return None
        now = clock.now()
        policies = info.revisit if info is not None else {}
        _take_back(watch, policies, now)
        if watch.state != Watch.State.RUNNING:
            return None
        if not policies and not problem:
            problem = f"spider {watch.spider!r} has no revisit any more"
        if problem:
            _mark(watch, problem)
            return None
        assert info is not None
        policies = _with_own(watch, policies)
        groups = groups_of(watch.groups)
        _regroup(watch, groups, policies)
        tuning.tune(watch, groups, policies, now)
        made = _make(watch, groups, policies, info, now)
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


def _regroup(watch: Watch, groups: dict[str, Group], policies: dict[str, Revisit]) -> None:
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


# -- rounds that have ended -----------------------------------------------------------------------


def _waiting() -> QuerySet[WatchedPage]:
    return WatchedPage.objects.filter(rid__isnull=False)


def _take_back(watch: Watch, policies: dict[str, Revisit], now: datetime) -> None:
    """Pages of rounds that have ended, of which no visit is recorded: it failed, was cancelled, or
    the round was removed."""
    waiting = _waiting().filter(watch=watch, round__isnull=False).order_by()
    numbers = {number or 0 for number in waiting.values_list("round", flat=True).distinct()}
    rows = Task.objects.filter(pk__in=numbers)
    active = {*rows.filter(state__in=Task.ACTIVE).values_list("pk", flat=True)}
    settling = {*rows.filter(unwritten__isnull=False).values_list("pk", flat=True)}
    for number in sorted(numbers - active - settling):
        pages = _waiting().filter(watch=watch, round=number).order_by("pk").select_for_update()
        failures.take_back(watch, [*pages], policies, now)


# -- what is due ----------------------------------------------------------------------------------


def _make(
    watch: Watch,
    groups: dict[str, Group],
    policies: dict[str, Revisit],
    info: SpiderInfo,
    now: datetime,
) -> Task | None:
    """Submits a round, if something is due."""
    rounds = Task.objects.filter(watch=watch, state__in=Task.ACTIVE).count()
    recently = watch.round_at is not None and timedelta(0) <= now - watch.round_at < PAUSE
    if rounds >= ROUNDS or (rounds and recently):
        return None
    begins = watch.start_at <= now
    picker = _Picker(watch, groups, policies, now)
    pages = picker.pick()
    if not begins and not pages:
        _settle(watch, rounds, now)
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
    picker.spend()
    for page in pages:
        page.round, page.rid = task.pk, UUID(bytes=make_rid(task.pk, page.key.bytes))
    page_rows.update(sorted(pages, key=lambda page: page.pk), ("round", "rid"))
    watch.round_at, watch.problem = now, ""
    if begins:
        watch.start_at = now + timedelta(seconds=policies[START].interval)
    _count(watch, len(pages), picker.late, now)
    faults.at("watch.round", DatabaseError)
    return task


def _roots(task: Task, begins: bool) -> list[Admission]:
    return [root_admission(task.pk, task.priority)] if begins else []


def _visit(task: Task, page: WatchedPage) -> Admission:
    rid = make_rid(task.pk, page.key.bytes)
    return Admission(rid, page.rank, page.host, 0, bytes(page.record))


def _settle(watch: Watch, rounds: int, now: datetime) -> None:
    """Notes when all pages have been visited once: what is found later is new."""
    if watch.settled_at is not None or rounds or watch.round_at is None:
        return
    pages = WatchedPage.objects.filter(watch=watch)
    if pages.exists() and not pages.filter(state=WatchedPage.State.NEW).exists():
        watch.settled_at = now


def _count(watch: Watch, visited: int, late: int, now: datetime) -> None:
    day, _ = WatchDay.objects.get_or_create(watch=watch, day=now.date())
    most = max(day.late, late)
    WatchDay.objects.filter(pk=day.pk).update(visited=F("visited") + visited, late=most)


class _Picker:
    """Picks pages that are due, the longest due first, within the budgets of groups and hosts."""

    def __init__(
        self, watch: Watch, groups: dict[str, Group], policies: dict[str, Revisit], now: datetime
    ) -> None:
        self.late = 0  # pages that are due and wait for the budget
        self._watch, self._groups, self._policies, self._now = watch, groups, policies, now
        self._open = {name for name in policies if name != START}
        self._spent: set[str] = set()  # hosts
        self._hosts: dict[str, float] = {}  # visits left
        for name, policy in policies.items():
            if policy.budget:
                groups[name].refill(policy.budget, now.timestamp())

    def pick(self) -> list[WatchedPage]:
        due = WatchedPage.objects.filter(
            watch=self._watch, rid__isnull=True, next_at__lte=self._now
        ).order_by("next_at")
        picked: dict[int, WatchedPage] = {}
        while len(picked) < MOST:
            before = len(picked) + len(self._spent) - len(self._open)
            rows = due.filter(group__in=self._open).exclude(host__in=self._spent)
            for page in rows.exclude(pk__in=picked)[: MOST - len(picked)]:
                if self._may(page):
                    picked[page.pk] = page
            if len(picked) + len(self._spent) - len(self._open) == before:
                break
        if picked or self._spent or len(self._open) < len(self._policies) - 1:
            self.late = max(0, due.count() - len(picked))
        return [*picked.values()]

    def _may(self, page: WatchedPage) -> bool:
        policy, group = self._policies[page.group], self._groups[page.group]
        wanted = page.next_at is not None and page.next_at <= NOW
        if policy.budget and not wanted and (group.tokens or 0.0) < 1:
            self._open.discard(page.group)
            return False
        if policy.host_budget:
            left = self._left_of(page.host, policy.host_budget)
            if left < 1 and not wanted:
                self._spent.add(page.host)
                return False
            self._hosts[page.host] = left - 1
        if policy.budget:
            group.tokens = (group.tokens or 0.0) - 1
        return True

    def _left_of(self, host: str, budget: float) -> float:
        if host not in self._hosts:
            row = WatchedHost.objects.filter(watch=self._watch, host=host).first()
            at = row.tokens_at if row is not None else None
            seconds = 0.0 if at is None else at.timestamp()
            tokens = None if row is None or at is None else row.tokens
            self._hosts[host] = refilled(tokens, seconds, budget, self._now.timestamp())
        return self._hosts[host]

    def spend(self) -> None:
        """Writes down what is left for hosts."""
        rows = [
            WatchedHost(watch=self._watch, host=host, tokens=left, tokens_at=self._now)
            for host, left in sorted(self._hosts.items())
        ]
        if rows:
            WatchedHost.objects.bulk_create(
                rows,
                update_conflicts=True,
                unique_fields=("watch", "host"),
                update_fields=("tokens", "tokens_at"),
            )
