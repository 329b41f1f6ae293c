"""Found: new pages that visits have led to, and news about known pages.

Pages are added under a lock of the watch, so that each is new once. A sitemap may name 50,000: more
than some are written before the visit that found them, in transactions of their own, so that no
lock is held for long. Pages of an interrupted visit are known when the visit is made again, so each
page, and each page's event, counts once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.db import transaction

from crawlframe.errors import BadRequest, MissingCode
from crawlframe.request.record import read_head, with_depth
from crawlframe.request.request import MAX_DEPTH_RANK
from crawlframe.revisit.visit import FoundPage, Visit
from crawlframe.run.outcome import Outcome
from crawlservice.models import Event, Page, Watch, WatchedHost, WatchedPage
from crawlservice.watches import clock, page_rows

BATCH = 1_000  # found pages that one transaction writes, at most
URLS_TOLD = 100  # of an event that pages were found
GONE_AGAIN = timedelta(days=7)  # after which a link to a page that was gone is believed
HEARD = (
    "record", "url", "callback", "group", "host", "rank", "importance", "lastmod", "said_at",
    "next_at",
)  # fmt: skip

Pairs = list[tuple[Outcome, Visit]]


def write_ahead(outcomes: Iterable[Outcome]) -> None:
    """Records pages that these outcomes have found and that have no row yet, if they are too many
    for one transaction. Raises django.db.Error."""
    found = {
        UUID(bytes=o.rid): len(o.results.visit.found)
        for o in outcomes
        if o.results.visit is not None
    }
    if sum(found.values()) > BATCH:
        old = {*Page.objects.filter(rid__in=found).values_list("rid", flat=True)}
        record_ahead(outcome for outcome in outcomes if UUID(bytes=outcome.rid) not in old)


def record_ahead(outcomes: Iterable[Outcome]) -> None:
    """Writes the found pages in transactions of its own, and takes them out of their visits.
    Raises django.db.Error; pages written until then stay, and are out of the visits."""
    visits = [(o, v) for o in outcomes if (v := o.results.visit) is not None]
    for number in dict.fromkeys(visit.watch for _, visit in visits):
        left = [(o, visit) for o, visit in visits if visit.watch == number]
        while left := [(o, visit) for o, visit in left if visit.found]:
            some, room = [], BATCH
            for outcome, visit in left:
                if part := visit.found[:room]:
                    some.append((outcome, Visit(number, found=part)))
                    room -= len(part)
            with transaction.atomic():
                watch = Watch.objects.filter(pk=number).first()
                if watch is not None:  # it may have been removed
                    Finder(watch, clock.now()).record(some)
            for (_, written), (_, visit) in zip(some, left, strict=False):
                del visit.found[: len(written.found)]


@dataclass
class Finder:
    """Pages found by visits of one watch. In the caller's transaction."""

    watch: Watch
    now: datetime

    def record(self, outcomes: Pairs) -> None:
        found = found_by(outcomes)
        heard = [page.pk for page in self.find(outcomes) if self.hear(page, found[page.key.bytes])]
        if heard:
            rows = WatchedPage.objects.filter(pk__in=heard).order_by("pk").select_for_update()
            page_rows.update([p for p in rows if self.hear(p, found[p.key.bytes])], HEARD)

    def find(self, outcomes: Pairs) -> list[WatchedPage]:
        """Adds pages that are new, and returns the others."""
        found = found_by(outcomes)
        known = self._known(found)
        if new := found.keys() - known.keys():
            Watch.objects.select_for_update(no_key=True).get(pk=self.watch.pk)
            known |= self._known(new)  # others may have found them meanwhile
            new -= known.keys()
        if new:
            self._add([page for key, page in found.items() if key in new])
            if self.watch.settled_at is not None:
                # One event for each page that led to new ones.
                told: set[bytes] = set()
                for outcome, visit in outcomes:
                    mine = [p for p in visit.found if p.key in new and p.key not in told]
                    told.update(page.key for page in mine)
                    if mine:
                        urls = [page.url for page in mine[:URLS_TOLD]]
                        Event.objects.create(
                            kind=Event.Kind.PAGES_FOUND,
                            task_id=outcome.task,
                            detail={"watch": self.watch.pk, "count": len(mine), "urls": urls},
                        )
        return [*known.values()]

    def _known(self, found: Iterable[bytes]) -> dict[bytes, WatchedPage]:
        keys = [UUID(bytes=key) for key in found]
        rows = WatchedPage.objects.filter(watch=self.watch, key__in=keys)
        return {page.key.bytes: page for page in rows}

    def _add(self, found: list[FoundPage]) -> None:
        if hosts := {page.place for page in found if page.lastmod is not None}:
            WatchedHost.objects.bulk_create(
                [WatchedHost(watch=self.watch, host=host) for host in sorted(hosts)],
                ignore_conflicts=True,
            )
        WatchedPage.objects.bulk_create(
            [
                WatchedPage(
                    watch=self.watch,
                    key=UUID(bytes=page.key),
                    first_seen=self.now,
                    next_at=self.now,
                    lastmod=moment(page.lastmod),
                    **_request(page),
                )
                for page in found
            ],
            ignore_conflicts=True,
        )

    def hear(self, page: WatchedPage, found: FoundPage) -> bool:
        """Takes over news about a known page; returns whether there are any."""
        heard = False
        for name, value in _request(_nearest(page, found)).items():
            old = getattr(page, name)
            if (bytes(old) if name == "record" else old) != value:
                setattr(page, name, value)
                heard = True
        if page.state == WatchedPage.State.GONE:
            since = page.gone_at if page.next_at is None else None
            if since is not None and self.now - since > GONE_AGAIN:
                page.next_at = self.now
                return True
            return heard
        lastmod, before = moment(found.lastmod), page.lastmod
        if lastmod is None or lastmod == before:
            return heard
        # A time in the future is wrong, and must not hide later ones.
        if before is not None and lastmod < before <= self.now:
            return heard
        page.lastmod = lastmod
        if page.last_visit is not None and page.said_at is None:
            page.said_at = min(self.now, max(lastmod, page.last_visit))
            if page.said_every is not None and page.next_at is not None:
                due = max(self.now, page.last_visit + timedelta(seconds=page.said_every))
                page.next_at = min(page.next_at, due)
        return True


