"""Failures: pages of rounds that have ended without a recorded visit, and starts that failed. A
page that is missing twice is gone; other failures end its visits, or get a next time if its Revisit
says so."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import F, Q

from crawlframe.request.request import root_admission
from crawlframe.revisit.declared import Revisit, policy_of
from crawlframe.revisit.rates import Evidence, learn
from crawlframe.revisit.trust import Trust
from crawlservice.models import Event, Page, Task, Watch, WatchDay, WatchedItem, WatchedPage
from crawlservice.watches import page_rows
from crawlservice.watches.group import PageGroup, groups_of
from crawlservice.watches.visits import VISITED, confirm, plan, trusts_of

MISSING = (404, 410)
MISSES = 2  # visits in a row that find no page, after which it is gone
CONFIRM_SPAN = timedelta(days=1)  # until the next look at a page that was not seen, at most
NOT_MODIFIED = 304
RETRY_SPAN = timedelta(minutes=1)  # before cancelled visits are submitted again
START_AGAIN = timedelta(hours=1)  # after a start that failed


def take_back(
    watch: Watch, pages: Collection[WatchedPage], policies: Mapping[str, Revisit], now: datetime
) -> None:
    """Takes failed visits back. The caller's transaction has locked all. Raises django.db.Error."""
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
            # A change that a sitemap announced is still to be seen.
            unseen = page.misses or (policy.by and page.state == WatchedPage.State.FAILED)
            if unseen and page.next_at is not None:
                page.next_at = min(page.next_at, now + CONFIRM_SPAN)
    page_rows.update(pages, VISITED)
    if errors:
        day, _ = WatchDay.objects.get_or_create(watch=watch, day=now.date())
        WatchDay.objects.filter(pk=day.pk).update(errors=F("errors") + errors)


def _is_over(page: WatchedPage, policy: Revisit | None) -> bool:
    """Whether it is not visited again."""
    if page.state == WatchedPage.State.FAILED:
        return policy is None or not policy.errors
    return page.state == WatchedPage.State.GONE


def _confirmed(page: WatchedPage, row: Page, before: datetime | None, group: PageGroup) -> None:
    """Confirms a page that was answered without its callback, as when it is not modified."""
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
