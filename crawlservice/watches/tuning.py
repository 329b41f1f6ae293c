"""Tuning: from time to time, what is known of all pages of a group together is learned anew, and
the level is set at which their visits are as many as the budget allows. Pages are then planned
anew, some in each round."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import Count, F, QuerySet, Sum

from crawlframe.revisit.budget import is_near, next_level, replanned
from crawlframe.revisit.declared import DAY, Revisit
from crawlframe.revisit.interval import survival
from crawlframe.revisit.rates import Evidence, fit
from crawlframe.revisit.trust import Trust
from crawlservice.models import Watch, WatchDay, WatchedPage
from crawlservice.watches import page_rows
from crawlservice.watches.group import Group
from crawlservice.watches.visits import PLANNED, trusts_of

EVERY = 600.0  # seconds between two looks at a group
SAMPLE = 5_000  # pages of a group that are looked at
FITS = 20  # steps of learning the prior
ROUNDS = 12  # steps of setting the level
REPLANNED = 2_000  # pages planned anew in one round of the steward
GROWN = 1.5  # by how many times visits have grown when the prior is learned anew
FEWEST = 20  # visits after the first one of a page, for that


class Known(NamedTuple):
    """What is known of one page."""

    host: str
    importance: float
    evidence: Evidence
    last_visit: datetime


def tune(
    watch: Watch, groups: dict[str, Group], policies: Mapping[str, Revisit], now: datetime
) -> None:
    """Changes ``groups``, and plans pages anew. In the transaction that locks the watch. Raises
    django.db.Error."""
    for name, policy in policies.items():
        group = groups.setdefault(name, Group())
        at = now.timestamp()
        if policy.is_optimal and not 0 <= at - group.tuned_at < EVERY:
            _tune(watch, name, group, policy, now)
        if policy.is_optimal and group.replan is not None:
            _replan(watch, name, group, policy, now)


def _tune(watch: Watch, name: str, group: Group, policy: Revisit, now: datetime) -> None:
    pages = _pages(watch, name)
    group.tuned_at = now.timestamp()
    found = pages.aggregate(count=Count("pk"), visits=Sum("visits", default=0))
    count, again = found["count"], found["visits"] - found["count"]
    if not count:
        return
    step = math.ceil(count / SAMPLE)
    rows = pages.alias(turn=F("pk") % step).filter(turn=0) if step > 1 else pages
    columns = ("host", "importance", "shape", "time", "last_visit")
    known = [
        Known(host, weight, Evidence(shape, time), visited)
        for host, weight, shape, time, visited in rows.values_list(*columns)
    ]
    trusts = trusts_of(watch.pk, {page.host for page in known})
    before = group.level, group.prior
    if again >= max(FEWEST, GROWN * group.learned_from):
        group.learned_from, prior = again, group.prior
        for _ in range(FITS):
            prior = fit(prior, (page.evidence for page in known))
        group.shape, group.time = prior
    for _ in range(ROUNDS):
        demand = step * _demand(known, group, policy, trusts)
        if is_near(demand, policy.budget / DAY):
            break
        group.level = next_level(group.level, demand, policy.budget / DAY)
    if (group.level, group.prior) != before:
        group.replan = 0
    note_fresh(watch, known, group, now)


def _pages(watch: Watch, name: str) -> QuerySet[WatchedPage]:
    live = (WatchedPage.State.LIVE, WatchedPage.State.FAILED)
    return WatchedPage.objects.filter(
        watch=watch, group=name, state__in=live, last_visit__isnull=False, next_at__isnull=False
    )


def _demand(
    known: Iterable[Known], group: Group, policy: Revisit, trusts: Mapping[str, Trust]
) -> float:
    """Visits per second, of a host not more than its budget."""
    of_hosts: dict[str, float] = defaultdict(float)
    for page in known:
        belief = page.evidence.over(group.prior)
        trust = trusts.get(page.host, Trust())
        times = group.times(policy, belief, trust, page.importance)
        of_hosts[page.host] += 1 / times.mean
    if policy.host_budget:
        return sum(min(some, policy.host_budget / DAY) for some in of_hosts.values())
    return sum(of_hosts.values())


def _replan(watch: Watch, name: str, group: Group, policy: Revisit, now: datetime) -> None:
    pages = [
        *_pages(watch, name)
        .filter(pk__gt=group.replan, rid__isnull=True)
        .order_by("pk")
        .select_for_update()[:REPLANNED]
    ]
    trusts = trusts_of(watch.pk, {page.host for page in pages})
    changed = []
    for page in pages:
        belief = Evidence(page.shape, page.time).over(group.prior)
        trust = trusts.get(page.host, Trust())
        times = group.times(policy, belief, trust, page.importance)
        if page.next_at is None or (
            page.every and abs(times.silent - page.every) < 0.02 * page.every
        ):
            continue
        if page.said_at is None:
            left = (page.next_at - now).total_seconds()
            left = replanned(left, page.every or times.silent, times.silent)
            page.next_at = now + timedelta(seconds=left)
        page.every, page.said_every, page.mean_every = times
        changed.append(page)
    page_rows.update(changed, PLANNED)
    group.replan = pages[-1].pk if len(pages) == REPLANNED else None


def note_fresh(watch: Watch, known: Iterable[Known], group: Group, now: datetime) -> None:
    """Writes down which share of the pages is up to date, as far as their rates are known."""
    fresh = whole = 0.0
    for page in known:
        since = max(0.0, (now - page.last_visit).total_seconds())
        fresh += page.importance * survival(page.evidence.over(group.prior), since)
        whole += page.importance
    if whole:
        WatchDay.objects.update_or_create(
            watch=watch, day=now.date(), defaults={"fresh": fresh / whole}
        )
