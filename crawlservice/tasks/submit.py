"""The only way from Django to the frontier: tasks are started, paused, resumed and cancelled here.

The database is updated first; if Redis misses something, the steward adds it later."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec
from django.contrib.auth.models import User as Account
from django.db import transaction
from redis import RedisError

from crawlframe.base import faults
from crawlframe.base.program import command
from crawlframe.code.registry import unknown_spider
from crawlframe.errors import ArgumentError, CrawlframeError, FrontierError, UnknownSpider
from crawlframe.frontier import NodeInfo
from crawlframe.frontier.client.batches import chunks
from crawlframe.frontier.client.wording import error_text
from crawlframe.request.request import (
    MAX_TASK_PRIORITY,
    Admission,
    end_admission,
    pack_admissions,
    root_admission,
    unpack_admissions,
)
from crawlframe.spider.settings import SpiderSettings
from crawlframe.spider.spider import SpiderInfo
from crawlservice.accounts.roles import User
from crawlservice.connections.frontier import frontier
from crawlservice.connections.installation import OtherInstallation
from crawlservice.connections.lookup import find
from crawlservice.models import Schedule, Task, Watch
from crawlservice.recipes import current as recipes
from crawlservice.tasks import aliases, spider_switch
from crawlservice.tasks import labels as task_labels
from crawlservice.tasks import overrides as task_settings
from crawlservice.tasks.arguments import spider_arguments
from crawlservice.tasks.arguments.secrets import sealed
from crawlservice.tasks.progress import budgets, outcomes
from crawlservice.tasks.stored_limits import LAYERED, limits_of, stored_limits

BATCH = 200  # tasks recorded or opened at a time
SWEEP = 2.0  # seconds for which a caller empties queues in Redis; a steward does the rest


class NothingPublished(UnknownSpider):
    """No node has published its spiders yet. ``loading``: nodes that are about to."""

    def __init__(self, loading: Sequence[NodeInfo] = ()) -> None:
        names = ", ".join(sorted(node.node for node in loading))
        nodes = f"; not ready yet: {names}; see {command('node list')}, then try again"
        start = f"; start one: {command('runcrawler')}"
        super().__init__(f"No node has published its spiders yet{nodes if loading else start}")


class WrongState(CrawlframeError):
    """The task's state does not allow this."""


class Prepared(NamedTuple):
    """A task to be started. ``seeds`` returns its first requests, when it has a number."""

    task: Task
    seeds: Callable[[Task], list[Admission]]
    labels: dict[str, str]


class RedisNotUpdated(FrontierError):
    """Done in the database; the nodes update Redis when it is back."""


def submit(
    spider: str,
    arguments: dict[str, Any],
    *,
    priority: int = 0,
    from_text: bool = False,
    info: SpiderInfo | None = None,
    user: User | None = None,
    schedule: Schedule | None = None,
    settings: Mapping[str, Any] | None = None,
    labels: Mapping[str, Any] | None = None,
    watch: Watch | None = None,
    seeds: Callable[[Task], list[Admission]] | None = None,
    batch: list[Prepared] | None = None,
) -> Task:
    """Creates and starts a task. The spider must be published by a node, or described by ``info``.
    ``arguments`` may have Secrets, as ``revealed`` returns them. ``settings``: overrides of its
    spider's. ``user``: the task's owner. ``watch``: the watch whose round it is. ``seeds`` returns
    its first requests, by default the request that runs ``start``.
    Within a transaction of the caller, Redis is updated on commit. With a ``batch``, the task is
    only added to it, for ``start_all``.

    Raises SpiderDisabled, UnknownSpider, ArgumentError, and FrontierError: RedisNotUpdated after
    the task was recorded."""
    spider_switch.check(spider)
    if not -MAX_TASK_PRIORITY <= priority <= MAX_TASK_PRIORITY:
        raise ArgumentError(
            f"priority {priority} must be between -{MAX_TASK_PRIORITY} and {MAX_TASK_PRIORITY}"
        )
    tagged = task_labels.check(labels or {})
    info = info or published(spider)
    any_file = user is None and schedule is None  # a command
    checked = sealed(
        spider_arguments.check(info, arguments, from_text=from_text, any_file=any_file)
    )
    overrides = dict(settings or {})
    own = task_settings.check(info, overrides, user)
    task = Task(
        spider=info.name,
        arguments=checked,
        priority=priority,
        settings=_limits(own, watch) | ({"workers": 1} if info.workers else {}),
        overrides=overrides,
        ends=info.ends,
        seeds=b"",
        user=user if isinstance(user, Account) else None,
        schedule=schedule,
        watch=watch,
    )
    if watch is None:
        _compare_with_others(task, info)

    def begin(new: Task) -> list[Admission]:
        if own.aliases and watch is None:  # a watch knows each page by its own URL
            aliases.give(new)
        return _seeds(new, seeds)

    new = Prepared(task, begin, tagged)
    start_all([new]) if batch is None else batch.append(new)
    return task


