"""OneWorker: tasks all of whose requests run in one worker, because their spiders keep state on
``self``; on a node with a Scrapy project, whose modules may keep some too, each in a worker that
runs nothing else before or after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection

from crawlframe.conf import Settings
from crawlframe.frontier import Claim, Claimed, GivenBack
from crawlframe.node.child_process import Child
from crawlframe.node.master.worker_pool import OF_TASK, WorkerPool
from crawlframe.node.messages import Run

PRUNE_EVERY = 10.0  # seconds between two looks which of the tasks have ended
SOON_SECONDS = 1.0  # the same, where the worker of an ended task makes room for a new task
MAX_TASKS = 4  # tasks with a worker of their own at a time, for each worker of the node


def apart_of(settings: Settings) -> int:
    """The number of tasks that have a worker of their own at a time; 0: none has."""
    return MAX_TASKS * settings.workers if settings.scrapy else 0


class OneWorker:
    """The tasks of this kind that one master serves, each in one of its workers. ``give_back`` is
    called with the requests for which there is no worker now. ``apart``: how many
    tasks have an additional worker of their own at a time; 0: they share the pool's, without a
    limit. ``now`` is time.monotonic()."""

    def __init__(
        self,
        pool: WorkerPool,
        give_back: Callable[[list[GivenBack]], None],
        apart: int = 0,
    ) -> None:
        self._pool = pool
        self._give_back = give_back
        self._apart = apart
        self._workers: dict[int, Child | None] = {}
        self._next_prune = 0.0
        if apart:
            pool.apart = self._workers

    def servable(self, tasks: Collection[int]) -> list[int]:
        """The tasks without a serving node that this master has room for."""
        room = max(0, self._apart - len(self._workers)) if self._apart else None
        return sorted(tasks)[:room]

    def serve(self, task: int) -> None:
        """From now on this master serves the task."""
        self._workers.setdefault(task, None)

    def rooms(self) -> dict[int, int]:
        """The number of requests that each of the tasks can be given."""
        if not self._workers:
            return {}
        workers = {task: self._worker_of(task) for task in self._workers}
        return {
            task: max(0, child.credits) if child and child.taking else 0
            for task, child in workers.items()
        }

    def take(self, claim: Claim) -> None:
        """Sends the requests of such tasks to their workers, and leaves the others in the claim."""
        if not any(view.pinned for view in claim.tasks.values()):
            return
        theirs = [one for one in claim.requests if claim.tasks[one.task].pinned]
        claim.requests = [one for one in claim.requests if not claim.tasks[one.task].pinned]
        parcels: dict[int, list[Claimed]] = {}
        for request in theirs:
            parcels.setdefault(request.task, []).append(request)
        for task, requests in parcels.items():
            self.serve(task)
            child = self._worker_of(task)
            if child is None or not (child.ready and child.staying):  # it left meanwhile
                self._give_back([one.given_back() for one in requests])
                continue
            for one in requests:
                child.hold(one)
                child.credits -= 1
            self._pool.send(child, Run(requests, {task: claim.tasks[task]}))

    def prune(self, now: float, read: Callable[[], Collection[int] | None]) -> None:
        """Forgets tasks that have ended: that are not in ``read()``; None: it is not known."""
        if self._workers and now >= self._next_prune:
            self._next_prune = now + (SOON_SECONDS if self._apart else PRUNE_EVERY)
            if (open_ := read()) is not None:
                for task in self._workers.keys() - {*open_}:
                    del self._workers[task]

    def clear(self) -> None:
        """Forgets all tasks: this master serves none."""
        self._workers.clear()

    def _worker_of(self, task: int) -> Child | None:
        """The worker of a task. When it is gone, or leaves and has nothing of the task, another
        one."""
        child = self._workers[task]
        if child is not None and child in self._pool.members:  # otherwise it has died
            has_some = any(one.task == task for one in child.held.values())
            if child.staying or has_some:
                return child
        served = Counter(other.pid for other in self._workers.values() if other is not None)
        role = OF_TASK.format(task) if self._apart else "worker"
        free = [other for other in self._pool.members if other.role == role and other.taking]
        self._workers[task] = min(
            free, key=lambda other: (served[other.pid], -other.credits), default=None
        )
        return self._workers[task]
