"""Kept pages that are parsed again: of a task or a spider, and the differences."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

from django.db import transaction
from ninja import Status
from pydantic import Field

from crawlservice.api.parts.auth import ApiRequest, Bearer, Caller
from crawlservice.api.parts.errors import ApiError, Error, NotAllowed, Operations
from crawlservice.api.parts.paging import After, Id, Limit, oldest_first
from crawlservice.api.parts.schemas import Output, Priority, StrictInput, TaskOut
from crawlservice.api.spiders.spiders import Name
from crawlservice.api.tasks.tasks import SUBMIT, load_task, serialized, steered
from crawlservice.models import ParsedPage, Token
from crawlservice.reparse import submission as reparse
from crawlservice.reparse.changes import MAX_PAGES, as_json, changes
from crawlservice.reparse.submission import TEXT
from crawlservice.tasks.submit import RedisNotUpdated

Text = Annotated[str, Field(max_length=TEXT, pattern=r"^[^\x00]*$")]
router = Operations(tags=["reparse"])
READ = Bearer("read", "view_item")


class SpiderReparseIn(StrictInput):
    """The kept pages to be parsed, and the use of their items."""

    since: Annotated[datetime, Field(strict=False)] | None = Field(
        None, description="fetched then or later; without a time zone: UTC"
    )
    reason: Text | None = Field(None, description="why they are kept; empty: they are done")
    callback: Text = Field("", description="only pages of this callback")
    key: Text | None = Field(None, description="the field that pairs the items of a page")
    dry_run: bool = Field(False, description="find the differences, and change nothing")
    priority: Priority = 0


class ReparseIn(SpiderReparseIn):
    """The same for one task."""

    follow: bool = Field(False, description="fetch requests that the task did not know")
    wait: bool = Field(
        False, description="parse also the pages it has still to fetch, until it has ended"
    )


class ParsedPageOut(Output):
    """A page whose items differ, or that leads to new links."""

    id: int
    source_task: int
    source_rid: UUID
    url: str
    old_version: str
    version: str
    before: int = Field(description="items before")
    after: int
    added: int
    removed: int
    changed: int
    fields: dict[str, int] = Field(description="in how many items each field differs")
    examples: list[dict[str, Any]] = Field(
        description="`kind` (added, removed, changed), `key`, and `fields`: before and after"
    )
    links: int = Field(description="requests that its task did not know")
    repaired: bool = Field(description="it was an error before")
    created_at: datetime


class ChangesOut(Output):
    """Differences of the pages that a task has parsed, or tried in a dry run."""

    parses: dict[str, Any] = Field(description="which pages, as they were asked for")
    pages: int = Field(description="that differ")
    repaired: int = Field(description="pages in error that are done now")
    added: int
    removed: int
    changed: int
    links: int = Field(description="requests that their tasks did not know")
    fields: dict[str, int] = Field(description="in how many items each field differs")
    complete: bool = Field(description="whether the fields of all pages are counted")
    examples: list[ParsedPageOut]
    next: int | None = Field(description="pass it as `after` for the next pages; null: no more")


@router.post("/tasks/{task_id}/reparse", auth=SUBMIT, response={(201, 202): TaskOut})
def reparse_task(request: ApiRequest, task_id: Id, body: ReparseIn) -> Status[TaskOut]:
    """Starts a task that parses the kept pages of this one by the code of today. Their items are
    replaced, unless it is a dry run; that needs the right to control this task.

    202: Redis is unreachable; the nodes start it when it is back."""
    if not body.dry_run:
        steered(request, task_id)
    return _start(request, body, task=task_id)


@router.post("/spiders/{name}/reparse", auth=SUBMIT, response={(201, 202): TaskOut})
def reparse_spider(request: ApiRequest, name: Name, body: SpiderReparseIn) -> Status[TaskOut]:
    """The same for the kept pages of all tasks of a spider. Unless it is a dry run, it needs the
    right to operate."""
    caller = request.auth
    if not body.dry_run and not _operates(caller):
        raise NotAllowed("to replace items of all tasks of a spider, you must be an operator")
    return _start(request, body, spider=name)


@router.get("/tasks/{task_id}/changes", auth=READ, response={200: ChangesOut, 409: Error})
def show_changes(
    request: ApiRequest, task_id: Id, after: After = None, limit: Limit = 20
) -> dict[str, Any]:
    """Differences by the code of today, of a task that parses kept pages: numbers, and pages."""
    task = load_task(task_id)
    if task.reparse is None:
        raise ApiError(409, "not_a_reparse", f"task {task_id} fetches; it parses no kept pages")
    found = changes(task_id, MAX_PAGES, examples=0)
    rows, listed = ParsedPage.objects.all(), lambda some: [*map(as_json, some)]
    page = oldest_first("examples", rows, after, limit, listed, task=task_id)
    numbers = ("pages", "repaired", "added", "removed", "changed", "links", "complete")
    told = {name: getattr(found, name) for name in numbers}
    return {"parses": reparse.as_given(task), "fields": dict(found.fields), **told, **page}


def _operates(caller: Caller) -> bool:
    return caller.allows(Token.Scope.OPERATE) and caller.user.has_perm("crawlservice.steer_task")


def _start(request: ApiRequest, body: SpiderReparseIn, **source: Any) -> Status[TaskOut]:
    caller = request.auth
    given = body.model_dump()
    since = given.pop("since")
    if since is not None and since.tzinfo is None:
        since = since.replace(tzinfo=UTC)
    status = 201
    task = None
    try:
        with transaction.atomic():
            task = reparse.submit(since=since, user=caller.user, **given, **source)
            caller.record("reparse", task, parses=reparse.as_given(task))
    except RedisNotUpdated:
        status = 202
    assert task is not None
    return Status(status, serialized([load_task(task.pk)])[0])
