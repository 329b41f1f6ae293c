"""The frontier of this thread, on the Redis that REDIS_URL names or on the embedded one."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress

from django.conf import settings
from django.db import Error as DatabaseError
from redis import RedisError

from crawlframe.embedded.server import ensure_redis
from crawlframe.frontier.frontier import Frontier
from crawlservice.connections import installation

CHECK = 5.0  # seconds between two checks whether Redis still belongs to this installation
REREAD = 60.0  # seconds until the id is read from the database again; it hardly ever changes

# Per process, because a connection is never used after a fork; and per thread, because a frontier
# counts its calls: two at once would look as if Redis had lost one, and start an era.
_frontiers: dict[tuple[int, int], Frontier] = {}
_next_check: dict[tuple[int, int], float] = {}
_known: dict[tuple[int, int], tuple[str, float]] = {}  # the id of the database, and until when


def frontier() -> Frontier:
    """The frontier of this thread. Raises ConfigError or FrontierError: OtherInstallation when
    Redis belongs to another database."""
    here = os.getpid(), threading.get_ident()
    mine = _frontiers.get(here)
    if mine is None:
        mine = Frontier.connect(redis_url(), settings.CRAWLFRAME, follows=True)
        _frontiers[here] = mine
        _next_check.pop(here, None)
        _known.pop(here, None)
    if time.monotonic() >= _next_check.get(here, 0.0):
        _check(here, mine)
    return mine


def _check(here: tuple[int, int], mine: Frontier) -> None:
    """Raises OtherInstallation, each time."""
    known, until = _known.get(here, ("", 0.0))
    fresh = time.monotonic() < until
    # Without the database nothing is submitted; errors of Redis show up in the next call.
    with suppress(DatabaseError, RedisError):
        found = installation.check(mine, known if fresh else "")
        if found != known or not fresh:
            _known[here] = found, time.monotonic() + REREAD
    # After a failure too: an unresponsive database may take 10 s to fail.
    _next_check[here] = time.monotonic() + CHECK


def use(mine: Frontier) -> None:
    """Makes this the ``frontier()`` of this thread."""
    _frontiers[os.getpid(), threading.get_ident()] = mine


def redis_url() -> str:
    """REDIS_URL, or the embedded server's, which this call starts. Raises ConfigError."""
    url: str = settings.REDIS_URL or ensure_redis(settings.VAR_DIR)
    return url
