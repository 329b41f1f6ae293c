"""Exports: list, show, create, change, pause, resume, start again and delete."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Path, Status
from pydantic import Field

from crawlservice.api.parts.auth import ApiRequest, rights_on
from crawlservice.api.parts.errors import Operations
from crawlservice.api.parts.paging import TEXT, After, Limit, oldest_first, page_of
from crawlservice.api.parts.schemas import Output, StrictInput
from crawlservice.connections.lookup import find
from crawlservice.exports import changes
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
FileProblems = Annotated[
    list[str], Field(description="of exports.toml, as the leading node read it")
]
router = Operations(tags=["exports"])
READ, ADD, CHANGE, DELETE = rights_on("export")
Name = Annotated[str, Path(min_length=1, max_length=EXPORT_NAME, pattern=TEXT)]


class ExportIn(Definition):
    """A new export. Secrets are stored encrypted and never returned."""

    begin: Begin = "beginning"


class ExportChange(Definition):
    """The whole definition. Masked secrets stay as they are; name and data cannot change."""


class RestartIn(StrictInput):
    """The place from which it exports again."""

    begin: Begin


class ExportOut(Output):
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


@router.get(
    "/exports", auth=READ, response=page_of("exports", ExportOut, file_problems=FileProblems)
)
def list_exports(request: HttpRequest, after: After = None, limit: Limit = 100) -> dict[str, Any]:
    """All exports, with how far each is."""
    file = ExportFile.objects.first()
    rows = with_newest(Export.objects.all())
    page = oldest_first(
        "exports", rows, after, limit, lambda some: [_out(row, listed=True) for row in some]
    )
    return page | {"file_problems": file.problems if file else []}


@router.get("/exports/{name}", auth=READ, response=ExportOut)
def show_export(request: HttpRequest, name: Name) -> dict[str, Any]:
    """One export, with how many rows it has left."""
    return _out(_found(name))


@router.post("/exports", auth=ADD, response={201: NewExport})
def add_export(request: ApiRequest, body: ExportIn) -> Status[dict[str, Any]]:
    """Adds an export; the leading node starts it within seconds."""
    caller = request.auth
    given = Definition.model_validate(body.model_dump(exclude={"begin"}))
    row, secret = changes.add(given, body.begin, user=caller.user)
    caller.record("add export", export=row.name)
    return Status(201, {**_out(_found(row.name)), "secret": secret or None})


@router.put("/exports/{name}", auth=CHANGE, response=ExportOut)
def change_export(request: ApiRequest, name: Name, body: ExportChange) -> dict[str, Any]:
    """Replaces the definition; the export continues at its position. An export that exports.toml no
    longer names becomes independent of the file."""
    if changes.edit(_found(name), Definition.model_validate(body.model_dump())):
        request.auth.record("change export", export=name)
    return _out(_found(name))


@router.post("/exports/{name}/pause", auth=CHANGE, response=ExportOut)
def pause_export(request: ApiRequest, name: Name) -> dict[str, Any]:
    """Ends after the batch that is being sent. While it is paused, tasks that it has not exported
    can be deleted."""
    changes.pause(_found(name))
    request.auth.record("pause export", export=name)
    return _out(_found(name))


@router.post("/exports/{name}/resume", auth=CHANGE, response=ExportOut)
def resume_export(request: ApiRequest, name: Name) -> dict[str, Any]:
    """Continues an export at its position; after a failure it is tried again at once."""
    changes.resume(_found(name))
    request.auth.record("resume export", export=name)
    return _out(_found(name))


@router.post("/exports/{name}/restart", auth=CHANGE, response=ExportOut)
def restart_export(request: ApiRequest, name: Name, body: RestartIn) -> dict[str, Any]:
    """Exports again from a point on, as another run."""
    changes.restart(_found(name), body.begin)
    request.auth.record("restart export", export=name, begin=body.begin)
    return _out(_found(name))


@router.delete("/exports/{name}", auth=DELETE, response={204: None})
def delete_export(request: ApiRequest, name: Name) -> Status[None]:
    """Deletes an export; its written files and rows stay."""
    changes.delete(_found(name))
    request.auth.record("delete export", export=name)
    return Status(204, None)


def _found(name: str) -> Export:
    return find(with_newest(Export.objects.all()), "export", name, column="name")


def _out(row: Export, *, listed: bool = False) -> dict[str, Any]:
    rest = None if listed else left(row)  # counting the rows of each would take too long
    columns = {name: getattr(row, name, None) for name in ExportOut.model_fields}
    more = {"state": state_of(row), "left": rest and rest.rows, "left_more": rest and rest.more}
    return columns | more
