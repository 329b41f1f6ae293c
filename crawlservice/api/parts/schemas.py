"""Schemas of the API. Input is strict: no field is converted from a value of another type, and
unknown fields are refused."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from ninja import Schema
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    ModelWrapValidatorHandler,
    Tag,
    model_validator,
)

from crawlframe.proxies.place import host_in
from crawlframe.request.request import MAX_TASK_PRIORITY
from crawlservice.hosts.rules import RULES
from crawlservice.hosts.states import moment
from crawlservice.models import LABEL_NAME, LABEL_VALUE, LABELS, SPIDER
from crawlservice.tasks.limits import MAX_CONCURRENCY, MAX_DELAY, MAX_PAGES
from crawlservice.tasks.progress.log import level_name

BULK = 1000  # maximum tasks of one submission, or requests of one retry
Priority = Annotated[int, Field(ge=-MAX_TASK_PRIORITY, le=MAX_TASK_PRIORITY)]
SpiderName = Annotated[str, Field(min_length=1, max_length=SPIDER)]
LABELLED = f'`{{"domain": "news"}}`: up to {LABELS} names with values, for searches of tasks'
LabelName = Annotated[str, Field(pattern=rf"^[A-Za-z0-9._-]{{1,{LABEL_NAME}}}$")]
LabelValue = Annotated[str, Field(min_length=1, max_length=LABEL_VALUE)]
Labels = Annotated[dict[LabelName, LabelValue], Field(max_length=LABELS)]
# The name of a related row.
NameOf = Annotated[str, BeforeValidator(str)]
Named = Annotated[str | None, BeforeValidator(lambda row: row and str(row))]


class Output(Schema):
    """Output, made of a row of the database or of a mapping."""

    @model_validator(mode="wrap")
    @classmethod
    def _make(cls, given: Any, make: ModelWrapValidatorHandler[Self]) -> Self:
        return given if isinstance(given, cls) else make(given)


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


OneOrMany = Annotated[
    Annotated[TaskIn, Tag("one")]
    | Annotated[list[TaskIn], Field(min_length=1, max_length=BULK), Tag("many")],
    Discriminator(lambda given: "many" if isinstance(given, list) else "one"),
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
OutcomeNow = Annotated[Outcome | None, BeforeValidator(lambda outcome: outcome or None)]


class TrapOut(Output):
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


class WaitOut(Output):
    """The reason why nothing of a task is fetched now."""

    why: str = Field(description=f"in one word: {', '.join(RULES)}")
    until: Annotated[datetime | None, BeforeValidator(moment)] = Field(
        description="null: until a person acts"
    )
    host: Annotated[str, BeforeValidator(host_in)] = Field(description="the host that is next")


class LayerOut(Output):
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


class TaskOut(Output):
    """A task with its current numbers. If it is active and `live` is false, Redis does not know it
    yet, or is unreachable."""

    id: int
    spider: str
    state: str = Field(
        description="running, paused, cancelling, finished or cancelled; see `outcome`"
    )
    outcome: OutcomeNow = Field(description="how it ended; null while it has not")
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
    user: Named = Field(description="the submitter")
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


class TasksOut(Output):
    tasks: list[TaskOut]
    next: int | None = None


class RetriedOut(Output):
    retried: int = Field(description="requests that run again")
    task: TaskOut


class ItemOut(Output):
    id: int
    rid: UUID = Field(description="id of the request whose callback made it")
    ordinal: int = Field(description="its place among the items of that callback")
    data: Any
    version: str = Field(description="version of the code that made it")
    created_at: datetime


class PageOut(Output):
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


class LogLineOut(Output):
    id: int
    at: datetime = Field(description="by the clock of the machine on which the spider ran")
    level: Annotated[str, BeforeValidator(level_name)] = Field(
        description="DEBUG, INFO, WARNING, ERROR, CRITICAL or a level of its own"
    )
    logger: str = Field(description="`stdout` and `stderr`: it was printed")
    rid: UUID | None = Field(description="id of the request that ran; null: none did")
    url: str = Field(description="of that request, `start:` and `end:` included")
    text: str = Field(description="with ******** for each secret argument")
    worker: str = Field(description="node and process, such as `crawl-2/4711`; empty: not known")
