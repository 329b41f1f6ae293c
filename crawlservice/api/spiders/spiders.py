"""Spiders that nodes published, or that only have tasks, with their last runs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Body, Path, Router
from pydantic import BaseModel, Field

from crawlframe.spider.setting_tables import nested
from crawlframe.spider.spider import SpiderInfo
from crawlservice.api.parts.auth import ApiRequest, Bearer
from crawlservice.api.parts.errors import READING, WRITING, ApiError
from crawlservice.api.parts.paging import TEXT
from crawlservice.api.parts.schemas import Outcome, StrictInput
from crawlservice.models import MAX_REASON, SPIDER, DisabledSpider, Task
from crawlservice.recipes.current import masked_headers
from crawlservice.tasks import spider_runs, spider_switch, submit


class DisableIn(StrictInput):
    """The reason why nothing may start the spider; all users see it."""

    reason: Annotated[str, Field(min_length=1, max_length=MAX_REASON, pattern=TEXT)]


class DisabledOut(BaseModel):
    reason: str
    user: str | None
    at: datetime


class LastRunOut(BaseModel):
    """The latest task of a spider. Numbers of one that has not ended are 0."""

    task: int
    state: str
    outcome: Outcome | None
    created_at: datetime
    finished_at: datetime | None
    items: int
    errors: int


class SpiderOut(BaseModel):
    name: str
    doc: str
    arguments: dict[str, Any] = Field(description="JSON schema")
    settings: dict[str, Any]
    published: bool = Field(description="whether a node that lives has it, or a recipe")
    disabled: DisabledOut | None = Field(description="null: it is enabled")
    last: LastRunOut | None = Field(description="null: it has never run")


class SpidersOut(BaseModel):
    spiders: list[SpiderOut]


router = Router(tags=["spiders"])

READ = Bearer("read", "view_task")
STEER = Bearer("operate", "steer_task")

Name = Annotated[str, Path(min_length=1, max_length=SPIDER, pattern=TEXT)]


@router.get("/spiders", auth=READ, response={200: SpidersOut, **READING})
def list_spiders(request: HttpRequest) -> SpidersOut:
    """All spiders, recipes included, by name."""
    known, now = submit.published_spiders(), submit.spiders()
    last, off = spider_runs.last_tasks(), spider_switch.disabled()
    names = sorted(known.keys() | last.keys() | off.keys())
    return SpidersOut(
        spiders=[
            serialized(name, known.get(name), name in now, off.get(name), last.get(name))
            for name in names
        ]
    )


@router.get("/spiders/{name}", auth=READ, response={200: SpiderOut, **READING})
def show_spider(request: HttpRequest, name: Name) -> SpiderOut:
    """One spider."""
    return _show(name)


@router.post("/spiders/{name}/disable", auth=STEER, response={200: SpiderOut, **WRITING})
def disable_spider(
    request: ApiRequest, name: Name, body: Annotated[DisableIn, Body()]
) -> SpiderOut:
    """Disables a spider: schedules skip it, submissions and retries are refused with the reason.
    Its running tasks continue."""
    caller = request.auth
    _show(name)
    spider_switch.disable(name, body.reason, caller.who)
    return _show(name)


@router.post("/spiders/{name}/enable", auth=STEER, response={200: SpiderOut, **WRITING})
def enable_spider(request: ApiRequest, name: Name) -> SpiderOut:
    """Lets it be started again."""
    caller = request.auth
    spider_switch.enable(name, caller.who)
    return _show(name)


def _show(name: str) -> SpiderOut:
    info, now = submit.published_spiders().get(name), submit.spiders()
    off = spider_switch.find(name)
    runs = Task.objects.filter(spider=name, reparse__isnull=True).defer("seeds")
    last = runs.order_by("-pk").first()
    if info is None and off is None and last is None:
        raise ApiError(404, "unknown_spider", "no node has published a spider of this name")
    return serialized(name, info, name in now, off, last)


def _disabled(off: DisabledSpider) -> DisabledOut:
    user = off.user.get_username() if off.user else None
    return DisabledOut(reason=off.reason, user=user, at=off.created_at)


def serialized(
    name: str,
    info: SpiderInfo | None,
    published: bool,
    off: DisabledSpider | None,
    last: Task | None,
) -> SpiderOut:
    settings = {} if info is None else masked_headers(nested(info.settings.by_part()))
    return SpiderOut(
        name=name,
        doc=info.doc if info else "",
        arguments=info.arguments if info else {},
        settings=settings,
        published=published,
        disabled=None if off is None else _disabled(off),
        last=last
        and LastRunOut(
            task=last.pk,
            state=last.state,
            outcome=last.outcome or None,  # type: ignore[arg-type]
            created_at=last.created_at,
            finished_at=last.finished_at,
            items=last.items,
            errors=last.errors,
        ),
    )
