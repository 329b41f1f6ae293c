"""Tasks: the state of each task in the frontier; how tasks are opened, controlled and closed."""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from crawlframe import gates
from crawlframe.errors import FrontierError
from crawlframe.frontier.client.batches import MAX_ENTRIES, chunks
from crawlframe.frontier.client.partitions import PartitionedStore, pack
from crawlframe.frontier.client.records import Counts, TaskLimits, groups
from crawlframe.frontier.client.rows import Rows, StorePart, read_number
from crawlframe.frontier.layers import Layers
from crawlframe.frontier.near import Near
from crawlframe.frontier.waits import TaskWait, Waits
from crawlframe.near.fingerprint import NearStore
from crawlframe.request.request import Admission, end_admission

KEYS_PER_SCAN = 2_000  # keys examined by one step of a search for lanes
COUNT_FIELDS = [
    "na", "nf", "ne", "duplicates", "limited", "inprogress", "delayed", "parked", "items",
    "cancelled", "excluded", "host_limited", "beyond",
]  # fmt: skip


# A cookie as TaskCookies writes it: name, value, domain, whether the domain was given and had a
# dot, path, whether the path was given, secure, expires.
_COOKIE = msgspec.json.Decoder(tuple[str, str | None, str, bool, bool, str, bool, bool, int | None])


class SharedCookies(NamedTuple):
    """Cookies of a task, in the form of TaskCookies. ``swept`` changes whenever the entries of
    deleted ones were dropped."""

    entries: dict[str, str]
    swept: int


