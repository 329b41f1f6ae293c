"""Health checks: whether the service is alive, and whether it is ready."""

from __future__ import annotations

from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from redis import RedisError

from crawlframe.errors import CrawlframeError
from crawlframe.frontier.client.eras import OPEN, EraState
from crawlservice.accounts.sessions import sessionless
from crawlservice.connections import database
from crawlservice.connections.frontier import frontier
from crawlservice.connections.installation import OtherInstallation
from crawlservice.ledger.recovery import newest

_migrated = False  # once true, it stays true for the life of this process


@sessionless
def healthz(request: HttpRequest) -> JsonResponse:
    """200 when database and Redis answer and belong together, else 503; each check as JSON."""
    return _answer(
        {"database": _database_answers(), "redis": _redis_answers(), "installation": _is_ours()}
    )


@sessionless
def readyz(request: HttpRequest) -> JsonResponse:
    """200 when work can be accepted: the database has the tables of this version, Redis answers and
    belongs to it, and its era is whole (lost data has been restored). Nodes are not checked:
    submitted tasks wait for them."""
    return _answer(
        {
            "migrated": _is_migrated(),
            "redis": _redis_answers(),
            "installation": _is_ours(),
            "era": era_is_whole(),
        }
    )


def _answer(health: dict[str, bool]) -> JsonResponse:
    response = JsonResponse(health, status=200 if all(health.values()) else 503)
    response["Cache-Control"] = "no-store"
    return response


def _database_answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return False
    return True


def _is_migrated() -> bool:
    global _migrated
    if not _database_answers():
        return False
    try:
        _migrated = _migrated or not database.is_behind()
    except DatabaseError:
        return False
    return _migrated


def _redis_answers() -> bool:
    try:
        frontier().store.redis.ping()
    except OtherInstallation:
        return True
    except (RedisError, CrawlframeError):
        return False
    return True


def _is_ours() -> bool:
    try:
        frontier()
    except OtherInstallation:
        return False
    except (RedisError, CrawlframeError):
        pass
    return True


def era_is_whole() -> bool:
    """Whether Redis holds the latest era of the database, open in all partitions."""
    try:
        eras = {*frontier().eras.read()}
        return eras == {EraState(newest(), OPEN)}
    except (DatabaseError, RedisError, CrawlframeError):
        return False
