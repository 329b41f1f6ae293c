"""The robots.txt of origins: each is read by one worker of the cluster at a time. The database's
clock decides about turns and due times."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection
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
DUE = ("known_until", "next_try", "lease_until")  # times before which a file is not due
WRITTEN = [
    *("status", "http_status", "body", "reason", "crawl_delay", "note", "lease_until", *TIMES),
]
# The time now, and that after so many seconds.
TIME = {
    "postgresql": ("statement_timestamp()", "statement_timestamp() + make_interval(secs => %s)"),
    "sqlite": (
        "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now')",
        "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', %s)",
    ),
}
TAKE = f"""
INSERT INTO {RobotsFile._meta.db_table} AS file
    (origin, status, body, reason, crawl_delay, note, lease_until)
VALUES {{rows}}
ON CONFLICT (origin) DO UPDATE SET lease_until = excluded.lease_until WHERE {{due}}
RETURNING origin
"""


@with_named_errors
class RobotsRows(RobotsLedger):
    """On this thread's connection."""

    def turns(self, origins: Sequence[str], lease: float) -> list[RobotsTurn]:
        rows = _read(origins)
        due = {name for name in origins if name not in rows or _may_be_due(rows[name])}
        mine: set[str] = set()
        if due:
            mine = _take(sorted(due), lease)
            # Read again: another worker may have read it, or taken its turn, in between.
            rows |= _read(due)
        turns = []
        for origin in origins:
            row = rows.get(origin)
            turn = RobotsTurn(RobotsState(), clock.now().timestamp()) if row is None else _turn(row)
            turns.append(turn._replace(mine=origin in mine))
            mine.discard(origin)
        return turns

    def keep(self, origin: str, lease: float) -> None:
        until = Now() + timedelta(seconds=lease)
        RobotsFile.objects.filter(origin=origin).update(lease_until=until)

    def save(self, states: Mapping[str, RobotsState]) -> None:
        rows = [
            RobotsFile(
                origin=origin,
                status=state.status.value,
                http_status=state.http_status,
                body=state.text,
                reason=state.reason[:60],
                crawl_delay=state.crawl_delay,
                note=state.note,
                **{name: _moment(getattr(state, name)) for name in TIMES},
            )
            for origin, state in sorted(states.items())
        ]
        RobotsFile.objects.bulk_create(
            rows, update_conflicts=True, unique_fields=["origin"], update_fields=WRITTEN
        )


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


def _read(origins: Collection[str]) -> dict[str, Any]:
    """The rows of these origins, with the time ``now``."""
    rows = RobotsFile.objects.filter(origin__in=origins).annotate(now=Now())
    return {row.origin: row for row in rows}


def _may_be_due(row: Any) -> bool:
    return all(time is None or time <= row.now for time in (getattr(row, name) for name in DUE))


def _take(origins: Sequence[str], lease: float) -> set[str]:
    """Takes the turns of files that are due and not being read; returns their origins. The
    database looks at these conditions again when it has the lock of a row."""
    now, until = TIME[connection.vendor]
    rows = ", ".join([f"(%s, '{Status.PENDING.value}', '', '', 0, '', {until})"] * len(origins))
    due = " AND ".join(f"(file.{name} IS NULL OR file.{name} <= {now})" for name in DUE)
    seconds: Any = lease if connection.vendor == "postgresql" else f"+{lease} seconds"
    with connection.cursor() as cursor:
        given = [value for origin in origins for value in (origin, seconds)]
        cursor.execute(TAKE.format(rows=rows, due=due), given)
        return {origin for (origin,) in cursor.fetchall()}


def _turn(row: Any) -> RobotsTurn:
    return RobotsTurn(_state(row), row.now.timestamp())


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
