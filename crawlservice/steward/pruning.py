"""Pruning: deletes rows that are no longer needed, in batches, and files that no page names. The
leading steward does it. Data of the ledger is never pruned; see removal.py for that."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, Max, OuterRef, Q, QuerySet, Subquery
from django.db.models.expressions import Combinable
from django.db.models.functions import Now

from crawlframe.frontier import Frontier
from crawlservice.connections.contained import contained
from crawlservice.exports.source import held
from crawlservice.files.pruning import prune_old
from crawlservice.hosts.idle import IdleHosts, IdleRobots
from crawlservice.models import (
    Action,
    Alert,
    AlertMessage,
    AlertNotice,
    AlertReport,
    Delivery,
    ErrorGroup,
    Event,
    Generation,
    Page,
    Run,
    Sample,
    Submission,
    Task,
    Token,
)
from crawlservice.monitoring import lives
from crawlservice.pages.archived import archive
from crawlservice.pages.retention import PageRetention
from crawlservice.pages.segments import SegmentRetention
from crawlservice.steward import sampling
from crawlservice.tasks import bulk_submit
from crawlservice.tasks.removal import remove
from crawlservice.tasks.retry import ENDED

BATCH = 100  # rounds removed in one step


def prune_rounds() -> bool:
    """A step of the leading steward: removes a batch of rounds that CRAWLFRAME_KEEP_ROUNDS no
    longer keeps. Returns whether there may be more. Raises django.db.Error, redis.RedisError and
    FrontierError."""
    if not settings.KEEP_ROUNDS:
        return False
    old = Now() - timedelta(days=settings.KEEP_ROUNDS)
    rounds = Task.objects.filter(watch__isnull=False, state__in=ENDED, finished_at__lt=old)
    found = [*rounds.filter(unwritten=None).order_by("pk").values_list("pk", flat=True)[:BATCH]]
    if not found:
        return False
    removed = sum(part.tasks for part in remove(Task.objects.filter(pk__in=found), held))
    return removed == BATCH


ROUND_SECONDS = 60.0  # seconds between two rounds over all kinds
ROWS_PER_DELETE = 5_000  # rows deleted at a time
GROUPS = timedelta(days=30)  # how long a group of errors is kept that has none left
LIFE_AGE = timedelta(days=90)  # how long ended lives of nodes are kept

Rows = QuerySet[Any]
Kind = Callable[[], Rows]  # rows to delete now, the oldest first
Batch = Callable[[], bool]  # deletes some; returns whether there may be more


class Pruner:
    """``lives`` returns the generations that the frontier knows: those are kept. ``more``: kinds of
    rows in addition to KINDS."""

    def __init__(self, lives: Callable[[], Collection[int]], more: Iterable[Kind] = ()) -> None:
        self._lives = lives
        self._more = tuple(more)
        self._next = 0.0
        self._left: deque[tuple[str, Batch]] = deque()
        opened = archive()
        self._pages = [PageRetention().step]
        if opened is not None:
            self._pages.append(SegmentRetention(opened).step)

    @classmethod
    def of(cls, frontier: Frontier) -> Pruner:
        """Returns one for all rows that this frontier does not need."""
        return cls(frontier.leases.left, [IdleHosts(frontier), IdleRobots()])

    def tick(self) -> None:
        """Deletes one batch of one kind of rows, or of files, or does nothing. Raises
        django.db.Error, and the errors of ``lives`` and of the kinds."""
        if not self._left:
            if time.monotonic() < self._next:
                return
            self._next = time.monotonic() + ROUND_SECONDS
            with contained("pruning of nodes"):
                lives.forget_old()
            kinds = {kind.__name__: kind for kind in KINDS}
            kinds |= {"lives": lambda: ended_lives(self._lives())}
            kinds |= {type(kind).__name__: kind for kind in self._more}
            steps = {name: _batch(kind) for name, kind in kinds.items()}
            more = {step.__qualname__: step for step in (prune_old, prune_rounds, *self._pages)}
            self._left.extend((steps | more).items())
        name, batch = self._left.popleft()
        with contained(f"pruning of {name}"):
            if batch():
                self._left.append((name, batch))


def _batch(kind: Kind) -> Batch:
    return lambda: delete(kind()) == ROWS_PER_DELETE


@transaction.atomic
def delete(rows: Rows) -> int:
    """Deletes the first ROWS_PER_DELETE rows; returns how many. Rows that another transaction has
    locked are skipped."""
    locked = rows.select_for_update(of=("self",), skip_locked=True)
    found = [*locked.values_list("pk", flat=True)[:ROWS_PER_DELETE]]
    if found:
        # By their numbers alone: the rows met all other conditions, and are locked. No row is
        # loaded, because rows that refer to these are gone already.
        of_model = rows.model._default_manager.filter(pk__in=found)
        of_model._raw_delete(of_model.db)
    return len(found)


def old_samples() -> Rows:
    return Sample.objects.filter(at__lt=Now() - sampling.SAMPLE_AGE).order_by("at")


def old_keys() -> Rows:
    old = Now() - bulk_submit.KEY_AGE
    return Submission.objects.filter(created_at__lt=old).order_by("created_at")


def old_runs() -> Rows:
    """All runs but the last of each schedule, and the waiting ones."""
    later = Run.objects.filter(schedule=OuterRef("schedule"), due_at__gt=OuterRef("due_at"))
    old = _before(settings.KEEP_RUNS)
    rows = Run.objects.alias(later=_one(later)).filter(created_at__lt=old, later__isnull=False)
    return rows.exclude(outcome=Run.Outcome.WAITING).order_by("created_at")


def old_deliveries() -> Rows:
    """Deliveries that arrived or were given up."""
    old = _before(settings.KEEP_EVENTS)
    rows = Delivery.objects.filter(event__created_at__lt=old, next_at=None)
    return rows.order_by("event__created_at")


def old_events() -> Rows:
    """Events that were handed to webhooks and have no delivery left. The newest is kept: readers of
    the stream start after it."""
    newest = Event.objects.aggregate(pk=Max("pk"))["pk"] or 0
    rows = Event.objects.filter(created_at__lt=_before(settings.KEEP_EVENTS), pk__lt=newest)
    rows = rows.alias(left=_one(Delivery.objects.filter(event=OuterRef("pk"))))
    return rows.filter(delivered_at__isnull=False, left=None).order_by("created_at")


def old_actions() -> Rows:
    return Action.objects.filter(at__lt=_before(settings.KEEP_JOURNAL)).order_by("at")


def old_tokens() -> Rows:
    """Tokens that have been invalid for that long, and that the journal no longer names."""
    old = _before(settings.KEEP_JOURNAL)
    over = Q(expires_at__lt=old) | Q(revoked_at__lt=old)
    return Token.objects.filter(over, ~Exists(Action.objects.filter(token=OuterRef("pk"))))


def old_groups() -> Rows:
    """Groups of errors without pages. A group is made again if its error occurs again."""
    pages = Page.objects.filter(error_group=OuterRef("pk")).order_by()
    rows = ErrorGroup.objects.alias(left=_one(pages))
    return rows.filter(created_at__lt=Now() - GROUPS, left=None).order_by("created_at")


def ended_lives(living: Collection[int]) -> Rows:
    """The newest is kept, because the numbers of lives never repeat, and the audit checks it."""
    newest = Generation.objects.aggregate(pk=Max("pk"))["pk"] or 0
    rows = Generation.objects.filter(started_at__lt=Now() - LIFE_AGE, pk__lt=newest)
    rows = rows.filter(offline=False)
    return rows.exclude(pk__in=[*living]).order_by("started_at")


def old_alert_messages() -> Rows:
    """Messages that were sent or given up."""
    rows = AlertMessage.objects.filter(created_at__lt=_before(settings.KEEP_EVENTS), next_at=None)
    return rows.order_by("created_at")


def old_notices() -> Rows:
    """Notices of alerts that were resolved that long ago, told or not."""
    return AlertNotice.objects.filter(alert__resolved_at__lt=_before(settings.KEEP_EVENTS))


def old_reports() -> Rows:
    return AlertReport.objects.filter(alert__resolved_at__lt=_before(settings.KEEP_EVENTS))


def old_alerts() -> Rows:
    rows = Alert.objects.filter(resolved_at__lt=_before(settings.KEEP_EVENTS))
    rows = rows.alias(
        left=_one(AlertNotice.objects.filter(alert=OuterRef("pk"))),
        told=_one(AlertReport.objects.filter(alert=OuterRef("pk"))),
    )
    return rows.filter(left=None, told=None).order_by("resolved_at")


KINDS: tuple[Kind, ...] = (
    old_samples, old_keys, old_runs, old_deliveries, old_events, old_actions, old_tokens,
    old_groups,
    old_alert_messages, old_notices, old_reports, old_alerts,
)  # fmt: skip


def _one(rows: Rows) -> Subquery:
    """Whether there is one, as a subquery per row: for EXISTS a database may read both tables
    completely, though only a batch is needed."""
    return Subquery(rows.values("pk")[:1])


def _before(days: int) -> Combinable | datetime:
    """A time by the database's clock. 0 days: kept for ever, because nothing is that old."""
    return Now() - timedelta(days=days) if days else datetime.fromtimestamp(0, UTC)
