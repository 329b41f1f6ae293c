"""Conditions: finds all that are there now. A condition is one function of the table, which gets a
View and yields a Finding for each thing that has it, and Unknown where that cannot be found out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from itertools import islice

from redis import RedisError

from crawlframe.errors import FrontierError
from crawlservice.alerts import (
    deliveries,
    hosts,
    nodes,
    proxies,
    quality,
    schedules,
    servers,
    tasks,
)
from crawlservice.alerts.finding import MOST, Finding, Unknown, View
from crawlservice.connections.contained import contained

log = logging.getLogger(__name__)

Condition = Callable[[View], Iterable[Finding | Unknown]]

CONDITIONS: dict[str, Condition] = {
    "task_failed": tasks.failed,
    "task_errors": tasks.with_errors,
    "error_share": tasks.error_share,
    "parked": tasks.parked,
    "host_held": hosts.held,
    "proxy_missing": proxies.lacking,
    "queue_age": hosts.queue_age,
    "node_gone": nodes.gone,
    "code_refused": nodes.code_refused,
    "disk": nodes.disk,
    "chores": nodes.chores,
    "schedule": schedules.cannot_start,
    "schedule_missed": schedules.missed,
    "redis_memory": servers.redis_memory,
    "quality": quality.failed,
    "delivery": deliveries.failing,
}


def find(view: View, silent_since: Mapping[int, datetime]) -> dict[str, list[Finding | Unknown]]:
    """What is there now, by condition; MOST subjects of each, and Unknown if there are more. A
    condition that fails, as without Redis, is missing: it is unknown whether it is there.
    ``no_leader`` is not, because a leader asks. Raises django.db.Error."""
    found: dict[str, list[Finding | Unknown]] = {"no_leader": []}
    silent: Condition = partial(tasks.silent, since=silent_since)
    for kind, condition in {**CONDITIONS, "silent": silent}.items():
        try:
            with contained(f"the condition {kind}"):
                some = [*islice(condition(view), MOST + 1)]
                found[kind] = some if len(some) <= MOST else [*some[:MOST], Unknown()]
        except (RedisError, FrontierError) as error:
            log.warning("whether there is %s is unknown: %s", kind, error)
    return found
