"""Outbox: messages to receivers that stand in a table until each has arrived or is given up.

A message is claimed with a lease: its next attempt is set behind the lease before it is sent. So
whoever dies with it leaves it to others when the lease ends, and of two senders that see it only
one sends it. Receivers know a message that comes twice by its id."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, NamedTuple, TypeVar

from django.db.models import Model, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Now

from crawlframe.errors import CrawlframeError
from crawlservice.connections.contained import failures, text_of

JITTER = 0.1  # part of a pause that is added at random, so that not all return at the same moment
MAX_PROBLEM = 2_000  # characters of a problem that are kept


@dataclass(frozen=True)
class Backoff:
    """``pauses``: seconds after the first, second, … failure in a row; the last pause repeats,
    unless ``gives_up``."""

    pauses: tuple[float, ...]
    gives_up: bool = False

    def pause(self, failures: int) -> float | None:
        """Seconds until the attempt after ``failures`` (1 or more) in a row; None: there is no
        further attempt."""
        if failures > len(self.pauses) and self.gives_up:
            return None
        pause = self.pauses[min(failures, len(self.pauses)) - 1]
        return pause * (1 + random.uniform(0, JITTER))


log = logging.getLogger(__name__)
LEASE = timedelta(seconds=60)  # longer than any attempt takes
# A day in all; then a message is given up.
RETRIES = Backoff((30, 120, 600, 3600, 10800, 21600, 43200), gives_up=True)
Message = TypeVar("Message")


class Claim(NamedTuple):
    """One attempt, numbered from 1, of the message of a row."""

    row: int
    receiver: int
    attempt: int


class Outbox(Generic[Message]):
    """Of one table, with the columns ``attempts``, ``next_at``, ``problem``, ``done`` (when a
    message arrived) and ``receiver``, a foreign key to a table with the column ``enabled``."""

    def __init__(
        self,
        rows: QuerySet[Any],
        receiver: str,
        done: str,
        compose: Callable[[Any], Message],
    ) -> None:
        """``compose`` makes the message of a row; its exception is the problem of the row."""
        self._rows, self._receiver, self._done, self._compose = rows, receiver, done, compose
        self._name = rows.model._meta.model_name
        self.states = {
            "waiting": Q(**{done: None}, next_at__isnull=False, problem=""),
            "retrying": Q(**{done: None}, next_at__isnull=False) & ~Q(problem=""),
            "sent": Q(**{f"{done}__isnull": False}),
            "failed": Q(**{done: None}, next_at=None),
        }

    def due(self) -> QuerySet[Any]:
        """Messages to be sent now."""
        return self._rows.filter(**{f"{self._receiver}__enabled": True}, next_at__lte=Now())

    def claim(self, busy: Collection[int], count: int) -> Iterator[tuple[Claim, Message]]:
        """Claims due messages: at most one of each receiver that is not ``busy``, and ``count`` in
        all. Raises django.db.Error."""
        due = self._rows.filter(**{self._receiver: OuterRef("pk")}, next_at__lte=Now())
        first = due.order_by("next_at", "pk")
        receivers = (
            self._rows.model._meta.get_field(self._receiver)
            .related_model._default_manager.filter(enabled=True)
            .exclude(pk__in=busy)
            .annotate(due=Subquery(first.values("pk")[:1]))
            .annotate(since=Subquery(first.values("next_at")[:1]))
            .filter(due__isnull=False)
            .order_by("since")
        )
        for receiver, pk in receivers.values_list("pk", "due")[:count]:
            row = self._rows.filter(pk=pk, next_at__lte=Now()).first()
            if row is None:
                continue
            claim = Claim(pk, receiver, row.attempts + 1)
            # Without a join: a database checks only the columns of the row again when it waited.
            mine = self._of(pk).filter(attempts=row.attempts, next_at__lte=Now())
            if not mine.update(attempts=claim.attempt, next_at=Now() + LEASE):
                continue
            try:
                message = self._compose(row)
            except Exception as error:
                expected = isinstance(error, CrawlframeError)
                if not expected:
                    failures.add(f"{self._name} {pk}", error)
                self.settle(claim, str(error) if expected else text_of(error))
            else:
                yield claim, message

    def settle(self, claim: Claim, problem: str, **more: Any) -> None:
        """Records the result of an attempt. ``problem``: why the message did not arrive, or "".
        ``more``: values of other columns. A failure counts only if the claim still holds. Raises
        django.db.Error."""
        rows = self._of(claim.row).filter(attempts__gte=claim.attempt)
        if not problem:
            rows.update(**{self._done: Now()}, next_at=None, problem="", **more)
            return
        pause = RETRIES.pause(claim.attempt)
        again = None if pause is None else Now() + timedelta(seconds=pause)
        mine = rows.filter(**{self._done: None}, attempts=claim.attempt)
        if mine.update(problem=problem[:MAX_PROBLEM], next_at=again, **more) and again is None:
            log.warning("%s %d is given up: %s", self._name, claim.row, problem)

    def send_again(self, row: Model, **more: Any) -> None:
        """Sends it again as if it were new. ``more``: values of other columns. Raises
        django.db.Error."""
        values = {self._done: None, "attempts": 0, "next_at": Now(), "problem": "", **more}
        self._of(row.pk).update(**values)

    def state(self, row: Any) -> str:
        """The key of ``states`` that is true for a row."""
        if getattr(row, self._done) is not None:
            return "sent"
        if row.next_at is None:
            return "failed"
        return "retrying" if row.problem else "waiting"

    def _of(self, pk: int) -> QuerySet[Any]:
        rows: QuerySet[Any] = self._rows.model._default_manager.filter(pk=pk)
        return rows
