"""Editing: watches are begun, paused, resumed, ended and changed here, from the admin, the API and
commands.

Parked: visits that no running code can take, as after a callback was renamed. Their rounds stay
until a version has the callback or somebody cancels them; other pages go on meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User as Account
from django.db import transaction
from django.db.models import Count, Q

from crawlframe.base.program import command
from crawlframe.errors import ArgumentError, CrawlframeError, FrontierError, UnknownSpider
from crawlframe.frontier import Counts
from crawlframe.spider.spider import SpiderInfo
from crawlservice.accounts.roles import User
from crawlservice.connections.frontier import frontier
from crawlservice.models import Task, Watch, WatchedHost, WatchedPage
from crawlservice.tasks import overrides as task_settings
from crawlservice.tasks import spider_switch, submit
from crawlservice.tasks.arguments import spider_arguments
from crawlservice.tasks.arguments.secrets import sealed
from crawlservice.tasks.submit import WrongState
from crawlservice.watches import clock
from crawlservice.watches.clock import NOW

# Parked pages of a callback, from which on its other pages wait too: it is the callback that is
# missing, and each of them would be parked in a round of its own.
MAX_PARKED = 50
MAX_ROUNDS = 5  # rounds that a problem names
LEAST_BUDGET, MOST_BUDGET = 0.01, 1e9  # requests per day


class UnknownWatch(CrawlframeError):
    """There is no watch with this number."""


def begin(
    spider: str,
    arguments: dict[str, Any],
    *,
    priority: int = 0,
    from_text: bool = False,
    budget: float | None = None,
    host_budget: float | None = None,
    settings: Mapping[str, Any] | None = None,
    user: User | None = None,
    info: SpiderInfo | None = None,
) -> Watch:
    """Begins to watch; the leading steward starts the first round. Raises SpiderDisabled,
    UnknownSpider, ArgumentError and FrontierError."""
    spider_switch.check(spider)
    info = info or submit.published(spider)
    if not info.revisit:
        raise ArgumentError(
            f"spider {spider!r} does not say when its pages are visited again; give it "
            "revisit = Revisit(...)"
        )
    if not -100 <= priority <= 100:
        raise ArgumentError(f"priority {priority} must be between -100 and 100")
    _check_budgets(budget, host_budget)
    _check_limited(info, budget, host_budget)
    if task_settings.check(info, dict(settings or {}), user).aliases:
        raise ArgumentError(
            "aliases does not fit with a watch, which knows each page by its URL; leave it out: "
            "aliases=false"
        )
    return Watch.objects.create(
        spider=info.name,
        arguments=sealed(
            spider_arguments.check(info, arguments, from_text=from_text, any_file=user is None)
        ),
        priority=priority,
        overrides=dict(settings or {}),
        budget=budget,
        host_budget=host_budget,
        user=user if isinstance(user, Account) else None,
        start_at=clock.now(),
    )


def get(number: int) -> Watch:
    """Raises UnknownWatch."""
    watch = Watch.objects.filter(pk=number).first()
    if watch is None:
        raise UnknownWatch(f"there is no watch {number}; list them: {command('watches')}")
    return watch


def pause(number: int) -> Watch:
    """Makes no more rounds, and pauses those under way. Raises UnknownWatch, WrongState and
    RedisNotUpdated."""
    return _turn(number, "paused", (Watch.State.RUNNING,), Watch.State.PAUSED, submit.pause)


def resume(number: int) -> Watch:
    """Raises as ``pause``."""
    return _turn(number, "resumed", (Watch.State.PAUSED,), Watch.State.RUNNING, submit.resume)


def end(number: int) -> Watch:
    """Ends it for ever, and cancels the rounds under way. What it knows stays. Raises as
    ``pause``."""
    active = (Watch.State.RUNNING, Watch.State.PAUSED)
    return _turn(number, "ended", active, Watch.State.ENDED, submit.cancel)


def _turn(
    number: int, verb: str, allowed: Collection[Watch.State], to: Watch.State, change: Any
) -> Watch:
    with transaction.atomic():
        get(number)
        watch = Watch.objects.select_for_update(no_key=True).get(pk=number)
        if watch.state not in allowed:
            raise WrongState(f"watch {number} is {watch.state} and cannot be {verb}")
        watch.state = to
        Watch.objects.filter(pk=number).update(state=to)
    late: FrontierError | None = None
    for pk in Task.objects.filter(watch=number, state__in=Task.ACTIVE).values_list("pk", flat=True):
        try:
            change(pk)
        except WrongState:  # it ended meanwhile
            continue
        except FrontierError as error:  # it is recorded, and nodes do it when Redis is back
            late = error
    if late is not None:
        raise late
    return watch


def set_budget(number: int, **budgets: float | None) -> Watch:
    """``budget`` and ``host_budget``: requests per day; None: as the spider says. Raises
    UnknownWatch and ArgumentError."""
    _check_budgets(*budgets.values())
    with suppress(UnknownSpider, FrontierError):  # that it is away changes nothing here
        _check_limited(submit.published(get(number).spider), *budgets.values())
    with transaction.atomic():
        get(number)
        watch = Watch.objects.select_for_update(no_key=True).get(pk=number)
        for group in watch.groups.values():
            group.pop("tuned_at", None)  # its level is set anew
        for name, value in budgets.items():
            setattr(watch, name, value)
        Watch.objects.filter(pk=number).update(groups=watch.groups, **budgets)
        if "host_budget" in budgets:
            WatchedHost.objects.filter(watch=number).update(tokens_at=None)
    return watch


def visit_now(number: int, pages: Collection[int] = (), urls: Collection[str] = ()) -> int:
    """Makes pages due before all others, whatever the budget says; also those that are gone or
    failed. Without any, ``start`` runs. Returns how many pages. Raises UnknownWatch and
    WrongState."""
    watch = get(number)
    if watch.state == Watch.State.ENDED:
        raise WrongState(f"watch {number} is ended and visits nothing")
    if not pages and not urls:
        Watch.objects.filter(pk=number).update(start_at=clock.now())
        return 0
    rows = WatchedPage.objects.filter(Q(pk__in=pages) | Q(url__in=urls), watch=number)
    found = rows.filter(rid__isnull=True).update(next_at=NOW)
    if not found and not rows.exists():
        what = ", ".join([*urls, *map(str, pages)])
        raise ArgumentError(f"watch {number} does not know {what:.300}")
    return found


def _check_limited(info: SpiderInfo, *budgets: float | None) -> None:
    """A budget must have something that it can replace."""
    if any(budgets) and not any(policy.is_optimal for policy in info.revisit.values()):
        raise ArgumentError(
            f"no Revisit of spider {info.name!r} has a budget, so there is none to replace; "
            "leave budget and host_budget out, or give the spider revisit = Revisit(budget=...)"
        )


def _check_budgets(*budgets: float | None) -> None:
    for budget in budgets:
        if budget is not None and not LEAST_BUDGET <= budget <= MOST_BUDGET:
            raise ArgumentError(
                f"budget {budget:g} must be {LEAST_BUDGET:g} to {MOST_BUDGET:g} requests per day"
            )


@dataclass(frozen=True)
class Parked:
    """``rids``: of the visits. ``rounds``: those of which nothing else is left. ``problem``: what
    to do, in words."""

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
    cancel = command(f"cancel {rounds[0]}")
    return (
        f"{visits} for code: {reason}. Other pages go on. Give the spider a method of that name "
        "again, such as old_name = new_name; the visits go on by themselves then. Or cancel the "
        f"rounds ({named}; {cancel}): their pages are then visited with the callback that they "
        "were last found with."
    )
