"""Connections to Redis by URL: one server, Sentinel, Cluster, with or without TLS."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlsplit

from redis import Redis, RedisCluster, RedisError
from redis.exceptions import RedisClusterException
from redis.sentinel import Sentinel

from crawlframe.errors import FrontierError
from crawlframe.frontier.partitions import without_password

TIMEOUT = 10.0  # seconds for an answer
CONNECT_TIMEOUT = 5.0  # seconds
OPTIONS = {
    "socket_timeout": TIMEOUT,
    "socket_connect_timeout": CONNECT_TIMEOUT,
}
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


def connect(url: str) -> Redis:
    """A client that has answered once. Raises FrontierError in plain words."""
    try:
        client = _client(url)
        client.ping()
    except (RedisError, RedisClusterException, ValueError, OSError) as error:
        reason = str(error).rstrip(".")
        what, mend = next((w, m) for words, w, m in FAILURES if re.search(words, reason))
        raise FrontierError(f"Redis at {without_password(url)} {what}: {reason}. {mend}") from None
    return client


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
