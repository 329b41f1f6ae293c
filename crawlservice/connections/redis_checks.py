"""Start-up checks of Redis: a setting that would break the guarantees is refused
(ConfigError), one that weakens them is a warning. Both name the fix."""

from __future__ import annotations

import re
from typing import Any, cast

from redis import Redis, RedisCluster
from redis.exceptions import NoPermissionError, RedisError

from crawlframe.errors import ConfigError

Version = tuple[int, ...]

OLDEST_REDIS = (6, 2)
# Releases that fix CVE-2025-49844 (a Lua script runs any code), the first of each line.
LUA_MENDED: dict[str, tuple[Version, ...]] = {
    "Redis": ((6, 2, 20), (7, 2, 11), (7, 4, 6), (8, 0, 4), (8, 2, 2)),
    "Valkey": ((7, 2, 11), (8, 0, 6), (8, 1, 4)),
}

# Reading and writing keys, without @dangerous commands (FLUSHALL, KEYS, CONFIG, ...); scripts; and
# the queries of clients and of the start-up check. The last line is only for a Redis Cluster.
RIGHTS = (
    "+@read +@write +@connection +@transaction -@dangerous -@scripting "
    "+eval +evalsha +script|load +script|exists +time +info +bgrewriteaof "
    "+command +cluster|slots +cluster|shards"
)
# Every verb of the frontier runs a script that writes, after sending its text if needed.
TRIAL = "redis.call('SET', KEYS[1], 1, 'PX', 1) return 1"
FORBIDDEN = re.compile(r"unknown command|user executing the script|ACL failure")


def check_redis(client: Redis, prefix: str = "cf") -> list[str]:
    """Returns the warnings about the server behind ``client``, or about every primary of a cluster.
    ``prefix``: of our keys. Raises ConfigError."""
    if isinstance(client, RedisCluster):
        servers = [client.get_redis_connection(node) for node in client.get_primaries()]
        warnings = [warning for server in servers for warning in _check_server(server, member=True)]
    else:
        warnings = _check_server(client, member=False)
    try:
        client.register_script(TRIAL)(keys=[f"{prefix}:trial"])
    except RedisError as error:
        if text := missing_right(error, prefix):
            raise ConfigError(text) from None
    return warnings


def rights(prefix: str) -> str:
    """The ACL rules that our Redis user needs. ``prefix``: of our keys."""
    return f"~{prefix}:* {RIGHTS}"


def missing_right(error: RedisError, prefix: str = "cf") -> str:
    """The message for an error if Redis denies us a right; "" for any other error."""
    if isinstance(error, NoPermissionError) or FORBIDDEN.search(str(error)):
        return (
            f"Redis forbids commands that are needed: {error}; this is enough: "
            f"ACL SETUSER crawlframe {rights(prefix)}"
        )
    return ""


def _check_server(client: Redis, *, member: bool) -> list[str]:
    try:
        info = client.info()
    except RedisError as error:
        if text := missing_right(error):
            raise ConfigError(text) from None
        raise ConfigError(f"Redis does not answer INFO: {error}; correct REDIS_URL") from None
    private = "path" in client.connection_pool.connection_kwargs  # a unix socket
    if info.get("cluster_enabled") and not member:
        raise ConfigError(
            "Redis is a node of a cluster; say so in REDIS_URL: redis+cluster://host:port"
        )
    return check_info(info, private) + _check_sync(client, info)


def check_info(info: dict[str, Any], private: bool) -> list[str]:
    """The warnings in a server's INFO; only this user reaches a private one. Raises ConfigError."""
    name = "Valkey" if "valkey_version" in info else "Redis"
    text = str(info.get("valkey_version") or info["redis_version"])
    version = _version(text)
    if _version(str(info["redis_version"])) < OLDEST_REDIS:
        raise ConfigError(f"{name} is version {text}; at least 6.2 is needed, so upgrade it")
    if info.get("role") == "slave":
        raise ConfigError(
            f"{name} is a replica of {info.get('master_host')}:{info.get('master_port')} and takes "
            "no writes; let REDIS_URL name its primary"
        )
    policy = info.get("maxmemory_policy", "noeviction")
    if info.get("maxmemory") and policy != "noeviction":
        raise ConfigError(
            f"{name} evicts data when it is full (maxmemory-policy {policy}), which loses "
            "requests; set maxmemory-policy noeviction, or use a Redis of its own"
        )
    warnings = []
    if not info.get("aof_enabled"):
        warnings.append(
            f"{name} keeps no append-only file: after a crash, work since its last snapshot is "
            "rebuilt from the database, which takes time; set appendonly yes"
        )
    if not private and _has_lua_hole(name, version):
        warnings.append(
            f"{name} {text} has known vulnerabilities in its Lua (CVE-2025-49844) unless your "
            "distribution fixed them; upgrade, and keep it off networks you do not trust"
        )
    return warnings


def _check_sync(client: Redis, info: dict[str, Any]) -> list[str]:
    try:
        answer = cast(dict[Any, Any], client.config_get("appendfsync"))
    except RedisError:
        return []  # hosted servers forbid CONFIG
    if not info.get("aof_enabled") or not {"no", b"no"} & set(answer.values()):
        return []
    return [
        "Redis lets the system decide when to write its append-only file (appendfsync no): a "
        "power cut loses up to half a minute of it; set appendfsync everysec"
    ]


def _version(text: str) -> Version:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def _has_lua_hole(name: str, version: Version) -> bool:
    mended = LUA_MENDED[name]
    same_line = [fixed for fixed in mended if fixed[:2] == version[:2]]
    return version < same_line[0] if same_line else version < mended[-1]
