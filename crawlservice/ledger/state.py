"""State that requests of a task need in addition to their records: cookies, and the proxies of
sessions. The database has it before Redis, and restores it in a new era. Sealed, as cookies log
in."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from hashlib import blake2b

import orjson

from crawlframe.frontier import Frontier
from crawlframe.run.ledger import COOKIES, PROXIES
from crawlservice.models import Task, TaskState
from crawlservice.security.sealing import SealError, seal, unseal

log = logging.getLogger(__name__)


def keep(states: Mapping[tuple[int, str], Mapping[str, str]]) -> None:
    """Writes entries by task and kind, in place of earlier ones with the same key. Raises
    django.db.Error."""
    rows = [
        TaskState(
            task_id=task,
            kind=kind,
            key=blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest(),
            sealed=seal(orjson.dumps([key, value]).decode()),
        )
        for (task, kind), entries in states.items()
        for key, value in entries.items()
    ]
    rows.sort(key=lambda row: (row.task_id, row.kind, row.key))  # two workers cannot deadlock
    TaskState.objects.bulk_create(
        rows,
        batch_size=500,
        update_conflicts=True,
        unique_fields=("task", "kind", "key"),
        update_fields=("sealed",),
    )


def bring_back(task: Task, frontier: Frontier) -> None:
    """Gives an open task its state again. One whose state this process cannot read is paused: its
    requests wait. Raises redis.RedisError, FrontierError and django.db.Error."""
    found: dict[str, dict[str, str]] = {COOKIES: {}, PROXIES: {}}
    try:
        for kind, sealed in TaskState.objects.filter(task=task).values_list("kind", "sealed"):
            key, value = orjson.loads(unseal(sealed))
            found[kind][key] = value
    except SealError as error:
        log.error("task %d is paused, as its cookies cannot be read: %s", task.pk, error)
        if Task.objects.filter(pk=task.pk, state=Task.State.RUNNING).update(
            state=Task.State.PAUSED
        ):
            task.state = Task.State.PAUSED
        return
    if found[COOKIES]:
        frontier.share_cookies(task.pk, found[COOKIES])
    frontier.proxies.restore(found[PROXIES])
