"""Overview: the numbers of watches, as the admin, the API and commands show them."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from django.db.models import Count, Q, Sum

from crawlframe.revisit.declared import DAY
from crawlframe.revisit.rates import Evidence
from crawlservice.models import Watch, WatchDay, WatchedPage
from crawlservice.monitoring.ttl_cache import ttl_cache
from crawlservice.watches import clock
from crawlservice.watches.group import PageGroup, groups_of

SHOWN_DAYS = 60


class Numbers(NamedTuple):
    """``due``: pages whose time has come; ``fresh``: the estimated share of the pages that is up to
    date, by importance, None if it is not known."""

    pages: int = 0
    new: int = 0
    gone: int = 0
    failed: int = 0
    due: int = 0
    visits: int = 0
    changes: int = 0
    fresh: float | None = None
    today: int = 0  # visits


def numbers_of(watches: Collection[int]) -> dict[int, Numbers]:
    """Raises django.db.Error."""
    now = clock.now()
    states = WatchedPage.State
    pages = WatchedPage.objects.filter(watch__in=watches).order_by().values("watch")
    counted = pages.annotate(
        n=Count("pk"),
        new=Count("pk", filter=Q(state=states.NEW)),
        gone=Count("pk", filter=Q(state=states.GONE)),
        failed=Count("pk", filter=Q(state=states.FAILED)),
        due=Count("pk", filter=Q(next_at__lte=now, rid__isnull=True)),
        seen=Sum("visits", default=0),
        changed=Sum("changes", default=0),
    )
    days: dict[int, tuple[float | None, int]] = {}
    for day in WatchDay.objects.filter(watch__in=watches).order_by("day"):
        fresh, _ = days.get(day.watch_id, (None, 0))
        today = day.visited if day.day == now.date() else 0
        days[day.watch_id] = (day.fresh if day.fresh is not None else fresh, today)
    found = {pk: Numbers() for pk in watches}
    for row in counted:
        fresh, today = days.get(row["watch"], (None, 0))
        found[row["watch"]] = Numbers(
            row["n"], row["new"], row["gone"], row["failed"], row["due"], row["seen"],
            row["changed"], fresh, today,
        )  # fmt: skip
    return found


@ttl_cache(times=10)  # counting millions of pages takes time
def polled_numbers(watch: int) -> Numbers:
    """The numbers of one watch, for pages that poll. Raises django.db.Error."""
    return numbers_of([watch])[watch]


def days_of(watch: Watch) -> list[WatchDay]:
    """The latest, in order."""
    return [*WatchDay.objects.filter(watch=watch).order_by("-day")[:SHOWN_DAYS]][::-1]


def rate_of(watch: Watch, page: WatchedPage) -> float | None:
    """Changes per day, as far as they are known; None if nothing is."""
    if not page.visits:
        return None
    prior = groups_of(watch.groups).get(page.group, PageGroup()).prior
    return DAY * Evidence(page.shape, page.time).over(prior).mean
