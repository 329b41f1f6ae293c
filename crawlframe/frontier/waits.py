"""Waits: why ready requests of a task are not fetched now, in the words of the gate
(``lua/_gate.lua``)."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from crawlframe.frontier.client.batches import MAX_ENTRIES, chunks
from crawlframe.frontier.client.keys import Keys
from crawlframe.frontier.client.partitions import pack
from crawlframe.frontier.client.records import Counts
from crawlframe.frontier.client.rows import StorePart
from crawlframe.frontier.hosts import FOREVER

LOGGED_SECONDS = 10.0  # seconds; shorter waits are not logged
LOOKED_AT = 1_000  # hosts with requests that are looked at, from each end of their queue


class TaskWait(NamedTuple):
    """No request of a task may be fetched before ``until``, in seconds since the epoch; inf: before
    an operator acts. ``why``: the word of the gate for the host that is next, such as paused."""

    why: str
    until: float
    host: str

    def __str__(self) -> str:
        if math.isinf(self.until):
            return f"{self.host} is held ({self.why}) until a person acts"
        end = datetime.fromtimestamp(self.until, UTC)
        return f"{self.host} is held ({self.why}) until {end:%Y-%m-%d %H:%M:%S} UTC"


class WaitLog:
    """Logs each wait once: its task, the reason and the end."""

    def __init__(self, log: logging.Logger) -> None:
        self._log, self._logged = log, dict[int, tuple[str, str]]()

    def show(self, waits: Mapping[int, TaskWait]) -> None:
        """Waits that are over soon are left out."""
        soon = time.time() + LOGGED_SECONDS
        long = {task: wait for task, wait in waits.items() if wait.until > soon}
        for task, wait in long.items():
            if self._logged.get(task) != (wait.why, wait.host):
                self._log.info("task %d waits: %s", task, wait)
        self._logged |= {task: (wait.why, wait.host) for task, wait in long.items()}


class Waits(StorePart):
    """A wait is meant only if the gate closes every host where the task has ready requests. Raises
    redis.RedisError, and EraChanged when another era has begun."""

    def of(self, counts: Mapping[int, Counts | None]) -> dict[int, TaskWait]:
        """The waits of tasks that the gate keeps back. With very many hosts, only some are looked
        at, and a task with others is left out."""
        asked = {task: c.ready - c.beyond for task, c in counts.items() if c and c.waits}
        open_: set[int] = set()
        seen: dict[int, int] = dict.fromkeys(asked, 0)
        first: dict[int, TaskWait] = {}
        for task, ready, may_go, wait in self._lanes([*asked]) if asked else ():
            seen[task] += ready
            if may_go:
                open_.add(task)
            elif task not in first or wait.until < first[task].until:
                first[task] = wait
        whole = {task for task, ready in asked.items() if seen[task] >= ready}
        return {task: wait for task, wait in first.items() if task in whole - open_}

    def _lanes(self, tasks: list[int]) -> Iterator[tuple[int, int, int, TaskWait]]:
        """(task, ready requests, how many may go, wait of the others), of a part of the hosts."""
        packed = pack([str(task) for task in tasks])
        for partition, keys in enumerate(self._store.keys):
            for names in chunks(self._hosts(keys), MAX_ENTRIES):
                rows = self._store.run("waits", partition, packed, pack(names))
                for task, ready, may_go, till, why, host in rows:
                    until = math.inf if int(till) >= FOREVER else int(till) / 1000
                    wait = TaskWait(why.decode(), until, host.decode(errors="replace"))
                    yield int(task), ready, may_go, wait

    def _hosts(self, keys: Keys) -> list[bytes]:
        pipe = self._store.redis.pipeline(transaction=False)
        pipe.zrange(keys("HOSTS"), 0, LOOKED_AT - 1)
        pipe.zrange(keys("HOSTS"), -LOOKED_AT, -1)
        first, last = pipe.execute()
        return [name for name in {*first, *last} if not name.startswith(b"@")]
