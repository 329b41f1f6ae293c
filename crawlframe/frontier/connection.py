"""Connections to Redis by URL: one server, Sentinel, Cluster, with or without TLS."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import parse_qsl, urlsplit

from redis import Redis, RedisCluster, RedisError
from redis.exceptions import ConnectionError, RedisClusterException
from redis.sentinel import Sentinel

from crawlframe.errors import FrontierError
from crawlframe.frontier.partitions import without_password

T = TypeVar("T")

TIMEOUT = 10.0  # seconds for an answer
CONNECT_TIMEOUT = 5.0  # seconds
PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)  # seconds between tries of a server that hangs up
OPTIONS = {
    "socket_timeout": TIMEOUT,
    "socket_connect_timeout": CONNECT_TIMEOUT,
}
FORMS = (
    "redis://host:6379/0, rediss://… (TLS), unix:///path/redis.sock, "
    "redis+sentinel://host:26379,host2:26379/service, redis+cluster://host:6379"
)


def connect(url: str) -> Redis:
    """A client that has answered once. Raises FrontierError in plain words."""
    try:
        client = _client(url)
        persist(client.ping)
    except (RedisError, RedisClusterException, ValueError, OSError) as error:
        reason = str(error).rstrip(".")
        raise FrontierError(
            f"Redis at {without_password(url)} cannot be reached: {reason}. Start it, or set "
            f"REDIS_URL to a running server ({FORMS}); without REDIS_URL a private one is started"
        ) from None
    return client


def persist(ask: Callable[[], T]) -> T:
    """What ``ask`` answers. Asks again, for some seconds, while the server is there and hangs up or
    is loading; raises redis.RedisError at once when nobody is there."""
    for pause in PAUSES:
        try:
            return ask()
        except ConnectionError as error:
            if isinstance(error.__context__, ConnectionRefusedError | FileNotFoundError):
                raise
        time.sleep(pause)
    return ask()


def _client(url: str) -> Redis:
    scheme, plus, kind = url.partition("://")[0].partition("+")
    if kind == "cluster":
        # Every verb touches one slot; a script answers from any node the same way.
        plain = url.replace("+cluster", "", 1)
        return RedisCluster.from_url(plain, **OPTIONS)  # type: ignore[return-value]
    if kind == "sentinel":
        return _by_sentinel(url, tls=scheme == "rediss")
    if plus:
        raise ValueError(f"there is no kind {kind!r}")
    return Redis.from_url(url, health_check_interval=15, **OPTIONS)


def _by_sentinel(url: str, *, tls: bool) -> Redis:
    parts = urlsplit(url)
    service, _, database = parts.path.strip("/").partition("/")
    if not service:
        raise ValueError("name the service: redis+sentinel://host:26379/service")
    hosts = parts.netloc.rpartition("@")[2].split(",")
    addresses = [
        (host.rpartition(":")[0] or host, int(host.rpartition(":")[2])) if ":" in host
        else (host, 26379)
        for host in hosts
    ]  # fmt: skip
    login = {"username": parts.username, "password": parts.password, "ssl": tls}
    options = dict(parse_qsl(parts.query))
    sentinel = Sentinel(
        addresses,
        sentinel_kwargs={"password": options.get("sentinel_password"), "ssl": tls, **OPTIONS},
        db=int(database or 0),
        **login,
        **OPTIONS,
    )
    client: Redis = sentinel.master_for(service)
    return client