class Tasks:
    """The part of the frontier that concerns tasks."""

    def __init__(self, store: PartitionedStore) -> None:
        self.store = store
        self.rows = Rows(store)
        self.near = Near(store)
        self.waits = Waits(store)  # why they are not fetched now
        self.layers = Layers(store)  # the barriers of tasks that are crawled in layers

    def open_task(self, task: int, limits: TaskLimits, seeds: list[Admission]) -> None:
        """Makes a task known and admits its seeds. Repeating it changes nothing."""
        fields = [*_flat(state="running"), *_limits(limits)]
        if limits.workers:  # until a generation asks for it
            fields += _flat(pin=0)
        if limits.layers:
            fields += _flat(layer=limits.layer)
        mine = dict(self.store.split(seeds, lambda seed: seed.host))
        # Partitions with seeds last: a claim that returns a seed finds the task in every partition.
        for partition in sorted(
            range(self.store.partitions), key=lambda partition: partition in mine
        ):
            seeds_here = groups(mine.get(partition, []))
            self.store.run("open", partition, task, pack(fields), pack(seeds_here))

    def admit(self, task: int, admissions: list[Admission]) -> int:
        """Adds requests the task has not seen; returns how many were new. Raises FrontierError
        when Redis does not know the task."""
        new = 0
        for partition, some in self.store.split_small(admissions, lambda admission: admission.host):
            new += self.store.run("admit", partition, task, pack(groups(some)))
        return new

    def set_limits(self, task: int, limits: TaskLimits) -> None:
        """Changes the limits of an open task. Its waiting requests keep their priority. Raises
        FrontierError when Redis does not know the task."""
        fields = pack(_limits(limits))
        for partition in range(self.store.partitions):
            self.store.run("limits", partition, task, fields, pack([]))
            for lanes in self._lanes(partition, task):
                for chunk in chunks(lanes, MAX_ENTRIES):
                    self.store.run("limits", partition, task, fields, pack(chunk))

    def pause(self, task: int) -> None:
        """From now on no requests of the task are claimed."""
        self._set_state(task, "paused")
        self._set_state(task, "paused", "end")

    def resume(self, task: int) -> None:
        """The task runs again; its parked requests are tried again."""
        self._set_state(task, "running")
        self.unpark(task)
        self._set_state(task, "running", "end")

    def cancel(self, task: int, seconds: float = math.inf) -> bool:
        """Ends the waiting requests of the task, and those it still finds, counted as cancelled.
        Requests given back later are claimed without further delays, for workers to end unfetched.

        Returns False when ``seconds`` did not suffice. The task's state remains "changing" until
        the call is repeated and completes."""
        until = time.monotonic() + seconds
        self._set_state(task, "cancelling")
        self.unpark(task, until)
        self._advance(task, until)
        if not all(
            self._end_waiting(partition, task, until) for partition in range(self.store.partitions)
        ):
            return False
        self._set_state(task, "cancelling", "end")
        return True

    def _advance(self, task: int, until: float) -> None:
        """Moves delayed requests back to their lanes."""
        for partition in range(self.store.partitions):
            cursor: Any = 0
            while time.monotonic() <= until:
                cursor = self.store.run("advance", partition, task, cursor)
                if int(cursor) == 0:
                    break

    def _end_waiting(self, partition: int, task: int, until: float) -> bool:
        """Empties the task's lanes. A lane that is created meanwhile may be missed."""
        scan = self._lanes(partition, task)
        while time.monotonic() <= until:
            if (lanes := next(scan, None)) is None:
                return True
            if not self._end_lanes(partition, task, lanes, until):
                return False
        return False

    def _lanes(self, partition: int, task: int) -> Iterator[list[str]]:
        """The names of the task's lanes that have requests, in lists that may be empty."""
        keys = self.store.keys[partition]
        start, pattern = len(keys("LANE")), keys.pattern(f"q:{task}:*")
        cursor = -1
        while cursor:
            cursor, names = self.store.redis.scan(max(0, cursor), pattern, KEYS_PER_SCAN)
            yield [name.decode()[start:] for name in names]

    def _end_lanes(self, partition: int, task: int, lanes: list[str], until: float) -> bool:
        while lanes:
            if time.monotonic() > until:
                return False
            emptied = self.store.run("cancel", partition, task, pack(lanes[:MAX_ENTRIES]))
            if emptied < 0:
                return True  # it has ended
            lanes = lanes[emptied:]
        return True

    def unpark(self, task: int, until: float = math.inf) -> int:
        """Parked requests of the task go back to their queues, as long as time.monotonic() has not
        passed ``until``. Returns how many did."""
        moved = 0
        for partition, keys in enumerate(self.store.keys):
            # No more than are parked now: a node may park the same ones again meanwhile.
            left = self.store.redis.hlen(keys("PARKED", task))
            while left > 0 and time.monotonic() <= until:
                some = self.store.run("unpark", partition, task)
                if not some:
                    break
                moved += some
                left -= some
        return moved

    def unpark_all(self) -> int:
        """``unpark`` for every open task."""
        return sum(self.unpark(task) for task in self.open_tasks())

    def retake(self, version: str, limit: int) -> int:
        """Parked requests of running tasks that this code version has not tried go back, first in
        line. Returns how many: up to ``limit``, and up to 500 per partition; a repeated call takes
        the rest."""
        moved = 0
        for partition in range(self.store.partitions):
            if version and (left := min(limit - moved, MAX_ENTRIES)) > 0:
                name = os.urandom(8).hex()
                moved += self.store.run("retake", partition, mark_of(version), left, name)
        return moved

    def standstill(self) -> tuple[dict[int, Counts] | None, dict[int, TaskWait]]:
        """The open tasks that no node can advance before an operator acts: paused, with only parked
        requests left, or of paused hosts alone; None when any other task is open. And the waits of
        tasks that the gate keeps back."""
        counts = self.counts_of(self.open_tasks())
        waits = self.waits.of(counts)
        held = {task for task, wait in waits.items() if math.isinf(wait.until)}
        stuck = {
            task: c for task, c in counts.items() if c and (task in held or self._is_stuck(task, c))
        }
        return stuck if len(stuck) == len(counts) else None, waits

    def _is_stuck(self, task: int, counts: Counts) -> bool:
        if counts.state == "paused":
            return True
        held = counts.delayed == 1 and self.holds_last(task)
        return counts.nr - held == counts.parked > 0

    def holds_last(self, task: int) -> bool:
        """Whether the task has a last request, held back until nothing else is left."""
        last = end_admission(task)
        keys = self.store.keys[self.store.partition_of(last.host)]
        own = self.store.redis.hget(keys("OWN"), last.rid)
        return bool(own) and own.startswith(b"d|")

    def begin_last(self, task: int) -> bool:
        """Releases the last request of the task if it is held back and nothing else remains in its
        partition; returns whether it did. With several partitions the caller has counted all."""
        last = end_admission(task)
        return bool(self.store.run("last", self.store.partition_of(last.host), task, last.rid))

    def close_tasks(self, tasks: Iterable[int]) -> None:
        """Forgets ended tasks that have nothing left. Their counters remain in the database."""
        for task, counts in self.counts_of(tasks).items():
            if counts is not None and counts.nr > 0:
                continue
            for partition in range(self.store.partitions):
                while (left := self.store.run("close", partition, task)) != 1:
                    if left == 2:
                        self.near.forget(NearStore(task))

    def is_open(self, task: int) -> bool:
        """Whether a task was opened and not closed since."""
        return bool(self.store.redis.sismember(self.store.keys[0]("TASKS"), str(task)))

    def open_tasks(self) -> list[int]:
        """Tasks that have not been closed."""
        members = [*self.store.redis.smembers(self.store.keys[0]("TASKS"))]
        return sorted(task for _, task in self.rows.read_members("TASKS", members))

    def counts(self, task: int) -> Counts | None:
        """The counters of a task, or None when not every partition knows it. Its state is
        "changing" while a pause, resume or cancel is in progress, or was left half done.

        With several partitions the end of a task is read in two waves (Mattern 1987: all NF and NE
        first, then all NA), so that NR = 0 never results from reading at different times."""
        return self.counts_of([task])[task]

    def counts_of(self, tasks: Iterable[int]) -> dict[int, Counts | None]:
        """``counts`` of many tasks in one round trip (two with several partitions)."""
        tasks = list(tasks)
        rows = self._read_counts(tasks)
        if self.store.partitions > 1:
            for task, later in self._read_counts(tasks).items():
                row = rows[task]
                rows[task] = (
                    row._replace(na=later.na, beyond=later.beyond) if row and later else None
                )
        return rows

    def _read_counts(self, tasks: list[int]) -> dict[int, Counts | None]:
        rows: dict[int, list[list[Any]]] = {task: [] for task in tasks}
        for partition, keys in enumerate(self.store.keys):
            pipe = self.store.redis.pipeline(transaction=False)
            for task in tasks:
                pipe.hmget(keys("TASK", task), "state", "changing", *COUNT_FIELDS)
            for task, values in zip(tasks, pipe.execute(), strict=True):
                rows[task].append([*values[:2], *self._numbers(task, values[2:], partition)])
        return {task: _sum(values) for task, values in rows.items()}

    def _numbers(self, task: int, values: list[bytes | None], partition: int) -> list[int | None]:
        return [
            value if value is None
            else self.rows.read_row("TASK", field.encode(), value, read_number, 0, task, partition)
            for field, value in zip(COUNT_FIELDS, values, strict=True)
        ]  # fmt: skip

    def parked(self, task: int) -> dict[bytes, str]:
        """rid -> reason of the task's parked requests."""
        return {
            rid: reason.decode(errors="replace")
            for keys in self.store.keys
            for rid, reason in self.store.redis.hgetall(keys("PARKED", task)).items()
        }

    def share_cookies(self, task: int, cookies: dict[str, str]) -> None:
        """Adds to a task's cookies; call it before ``complete``, so that follow-ups get them."""
        flat = [part for pair in cookies.items() for part in pair]
        for chunk in chunks(flat, 2 * MAX_ENTRIES):
            self.store.run_everywhere("cookies", task, pack(chunk))

    def cookies(self, task: int) -> SharedCookies:
        """A task's cookies, as passed to ``share_cookies``. Invalid ones are left out."""
        # Read first: if they are swept before the entries are read, the next claim reports it.
        swept = self.store.redis.hget(self.store.keys[0]("TASK", task), "swept")
        number = 0
        if swept is not None:
            number = self.rows.read_row("TASK", b"swept", swept, read_number, 0, task)
        return SharedCookies(dict(self.rows.read_hash("COOKIES", _cookie, task)), number)

    def _set_state(self, task: int, state: str, part: str = "begin") -> None:
        for partition in range(self.store.partitions):
            left = 1
            while left > 0:
                left = self.store.run("state", partition, task, state, part)
            if left < 0 and part == "begin":  # else it has ended meanwhile
                raise FrontierError(f"task {task} is not in the frontier")


