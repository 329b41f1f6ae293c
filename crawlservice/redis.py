"""The frontier of this process, on the Redis that REDIS_URL names or on the embedded one."""

from __future__ import annotations

import os

from django.conf import settings

from crawlframe.embedded import ensure_redis
from crawlframe.errors import ConfigError
from crawlframe.frontier.frontier import Frontier
from crawlservice.checks import network_filesystem

_frontiers: dict[int, Frontier] = {}  # by process: a connection is never used after a fork


def frontier() -> Frontier:
    """The frontier of this process. Raises ConfigError or FrontierError."""
    mine = _frontiers.get(os.getpid())
    if mine is None:
        mine = Frontier.connect(redis_url(), settings.CRAWLFRAME, follows=True)
        _frontiers[os.getpid()] = mine
    return mine


def use(mine: Frontier) -> None:
    """From now on ``frontier()`` of this process is this one."""
    _frontiers[os.getpid()] = mine


def redis_url() -> str:
    """REDIS_URL, or the embedded server's, which this call starts. Raises ConfigError."""
    url: str = settings.REDIS_URL
    if url:
        return url
    if filesystem := network_filesystem(settings.VAR_DIR):
        raise ConfigError(
            f"{settings.VAR_DIR} lies on a network file system ({filesystem}), where the embedded "
            "Redis cannot be shared safely; name a local directory in CRAWLFRAME_VAR_DIR, or a "
            "server in REDIS_URL"
        )
    return ensure_redis(settings.VAR_DIR)
