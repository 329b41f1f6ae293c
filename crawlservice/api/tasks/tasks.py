"""Tasks: submit, list, show, pause, resume, cancel and retry; and their limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Body, Header, Query, Status
from pydantic import Field

from crawlframe.errors import ArgumentError
from crawlservice.api.parts.auth import ApiRequest, Bearer, Caller
from crawlservice.api.parts.errors import ApiError, NotAllowed, Operations, status_of
from crawlservice.api.parts.paging import (
    MAX_ID,
    TEXT,
    After,
    Id,
    LabelIs,
    Limit,
    OwnerIs,
    newest_first,
    oldest_first,
    page_of,
)
from crawlservice.api.parts.schemas import (
    LogLineOut,
    NewTask,
    OneOrMany,
    Outcome,
    RetriedOut,
    Retry,
    TaskIn,
    TaskLimitsIn,
    TaskOut,
    TasksOut,
)  # fmt: skip
from crawlservice.connections.lookup import find
from crawlservice.models import SPIDER, Task, Trap
from crawlservice.monitoring.owners import spiders_of
from crawlservice.tasks import bulk_submit, labels, limits, stored_limits, submit
from crawlservice.tasks.arguments.spider_arguments import shortened
from crawlservice.tasks.bulk_submit import WantedTask
from crawlservice.tasks.label_rows import labelled
from crawlservice.tasks.overrides import detail
from crawlservice.tasks.progress import layers, log
from crawlservice.tasks.progress.budgets import stops, traps_of
from crawlservice.tasks.progress.forecast import Forecast, forecasts
from crawlservice.tasks.progress.progress import read, yielded
from crawlservice.tasks.progress.stats import TaskStats, of_tasks
from crawlservice.tasks.retry import retry

router = Operations(tags=["tasks"])
READ = Bearer("read", "view_task")
SUBMIT = Bearer("submit", "submit_task")
STEER = Bearer("submit", "view_task")  # which tasks is checked for each
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[!-~]+$",
        description="repeated with the same body within a day, it returns the same tasks",
    ),
]
Dropped = Annotated[int, Field(description="older lines that are not kept")]
# Fields with the name that they have at the model, and in its progress.
OF_TASK = (
    "id", "spider", "state", "outcome", "reason", "priority", "reparse", "created_at",
    "finished_at", "closing", "user", "retries", "unwritten",
)  # fmt: skip
OF_PROGRESS = (
    "live", "na", "nf", "ne", "nr", "cancelled", "excluded", "items", "duplicates", "limited",
    "ready", "delayed", "in_progress", "parked", "wait",
)  # fmt: skip
State = Literal["running", "paused", "cancelling", "finished", "cancelled"]


@router.post("/tasks", auth=SUBMIT, response={(200, 201): TaskOut | TasksOut})
def submit_tasks(
    request: ApiRequest, body: Annotated[OneOrMany, Body()], key: Key = None
) -> Status[Any]:
    """Submits one task (an object) or many (a list): all of them, or none if one is wrong.

    With an Idempotency-Key a request can be repeated safely: status 200 instead of 201, and the
    same tasks. The same key with another body is refused (409)."""
    if isinstance(body, TaskIn):
        tasks, new = _submit(request, key, [_wanted(body)])
        return Status(201 if new else 200, tasks[0])
    tasks, new = _submit(request, key, [_wanted(one) for one in body])
    return Status(201 if new else 200, TasksOut(tasks=tasks))


@router.post("/new_task", auth=SUBMIT, response={(200, 201): TaskOut})
def new_task(request: ApiRequest, body: NewTask, key: Key = None) -> Status[TaskOut]:
    """The same as `POST /tasks`, for callers of the older system: `{"spider": "shop", "city":
    "Ulm"}` or `{"spider": "shop", "args": {"city": "Ulm"}}`. Also at `/new_task`."""
    beside = body.model_extra or {}
    if body.args is not None and beside:
        name = next(iter(beside))
        raise ApiError(422, "invalid", f"{name}: not allowed together with args", name)
    arguments = beside if body.args is None else body.args
    tasks, new = _submit(request, key, [WantedTask(body.spider, arguments, body.priority)])
    return Status(201 if new else 200, tasks[0])


@router.get("/tasks", auth=READ, response=TasksOut)
def list_tasks(
    request: ApiRequest,
    state: Annotated[State | None, Query()] = None,
    outcome: Annotated[Outcome | None, Query()] = None,
    spider: Annotated[str | None, Query(min_length=1, max_length=SPIDER, pattern=TEXT)] = None,
    label: LabelIs | None = None,
    owner: OwnerIs | None = None,
    watch: Annotated[
        int | None, Query(ge=1, le=MAX_ID, description="the rounds of this watch, and no others")
    ] = None,
    after: After = None,
    limit: Limit = 100,
) -> dict[str, Any]:
    """Tasks, the latest first. Long arguments are shortened here; a single task has them whole.
    Rounds of watches are left out, unless `watch` asks for them."""
    rows = Task.objects.defer("seeds").select_related("user").filter(watch=watch)
    given = {"state": state, "outcome": outcome, "spider": spider}
    rows = rows.filter(**{name: value for name, value in given.items() if value is not None})
    if owner is not None:
        rows = rows.filter(spider__in=spiders_of(owner, request.auth.user))
    if label is not None:
        rows = labelled(rows, label)
    return newest_first("tasks", rows, after, limit, _shortened)


def _shortened(tasks: Sequence[Task]) -> list[TaskOut]:
    for task in tasks:
        task.arguments = shortened(task.arguments)
    return serialized(tasks)


@router.get("/tasks/{task_id}", auth=READ, response=TaskOut)
def show_task(request: ApiRequest, task_id: Id) -> TaskOut:
    """One task with its current numbers."""
    return _show(task_id)


@router.patch("/tasks/{task_id}", auth=STEER, response={(200, 202): TaskOut})
def change_limits(request: ApiRequest, task_id: Id, body: TaskLimitsIn) -> Status[TaskOut]:
    """Changes limits of a task that is running or paused, at once on all nodes.

    202: Redis is unreachable; the nodes apply this when it is back."""
    caller, _ = steered(request, task_id)
    status = status_of(limits.change_limits, task_id, caller.who, **body.model_dump())
    return Status(status, _show(task_id))


@router.post("/tasks/{task_id}/pause", auth=STEER, response={(200, 202): TaskOut})
def pause_task(request: ApiRequest, task_id: Id) -> Status[TaskOut]:
    """Stops fetching its requests until it is resumed.

    202: Redis is unreachable; the nodes apply this when it is back."""
    return _steer(request, "pause", task_id, submit.pause)


@router.post("/tasks/{task_id}/resume", auth=STEER, response={(200, 202): TaskOut})
def resume_task(request: ApiRequest, task_id: Id) -> Status[TaskOut]:
    """Continues a paused task; a running one tries its parked requests again."""
    return _steer(request, "resume", task_id, submit.resume)


@router.post("/tasks/{task_id}/cancel", auth=STEER, response={(200, 202): TaskOut})
def cancel_task(request: ApiRequest, task_id: Id) -> Status[TaskOut]:
    """Ends a task without fetching the rest; fetches in progress are finished."""
    return _steer(request, "cancel", task_id, submit.cancel)


@router.post("/tasks/{task_id}/retry", auth=STEER, response=RetriedOut)
def retry_task(request: ApiRequest, task_id: Id, body: Retry | None = None) -> RetriedOut:
    """Runs its failed requests again: all, or the given ones."""
    caller, task = steered(request, task_id)
    retried = retry(task_id, None if body is None else body.rids)
    caller.record("retry", task, retried=retried)
    return RetriedOut(retried=retried, task=_show(task_id))


def serialized(tasks: Sequence[Task]) -> list[TaskOut]:
    """Tasks with their current numbers, with one query to Redis."""
    numbers = [task.pk for task in tasks]
    counted, traps, none = of_tasks(numbers), traps_of(numbers), TaskStats({}, {})
    tagged = labels.of_tasks(numbers)
    starting = yielded([task.pk for task in tasks if task.state in Task.ACTIVE])
    return [
        _out(known, counted.get(pk, none), traps.get(pk, []), starting.get(pk), tagged.get(pk, {}))
        for known in forecasts(read(tasks))
        for pk in [known.progress.task.pk]
    ]


def load_task(task_id: int) -> Task:
    """Raises NotFound."""
    return find(Task.objects.defer("seeds").select_related("user"), "task", task_id)


def _show(task_id: int) -> TaskOut:
    return serialized([load_task(task_id)])[0]


def _wanted(task: TaskIn) -> WantedTask:
    return WantedTask(task.spider, task.arguments, task.priority, task.settings, task.labels)


def _submit(
    request: ApiRequest, key: str | None, wanted: list[WantedTask]
) -> tuple[list[TaskOut], bool]:
    caller, recorded = request.auth, recorder(request.auth)
    try:
        if key is None:
            tasks, new = bulk_submit.submit_many(wanted, caller.user, recorded), True
        else:
            tasks, new = bulk_submit.submit_once(key, wanted, caller.user, recorded)
    except bulk_submit.KeyReused as error:
        raise ApiError(409, "key_reused", str(error), "Idempotency-Key") from None
    except bulk_submit.Refused as error:
        code = "argument" if isinstance(error.cause, ArgumentError) else "refused"
        raise ApiError(422, code, str(error), str(error.place)) from None
    return serialized(tasks), new


def recorder(caller: Caller) -> Callable[[Task], None]:
    """A function that records the submission of a task in the journal."""

    def recorded(task: Task) -> None:
        arguments = shortened(task.arguments)
        caller.record("submit", task, spider=task.spider, arguments=arguments, **detail(task))

    return recorded


def steered(request: ApiRequest, task_id: int) -> tuple[Caller, Task]:
    """The task, if the caller may control it. Raises NotFound and NotAllowed."""
    caller = request.auth
    task = load_task(task_id)
    if not caller.may_steer(task):
        raise NotAllowed(
            f"you may not control task {task_id}; this needs an operator, and a token of scope "
            "operate"
        )
    return caller, task


def _steer(
    request: ApiRequest, verb: str, task_id: int, do: Callable[[int], None]
) -> Status[TaskOut]:
    caller, task = steered(request, task_id)
    status = status_of(do, task_id)
    caller.record(verb, task)
    return Status(status, _show(task_id))


def _out(
    known: Forecast,
    counted: TaskStats,
    traps: Sequence[Trap],
    starting: int | None,
    tagged: dict[str, str],
) -> TaskOut:
    progress, task = known.progress, known.progress.task
    given = {
        **{name: getattr(task, name) for name in OF_TASK},
        **{name: getattr(progress, name) for name in OF_PROGRESS},
        "arguments": task.shown_arguments,
        "settings": task.overrides,
        "limits": stored_limits.limits_as_written(task),
        "labels": tagged,
        "schedule": task.schedule_id,
        "robots": stored_limits.obeys_robots(task),
        "unfollowed": dict(stops(progress, counted)),
        "traps": traps,
        "layers": layers.of_task(progress),
        "starting": starting,
        "expected": known.total,
        "expected_basis": known.basis.value or None,
        "stats": counted.counters,
        "maxima": counted.maxima,
    }
    return TaskOut.model_validate(given)


@router.get(
    "/tasks/{task_id}/log", auth=READ, response=page_of("lines", LogLineOut, dropped=Dropped)
)
def read_log(
    request: HttpRequest,
    task_id: Id,
    level: Annotated[
        Literal["debug", "info", "warning", "error"], Query(description="at least this level")
    ] = "debug",
    after: After = None,
    limit: Limit = 100,
) -> dict[str, Any]:
    """Log and output of a task's spider, oldest first; the latest lines are kept. While it runs
    there will be more: pass the `id` of the last line as `after`, also when `next` is null."""
    load_task(task_id)
    lines = oldest_first("lines", log.at_least(level), after, limit, task=task_id)
    return lines | {"dropped": log.dropped(task_id)}