class StartQueue(StorePart):
    """The parts that ``start`` yields. The root request stays in progress, so NR does not reach 0
    between two of them."""

    def push(
        self, root: bytes, host: str, task: int, number: int, follow_ups: list[Admission]
    ) -> bool:
        """Admits the part of this number, of at most MAX_ENTRIES requests; call it after the commit
        of the part. Repeating it changes nothing. ``host``: of the root request. Returns False if
        the root request is no longer pending. Raises FrontierError when Redis does not know the
        task."""
        home = self._store.partition_of(host)
        mine = dict(self._store.split(follow_ups, lambda one: one.host))
        packed = pack(groups(mine.pop(home, [])))
        parts = self._store.run("push", home, root, task, number, packed, 1)
        if parts < 0:
            return False
        if parts <= number:  # Redis was filled again, and did not count the parts
            self._store.run("admit", home, task, packed)
        for partition, some in mine.items():
            self._store.run("admit", partition, task, pack(groups(some)))
        return True


class TaskPins(StorePart):
    """The generation that serves a task all of whose requests run in one worker, until it dies or
    leaves. The first partition decides which generation does, and the others learn it."""

    def take(self, task: int, generation: int) -> bool:
        """Gives a task to a generation if no living one serves it. Returns whether it does."""
        holder = self._store.run("pin", 0, task, generation, b"") or b""
        for partition in range(1, self._store.partitions) if holder else ():
            self._store.run("pin", partition, task, generation, holder)
        return holder == b"%d" % generation

    def leave(self, tasks: Iterable[int], generation: int) -> None:
        """Lets others serve the pinned tasks with nothing in progress in this generation: it lacks
        their code."""
        for task in tasks:
            self._leave(task, generation)

    def _leave(self, task: int, generation: int) -> None:
        """The first partition is left first and given up last: meanwhile no node is given the task,
        so requests that another partition was found not to hold cannot come back."""
        mine, leaving, nobody = b"%d" % generation, b"-%d" % generation, b"0"
        if self._unpin(0, task, generation, mine, leaving) != 1:
            return
        others = range(1, self._store.partitions)
        left = all(self._unpin(one, task, generation, mine, nobody) for one in others)
        self._unpin(0, task, generation, leaving, nobody if left else mine)

    def _unpin(self, partition: int, task: int, generation: int, old: bytes, new: bytes) -> int:
        return int(self._store.run("unpin", partition, task, generation, old, new))


