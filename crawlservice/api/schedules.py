"""Schedules, read-only."""

from __future__ import annotations

from django.http import HttpRequest
from ninja import Router

from crawlservice.api.auth import Bearer
from crawlservice.api.errors import READING, ApiError
from crawlservice.api.paging import After, Id, Limit, oldest_first
from crawlservice.api.schemas import RunOut, ScheduleOut, SchedulesOut, ScheduleWithRuns
from crawlservice.models import Schedule

router = Router(tags=["schedules"])

READ = Bearer("read", "view_schedule")
RUNS = 20  # latest runs shown of a schedule


@router.get("/schedules", auth=READ, response={200: SchedulesOut, **READING})
def list_schedules(request: HttpRequest, after: After = None, limit: Limit = 100) -> SchedulesOut:
    """All schedules, with the next start of each."""
    found, following = oldest_first(Schedule.objects.all(), after, limit)
    return SchedulesOut(
        schedules=[_out(row) for row in found],
        next=following,
    )


@router.get(
    "/schedules/{schedule_id}",
    auth=READ,
    response={200: ScheduleWithRuns, **READING},
)
def show_schedule(request: HttpRequest, schedule_id: Id) -> ScheduleWithRuns:
    """One schedule, with the outcomes of its latest runs."""
    row = Schedule.objects.filter(pk=schedule_id).first()
    if row is None:
        raise ApiError(404, "unknown_schedule", f"there is no schedule {schedule_id}")
    runs = [
        RunOut(
            due_at=run.due_at,
            outcome=run.outcome,
            task=run.task_id,
            task_outcome=(run.task and run.task.outcome) or None,  # type: ignore[arg-type]
            problem=run.problem,
        )
        for run in row.runs.select_related("task").defer("task__seeds", "task__arguments")[:RUNS]
    ]
    return ScheduleWithRuns(**_out(row).model_dump(), runs=runs)


def _out(row: Schedule) -> ScheduleOut:
    row.arguments = row.shown_arguments
    return ScheduleOut.model_validate(row, from_attributes=True)
