"""Visits: the results of a round's pages, written in the transaction of their ledger rows:
statistics of the page and its next time, pages that were found, and items."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import F, Q

from crawlframe.base.exact_json import loads
from crawlframe.revisit.declared import Revisit
from crawlframe.revisit.rates import Evidence
from crawlframe.revisit.trust import Trust, learn_with
from crawlframe.revisit.visit import Visit
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.run.participant import Participant
from crawlservice.models import Watch, WatchedHost, WatchedItem, WatchedPage
from crawlservice.watches import clock, found, page_rows
from crawlservice.watches.found import HEARD, Finder, found_by
from crawlservice.watches.group import PageGroup, groups_of

PHASES = 1009  # a prime: parts of the first interval
PLANNED = ("every", "said_every", "mean_every", "next_at")
VISITED = (
    "state", "visits", "changes", "misses", "status", "reason", "digest", "version", "shape",
    "time", "last_visit", "last_change", "gone_at", "said_at", "round", "rid", *PLANNED,
)  # fmt: skip


class Visits(Participant):
    """Records visits. Failed visits are left to the steward."""

    takes = ("results.visit",)

    def prepare(self, outcomes: list[Outcome]) -> None:
        """Writes found pages ahead, if one transaction should not write so many."""
        found.write_ahead(outcomes)

    def write(self, outcomes: list[Outcome]) -> None:
        mine: dict[int, list[tuple[Outcome, Visit]]] = defaultdict(list)
        for outcome in outcomes:
            if outcome.results.visit is not None:
                mine[outcome.results.visit.watch].append((outcome, outcome.results.visit))
        for pk in sorted(mine):
            watch = Watch.objects.filter(pk=pk).first()
            if watch is not None:  # it may have been removed
                _Recorder(watch, clock.now()).record(mine[pk])


@dataclass
class _Recorder:
    watch: Watch
    now: datetime

    def __post_init__(self) -> None:
        self.groups = groups_of(self.watch.groups)
        self.heard: dict[str, Trust] = {}  # added by visits to the trust in hosts

    def record(self, outcomes: list[tuple[Outcome, Visit]]) -> None:
        links = found_by(outcomes)
        # The watch is locked first, so that each page is found once. Then pages are locked
        # together and in order, and only where there is something to write.
        finder = Finder(self.watch, self.now)
        known = finder.find(outcomes) if links else []
        heard = {page.pk for page in known if finder.hear(page, links[page.key.bytes])}
        done = {o.rid: (o, v) for o, v in outcomes if o.verdict is Verdict.DONE and v.policy}
        mine = Q(rid__in=[UUID(bytes=rid) for rid in done]) | Q(pk__in=heard)
        rows = WatchedPage.objects.filter(mine).order_by("pk").select_for_update()
        pages = [*rows] if done or heard else []
        again = [p for p in pages if p.pk in heard and finder.hear(p, links[p.key.bytes])]
        visited = {p.rid.bytes: p for p in pages if p.rid is not None and p.rid.bytes in done}
        hosts = {page.host for page in visited.values() if page.lastmod}
        trusts = trusts_of(self.watch.pk, hosts)
        for rid, page in visited.items():
            outcome, visit = done[rid]
            assert visit.policy is not None
            page.status = outcome.fetch.status
            trust = trusts.get(page.host, Trust())
            self._see(page, visit, visit.policy, trust, outcome.version)
        if again:
            page_rows.update(again, HEARD)
        if visited:
            page_rows.update(visited.values(), VISITED)
        for host, more in sorted(self.heard.items()):
            WatchedHost.objects.filter(watch=self.watch, host=host).update(
                **{name: F(name) + value for name, value in more._asdict().items() if value}
            )
        self._take_items(outcomes, visited)

    # -- pages that were visited ------------------------------------------------------------------

    def _see(
        self, page: WatchedPage, visit: Visit, policy: Revisit, trust: Trust, version: str
    ) -> None:
        group = self.groups.get(page.group, PageGroup())
        changed = _changed(page, visit, version)
        # After a visit that failed, it is not known when it was last seen.
        failed = page.state == WatchedPage.State.FAILED or page.misses > 0
        if page.last_visit is not None and changed is not None and not failed:
            interval = (self.now - page.last_visit).total_seconds()
            evidence, prior = Evidence(page.shape, page.time), group.prior
            said = None
            if page.said_at is not None:
                said = max(0.0, (page.said_at - page.last_visit).total_seconds())
            if page.lastmod is not None:
                before = self.heard.get(page.host, Trust())
                belief = evidence.over(prior)
                self.heard[page.host] = before.counted(belief, interval, changed, said)
            page.shape, page.time = learn_with(trust, prior, evidence, interval, changed, said)
        if changed:
            page.changes += 1
        if changed or page.last_visit is None:
            page.last_change = self.now
        if visit.digest is not None:
            page.digest, page.version = visit.digest, version
        page.state, page.visits, page.misses = WatchedPage.State.LIVE, page.visits + 1, 0
        page.reason, page.gone_at, page.said_at = "", None, None
        page.last_visit, page.round, page.rid = self.now, None, None
        plan(page, policy, group, trust)

    # -- items ------------------------------------------------------------------------------------

    def _take_items(
        self, outcomes: list[tuple[Outcome, Visit]], pages: dict[bytes, WatchedPage]
    ) -> None:
        rows: dict[bytes, WatchedItem] = {}
        for outcome, visit in outcomes:
            page = pages.get(outcome.rid)
            for key, data in zip(visit.keys, outcome.results.items, strict=True):
                rows[key] = WatchedItem(
                    watch=self.watch,
                    key=UUID(bytes=key),
                    page=page,
                    data=loads(data),
                    first_seen=self.now,
                    last_seen=self.now,
                )
        if rows:  # in order, so that two workers with some of the same items cannot deadlock
            WatchedItem.objects.bulk_create(
                [rows[key] for key in sorted(rows)],
                update_conflicts=True,
                unique_fields=("watch", "key"),
                update_fields=("page", "data", "last_seen", "gone_at"),
            )
        unchanged = {o.rid for o, visit in outcomes if visit.unchanged}
        seen = [page for rid, page in pages.items() if rid not in unchanged]
        confirm([page for rid, page in pages.items() if rid in unchanged], self.now)
        gone = WatchedItem.objects.filter(page__in=seen, gone_at=None)
        gone = gone.exclude(key__in=[UUID(bytes=key) for key in rows])
        if numbers := [*gone.order_by("pk").select_for_update().values_list("pk", flat=True)]:
            WatchedItem.objects.filter(pk__in=numbers).update(gone_at=self.now)


def confirm(pages: Collection[WatchedPage], now: datetime) -> None:
    """The items of pages that have not changed are as they were."""
    items = WatchedItem.objects.filter(page__in=pages, gone_at=None).order_by("pk")
    if pages and (numbers := [*items.select_for_update().values_list("pk", flat=True)]):
        WatchedItem.objects.filter(pk__in=numbers).update(last_seen=now)


def plan(page: WatchedPage, policy: Revisit, group: PageGroup, trust: Trust) -> None:
    """Decides when a page that was visited is due next."""
    belief = Evidence(page.shape, page.time).over(group.prior)
    times = group.times(policy, belief, trust, page.importance, page.host)
    page.every, page.said_every, page.mean_every = times
    assert page.last_visit is not None
    seconds = times.silent
    if policy.is_optimal and page.visits <= 1:
        # Pages that were first visited together do not fall due together: as if they had been
        # visited at any time before.
        seconds *= phase_of(page)
    page.next_at = page.last_visit + timedelta(seconds=seconds)


def phase_of(page: WatchedPage) -> float:
    """A number from 0 to 1, always the same for a page, and evenly distributed."""
    return (page.key.int % PHASES + 0.5) / PHASES


def trusts_of(watch: int, hosts: Collection[str]) -> dict[str, Trust]:
    """The trust in the sitemaps of these hosts."""
    if not hosts:
        return {}
    rows = WatchedHost.objects.filter(watch=watch, host__in=hosts)
    return {host: Trust(*some) for host, *some in rows.values_list("host", *Trust._fields)}


def _changed(page: WatchedPage, visit: Visit, version: str) -> bool | None:
    """None: unknown, because there are no statistics, or another version made them."""
    if visit.unchanged:
        return False
    if visit.digest is None or page.digest is None:
        return None
    same = bytes(page.digest) == visit.digest
    if not same and page.version != version:
        return None
    return not same
