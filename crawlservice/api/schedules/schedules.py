"""Schedules: list, show, create, change, enable, disable, run now and delete."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.db import transaction
from ninja import Body, Router, Status
from pydantic import Field

from crawlservice.api.parts.auth import ApiRequest, Bearer
from crawlservice.api.parts.errors import READING, WRITING
from crawlservice.api.parts.paging import TEXT, After, Id, Limit, oldest_first
from crawlservice.api.parts.schemas import (
    LABELLED,
    Labels,
    Priority,
    RunOut,
    ScheduleOut,
    SchedulesOut,
    ScheduleWithRuns,
    SpiderName,
    StrictInput,
)
from crawlservice.models import Run, Schedule
from crawlservice.scheduling import editing, schedules
from crawlservice.tasks.submit import RedisNotUpdated

MAX_EVERY = 2**31 - 1  # seconds

Name = Annotated[str, Field(min_length=1, max_length=100, pattern=TEXT)]
Cron = Annotated[str, Field(max_length=100, pattern=TEXT)]
Every = Annotated[int, Field(ge=1, le=MAX_EVERY)]
Zone = Annotated[str, Field(min_length=1, max_length=64, pattern=TEXT)]
Overlap = Literal["skip", "queue", "cancel", "allow"]
Missed = Literal["once", "skip"]
CRON = "minute, hour, day of month, month, day of week, such as `0 6 * * 1-5`; or give `every`"


class ScheduleIn(StrictInput):
    """A new schedule: `cron` or `every`, one of them. Its arguments are checked, so a node must
    have published the spider."""

    name: Name
    spider: SpiderName
    arguments: dict[str, Any] = {}
    priority: Priority = 0
    settings: dict[str, Any] = {}
    labels: Labels = Field({}, description=LABELLED)
    cron: Cron = Field("", description=CRON)
    every: Every | None = Field(None, description="seconds between two starts")
    timezone: Zone = Field("UTC", description="such as Asia/Shanghai")
    overlap: Overlap = Field("skip", description="the action if the last run is still active")
    missed: Missed = Field("once", description="the action for starts while no node was running")
    enabled: bool = True


class SchedulePatch(StrictInput):
    """The fields that change; the others stay. `arguments` replace all arguments; a secret is kept
    by giving its mask, `********`."""

    name: Name = ""
    spider: SpiderName = ""
    arguments: dict[str, Any] = {}
    priority: Priority = 0
    settings: dict[str, Any] = {}
    labels: Labels = {}
    cron: Cron = Field("", description=CRON)
    every: Every | None = None
    timezone: Zone = ""
    overlap: Overlap = "skip"
    missed: Missed = "once"
    enabled: bool = True


router = Router(tags=["schedules"])

READ = Bearer("read", "view_schedule")
ADD = Bearer("operate", "add_schedule")
CHANGE = Bearer("operate", "change_schedule")
DELETE = Bearer("operate", "delete_schedule")
RUNS = 20  # latest runs shown of a schedule


@router.get("/schedules", auth=READ, response={200: SchedulesOut, **READING})
def list_schedules(request: ApiRequest, after: After = None, limit: Limit = 100) -> SchedulesOut:
    """All schedules, with the next start of each."""
    found, following = oldest_first(Schedule.objects.all(), after, limit)
    return SchedulesOut(
        schedules=[_out(row) for row in found],
        next=following,
    )


@router.post("/schedules", auth=ADD, response={201: ScheduleOut, **WRITING})
def create_schedule(
    request: ApiRequest, body: Annotated[ScheduleIn, Body()]
) -> Status[ScheduleOut]:
    """Makes a schedule."""
    caller = request.auth
    row = editing.create(_fields(body.model_dump()), caller.who)
    return Status(201, _out(row))


@router.get(
    "/schedules/{schedule_id}",
    auth=READ,
    response={200: ScheduleWithRuns, **READING},
)
def show_schedule(request: ApiRequest, schedule_id: Id) -> ScheduleWithRuns:
    """One schedule, with the outcomes of its latest runs."""
    row = editing.get(schedule_id)
    rows = row.runs.select_related("task").defer("task__seeds", "task__arguments")[:RUNS]
    return ScheduleWithRuns(**_out(row).model_dump(), runs=[_run(run) for run in rows])


@router.patch("/schedules/{schedule_id}", auth=CHANGE, response={200: ScheduleOut, **WRITING})
def change_schedule(
    request: ApiRequest, schedule_id: Id, body: Annotated[SchedulePatch, Body()]
) -> ScheduleOut:
    """Changes the given fields. A change of the timing drops missed starts."""
    caller = request.auth
    given = body.model_dump(exclude_unset=True)
    return _out(editing.change(schedule_id, _fields(given), caller.who))


@router.post("/schedules/{schedule_id}/enable", auth=CHANGE, response={200: ScheduleOut, **WRITING})
def enable_schedule(request: ApiRequest, schedule_id: Id) -> ScheduleOut:
    """Starts it again when it is due from now on."""
    return _switch(request, schedule_id, True)


@router.post(
    "/schedules/{schedule_id}/disable", auth=CHANGE, response={200: ScheduleOut, **WRITING}
)
def disable_schedule(request: ApiRequest, schedule_id: Id) -> ScheduleOut:
    """Disables a schedule; a run that waits for the end of the last run is skipped."""
    return _switch(request, schedule_id, False)


@router.post("/schedules/{schedule_id}/run", auth=CHANGE, response={(200, 202): RunOut, **WRITING})
def run_schedule(request: ApiRequest, schedule_id: Id) -> Status[RunOut]:
    """Starts it now, enabled or not, by its rule for overlaps. Its next time does not change.

    202: Redis is unreachable; the nodes start the task when it is back."""
    caller = request.auth
    row, status = editing.get(schedule_id), 200
    run: Run | None = None
    try:
        with transaction.atomic():  # recorded even if Redis could not be updated
            run = schedules.run_now(row, caller.user)
            caller.record("run schedule", run.task, schedule=row.name)
    except RedisNotUpdated:
        if run is None:
            raise
        status = 202
    return Status(status, _run(Run.objects.select_related("task").get(pk=run.pk)))


@router.delete("/schedules/{schedule_id}", auth=DELETE, response={204: None, **WRITING})
def delete_schedule(request: ApiRequest, schedule_id: Id) -> Status[None]:
    """Deletes it with its runs; their tasks stay."""
    caller = request.auth
    editing.delete(schedule_id, caller.who)
    return Status(204, None)


def _switch(request: ApiRequest, schedule_id: int, on: bool) -> ScheduleOut:
    caller = request.auth
    return _out(editing.switch(schedule_id, on, caller.who))


def _fields(given: dict[str, Any]) -> dict[str, Any]:
    """The fields with the names of the model."""
    return {"overrides" if name == "settings" else name: value for name, value in given.items()}


def _run(run: Run) -> RunOut:
    return RunOut(
        due_at=run.due_at,
        outcome=run.outcome,
        task=run.task_id,
        task_outcome=(run.task and run.task.outcome) or None,  # type: ignore[arg-type]
        problem=run.problem,
    )


def _out(row: Schedule) -> ScheduleOut:
    row.arguments = row.shown_arguments
    return ScheduleOut.model_validate(row, from_attributes=True)
