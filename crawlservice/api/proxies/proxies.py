"""Proxies of the pool: list, add, change, check and delete."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from django.db import IntegrityError, transaction
from django.http import HttpRequest
from ninja import Query, Status
from pydantic import BeforeValidator, Field

from crawlservice.api.parts.auth import ApiRequest, rights_on
from crawlservice.api.parts.errors import ApiError, Operations, invalid
from crawlservice.api.parts.paging import TEXT, After, Limit, oldest_first, page_of
from crawlservice.api.parts.schemas import Output, StrictInput
from crawlservice.connections.lookup import find
from crawlservice.models import Proxy, ProxySource
from crawlservice.proxies.entry import BadProxy, check_fields, read_entry, store
from crawlservice.proxies.runs import begin
from crawlservice.proxies.sources import BadSource, check_every, sealed_place
from crawlservice.proxies.use import problems

READ_LISTS, ADD_LIST, CHANGE_LIST, DELETE_LIST = rights_on("proxysource")
MAX_PROXIES = 1_000  # proxies added by one call
Words = Annotated[list[str], BeforeValidator(str.split)]
router = Operations(tags=["proxies"])
READ, ADD, CHANGE, DELETE = rights_on("proxy")


class ProxyFields(StrictInput):
    """Fields of proxies. `tier`: the lowest that works for a host is used."""

    tier: int = 0
    tags: Annotated[list[str], Field(max_length=20)] = []
    country: Annotated[str, Field(max_length=2)] = ""
    max_concurrency: int = 0


class ProxiesIn(ProxyFields):
    """Proxies for the pool, each as `scheme://user:password@host:port`. Credentials are stored
    encrypted and never returned."""

    proxies: Annotated[list[Annotated[str, Field(max_length=1000)]], Field(max_length=MAX_PROXIES)]


class ProxyChange(StrictInput):
    """The fields to change; the rest stays."""

    tier: int | None = None
    tags: Annotated[list[str], Field(max_length=20)] | None = None
    country: Annotated[str, Field(max_length=2)] | None = None
    max_concurrency: int | None = None
    enabled: bool | None = None


class ProxyOut(Output):
    """A proxy of the pool. `login`: whether it has credentials."""

    id: int
    url: str
    login: Annotated[bool, BeforeValidator(bool)] = Field(validation_alias="sealed_login")
    tier: int
    tags: Words
    country: str
    max_concurrency: int
    enabled: bool
    state: Literal["new", "working", "failed"]
    problem: str
    latency_ms: int | None
    checked_at: datetime | None


class ProxyListIn(ProxyFields):
    """A list of proxies. `place`: its URL, or a path that all nodes have. `spider`: one that yields
    Proxy items, in place of it, with these `arguments`. `every`: seconds between two reads; 0: the
    spider has a schedule of its own. Address and arguments are stored encrypted and never
    returned."""

    name: Annotated[str, Field(min_length=1, max_length=100, pattern=TEXT)]
    place: Annotated[str, Field(max_length=2000, pattern=TEXT)] = ""
    spider: Annotated[str, Field(max_length=100, pattern=TEXT)] = ""
    arguments: dict[str, Any] = {}
    every: int = 3600
    enabled: bool = True


class ProxyListOut(Output):
    """A list of proxies. `found`: how many it has in the pool; `problem`: of the last read, or why
    the last task of its spider is not complete; `run`: the latest task that was started for it."""

    id: int
    name: str
    spider: str
    every: int
    tier: int
    tags: Words
    country: str
    max_concurrency: int
    enabled: bool
    found: int
    problem: str
    run: int
    read_at: datetime | None
    next_at: datetime | None


class ProxiesAdded(Output):
    """The numbers of new proxies, of known ones, and of changed ones among these."""

    new: int
    known: int
    changed: int


@router.get("/proxies", auth=READ, response=page_of("proxies", ProxyOut))
def list_proxies(
    request: HttpRequest,
    state: Annotated[str | None, Query(pattern="^(new|working|failed)$")] = None,
    after: After = None,
    limit: Limit = 100,
) -> dict[str, Any]:
    """The proxies of the pool, without their credentials."""
    rows = Proxy.objects.filter(state=state) if state else Proxy.objects.all()
    return oldest_first("proxies", rows, after, limit, _with_problems)


@router.post("/proxies", auth=ADD, response={201: ProxiesAdded})
def add_proxies(request: ApiRequest, body: ProxiesIn) -> Status[ProxiesAdded]:
    """Adds proxies, or changes existing ones; they are used when a node has checked them. If one
    is wrong, none is added."""
    fields = body.model_dump(include={"tier", "tags", "country", "max_concurrency"})
    done = store([read_entry(text, **fields) for text in body.proxies])
    request.auth.record("import proxies", new=done.new, changed=done.changed)
    known = done.changed + done.unchanged
    return Status(201, ProxiesAdded(new=done.new, known=known, changed=done.changed))


@router.patch("/proxies/{number}", auth=CHANGE, response=ProxyOut)
def change_proxy(request: ApiRequest, number: int, body: ProxyChange) -> Proxy:
    """Changes fields of a proxy; nodes notice within seconds."""
    row = _found(number)
    given = body.model_dump(exclude_none=True)
    tags = given.get("tags", row.tags.split())
    checked = check_fields(
        given.get("tier", row.tier),
        tags,
        given.get("country", row.country),
        given.get("max_concurrency", row.max_concurrency),
    )
    for name, value in checked.items():
        setattr(row, name, value)
    row.enabled = given.get("enabled", row.enabled)
    row.save()
    request.auth.record("change proxy", id=number, name=row.url, fields=[*given])
    return _with_problems([row])[0]


@router.post("/proxies/{number}/check", auth=CHANGE, response=ProxyOut)
def check_proxy(request: ApiRequest, number: int) -> Proxy:
    """The leading node checks it, and it is not used until then."""
    row = _found(number)
    row.state, row.check_at = Proxy.State.NEW, None
    row.save(update_fields=["state", "check_at"])
    request.auth.record("check proxy", id=number, name=row.url)
    return _with_problems([row])[0]


@router.delete("/proxies/{number}", auth=DELETE, response={204: None})
def delete_proxy(request: ApiRequest, number: int) -> Status[None]:
    """Nodes stop using it within seconds."""
    row = _found(number)
    url = row.url
    row.delete()
    request.auth.record("delete proxy", id=number, name=url)
    return Status(204, None)


def _found(number: int) -> Proxy:
    return find(Proxy.objects.all(), "proxy", number)


def _with_problems(rows: Sequence[Proxy]) -> Sequence[Proxy]:
    known = problems(rows)
    for row in rows:
        row.problem = known[row.pk]
    return rows


@router.get("/proxy-lists", auth=READ_LISTS, response=page_of("lists", ProxyListOut))
def list_proxy_lists(
    request: HttpRequest, after: After = None, limit: Limit = 100
) -> dict[str, Any]:
    """The lists, without their addresses and arguments."""
    return oldest_first("lists", ProxySource.objects.all(), after, limit)


@router.post("/proxy-lists", auth=ADD_LIST, response={201: ProxyListOut})
def add_proxy_list(request: ApiRequest, body: ProxyListIn) -> Status[ProxySource]:
    """Adds a list, which the leading node then reads: a URL, a path, or a spider that yields Proxy
    items."""
    if body.place and body.spider:
        raise invalid("spider", "give place or spider, not both")
    if body.arguments and not body.spider:
        raise invalid("arguments", "arguments belong to a spider")
    place: Any = body.place if not body.spider else json.dumps(body.arguments)
    try:
        sealed = sealed_place(place, body.spider, body.every)
        check_every(body.every, body.spider)
        fields = check_fields(body.tier, body.tags, body.country, body.max_concurrency)
    except (BadSource, BadProxy) as error:
        field = "arguments" if body.spider and error.field == "place" else error.field
        raise invalid(field, error) from None
    row = ProxySource(
        name=body.name,
        sealed_place=sealed,
        spider=body.spider,
        every=body.every,
        enabled=body.enabled,
        **fields,
    )
    begin(row)
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError:
        raise ApiError(409, "exists", f"there is a list {body.name!r}", "name") from None
    request.auth.record("add proxy list", id=row.pk, name=row.name)
    return Status(201, row)


@router.post("/proxy-lists/{number}/read", auth=CHANGE_LIST, response=ProxyListOut)
def read_proxy_list(request: ApiRequest, number: int) -> ProxySource:
    """The leading node reads it now, or starts its spider."""
    row = _found_list(number)
    if not row.every:
        message = f"the spider {row.spider} has a schedule of its own; run that, or submit a task"
        raise ApiError(409, "wrong_state", message)
    row.next_at = None
    row.save(update_fields=["next_at"])
    request.auth.record("read proxy list", id=number, name=row.name)
    return row


@router.delete("/proxy-lists/{number}", auth=DELETE_LIST, response={204: None})
def delete_proxy_list(request: ApiRequest, number: int) -> Status[None]:
    """Deletes a list; its proxies leave the pool."""
    row = _found_list(number)
    row.delete()
    request.auth.record("delete proxy list", id=number, name=row.name)
    return Status(204, None)


def _found_list(number: int) -> ProxySource:
    return find(ProxySource.objects.all(), "proxy list", number)
