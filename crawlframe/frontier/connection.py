"""Connections to Redis by URL: one server, Sentinel, Cluster, with or without TLS."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from redis import Redis, RedisCluster, RedisError
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ConnectionError,
    ReadOnlyError,
    RedisClusterException,
    ResponseError,
)
from redis.retry import Retry
from redis.sentinel import Sentinel

from crawlframe.errors import FrontierError
from crawlframe.frontier.wording import error_text, without_password

T = TypeVar("T")

TIMEOUT = 4.0  # seconds for an answer; after it the connection is taken for dead
LONG_TIMEOUT = 10.0  # seconds, for who asks what takes long, such as an audit
CONNECT_TIMEOUT = 3.0  # seconds
RETRY_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)  # seconds between tries of a server that hangs up
FORMS = (
    "redis://host:6379/0, rediss://… (TLS), unix:///path/redis.sock, "
    "redis+sentinel://host:26379,host2:26379/service, redis+cluster://host:6379"
)
FAILURES = (  # words of the reason, what to say of the server, what to do
    (
        "Authentication required|invalid username-password|WRONGPASS|NOAUTH",
        "lets nobody in so",
        "Correct user and password in REDIS_URL: redis://user:password@host:6379/0",
    ),
    (
        "slots are not covered",
        "is a cluster that is not whole",
        "Give each slot a node: redis-cli --cluster fix host:port",
    ),
    (
        "",
        "cannot be reached",
        f"Start it, or set REDIS_URL to a running server ({FORMS}); without REDIS_URL a private "
        "one is started",
    ),
)


def connect(url: str, timeout: float = TIMEOUT) -> Redis:
    """A client that has answered once. Whoever uses it tries again what failed: it does not by
    itself. Raises FrontierError in plain words."""
    try:
        options = {"socket_timeout": timeout, "socket_connect_timeout": CONNECT_TIMEOUT}
        client = _client(url, options)
        persist(client.ping)
    except (ResponseError, BusyLoadingError) as error:
        raise FrontierError(f"{error_text(error)} ({without_password(url)})") from None
    except (RedisError, RedisClusterException, ValueError, OSError) as error:
        reason = str(error).rstrip(".")
        what, mend = next((w, m) for words, w, m in FAILURES if re.search(words, reason))
        raise FrontierError(f"Redis at {without_password(url)} {what}: {reason}. {mend}") from None
    return client


def persist(ask: Callable[[], T]) -> T:
    """What ``ask`` answers. Asks again, for some seconds, while the server is there and hangs up;
    raises redis.RedisError at once when nobody is there, or it says why not."""
    for pause in RETRY_PAUSES:
        try:
            return ask()
        except (BusyLoadingError, AuthenticationError):
            raise
        except ConnectionError as error:
            if isinstance(error.__context__, ConnectionRefusedError | FileNotFoundError):
                raise
        time.sleep(pause)
    return ask()


def _client(url: str, options: dict[str, Any]) -> Redis:
    scheme, plus, kind = url.partition("://")[0].partition("+")
    if kind == "cluster":
        # Every verb touches one slot; a script answers from any node the same way.
        plain = url.replace("+cluster", "", 1)
        never = Retry(NoBackoff(), 0)
        return RedisCluster.from_url(plain, retry=never, **options)  # type: ignore[return-value]
    if kind == "sentinel":
        return _by_sentinel(url, options, tls=scheme == "rediss")
    if plus:
        raise ValueError(f"there is no kind {kind!r}")
    # After a failover the address may lead to another server, while this one is a replica now and
    # keeps its connections.
    anew = Retry(NoBackoff(), 1, (ReadOnlyError,))
    return Redis.from_url(url, health_check_interval=15, retry=anew, **options)


def _by_sentinel(url: str, options: dict[str, Any], *, tls: bool) -> Redis:
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
    password = dict(parse_qsl(parts.query)).get("sentinel_password")
    sentinel = Sentinel(  # type: ignore[no-untyped-call]
        addresses,
        sentinel_kwargs={"password": password, "ssl": tls, **options},
        db=int(database or 0),
        **login,
        **options,
    )
    client: Redis = sentinel.master_for(service)  # type: ignore[no-untyped-call]
    return client