def found_by(outcomes: Pairs) -> dict[bytes, FoundPage]:
    """Each page once: as it was found at the least depth, with a time of change if one was said."""
    found: dict[bytes, FoundPage] = {}
    for page in (page for _, visit in outcomes for page in visit.found):
        if (other := found.get(page.key)) is not None:
            if _depth(other.record) < _depth(page.record):
                page, other = other, page
            if page.lastmod is None:
                page = page._replace(lastmod=other.lastmod)
        found[page.key] = page
    return found


def _depth(record: bytes) -> int:
    try:
        return read_head(record).depth
    except (BadRequest, MissingCode):
        return MAX_DEPTH_RANK


def moment(seconds: float | None) -> datetime | None:
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def _request(page: FoundPage) -> dict[str, object]:
    return {
        "url": page.url,
        "host": page.place,
        "callback": page.callback,
        "group": page.group,
        "rank": page.rank,
        "record": page.record,
        "importance": page.importance,
    }


def _nearest(page: WatchedPage, found: FoundPage) -> FoundPage:
    """The page at the least depth at which it was found so far. Pages that link to each other would
    become deeper with each visit otherwise."""
    try:
        least, depth = read_head(bytes(page.record)).depth, read_head(found.record).depth
        if depth <= least:
            return found
        record = with_depth(found.record, least)
    except (BadRequest, MissingCode):
        return found
    deeper = min(depth, MAX_DEPTH_RANK) - min(least, MAX_DEPTH_RANK)
    return found._replace(record=record, rank=found.rank - deeper)
