"""Picker: which pages of a watch a round visits, and whether they wait for others first."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from django.db.models import QuerySet

from crawlframe.revisit.declared import START, Revisit
from crawlservice.models import Watch, WatchedHost, WatchedPage
from crawlservice.watches.clock import NOW
from crawlservice.watches.group import PageGroup, refilled
from crawlservice.watches.parked import NOTHING, Parked, held_callbacks

MAX_PAGES = 500  # pages of a round
ROUND_PAGES = 50  # pages that make a round at once
SHARE = 1 / 60  # of its interval that a visit may wait until a round has enough pages
URGENT = (WatchedPage.State.NEW, WatchedPage.State.GONE)  # gone ones are due if they are linked to
LONGEST_WAIT = timedelta(minutes=5)  # the same, at most; budgets that are full lose little by it


def waiting_pages() -> QuerySet[WatchedPage]:
    """Pages whose visit is on its way."""
    return WatchedPage.objects.filter(rid__isnull=False)


def patience(pages: Collection[WatchedPage], now: datetime) -> timedelta:
    """Time after the last round that these pages may wait for others to be due. A budget grants its
    visits one by one, and each would be a task of its own otherwise. Pages that a person wants
    visited do not wait, nor do pages that are new, were gone, or have changed by their sitemap,
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
        """The number of pages that are due and wait."""
        return self._due().count()

    def spend(self) -> None:
        """Records the rest of the budgets."""
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
