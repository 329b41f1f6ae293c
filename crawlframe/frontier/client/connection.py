"""Connections to Redis by URL: single server, Sentinel, Cluster, with or without TLS."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from crawlframe.frontier.client.wording import error_text, without_password

T = TypeVar("T")

TIMEOUT = 4.0  # seconds to wait for an answer, after which the connection counts as dead
LONG_TIMEOUT = 10.0  # seconds, for clients whose calls take long, such as an audit
CONNECT_TIMEOUT = 3.0  # seconds
RETRY_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)  # seconds between attempts at a server that hangs up
FORMS = (
    "redis://host:6379/0, rediss://… (TLS), unix:///path/redis.sock, "
    "redis+sentinel://host:26379,host2:26379/service, redis+cluster://host:6379"
)
FAILURES = (  # pattern of the reason, description of the server, how to fix it
    (
        "Authentication required|invalid username-password|WRONGPASS|NOAUTH",
        "rejects the login",
        "Correct user and password in REDIS_URL: redis://user:password@host:6379/0",
    ),
    (
        "slots are not covered",
        "is an incomplete cluster",
        "Assign each slot to a node: redis-cli --cluster fix host:port",
    ),
    (
        "",
        "cannot be reached",
        f"Start it, or set REDIS_URL to a running server ({FORMS}); without REDIS_URL a private "
        "one is started",
    ),
)


def connect(url: str, timeout: float = TIMEOUT) -> Redis:
    """A client that has been answered once. It does not retry failed calls: its user does. Raises
    FrontierError with a message for people."""
    with explained(url):
        # Without its name, for which each connection would search the installed packages.
        options = {"driver_info": None, "socket_timeout": timeout}
        options["socket_connect_timeout"] = CONNECT_TIMEOUT
        client = _client(url, options)
        persist(client.ping)
    return client


@contextmanager
def explained(url: str) -> Iterator[None]:
    """A context that raises FrontierError in place of errors of Redis."""
    try:
        yield
    except (ResponseError, BusyLoadingError) as error:
        raise FrontierError(f"{error_text(error)} ({without_password(url)})") from None
    except (RedisError, RedisClusterException, ValueError, OSError) as error:
        reason = str(error).rstrip(".")
        what, hint = next((w, m) for words, w, m in FAILURES if re.search(words, reason))
        raise FrontierError(f"Redis at {without_password(url)} {what}: {reason}. {hint}") from None


def persist(ask: Callable[[], T]) -> T:
    """Returns the result of ``ask``, called again for some seconds while the server is there and
    closes the connection. Raises redis.RedisError at once if no server is there or it refuses."""
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
        # Every verb uses one slot, so a script runs the same way on any node.
        plain = url.replace("+cluster", "", 1)
        never = Retry(NoBackoff(), 0)
        return RedisCluster.from_url(plain, retry=never, **options)  # type: ignore[return-value]
    if kind == "sentinel":
        return _by_sentinel(url, options, tls=scheme == "rediss")
    if plus:
        raise ValueError(f"there is no Redis connection of kind {kind!r}")
    # After a failover the address may lead to another server, while this one is now a replica and
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
