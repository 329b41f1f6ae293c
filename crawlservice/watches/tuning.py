"""Tuning: from time to time, what is known of all pages of a group together is learned anew, and
the level is set at which their visits are as many as the budget allows. Pages are then planned
anew, some in each round."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import Count, F, QuerySet, Sum

from crawlframe.revisit.budget import is_near, next_level, replanned
from crawlframe.revisit.declared import DAY, START, Revisit
from crawlframe.revisit.interval import survival
from crawlframe.revisit.rates import Evidence, fit
from crawlframe.revisit.trust import Trust
from crawlservice.models import Watch, WatchDay, WatchedHost, WatchedPage
from crawlservice.watches import overview
from crawlservice.watches.clock import NOW
from crawlservice.watches.editing import NOTHING, Parked, held_callbacks
from crawlservice.watches.group import PageGroup, refilled
from crawlservice.watches.visits import PLANNED, phase_of, trusts_of

MAX_PAGES = 500  # pages of a round
ROUND_PAGES = 50  # pages that make a round at once
SHARE = 1 / 60  # of its interval that a visit may wait until a round has enough pages
URGENT = (WatchedPage.State.NEW, WatchedPage.State.GONE)  # gone ones are due if they are linked to
LONGEST_WAIT = timedelta(minutes=5)  # the same, at most; budgets that are full lose little by it
LOOK_SECONDS = 600.0  # seconds between two looks at a group
SAMPLE = 5_000  # pages of a group that are looked at
FIT_STEPS = 20  # steps of learning the prior
ROUNDS = 12  # steps of setting the level
HOSTS = 200  # with levels of their own: those that are furthest above their budget
MAX_REPLANNED = 2_000  # pages planned anew in one round of the steward
GROWTH = 1.5  # by how many times visits have grown when the prior is learned anew
MIN_VISITS = 20  # visits after the first one of a page, for that
TRUST_VISITS = 500.0  # visits of a host of which its sitemap spoke; trust forgets earlier ones


class KnownPage(NamedTuple):
    """What is known of one page."""

    host: str
    importance: float
    evidence: Evidence
    last_visit: datetime


def tune(
    watch: Watch,
    groups: dict[str, PageGroup],
    policies: Mapping[str, Revisit],
    now: datetime,
    still_here: Callable[[], None] = lambda: None,
) -> None:
    """Changes ``groups``, and plans pages anew. In the transaction that locks the watch.
    ``still_here`` is called again and again. Raises django.db.Error."""
    looked = False
    for name, policy in policies.items():
        group = groups.setdefault(name, PageGroup())
        at = now.timestamp()
        if policy.is_optimal and not 0 <= at - group.tuned_at < LOOK_SECONDS:
            _Tuning(watch, name, group, policy, still_here).run(now)
            looked = True
        if policy.is_optimal and group.replan is not None:
            _replan(watch, name, group, policy, now, still_here)
    if looked:
        _note_fresh(watch, [groups[name] for name in policies if policies[name].is_optimal], now)
        _forget(watch)


class _Tuning:
    """One look at a group."""

    def __init__(
        self,
        watch: Watch,
        name: str,
        group: PageGroup,
        policy: Revisit,
        still_here: Callable[[], None],
    ) -> None:
        self._watch, self._group, self._policy = watch, group, policy
        self._rows, self._still_here = _pages(watch, name), still_here
        self._most = policy.host_budget / DAY if policy.host_budget else math.inf  # of a host

    def run(self, now: datetime) -> None:
        group = self._group
        group.tuned_at = now.timestamp()
        found = self._rows.aggregate(count=Count("pk"), visits=Sum("visits", default=0))
        count, again = found["count"], found["visits"] - found["count"]
        if not count:
            group.fresh = group.whole = 0.0
            return
        step = math.ceil(count / SAMPLE)
        known = self._sample(step)
        if not known:
            return
        self._trusts = trusts_of(self._watch.pk, {page.host for page in known})
        before = group.level, group.prior, group.hosts
        if again >= max(MIN_VISITS, GROWTH * group.learned_from):
            group.learned_from = again
            self._learn(known)
        self._set_levels(known, self._pages_of_hosts(count))
        if (group.level, group.prior, group.hosts) != before:
            group.replan = 0
        group.fresh, group.whole = (step * some for some in _fresh(known, group, now))

    def _sample(self, step: int) -> list[KnownPage]:
        rows = self._rows.alias(turn=F("pk") % step).filter(turn=0) if step > 1 else self._rows
        columns = ("host", "importance", "shape", "time", "last_visit")
        return [
            KnownPage(host, weight, Evidence(shape, time), visited)
            for host, weight, shape, time, visited in rows.values_list(*columns)
        ]

    def _learn(self, known: Collection[KnownPage]) -> None:
        prior = self._group.prior
        for _ in range(FIT_STEPS):
            prior = fit(prior, (page.evidence for page in known))
            self._still_here()
        self._group.shape, self._group.time = prior

    def _pages_of_hosts(self, count: int) -> dict[str, int]:
        """How many pages each host has; without a budget of hosts, all together as one."""
        if not self._policy.host_budget:
            return {"": count}
        rows = self._rows.order_by().values_list("host").annotate(n=Count("pk"))
        return dict(rows)

    # -- levels -----------------------------------------------------------------------------------

    def _set_levels(self, known: Collection[KnownPage], sizes: Mapping[str, int]) -> None:
        group, budget = self._group, self._policy.budget / DAY
        former, group.hosts = group.hosts, {}
        for _ in range(ROUNDS):
            wanted = self._wanted(known, sizes)
            demand = sum(min(self._most, some) for some in wanted.values())
            # If every host is at its own budget, a lower level brings no more visits.
            full = demand < budget and all(some >= self._most for some in wanted.values())
            if full or is_near(demand, budget):
                break
            group.level = next_level(group.level, demand, budget)
        if self._policy.host_budget:
            group.hosts = self._levels_of_hosts(known, sizes, former)

    def _levels_of_hosts(
        self, known: Collection[KnownPage], sizes: Mapping[str, int], former: Mapping[str, float]
    ) -> dict[str, float]:
        wanted = self._wanted(known, sizes)
        over = [host for host, some in wanted.items() if some > self._most]
        pages: dict[str, list[KnownPage]] = defaultdict(list)
        for page in known:
            pages[page.host].append(page)
        found = {}
        for host in sorted(over, key=lambda host: -wanted[host])[:HOSTS]:
            if not pages[host]:
                continue
            level = former.get(host, self._group.level)
            for _ in range(ROUNDS):
                self._group.hosts = {host: level}
                demand = sizes[host] * self._mean(pages[host])
                if is_near(demand, self._most):
                    break
                level = next_level(level, demand, self._most)
            found[host] = level
        self._group.hosts = {}
        return found

    def _wanted(self, known: Iterable[KnownPage], sizes: Mapping[str, int]) -> dict[str, float]:
        """Visits per second of each host, if it had no budget of its own. A host of which no page
        is known has the mean of the others."""
        sums: dict[str, float] = defaultdict(float)
        counts: dict[str, int] = defaultdict(int)
        for page in known:
            host = page.host if self._policy.host_budget else ""
            sums[host] += self._visits(page)
            counts[host] += 1
        mean = sum(sums.values()) / sum(counts.values())
        return {
            host: n * (sums[host] / counts[host] if host in counts else mean)
            for host, n in sizes.items()
        }

    def _mean(self, known: Collection[KnownPage]) -> float:
        return sum(map(self._visits, known)) / len(known)

    def _visits(self, page: KnownPage) -> float:
        """Visits per second."""
        self._still_here()
        belief = page.evidence.over(self._group.prior)
        trust = self._trusts.get(page.host, Trust())
        times = self._group.times(self._policy, belief, trust, page.importance, page.host)
        return 1 / times.mean


def _pages(watch: Watch, name: str) -> QuerySet[WatchedPage]:
    live = (WatchedPage.State.LIVE, WatchedPage.State.FAILED)
    return WatchedPage.objects.filter(
        watch=watch, group=name, state__in=live, last_visit__isnull=False, next_at__isnull=False
    )


def _replan(
    watch: Watch,
    name: str,
    group: PageGroup,
    policy: Revisit,
    now: datetime,
    still_here: Callable[[], None],
) -> None:
    pages = [
        *_pages(watch, name)
        .filter(pk__gt=group.replan, rid__isnull=True)
        .order_by("pk")
        .select_for_update()[:MAX_REPLANNED]
    ]
    trusts = trusts_of(watch.pk, {page.host for page in pages})
    changed = []
    for page in pages:
        still_here()
        belief = Evidence(page.shape, page.time).over(group.prior)
        trust = trusts.get(page.host, Trust())
        times = group.times(policy, belief, trust, page.importance, page.host)
        if page.next_at is None or (
            page.every and abs(times.silent - page.every) < 0.02 * page.every
        ):
            continue
        if page.said_at is None and page.next_at > NOW:
            page.next_at = _next_at(page, times.silent, now)
        page.every, page.said_every, page.mean_every = times
        changed.append(page)
    overview.update(changed, PLANNED)
    group.replan = pages[-1].pk if len(pages) == MAX_REPLANNED else None


def _next_at(page: WatchedPage, interval: float, now: datetime) -> datetime:
    """When a page is due whose interval changes. One that is due keeps its turn, unless it would
    not be due yet with a longer interval."""
    assert page.next_at is not None
    assert page.last_visit is not None
    left = (page.next_at - now).total_seconds()
    if left > 0:
        return now + timedelta(seconds=replanned(left, page.every or interval, interval))
    rest = interval - (now - page.last_visit).total_seconds()
    if rest <= 0 or interval <= (page.every or 0.0):
        return page.next_at
    return now + timedelta(seconds=rest * phase_of(page))  # not all of them at once


def _fresh(known: Iterable[KnownPage], group: PageGroup, now: datetime) -> tuple[float, float]:
    """The importance of the pages that are up to date, as far as their rates are known, and of
    all."""
    fresh = whole = 0.0
    for page in known:
        since = max(0.0, (now - page.last_visit).total_seconds())
        fresh += page.importance * survival(page.evidence.over(group.prior), since)
        whole += page.importance
    return fresh, whole


def _note_fresh(watch: Watch, groups: Iterable[PageGroup], now: datetime) -> None:
    """Writes down which share of the pages of all groups with a budget is up to date."""
    both = [(group.fresh, group.whole) for group in groups]
    if whole := sum(some for _, some in both):
        fresh = sum(some for some, _ in both) / whole
        WatchDay.objects.update_or_create(watch=watch, day=now.date(), defaults={"fresh": fresh})


def _forget(watch: Watch) -> None:
    """Halves what is remembered of sitemaps that spoke often: one that begins to lie after a long
    time of truth is found out as soon."""
    half = {name: F(name) / 2 for name in Trust._fields}
    WatchedHost.objects.filter(watch=watch, said__gt=TRUST_VISITS).update(**half)


def waiting_pages() -> QuerySet[WatchedPage]:
    """Pages whose visit is on its way."""
    return WatchedPage.objects.filter(rid__isnull=False)


def patience(pages: Collection[WatchedPage], now: datetime) -> timedelta:
    """How long after the last round these pages may wait for others to be due. A budget gives its
    visits one by one, and each would be a task of its own otherwise. Pages that somebody wants
    visited do not wait, nor do those that are new, were gone, or that a sitemap says have changed,
    unless they have waited for the budget already."""
    if len(pages) >= ROUND_PAGES:
        return timedelta(0)
    longest = LONGEST_WAIT
    for page in pages:
        assert page.next_at is not None
        urgent = page.state in URGENT or page.said_at is not None
        if page.next_at <= NOW or (urgent and now - page.next_at < LONGEST_WAIT):
            return timedelta(0)
        if page.every is not None:
            longest = min(longest, SHARE * timedelta(seconds=page.every))
    return longest


class Picker:
    """Picks pages that are due, the longest due first, within the budgets of groups and hosts.
    ``slow``: rounds whose hosts get no more visits until they are over, unless they wait for code
    alone."""

    def __init__(
        self,
        watch: Watch,
        groups: dict[str, PageGroup],
        policies: dict[str, Revisit],
        now: datetime,
        slow: Collection[int],
        parked: Parked = NOTHING,
    ) -> None:
        self._watch, self._groups, self._policies, self._now = watch, groups, policies, now
        self._held = held_callbacks(watch, parked)
        self._open = {name for name in policies if name != START}
        self._spent: set[str] = set()  # hosts
        if slow:
            waiting = waiting_pages().filter(watch=watch, round__in=slow).order_by()
            waiting = waiting.exclude(rid__in=parked.rids)
            self._spent.update(waiting.values_list("host", flat=True).distinct())
        # Visits left, of groups and of hosts, and hosts that are visited.
        self._tokens: dict[str, float] = {}
        self._hosts: dict[str, float] = {}
        self._used: set[str] = set()
        for name, policy in policies.items():
            if policy.budget:
                self._tokens[name] = groups[name].refill(policy.budget, now.timestamp())

    def _due(self) -> QuerySet[WatchedPage]:
        due = WatchedPage.objects.filter(rid__isnull=True, next_at__lte=self._now)
        return due.filter(watch=self._watch).exclude(callback__in=self._held)

    def pick(self) -> list[WatchedPage]:
        picked: dict[int, WatchedPage] = {}
        while len(picked) < MAX_PAGES:
            before = len(picked) + len(self._spent) - len(self._open)
            rows = self._due().filter(group__in=self._open).exclude(host__in=self._spent)
            rows = rows.exclude(pk__in=picked).order_by("next_at")
            pages = [*rows[: MAX_PAGES - len(picked)]]
            self._load_hosts(
                {page.host for page in pages if self._policies[page.group].host_budget}
            )
            for page in pages:
                if self._may(page):
                    picked[page.pk] = page
            if len(picked) + len(self._spent) - len(self._open) == before:
                break
        return [*picked.values()]

    def _may(self, page: WatchedPage) -> bool:
        policy = self._policies[page.group]
        wanted = page.next_at is not None and page.next_at <= NOW
        if policy.budget and not wanted and self._tokens[page.group] < 1:
            self._open.discard(page.group)
            return False
        if policy.host_budget:
            left = self._hosts[page.host]
            if left < 1 and not wanted:
                self._spent.add(page.host)
                return False
            self._hosts[page.host] = left - 1
            self._used.add(page.host)
        if policy.budget:
            self._tokens[page.group] -= 1
        return True

    def _load_hosts(self, hosts: set[str]) -> None:
        if not (new := hosts - self._hosts.keys()):
            return
        budget = max(policy.host_budget for policy in self._policies.values())
        now = self._now.timestamp()
        rows = WatchedHost.objects.filter(watch=self._watch, host__in=new)
        kept = {row.host: row for row in rows.exclude(tokens_at=None)}
        for host in new:
            row = kept.get(host)
            at = row.tokens_at.timestamp() if row is not None and row.tokens_at else 0.0
            tokens = None if row is None else row.tokens
            self._hosts[host] = refilled(tokens, at, budget, now)

    def late(self) -> int:
        """How many pages are due and wait."""
        return self._due().count()

    def spend(self) -> None:
        """Notes what is left of the budgets."""
        for name, left in self._tokens.items():
            self._groups[name].tokens = left
        rows = [
            WatchedHost(watch=self._watch, host=host, tokens=left, tokens_at=self._now)
            for host, left in sorted(self._hosts.items())
            if host in self._used
        ]
        if rows:
            WatchedHost.objects.bulk_create(
                rows,
                update_conflicts=True,
                unique_fields=("watch", "host"),
                update_fields=("tokens", "tokens_at"),
            )
