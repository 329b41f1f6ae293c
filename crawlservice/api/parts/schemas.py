"""Schemas of the API. Input is strict: no field is converted from a value of another type, and
unknown fields are refused."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AliasChoices, BaseModel, ConfigDict, Discriminator, Field, Tag

from crawlframe.request.request import MAX_TASK_PRIORITY
from crawlservice.hosts.rules import RULES
from crawlservice.models import LABEL_NAME, LABEL_VALUE, LABELS, SPIDER
from crawlservice.tasks.limits import MAX_CONCURRENCY, MAX_DELAY, MAX_PAGES

BULK = 1000  # maximum tasks of one submission, or requests of one retry
Priority = Annotated[int, Field(ge=-MAX_TASK_PRIORITY, le=MAX_TASK_PRIORITY)]
SpiderName = Annotated[str, Field(min_length=1, max_length=SPIDER)]
LABELLED = f'`{{"domain": "news"}}`: up to {LABELS} names with values, for searches of tasks'
LabelName = Annotated[str, Field(pattern=rf"^[A-Za-z0-9._-]{{1,{LABEL_NAME}}}$")]
LabelValue = Annotated[str, Field(min_length=1, max_length=LABEL_VALUE)]
Labels = Annotated[dict[LabelName, LabelValue], Field(max_length=LABELS)]


class StrictInput(BaseModel):
    """Input."""

    model_config = ConfigDict(extra="forbid", strict=True)


class TaskIn(StrictInput):
    """One task to be submitted. `arguments` must fit the schema of the spider."""

    spider: SpiderName
    arguments: dict[str, Any] = {}
    priority: Priority = 0
    settings: dict[str, Any] = Field(
        {},
        description="settings of this task in place of its spider's, such as `delay`. "
        "Without the right to operate, it may be gentler and cheaper than the spider, not more: a "
        "longer delay, fewer requests at a time, a smaller `max_body`, and so on.",
    )
    labels: Labels = Field({}, description=LABELLED)


def _one_or_many(given: Any) -> str:
    return "many" if isinstance(given, list) else "one"


OneOrMany = Annotated[
    Annotated[TaskIn, Tag("one")]
    | Annotated[list[TaskIn], Field(min_length=1, max_length=BULK), Tag("many")],
    Discriminator(_one_or_many),
]


class NewTask(BaseModel):
    """`spider` and its arguments, in `args` or as further fields."""

    model_config = ConfigDict(extra="allow", strict=True)

    spider: SpiderName
    args: dict[str, Any] | None = None
    priority: Priority = 0


class Retry(StrictInput):
    """The failed requests that run again; all of the task when none are given."""

    rids: (
        Annotated[list[Annotated[UUID, Field(strict=False)]], Field(min_length=1, max_length=BULK)]
        | None
    ) = None


Outcome = Literal["finished", "finished_with_errors", "failed", "cancelled"]


class TrapOut(BaseModel):
    """URLs of one form, many of which bring nothing new."""

    template: str = Field(description="stands for all its URLs, such as a.example/calendar/{n}/{n}")
    pages: int = Field(description="fetched of it, about")
    contents: int = Field(description="how many of them were different, about")


class TaskLimitsIn(StrictInput):
    """The limits that change; the others stay."""

    delay: Annotated[float, Field(ge=0, le=MAX_DELAY)] | Literal["auto"] | None = Field(
        None, description="seconds between two requests to a host; auto: as each host can take"
    )
    concurrency: Annotated[int, Field(ge=1, le=MAX_CONCURRENCY)] | None = Field(
        None, description="requests in flight per host"
    )
    page_limit: Annotated[int, Field(ge=0, le=MAX_PAGES)] | None = Field(
        None, description="0: none. Links left out before stay left out"
    )


class WaitOut(BaseModel):
    """The reason why nothing of a task is fetched now."""

    why: str = Field(description=f"in one word: {', '.join(RULES)}")
    until: datetime | None = Field(description="null: until a person acts")
    host: str = Field(description="the host that is next")


class LayerOut(BaseModel):
    """A layer of a task that is crawled one depth after the other."""

    number: int = Field(description="depth of its pages; 0: yielded by start")
    state: Literal["done", "present", "waiting"]
    pages: int = Field(description="requests that are done; in layer 0 with the run of start")
    errors: int
    excluded: int
    cancelled: int
    items: int
    found: int | None = Field(
        description="requests of the next layer, as far as its pages have led to them; null: not "
        "known yet"
    )
    left: int = Field(description="requests of it that have not ended")
    ended_at: datetime | None


class TaskOut(BaseModel):
    """A task with its current numbers. If it is active and `live` is false, Redis does not know it
    yet, or is unreachable."""

    id: int
    spider: str
    state: str = Field(
        description="running, paused, cancelling, finished or cancelled; see `outcome`"
    )
    outcome: Outcome | None = Field(description="how it ended; null while it has not")
    reason: str = Field(description="why it has this outcome, in a sentence")
    arguments: dict[str, Any] = Field(description="with ******** for each secret")
    priority: int
    settings: dict[str, Any] = Field(description="settings in place of its spider's")
    reparse: dict[str, Any] | None = Field(
        description="the kept pages that it parses in place of a site; null: it fetches"
    )
    limits: dict[str, Any] = Field(description="as its spider was published, or changed since")
    labels: dict[str, str]
    created_at: datetime
    finished_at: datetime | None
    closing: str = Field(
        description="why its spider or one of its limits closed it; empty if none did"
    )
    user: str | None = Field(description="the submitter")
    schedule: int | None = Field(description="id of the schedule that submitted it")
    robots: bool = Field(description="whether it obeys robots.txt")
    retries: int = Field(description="how often its failed requests were run again")
    live: bool
    na: int = Field(description="requests admitted")
    nf: int = Field(description="requests finished")
    ne: int = Field(description="requests that ended in an error, or were cancelled or excluded")
    cancelled: int = Field(description="requests in ne that ended because the task was cancelled")
    excluded: int = Field(description="requests in ne that politeness ended, as robots.txt asks")
    unwritten: int | None = Field(
        description="of a cancelled task: requests whose pages are still to be written; null: none"
    )
    nr: int = Field(description="requests remaining")
    items: int
    duplicates: int
    limited: int = Field(description="links left out because of the page limit")
    unfollowed: dict[str, int] = Field(description="links that were not followed, by setting")
    traps: list[TrapOut] = Field(description="possible traps, the largest first")
    ready: int
    delayed: int
    in_progress: int
    parked: int
    wait: WaitOut | None = Field(
        description="present while requests are ready and all their hosts are held up"
    )
    layers: list[LayerOut] = Field(
        description="the pages of each layer, if the setting `layers` is set; else empty"
    )
    starting: int | None = Field(
        description="requests that its start has yielded so far, if it yields many and still runs"
    )
    expected: int | None = Field(
        description="requests that it will have had in total; null while unknown, because links "
        "are still being found"
    )
    expected_basis: Literal["admitted", "last_run"] | None = Field(
        description="admitted: no further requests are expected, `expected` is `na`; last_run: an "
        "estimate, as many as the last run with the same arguments had"
    )
    stats: dict[str, int] = Field(
        description="counters of its spider, by name; `dropped/REASON`: items it dropped, or "
        "that do not fit its class of items"
    )
    maxima: dict[str, int | float] = Field(
        description="largest values its spider recorded, by name"
    )


class TasksOut(BaseModel):
    tasks: list[TaskOut]
    next: int | None = None


class RetriedOut(BaseModel):
    retried: int = Field(description="requests that run again")
    task: TaskOut


class ItemOut(BaseModel):
    id: int
    rid: UUID = Field(description="id of the request whose callback made it")
    ordinal: int = Field(description="its place among the items of that callback")
    data: Any
    version: str = Field(description="version of the code that made it")
    created_at: datetime


class ItemsOut(BaseModel):
    items: list[ItemOut]
    next: int | None


class PageOut(BaseModel):
    """A request that ended."""

    id: int
    rid: UUID
    url: str
    callback: str
    state: Literal["done", "error"]
    reason: str
    detail: str
    status: int | None
    depth: int
    attempts: int
    deliveries: int
    size: int
    fetch_ms: int
    items: int
    version: str
    created_at: datetime
    redirects: list[tuple[int, str]] | None = Field(
        description="status and URL of each redirect; `url` is the first one, which was requested"
    )
    usage: dict[str, Any] | None = Field(
        description="the page's declaration of its use: `yes` or `no` for search, ai-input, "
        "ai-train, tdm, index and follow, as far as it mentions them; `said`: source and words"
    )


class PagesOut(BaseModel):
    pages: list[PageOut]
    next: int | None


class LogLineOut(BaseModel):
    id: int
    at: datetime = Field(description="by the clock of the machine on which the spider ran")
    level: str = Field(description="DEBUG, INFO, WARNING, ERROR, CRITICAL or a level of its own")
    logger: str = Field(description="`stdout` and `stderr`: it was printed")
    rid: UUID | None = Field(description="id of the request that ran; null: none did")
    url: str = Field(description="of that request, `start:` and `end:` included")
    text: str = Field(description="with ******** for each secret argument")
    worker: str = Field(description="node and process, such as `crawl-2/4711`; empty: not known")


class LogOut(BaseModel):
    lines: list[LogLineOut]
    next: int | None
    dropped: int = Field(description="older lines that are not kept")


class NodeOut(BaseModel):
    """One life of a node. `state` is loading, live, checking, refused, leaving or offline;
    `condition` offline, leaving, loading, abnormal, busy or idle; `troubles`, in words, say why it
    is abnormal where `problem` and `pull_problem` do not. A node that died stays listed, offline
    since `since`, until it comes back or is forgotten."""

    node: str
    generation: int
    machine: str
    pid: int
    workers: int
    state: str
    version: str
    skew: bool
    candidate: str
    problem: str
    since: datetime | None
    seconds: float
    reloads: int
    follows: str
    pulled: str
    pull_problem: str
    condition: str
    troubles: list[str]
    holds: int
    given_back: int = Field(description="requests that it held when it died")
    share: float | None = Field(description="part of all hosts that prefer it; null: no affinity")


class NodesOut(BaseModel):
    nodes: list[NodeOut]
    unreadable: int = Field(description="rows of Redis that could not be read and were set aside")


class ScheduleOut(BaseModel):
    id: int
    name: str
    spider: str
    arguments: dict[str, Any] = Field(description="with ******** for each secret")
    priority: int
    settings: dict[str, Any] = Field(
        validation_alias=AliasChoices("overrides", "settings"),
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


class SchedulesOut(BaseModel):
    schedules: list[ScheduleOut]
    next: int | None


class RunOut(BaseModel):
    due_at: datetime
    outcome: str
    task: int | None
    task_outcome: Outcome | None = Field(description="how that task ended; null while it has not")
    problem: str


class ScheduleWithRuns(ScheduleOut):
    runs: list[RunOut] = Field(description="the latest ones")


class EraOut(BaseModel):
    number: int
    reason: str
    started_at: datetime
    opened_at: datetime | None


class ErasOut(BaseModel):
    eras: list[EraOut]
    next: int | None
