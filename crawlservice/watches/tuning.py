"""Tuning: from time to time, the common statistics of a group's pages are learned anew, and the
level is set at which their visits are as many as the budget allows. Pages are then planned anew,
some in each round."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import Count, F, QuerySet, Sum

from crawlframe.revisit.declared import DAY, Revisit
from crawlframe.revisit.interval import is_near, next_level, replanned, survival
from crawlframe.revisit.rates import Evidence, fit
from crawlframe.revisit.trust import Trust
from crawlservice.models import Watch, WatchDay, WatchedHost, WatchedPage
from crawlservice.watches import page_rows
from crawlservice.watches.clock import NOW
from crawlservice.watches.group import PageGroup
from crawlservice.watches.visits import PLANNED, phase_of, trusts_of

LOOK_SECONDS = 600.0  # seconds between two looks at a group
SAMPLE = 5_000  # pages of a group that are looked at
FIT_STEPS = 20  # steps of learning the prior
ROUNDS = 12  # steps of setting the level
HOSTS = 200  # with levels of their own: the hosts furthest above their budget
MAX_REPLANNED = 2_000  # pages planned anew in one round of the steward
GROWTH = 1.5  # by how many times visits have grown when the prior is learned anew
MIN_VISITS = 20  # visits after the first one of a page, for that
TRUST_VISITS = 500.0  # visits of a host that its sitemap announced; trust forgets earlier ones


class KnownPage(NamedTuple):
    """A page with its statistics."""

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
        # The share of the pages of all groups with a budget that is up to date.
        optimal = [groups[name] for name in policies if policies[name].is_optimal]
        if whole := sum(group.whole for group in optimal):
            fresh = sum(group.fresh for group in optimal) / whole
            WatchDay.objects.update_or_create(
                watch=watch, day=now.date(), defaults={"fresh": fresh}
            )
        # A sitemap that starts to lie after a long time of truth is found out as soon.
        half = {name: F(name) / 2 for name in Trust._fields}
        WatchedHost.objects.filter(watch=watch, said__gt=TRUST_VISITS).update(**half)


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
        rows = self._rows.alias(turn=F("pk") % step).filter(turn=0) if step > 1 else self._rows
        columns = ("host", "importance", "shape", "time", "last_visit")
        known = [
            KnownPage(host, weight, Evidence(shape, time), visited)
            for host, weight, shape, time, visited in rows.values_list(*columns)
        ]
        if not known:
            return
        self._trusts = trusts_of(self._watch.pk, {page.host for page in known})
        before = group.level, group.prior, group.hosts
        if again >= max(MIN_VISITS, GROWTH * group.learned_from):
            group.learned_from = again
            prior = self._group.prior
            for _ in range(FIT_STEPS):
                prior = fit(prior, (page.evidence for page in known))
                self._still_here()
            self._group.shape, self._group.time = prior
        self._set_levels(known, self._pages_of_hosts(count))
        if (group.level, group.prior, group.hosts) != before:
            group.replan = 0
        group.fresh, group.whole = (step * some for some in _fresh(known, group, now))

    def _pages_of_hosts(self, count: int) -> dict[str, int]:
        """The number of pages of each host; without a budget of hosts, all together as one."""
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
        """Visits per second of each host, if it had no budget of its own. A host without known
        pages has the mean of the others."""
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
    page_rows.update(changed, PLANNED)
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
