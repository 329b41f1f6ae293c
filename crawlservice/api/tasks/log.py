"""The log of a task: what its spider logged and printed."""

from __future__ import annotations

from typing import Annotated, Literal

from django.http import HttpRequest
from ninja import Query, Router

from crawlservice.api.parts.auth import Bearer
from crawlservice.api.parts.errors import READING
from crawlservice.api.parts.paging import After, Id, Limit, oldest_first
from crawlservice.api.parts.schemas import LogLineOut, LogOut
from crawlservice.api.tasks.tasks import load_task
from crawlservice.models import LogLine
from crawlservice.tasks.progress import log

router = Router(tags=["tasks"])

READ = Bearer("read", "view_task")


@router.get("/tasks/{task_id}/log", auth=READ, response={200: LogOut, **READING})
def read_log(
    request: HttpRequest,
    task_id: Id,
    level: Annotated[
        Literal["debug", "info", "warning", "error"], Query(description="at least this level")
    ] = "debug",
    after: After = None,
    limit: Limit = 100,
) -> LogOut:
    """What the spider of a task logged and printed, oldest first; the latest lines are kept. While
    it runs there will be more: pass the `id` of the last line as `after`, also when `next` is
    null."""
    load_task(task_id)
    found, following = oldest_first(log.at_least(level), after, limit, task=task_id)
    return LogOut(
        lines=[_out(line) for line in found], next=following, dropped=log.dropped(task_id)
    )


def _out(line: LogLine) -> LogLineOut:
    return LogLineOut(
        id=line.pk,
        at=line.at,
        level=log.level_name(line.level),
        logger=line.logger,
        rid=line.rid,
        url=line.url,
        text=line.text,
        worker=line.worker,
    )
