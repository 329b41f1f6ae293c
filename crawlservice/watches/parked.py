"""Parked: visits that no running code can take, as after a callback was renamed. Their rounds stay
until a version has the callback or they are cancelled; other pages are visited meanwhile."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Count

from crawlframe.base.program import command
from crawlframe.frontier import Counts
from crawlservice.connections.frontier import frontier
from crawlservice.models import Task, Watch, WatchedPage

# Parked pages of a callback, from which on its other pages wait too: it is the callback that is
# missing, and each of them would be parked in a round of its own.
MAX_PARKED = 50
MAX_ROUNDS = 5  # rounds that a problem names


@dataclass(frozen=True)
class Parked:
    """``rids``: of the visits. ``rounds``: rounds without other visits. ``problem``: the fix, in
    words."""

    rids: frozenset[UUID] = frozenset()
    rounds: frozenset[int] = frozenset()
    problem: str = ""


NOTHING = Parked()


def find(watch: Watch) -> Parked:
    """The parked requests of the rounds under way. Called before the transaction of a round, which
    must not wait for Redis. Raises redis.RedisError, FrontierError and django.db.Error."""
    active = Task.objects.filter(watch=watch, state__in=Task.ACTIVE).order_by("pk")
    found = frontier().counts_of([*active.values_list("pk", flat=True)])
    some = {task: counts for task, counts in found.items() if counts and counts.parked}
    if not some:
        return NOTHING
    rids: set[UUID] = set()
    reasons: Counter[str] = Counter()
    for task in some:
        parked = frontier().parked(task)
        rids.update(UUID(bytes=rid) for rid in parked)
        reasons.update(parked.values())
    rounds = [task for task, counts in some.items() if _waits_only(counts)]
    return Parked(frozenset(rids), frozenset(rounds), _in_words(reasons, [*some]))


def held_callbacks(watch: Watch, parked: Parked) -> list[str]:
    """Callbacks of so many parked pages that no more of them are visited. Raises
    django.db.Error."""
    if len(parked.rids) < MAX_PARKED:
        return []
    pages = WatchedPage.objects.filter(watch=watch, rid__in=parked.rids).order_by()
    counted = pages.values("callback").annotate(n=Count("pk")).filter(n__gte=MAX_PARKED)
    return [*counted.values_list("callback", flat=True)]


def _waits_only(counts: Counts) -> bool:
    """A last request, which is delayed, waits for the parked ones."""
    return counts.ready == counts.in_progress == 0 and counts.delayed <= 1


def _in_words(reasons: Counter[str], rounds: list[int]) -> str:
    total = reasons.total()
    if not total:  # they were taken back meanwhile
        return ""
    ((reason, _),) = reasons.most_common(1)
    visits = "1 visit waits" if total == 1 else f"{total:,} visits wait"
    named = ", ".join(map(str, rounds[:MAX_ROUNDS])) + (", ..." if len(rounds) > MAX_ROUNDS else "")
    cancel = command(f"task cancel {rounds[0]}")
    return (
        f"{visits} for code: {reason}. Other pages continue. Give the spider a method of that name "
        "again, such as old_name = new_name; the visits then continue by themselves. Or cancel the "
        f"rounds ({named}; {cancel}): their pages are then visited with the callback that they "
        "were last found with."
    )
