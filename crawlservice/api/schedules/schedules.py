"""Schedules: list, show, create, change, enable, disable, run now and delete."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from django.db import transaction
from django.db.models import QuerySet
from ninja import Status
from pydantic import Field

from crawlservice.api.parts.auth import ApiRequest, rights_on
from crawlservice.api.parts.errors import Operations
from crawlservice.api.parts.paging import TEXT, After, Id, Limit, oldest_first, page_of
from crawlservice.api.parts.schemas import (
    LABELLED,
    Labels,
    Outcome,
    Output,
    Priority,
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


class SchedulePatch(ScheduleIn):
    """The fields that change; the others stay. `arguments` replace all arguments; a secret is kept
    by giving its mask, `********`."""

    name: Name = ""
    spider: SpiderName = ""


class ScheduleOut(Output):
    id: int
    name: str
    spider: str
    arguments: dict[str, Any] = Field(
        validation_alias="shown_arguments", description="with ******** for each secret"
    )
    priority: int
    settings: dict[str, Any] = Field(
        validation_alias="overrides",
        description="settings of its tasks in place of the spider's",
    )
    labels: dict[str, str] = Field(description="of its tasks")
    cron: str
    every: int | None
    timezone: str
    overlap: str
    missed: str
    enabled: bool
    created_at: datetime
    next_at: datetime | None
    problem: str = Field(description="why it cannot start; empty if the last start succeeded")
    problem_since: datetime | None


class RunOut(Output):
    due_at: datetime
    outcome: str
    task: int | None = Field(validation_alias="task_id")
    task_outcome: Outcome | None = Field(description="how that task ended; null while it has not")
    problem: str

    @staticmethod
    def resolve_task_outcome(run: Run) -> str | None:
        return (run.task and run.task.outcome) or None


class ScheduleWithRuns(ScheduleOut):
    runs: list[RunOut] = Field(description="the latest ones")

    @staticmethod
    def resolve_runs(row: Schedule) -> QuerySet[Run]:
        return row.runs.select_related("task").defer("task__seeds", "task__arguments")[:RUNS]


router = Operations(tags=["schedules"])

READ, ADD, CHANGE, DELETE = rights_on("schedule")
RUNS = 20  # latest runs shown of a schedule


@router.get("/schedules", auth=READ, response=page_of("schedules", ScheduleOut))
def list_schedules(request: ApiRequest, after: After = None, limit: Limit = 100) -> dict[str, Any]:
    """All schedules, with the next start of each."""
    return oldest_first("schedules", Schedule.objects.all(), after, limit)


@router.post("/schedules", auth=ADD, response={201: ScheduleOut})
def create_schedule(request: ApiRequest, body: ScheduleIn) -> Status[Schedule]:
    """Makes a schedule."""
    return Status(201, editing.create(_fields(body.model_dump()), request.auth.who))


@router.get("/schedules/{schedule_id}", auth=READ, response=ScheduleWithRuns)
def show_schedule(request: ApiRequest, schedule_id: Id) -> Schedule:
    """One schedule, with the outcomes of its latest runs."""
    return editing.get(schedule_id)


@router.patch("/schedules/{schedule_id}", auth=CHANGE, response=ScheduleOut)
def change_schedule(request: ApiRequest, schedule_id: Id, body: SchedulePatch) -> Schedule:
    """Changes the given fields. A change of the timing drops missed starts."""
    given = body.model_dump(exclude_unset=True)
    return editing.change(schedule_id, _fields(given), request.auth.who)


@router.post("/schedules/{schedule_id}/enable", auth=CHANGE, response=ScheduleOut)
def enable_schedule(request: ApiRequest, schedule_id: Id) -> Schedule:
    """Starts it again when it is due from now on."""
    return editing.switch(schedule_id, True, request.auth.who)


@router.post("/schedules/{schedule_id}/disable", auth=CHANGE, response=ScheduleOut)
def disable_schedule(request: ApiRequest, schedule_id: Id) -> Schedule:
    """Disables a schedule; a run that waits for the end of the last run is skipped."""
    return editing.switch(schedule_id, False, request.auth.who)


@router.post("/schedules/{schedule_id}/run", auth=CHANGE, response={(200, 202): RunOut})
def run_schedule(request: ApiRequest, schedule_id: Id) -> Status[Run]:
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
    return Status(status, Run.objects.select_related("task").get(pk=run.pk))


@router.delete("/schedules/{schedule_id}", auth=DELETE, response={204: None})
def delete_schedule(request: ApiRequest, schedule_id: Id) -> Status[None]:
    """Deletes it with its runs; their tasks stay."""
    editing.delete(schedule_id, request.auth.who)
    return Status(204, None)


def _fields(given: dict[str, Any]) -> dict[str, Any]:
    """The fields with the names of the model."""
    return {"overrides" if name == "settings" else name: value for name, value in given.items()}
