"""The robots.txt of origins: each is read by one worker of the cluster at a time. Whose turn it is,
and what is due, is decided by the database's clock."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from redis import RedisError

from crawlframe.base.urls import host_of
from crawlframe.errors import FrontierError
from crawlframe.frontier.client.wording import error_text
from crawlframe.robots.state import RobotsState, Status
from crawlframe.run.ledger import RobotsLedger, RobotsTurn
from crawlservice.connections import clock
from crawlservice.connections.frontier import frontier
from crawlservice.ledger.named_errors import with_named_errors
from crawlservice.models import RobotsFile

TIMES = ("read_at", "known_until", "unreachable_since", "next_try")


@with_named_errors
class RobotsRows(RobotsLedger):
    """On this thread's connection."""

    def turn(self, origin: str, lease: float) -> RobotsTurn:
        now = clock.now()
        row = RobotsFile.objects.filter(origin=origin).first()
        if row is not None and not _may_be_due(row, now):
            return RobotsTurn(_state(row), now.timestamp())
        if row is None:
            RobotsFile.objects.bulk_create([RobotsFile(origin=origin)], ignore_conflicts=True)
        mine = _due(origin).update(lease_until=Now() + timedelta(seconds=lease))
        # Read again: another worker may have read it, or taken its turn, in between.
        row = RobotsFile.objects.filter(origin=origin).first()
        state = _state(row) if row is not None else RobotsState()
        return RobotsTurn(state, now.timestamp(), bool(mine))

    def keep(self, origin: str, lease: float) -> None:
        until = Now() + timedelta(seconds=lease)
        RobotsFile.objects.filter(origin=origin).update(lease_until=until)

    def save(self, origin: str, state: RobotsState) -> None:
        values = {
            "status": state.status.value,
            "http_status": state.http_status,
            "body": state.text,
            "reason": state.reason[:60],
            "crawl_delay": state.crawl_delay,
            "note": state.note,
            "lease_until": None,
            **{name: _moment(getattr(state, name)) for name in TIMES},
        }
        if not RobotsFile.objects.filter(origin=origin).update(
            **values
        ):  # it was forgotten meanwhile
            row = RobotsFile(origin=origin, **values)
            RobotsFile.objects.bulk_create([row], ignore_conflicts=True)


def forget(origins: Collection[str]) -> int:
    """Makes the files of these origins be read again, by all workers within a second. Returns how
    many were known. Raises FrontierError if Redis does not answer; then nothing has changed."""
    hosts = sorted({host_of(f"{origin}/") for origin in origins})
    try:
        frontier().hosts.forget_robots(hosts)
        deleted, _ = RobotsFile.objects.filter(origin__in=origins).delete()
        frontier().hosts.forget_robots(hosts)  # a worker may have looked in between
    except RedisError as error:
        raise FrontierError(f"Redis does not answer: {error_text(error)}") from None
    return deleted


def _may_be_due(row: RobotsFile, now: datetime) -> bool:
    times = (row.known_until, row.next_try, row.lease_until)
    return all(time is None or time <= now for time in times)


def _due(origin: str) -> QuerySet[RobotsFile]:
    """The row if it is due and nobody reads it. An update of it is atomic: the database looks at
    these conditions again when it has the row's lock."""
    over = Q()
    for name in ("known_until", "next_try", "lease_until"):
        over &= Q(**{name: None}) | Q(**{f"{name}__lte": Now()})
    return RobotsFile.objects.filter(over, origin=origin)


def _state(row: RobotsFile) -> RobotsState:
    return RobotsState(
        status=Status(row.status),
        http_status=row.http_status,
        text=row.body,
        reason=row.reason,
        crawl_delay=row.crawl_delay,
        note=row.note,
        **{name: _seconds(getattr(row, name)) for name in TIMES},
    )


def _moment(seconds: float) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds else None


def _seconds(moment: datetime | None) -> float:
    return moment.timestamp() if moment else 0.0
