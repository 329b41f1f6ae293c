"""Spiders that nodes published, or that only have tasks, with their last runs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Path
from pydantic import Field

from crawlframe.spider.setting_tables import nested
from crawlframe.spider.spider import SpiderInfo
from crawlservice.api.parts.auth import ApiRequest, Bearer
from crawlservice.api.parts.errors import ApiError, Operations
from crawlservice.api.parts.paging import TEXT, OwnerIs, list_of
from crawlservice.api.parts.schemas import Named, OutcomeNow, Output, StrictInput
from crawlservice.models import MAX_REASON, SPIDER, DisabledSpider, Task
from crawlservice.monitoring.owners import spiders_of
from crawlservice.recipes.current import masked_headers
from crawlservice.tasks import spider_runs, spider_switch, submit


class DisableIn(StrictInput):
    """The reason why nothing may start the spider; all users see it."""

    reason: Annotated[str, Field(min_length=1, max_length=MAX_REASON, pattern=TEXT)]


class DisabledOut(Output):
    reason: str
    user: Named
    at: datetime = Field(validation_alias="created_at")


class LastRunOut(Output):
    """The latest task of a spider. Numbers of one that has not ended are 0."""

    task: int = Field(validation_alias="id")
    state: str
    outcome: OutcomeNow
    created_at: datetime
    finished_at: datetime | None
    items: int
    errors: int


class SpiderOut(Output):
    name: str
    doc: str
    arguments: dict[str, Any] = Field(description="JSON schema")
    settings: dict[str, Any]
    published: bool = Field(description="whether a node that lives has it, or a recipe")
    disabled: DisabledOut | None = Field(description="null: it is enabled")
    last: LastRunOut | None = Field(description="null: it has never run")
    owners: list[str] = Field(description="people and teams, by the file OWNERS of its project")


router = Operations(tags=["spiders"])

READ = Bearer("read", "view_task")
STEER = Bearer("operate", "steer_task")

Name = Annotated[str, Path(min_length=1, max_length=SPIDER, pattern=TEXT)]


@router.get("/spiders", auth=READ, response=list_of("spiders", SpiderOut))
def list_spiders(request: ApiRequest, owner: OwnerIs | None = None) -> dict[str, Any]:
    """All spiders, recipes included, by name."""
    known, now = submit.published_spiders(), submit.spiders()
    last, off = spider_runs.last_tasks(), spider_switch.disabled()
    names = sorted(known.keys() | last.keys() | off.keys())
    its = {*spiders_of(owner, request.auth.user)} if owner is not None else ()
    spiders = [
        serialized(name, known.get(name), name in now, off.get(name), last.get(name))
        for name in names
        if owner is None or name in its
    ]
    return {"spiders": spiders}


@router.get("/spiders/{name}", auth=READ, response=SpiderOut)
def show_spider(request: HttpRequest, name: Name) -> SpiderOut:
    """One spider."""
    return _show(name)


@router.post("/spiders/{name}/disable", auth=STEER, response=SpiderOut)
def disable_spider(request: ApiRequest, name: Name, body: DisableIn) -> SpiderOut:
    """Disables a spider: schedules skip it, submissions and retries are refused with the reason.
    Its running tasks continue."""
    _show(name)
    spider_switch.disable(name, body.reason, request.auth.who)
    return _show(name)


@router.post("/spiders/{name}/enable", auth=STEER, response=SpiderOut)
def enable_spider(request: ApiRequest, name: Name) -> SpiderOut:
    """Lets it be started again."""
    spider_switch.enable(name, request.auth.who)
    return _show(name)


def _show(name: str) -> SpiderOut:
    info, now = submit.published_spiders().get(name), submit.spiders()
    off = spider_switch.find(name)
    runs = Task.objects.filter(spider=name, reparse__isnull=True).defer("seeds")
    last = runs.order_by("-pk").first()
    if info is None and off is None and last is None:
        raise ApiError(404, "unknown_spider", "no node has published a spider of this name")
    return serialized(name, info, name in now, off, last)


def serialized(
    name: str,
    info: SpiderInfo | None,
    published: bool,
    off: DisabledSpider | None,
    last: Task | None,
) -> SpiderOut:
    settings = {} if info is None else masked_headers(nested(info.settings.by_part()))
    return SpiderOut.model_validate(
        {
            "name": name,
            "doc": info.doc if info else "",
            "arguments": info.arguments if info else {},
            "settings": settings,
            "published": published,
            "disabled": off,
            "last": last,
            "owners": info.owners if info else (),
        }
    )