def _compare_with_others(task: Task, info: SpiderInfo) -> None:
    """A round of a watch is no run that others are compared with."""
    task.arguments_hash = outcomes.arguments_hash(info.name, task.arguments, task.overrides)
    task.expect = info.expect and msgspec.to_builtins(info.expect)


def _limits(settings: SpiderSettings, watch: Watch | None) -> dict[str, Any]:
    left_out = LAYERED if watch is not None else ()  # a round visits pages of all depths
    return {name: v for name, v in stored_limits(settings).items() if name not in left_out}


def start_all(new: Sequence[Prepared]) -> None:
    """Records new tasks with their first requests, and opens them. Raises RedisNotUpdated."""
    left = tasks = [one.task for one in new]
    outcomes.compare([task for task in tasks if task.arguments_hash is not None])
    with transaction.atomic():
        while left:
            Task.objects.bulk_create(left)
            left = _open_among(left)  # the database lost tasks, and reuses their numbers
            Task.objects.filter(pk__in=[task.pk for task in left]).delete()
            for task in left:
                task.pk = None
        for task, seeds, labels in new:
            task.seeds = pack_admissions(seeds(task))
            task_labels.write(task.pk, labels)
            if "time_limit" in task.settings:
                budgets.begin(task)
        Task.objects.bulk_update(tasks, ["seeds"], batch_size=BATCH)
        name = f"task {tasks[0].pk}" if len(tasks) == 1 else f"a batch of {len(tasks)} tasks"
        _update_redis("is recorded", name, lambda: _open_recorded(tasks))


def _seeds(task: Task, seeds: Callable[[Task], list[Admission]] | None) -> list[Admission]:
    first = [root_admission(task.pk, task.priority)] if seeds is None else seeds(task)
    return [*first, end_admission(task.pk, task.priority)] if task.ends else first


def _open_recorded(tasks: list[Task]) -> None:
    faults.at("submit.recorded", FrontierError)
    for some in chunks(tasks, BATCH):
        # A steward may have opened a large batch in the meantime, and some may have ended.
        rows = Task.objects.filter(pk__in=[task.pk for task in some], state__in=Task.ACTIVE)
        active = {*rows.values_list("pk", flat=True)}
        for task in some:
            if task.pk in active:
                open_in_frontier(task)


def published(spider: str) -> SpiderInfo:
    """The info of a spider as nodes published it, or else of a recipe. While nodes live, one of
    them must still have it; a node that is loading its code does not count. Raises UnknownSpider
    and FrontierError."""
    with _nothing_submitted():
        info = frontier().spiders.find(spider)
        loaded = _loaded() if info is not None else []
        loading = _loaded(loading=True) if info is None else []
    gone = bool(loaded) and not any(spider in node.spiders for node in loaded)
    if (info is None or gone) and (recipe := recipes.info(spider)) is not None:
        return recipe
    if info is None:
        known = published_spiders()
        raise unknown_spider(spider, known, {}) if known else NothingPublished(loading)
    if gone:
        who = ", ".join(f"{node.node} {node.code.version}".rstrip() for node in loaded)
        raise UnknownSpider(
            f"no node has the spider {spider!r} any more: its code is gone or does not load there "
            f"({who}); see {command('node list')}. Nothing was submitted"
        )
    return info


