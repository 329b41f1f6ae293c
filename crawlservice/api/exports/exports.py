"""Exports: list, show, create, change, pause, resume, start again and delete."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Body, Path, Router, Status
from pydantic import BaseModel, Field

from crawlservice.api.parts.auth import ApiRequest, Bearer
from crawlservice.api.parts.errors import READING, WRITING, ApiError
from crawlservice.api.parts.paging import TEXT, After, Limit, oldest_first
from crawlservice.api.parts.schemas import StrictInput
from crawlservice.exports import changes
from crawlservice.exports.addresses import BadExport
from crawlservice.exports.definition import Definition
from crawlservice.exports.source import left, state_of, with_newest
from crawlservice.models import EXPORT_NAME, Export, ExportFile

Begin = Annotated[
    str,
    Field(
        max_length=40,
        description="`beginning`, `now`, a date such as `2026-11-01T06:00Z`, or a row number",
    ),
]
router = Router(tags=["exports"])
READ = Bearer("read", "view_export")
ADD = Bearer("operate", "add_export")
CHANGE = Bearer("operate", "change_export")
Name = Annotated[str, Path(min_length=1, max_length=EXPORT_NAME, pattern=TEXT)]


class ExportIn(Definition):
    """A new export. Secrets are stored encrypted and never returned."""

    begin: Begin = "beginning"


class ExportChange(Definition):
    """The whole definition. Masked secrets stay as they are; name and data cannot change."""


class RestartIn(StrictInput):
    """The place from which it exports again."""

    begin: Begin


class ExportOut(BaseModel):
    """An export, and how far it is. `position`: number of the last row that was looked at;
    `newest`: of the newest row. `left`: rows that it has not exported yet, null in lists;
    `left_more`: there may be more."""

    name: str
    state: Literal["running", "failing", "paused", "removed"]
    what: Literal["items", "pages"]
    spider: str
    task: int | None
    labels: dict[str, str]
    usage: str
    fields: list[str]
    target: dict[str, Any]
    from_file: bool
    run: int
    position: int
    newest: int
    left: int | None
    left_more: bool | None
    rows: int
    batches: int
    last_batch: str
    last_at: datetime | None
    attempts: int
    next_at: datetime | None
    problem: str
    problem_since: datetime | None
    created_at: datetime


class NewExport(ExportOut):
    """`secret`: with which requests are signed, if it was made now; it is not shown again."""

    secret: str | None = None


class ExportsOut(BaseModel):
    """`file_problems`: the problems of exports.toml, as the leading node read it."""

    exports: list[ExportOut]
    file_problems: list[str]
    next: int | None


@router.get("/exports", auth=READ, response={200: ExportsOut, **READING})
def list_exports(request: HttpRequest, after: After = None, limit: Limit = 100) -> ExportsOut:
    """All exports, with how far each is."""
    found, following = oldest_first(with_newest(Export.objects.all()), after, limit)
    file = ExportFile.objects.first()
    problems = file.problems if file else []
    return ExportsOut(
        exports=[_out(row, listed=True) for row in found], file_problems=problems, next=following
    )


@router.get("/exports/{name}", auth=READ, response={200: ExportOut, **READING})
def show_export(request: HttpRequest, name: Name) -> ExportOut:
    """One export, with how many rows it has left."""
    return _out(_found(name))


@router.post("/exports", auth=ADD, response={201: NewExport, **WRITING})
def add_export(request: ApiRequest, body: Annotated[ExportIn, Body()]) -> Status[NewExport]:
    """Adds an export; the leading node starts it within seconds."""
    caller = request.auth
    given = Definition.model_validate(body.model_dump(exclude={"begin"}))
    try:
        row, secret = changes.add(given, body.begin, user=caller.user)
    except BadExport as error:
        raise _invalid(error) from None
    caller.record("add export", export=row.name)
    return Status(201, NewExport(**_out(_found(row.name)).model_dump(), secret=secret or None))


@router.put("/exports/{name}", auth=CHANGE, response={200: ExportOut, **WRITING})
def change_export(
    request: ApiRequest, name: Name, body: Annotated[ExportChange, Body()]
) -> ExportOut:
    """Replaces the definition; the export continues at its position. An export that exports.toml no
    longer names becomes independent of the file."""
    row = _found(name)
    try:
        if changes.edit(row, Definition.model_validate(body.model_dump())):
            request.auth.record("change export", export=name)
    except BadExport as error:
        raise _invalid(error) from None
    return _out(_found(name))


@router.post("/exports/{name}/pause", auth=CHANGE, response={200: ExportOut, **WRITING})
def pause_export(request: ApiRequest, name: Name) -> ExportOut:
    """Ends after the batch that is being sent. While it is paused, tasks that it has not exported
    can be deleted."""
    changes.pause(_found(name))
    request.auth.record("pause export", export=name)
    return _out(_found(name))


@router.post("/exports/{name}/resume", auth=CHANGE, response={200: ExportOut, **WRITING})
def resume_export(request: ApiRequest, name: Name) -> ExportOut:
    """Continues an export at its position; after a failure it is tried again at once."""
    changes.resume(_found(name))
    request.auth.record("resume export", export=name)
    return _out(_found(name))


@router.post("/exports/{name}/restart", auth=CHANGE, response={200: ExportOut, **WRITING})
def restart_export(
    request: ApiRequest, name: Name, body: Annotated[RestartIn, Body()]
) -> ExportOut:
    """Exports again from a point on, as another run."""
    try:
        changes.restart(_found(name), body.begin)
    except BadExport as error:
        raise _invalid(error) from None
    request.auth.record("restart export", export=name, begin=body.begin)
    return _out(_found(name))


@router.delete(
    "/exports/{name}", auth=Bearer("operate", "delete_export"), response={204: None, **WRITING}
)
def delete_export(request: ApiRequest, name: Name) -> Status[None]:
    """Deletes an export; its written files and rows stay."""
    changes.delete(_found(name))
    request.auth.record("delete export", export=name)
    return Status(204, None)


def _found(name: str) -> Export:
    row = with_newest(Export.objects.filter(name=name)).first()
    if row is None:
        raise ApiError(404, "unknown_export", f"there is no export {name}")
    return row


def _invalid(error: BadExport) -> ApiError:
    return ApiError(422, "invalid", str(error), error.field)


def _out(row: Export, listed: bool = False) -> ExportOut:
    found = None if listed else left(row)  # counting the rows of each would take too long
    columns = {name: getattr(row, name, None) for name in ExportOut.model_fields}
    more = {"state": state_of(row), "left": found and found.rows, "left_more": found and found.more}
    return ExportOut.model_validate({**columns, **more})