def mark_of(version: str) -> str:
    """The mark of a code version's label in the frontier: 8 hex digits, or "" for ""."""
    return hashlib.sha256(version.encode()).hexdigest()[:8] if version else ""


def _sum(rows: list[list[Any]]) -> Counts | None:
    """The counters of a task, summed over the rows of all partitions."""
    if any(na is None for _, _, na, *_ in rows):
        return None
    states = {b"changing" if changing else state for state, changing, *_ in rows}
    state = states.pop() if len(states) == 1 else b"changing"
    numbers = (sum(n or 0 for n in column) for column in list(zip(*rows, strict=True))[2:])
    return Counts(state.decode(errors="replace"), *numbers)


def _cookie(key: bytes, cookie: bytes) -> tuple[str, str]:
    if key.count(b"|") < 2:
        raise ValueError("its key is not <domain>|<path>|<name>")
    if cookie:
        _COOKIE.decode(cookie)
    return key.decode(), cookie.decode()


def _limits(limits: TaskLimits) -> list[str]:
    """Fields of the task hash."""
    fields = _flat(
        delay=limits.delay,
        concurrency=limits.concurrency,
        limit=limits.page_limit,
        auto=int(limits.adaptive),
        robots=int(limits.robots),
        ip_concurrency=limits.ip_concurrency,
        ip_delay=limits.ip_delay,
    )
    if limits.host_page_limit:  # other tasks do without the field
        fields += _flat(host_limit=limits.host_page_limit)
    if limits.gates:
        fields += _flat(gates=gates.encode(limits.gates))
    return fields


def _flat(**fields: Any) -> list[str]:
    return [str(part) for pair in fields.items() for part in pair]