def _open_among(tasks: list[Task]) -> list[Task]:
    try:
        known = {*frontier().open_tasks()}
    except (RedisError, FrontierError):
        return []  # the tasks are added when it is back
    return [task for task in tasks if task.pk in known]


def spiders() -> dict[str, SpiderInfo]:
    """All spiders that ``published`` would return, by name. Raises FrontierError."""
    with _nothing_submitted():
        known = frontier().spiders.all()
        loaded = _loaded()
    there = {name for node in loaded for name in node.spiders}
    return recipes.infos() | {
        name: info for name, info in known.items() if not loaded or name in there
    }


def published_spiders() -> dict[str, SpiderInfo]:
    """Every spider that a node ever published, and every recipe, by name. Raises FrontierError."""
    with _nothing_submitted():
        return recipes.infos() | frontier().spiders.all()


def _loaded(*, loading: bool = False) -> list[NodeInfo]:
    """The living nodes that have loaded their code, or that are ``loading`` it."""
    working = [n for n in frontier().leases.nodes() if n.lease_left > 0 and not n.leaving]
    return [node for node in working if loading != bool(node.spiders or node.code.version)]


@contextmanager
def _nothing_submitted() -> Iterator[None]:
    """Turns errors of Redis into messages for the submitting user."""
    try:
        yield
    except UnknownSpider:
        raise
    except (RedisError, FrontierError) as error:
        kind = OtherInstallation if isinstance(error, OtherInstallation) else FrontierError
        raise kind(f"{_why(error)}. Nothing was submitted") from None


def open_in_frontier(task: Task) -> None:
    """Opens a recorded task in the frontier; repeating it changes nothing."""
    frontier().open_task(task.pk, limits_of(task), unpack_admissions(task.seeds))


def pause(task_id: int) -> None:
    """Stops fetching the task's requests. Raises NotFound, WrongState, FrontierError."""
    budgets.stop_clock(task_id)
    _change(task_id, "paused", (Task.State.RUNNING, Task.State.PAUSED), Task.State.PAUSED)
    _update_redis("is paused", f"task {task_id}", lambda: frontier().pause(task_id))


def resume(task_id: int) -> None:
    """Resumes a paused task; a running one tries its parked requests again.

    Raises NotFound, WrongState, FrontierError."""
    budgets.start_clock(task_id)
    _change(task_id, "resumed", (Task.State.PAUSED, Task.State.RUNNING), Task.State.RUNNING)
    _update_redis("is resumed", f"task {task_id}", lambda: frontier().resume(task_id))


def cancel(task_id: int, seconds: float = SWEEP) -> None:
    """Ends the task without fetching the rest. Waiting requests are removed from Redis for at most
    ``seconds``, and by a steward afterwards. Raises NotFound, WrongState, FrontierError."""
    _change(task_id, "cancelled", Task.ACTIVE, Task.State.CANCELLING)
    _update_redis(
        "is being cancelled", f"task {task_id}", lambda: frontier().cancel(task_id, seconds)
    )


def get_task(task_id: int) -> Task:
    """Raises NotFound."""
    return find(Task.objects.all(), "task", task_id, listed="task list")


def _change(task_id: int, verb: str, allowed: tuple[Task.State, ...], to: Task.State) -> None:
    if not Task.objects.filter(pk=task_id, state__in=allowed).update(state=to):
        state = get_task(task_id).state
        raise WrongState(
            f"task {task_id} is {state} and cannot be {verb}; only tasks that are "
            f"{' or '.join(allowed)} can"
        )


def _update_redis(done: str, name: str, how: Callable[[], object]) -> None:
    """Updates Redis from the database: now, or when the current transaction is committed."""

    def update() -> None:
        try:
            how()
        except (RedisError, CrawlframeError) as error:
            raise RedisNotUpdated(
                f"{name} {done} in the database, but not in Redis. {_why(error)}. "
                "Nothing is lost or must be repeated: the nodes update Redis when it is back"
            ) from None

    transaction.on_commit(update)


def _why(error: RedisError | CrawlframeError) -> str:
    return error_text(error) if isinstance(error, RedisError) else str(error)
