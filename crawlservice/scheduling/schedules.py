"""Schedules: submits spiders when they are due. The leading steward does it, once per second.

The database's clock decides about due times: clocks of nodes may differ, and there is only one
database. A due time is claimed, submitted and recorded in one transaction that locks the row of its
schedule: so it is submitted once or not at all, whichever process dies and however many stewards
believe that they lead. If Redis missed the new task, the steward adds it later."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from django.db import DatabaseError, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from crawlframe.base import faults
from crawlframe.errors import ArgumentError, UnknownSpider
from crawlframe.spider.spider import SpiderInfo
from crawlservice.accounts.journal import change, record
from crawlservice.accounts.roles import User
from crawlservice.connections.contained import contained
from crawlservice.models import Event, Run, Schedule, Task
from crawlservice.scheduling.timing import BadTiming, Timing
from crawlservice.security.sealing import SealError
from crawlservice.tasks import spider_switch, submit
from crawlservice.tasks.arguments.secrets import has_secrets, revealed
from crawlservice.tasks.overrides import detail
from crawlservice.tasks.spider_switch import SpiderDisabled

log = logging.getLogger(__name__)

MISSED_AFTER = timedelta(seconds=60)  # then a start counts as missed; fail-over is much faster
MAX_WAITING = 100  # runs of one schedule that may wait for the end of its last run
MISSED = "no node was running at that time"

Found = SpiderInfo | UnknownSpider


def start_due(still_here: Callable[[], None] = lambda: None) -> None:
    """Starts due runs, and runs that waited for the end of the last run. ``still_here`` is called
    repeatedly meanwhile.

    Raises redis.RedisError, FrontierError and django.db.Error; the rest is due next time."""
    for schedule in due().order_by("next_at"):
        with contained(f"schedule {schedule.pk}"):
            if (found := _look_up(schedule.spider)) is not None:
                _start_due(schedule, found)
        still_here()
    waiting = Run.objects.filter(outcome=Run.Outcome.WAITING).order_by().values("schedule")
    active = Task.objects.filter(schedule=OuterRef("pk"), state__in=Task.ACTIVE)
    for schedule in Schedule.objects.filter(Q(enabled=False) | ~Exists(active), pk__in=waiting):
        with contained(f"schedule {schedule.pk}"):
            if (found := _look_up(schedule.spider)) is not None:
                _start_waiting(schedule, found)
        still_here()


def due() -> QuerySet[Schedule]:
    """Enabled schedules whose time has come, or is to be planned."""
    return Schedule.objects.filter(Q(next_at=None) | Q(next_at__lte=Now()), enabled=True)


def plan(schedule: Schedule) -> None:
    """Decides when it is due next, counting from now; called when it is added or its timing
    changes. Missed starts are dropped. Raises BadTiming."""
    timing = timing_of(schedule)
    with transaction.atomic():
        row, now = _lock(schedule)
        schedule.next_at = _from_now_on(timing, now) if row and row.enabled else None
        Schedule.objects.filter(pk=schedule.pk).update(next_at=schedule.next_at)


def timing_of(schedule: Schedule) -> Timing:
    """Raises BadTiming."""
    return Timing.of(schedule.cron, schedule.every, schedule.timezone)


def upcoming(schedule: Schedule, count: int) -> list[datetime]:
    """The next times at which it is due, in its time zone. Raises BadTiming."""
    timing = timing_of(schedule)
    if schedule.next_at is None:
        return []
    return [due.astimezone(timing.zone) for due in timing.upcoming(schedule.next_at, count)]


def run_now(schedule: Schedule, user: User | None = None) -> Run:
    """Starts it as if it were due now, enabled or not. Its next time does not change.

    Raises SpiderDisabled, UnknownSpider, ArgumentError, and FrontierError; if the task was recorded
    by then, the message says so."""
    spider_switch.check(schedule.spider)
    info = submit.published(schedule.spider)
    with transaction.atomic():
        row, now = _lock(schedule)
        if row is None:
            raise ArgumentError(_("this schedule no longer exists"))
        run = _start(row, now, info, user=user)
        if run.outcome == Run.Outcome.FAILED:
            raise ArgumentError(run.problem)
    return run


def _look_up(spider: str) -> Found | None:
    """The spider, or why there is none. None: no node has ever published its spiders, so it is
    looked up again later. Called before the transaction, which must not wait for Redis."""
    try:
        return submit.published(spider)
    except submit.NothingPublished:
        return None
    except UnknownSpider as error:
        return error


def _lock(schedule: Schedule) -> tuple[Schedule | None, datetime]:
    """The current row of the schedule, locked until the transaction ends, and the time. On SQLite
    the transaction itself is the lock."""
    rows = Schedule.objects.select_for_update().annotate(clock=Now())
    row = rows.filter(pk=schedule.pk).first()
    return row, row.clock if row else schedule.created_at


def _from_now_on(timing: Timing, now: datetime) -> datetime | None:
    return timing.after(now.replace(microsecond=0))


@transaction.atomic
def _start_due(schedule: Schedule, found: Found) -> None:
    row, now = _lock(schedule)
    if row is None or not row.enabled or row.spider != schedule.spider:
        return  # it was changed just now
    try:
        timing = timing_of(row)
    except BadTiming as error:  # not checked by a form, or this machine lacks the time zone
        _record(row, now, Run.Outcome.FAILED, str(error))
        _mark(row, now, str(error))
        Schedule.objects.filter(pk=row.pk).update(enabled=False, next_at=None)
        record("disable schedule", schedule=row.name, by_itself=True, problem=str(error))
        return
    first = row.next_at
    if first is None:
        Schedule.objects.filter(pk=row.pk).update(next_at=_from_now_on(timing, now))
        return
    if first > now:
        return  # another steward has done it
    due = timing.latest(first, now)
    Schedule.objects.filter(pk=row.pk).update(next_at=timing.after(due))
    if row.runs.filter(due_at=due).exists():
        return  # an old next_at was written back
    note = f"also for those missed since {_clock_time(first, timing)}" if due > first else ""
    if row.missed == Schedule.Missed.ONCE:
        _start(row, due, found, note=note)
    elif now - due > MISSED_AFTER:
        _record(row, due, Run.Outcome.MISSED, MISSED)
    else:
        if due > first:
            _record(row, first, Run.Outcome.MISSED, MISSED)
        _start(row, due, found)


@transaction.atomic
def _start_waiting(schedule: Schedule, found: Found) -> None:
    row, _now = _lock(schedule)
    if row is None or row.spider != schedule.spider:
        return
    waiting = row.runs.filter(outcome=Run.Outcome.WAITING).order_by("due_at")
    if not row.enabled:
        waiting.update(outcome=Run.Outcome.SKIPPED, problem="disabled while it waited")
        return
    if off := _spider_disabled(row):
        waiting.update(outcome=Run.Outcome.SKIPPED, problem=off)
        return
    run = waiting.first()
    if run is not None and not _active(row):
        _submit(row, run, found)


def _start(
    schedule: Schedule, due: datetime, found: Found, *, note: str = "", user: User | None = None
) -> Run:
    """Applies the overlap policy, in the transaction that locks the schedule."""
    if off := _spider_disabled(schedule):
        return _record(schedule, due, Run.Outcome.SKIPPED, off)
    active, policy = _active(schedule), schedule.overlap
    if active and policy == Schedule.Overlap.SKIP:
        return _record(schedule, due, Run.Outcome.SKIPPED, f"task {active[0]} was still running")
    if policy == Schedule.Overlap.QUEUE:
        waiting = schedule.runs.filter(outcome=Run.Outcome.WAITING).count()
        if waiting >= MAX_WAITING:
            return _record(
                schedule, due, Run.Outcome.SKIPPED, f"{waiting} runs were waiting already"
            )
        if active or waiting:
            return _record(schedule, due, Run.Outcome.WAITING, note)
    run = Run(schedule=schedule, due_at=due, problem=note)
    _submit(schedule, run, found, user)
    if policy == Schedule.Overlap.CANCEL and run.task is not None:
        for task in active:
            try:
                change("cancel", submit.cancel, task, schedule=schedule.name, by_itself=True)
            except submit.WrongState:
                log.debug("task %d ended by itself", task)
    return run


def _spider_disabled(schedule: Schedule) -> str:
    """Why its spider is disabled, "" if it is not. That is no problem of the schedule."""
    row = spider_switch.find(schedule.spider)
    return f"the spider is disabled: {row.reason}" if row else ""


def _submit(schedule: Schedule, run: Run, found: Found, user: User | None = None) -> None:
    theirs = user and user.pk != schedule.user_id and has_secrets(schedule.arguments)
    try:
        if isinstance(found, UnknownSpider):
            raise found
        run.task = submit.submit(
            schedule.spider,
            revealed(schedule.arguments),
            priority=schedule.priority,
            info=found,
            schedule=schedule,
            # The secrets of a task belong to its user, and a clone may have other arguments.
            user=None if theirs else user,
            settings=schedule.overrides,
            labels=schedule.labels,
        )
        run.outcome = Run.Outcome.SUBMITTED
        clear(schedule)
        _seal(schedule, run.task)
        if user is None:
            record(
                "submit",
                task=run.task,
                schedule=schedule.name,
                by_itself=True,
                **detail(run.task),
            )
    except (SpiderDisabled, UnknownSpider, ArgumentError, SealError) as error:
        log.warning("schedule %s cannot start: %s", schedule, error)
        run.outcome, run.problem = Run.Outcome.FAILED, str(error)
        _mark(schedule, run.due_at, str(error))
    run.save()
    faults.at("schedule.before", DatabaseError)


def _seal(schedule: Schedule, task: Task) -> None:
    """Seals secrets that were entered as plain arguments: before a node had the spider, or before
    it took a Secret."""
    if not has_secrets(task.arguments):
        return
    kept = {n: v for n, v in task.arguments.items() if has_secrets(v)}
    if any(not has_secrets(schedule.arguments.get(name)) for name in kept):
        schedule.arguments |= kept
        Schedule.objects.filter(pk=schedule.pk).update(arguments=schedule.arguments)


def clear(schedule: Schedule) -> None:
    """Clears the problem: nothing is known to keep it from starting."""
    if schedule.problem:
        Schedule.objects.filter(pk=schedule.pk).update(problem="", problem_since=None)
        schedule.problem, schedule.problem_since = "", None


def _mark(schedule: Schedule, due: datetime, problem: str) -> None:
    """Stores why it cannot start. The first time is an event; further failures are not, until it
    has started or was changed."""
    row = Schedule.objects.filter(pk=schedule.pk)
    if schedule.problem:
        row.update(problem=problem)
        return
    row.update(problem=problem, problem_since=Now())
    detail = {"due_at": due.isoformat(), "problem": problem}
    Event.objects.create(kind=Event.Kind.SCHEDULE_FAILED, schedule=schedule, detail=detail)


def _active(schedule: Schedule) -> list[int]:
    tasks = Task.objects.filter(schedule=schedule, state__in=Task.ACTIVE)
    return list(tasks.order_by("pk").values_list("pk", flat=True))


def _record(schedule: Schedule, due: datetime, outcome: Run.Outcome, problem: str) -> Run:
    log.info("schedule %s, due at %s: %s: %s", schedule, due, outcome, problem)
    return Run.objects.create(schedule=schedule, due_at=due, outcome=outcome, problem=problem)


def _clock_time(moment: datetime, timing: Timing) -> str:
    return f"{moment.astimezone(timing.zone):%Y-%m-%d %H:%M:%S}"
