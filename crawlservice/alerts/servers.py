"""Conditions of the servers: Redis has little memory left."""

from __future__ import annotations

from collections.abc import Iterator

from crawlservice.alerts.finding import Finding, View


def redis_memory(view: View) -> Iterator[Finding]:
    """Redis has used most of the memory it may use. Raises redis.RedisError."""
    memory = view.frontier.store.redis.info("memory")
    most, used = int(memory.get("maxmemory", 0)), int(memory.get("used_memory", 0))
    if most <= 0:  # no limit was set
        return
    percent = round(100 * used / most)
    if percent >= view.floor("redis_memory"):
        facts = {"percent": percent, "bytes": most}
        yield Finding("redis_memory", "", view.now, facts, float(percent))
