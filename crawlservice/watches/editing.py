"""Editing: watches are begun, paused, resumed, ended and changed here, from the admin, the API and
commands."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from django.contrib.auth.models import User as Account
from django.db import transaction
from django.db.models import Q

from crawlframe.errors import ArgumentError, FrontierError, UnknownSpider
from crawlframe.spider.spider import SpiderInfo
from crawlservice.accounts.roles import User
from crawlservice.connections.lookup import find
from crawlservice.models import Task, Watch, WatchedHost, WatchedPage
from crawlservice.tasks import overrides as task_settings
from crawlservice.tasks import spider_switch, submit
from crawlservice.tasks.arguments import spider_arguments
from crawlservice.tasks.arguments.secrets import sealed
from crawlservice.tasks.submit import WrongState
from crawlservice.watches import clock
from crawlservice.watches.clock import NOW

LEAST_BUDGET, MOST_BUDGET = 0.01, 1e9  # requests per day


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
    """Creates a watch; the leading steward starts the first round. Raises SpiderDisabled,
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
    """Raises NotFound."""
    return find(Watch.objects.all(), "watch", number, listed="watch list")


def pause(number: int) -> Watch:
    """Makes no more rounds, and pauses those under way. Raises NotFound, WrongState and
    RedisNotUpdated."""
    return _turn(number, "paused", (Watch.State.RUNNING,), Watch.State.PAUSED, submit.pause)


def resume(number: int) -> Watch:
    """Raises as ``pause``."""
    return _turn(number, "resumed", (Watch.State.PAUSED,), Watch.State.RUNNING, submit.resume)


def end(number: int) -> Watch:
    """Ends a watch for ever, and cancels the rounds under way. Its pages and items stay. Raises as
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
    NotFound and ArgumentError."""
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
    """Makes pages due before all others, whatever the budget says; also pages that are gone or
    failed. Without pages, ``start`` runs. Returns how many pages. Raises NotFound and
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
