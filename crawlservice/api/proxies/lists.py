"""Proxy lists: list, add, read and delete the lists that the pool is filled from."""

from __future__ import annotations

from typing import Annotated, Any

from django.db import IntegrityError, transaction
from django.http import HttpRequest
from ninja import Body, Router, Status

from crawlservice.api.parts.auth import ApiRequest, Bearer
from crawlservice.api.parts.errors import READING, WRITING, ApiError
from crawlservice.api.parts.paging import After, Limit, oldest_first
from crawlservice.api.proxies.schemas import ProxyListIn, ProxyListOut, ProxyListsOut
from crawlservice.models import ProxySource
from crawlservice.proxies.entry import BadProxy, check_fields
from crawlservice.proxies.runs import begin
from crawlservice.proxies.sources import BadSource, check_every, sealed_place

router = Router(tags=["proxies"])

READ = Bearer("read", "view_proxysource")
ADD = Bearer("operate", "add_proxysource")
CHANGE = Bearer("operate", "change_proxysource")
DELETE = Bearer("operate", "delete_proxysource")


@router.get("/proxy-lists", auth=READ, response={200: ProxyListsOut, **READING})
def list_proxy_lists(
    request: HttpRequest, after: After = None, limit: Limit = 100
) -> ProxyListsOut:
    """The lists, without their addresses and arguments."""
    found, following = oldest_first(ProxySource.objects.all(), after, limit)
    return ProxyListsOut(lists=[*map(_out, found)], next=following)


@router.post("/proxy-lists", auth=ADD, response={201: ProxyListOut, **WRITING})
def add_proxy_list(
    request: ApiRequest, body: Annotated[ProxyListIn, Body()]
) -> Status[ProxyListOut]:
    """Adds a list, which the leading node then reads: a URL, a path, or a spider that yields Proxy
    items."""
    if body.place and body.spider:
        raise ApiError(422, "invalid", "give place or spider, not both", "spider")
    if body.arguments and not body.spider:
        raise ApiError(422, "invalid", "arguments are those of a spider", "arguments")
    place: Any = body.place if not body.spider else body.arguments_text
    try:
        sealed = sealed_place(place, body.spider, body.every)
        check_every(body.every, body.spider)
        fields = check_fields(body.tier, body.tags, body.country, body.max_concurrency)
    except (BadSource, BadProxy) as error:
        field = "arguments" if body.spider and error.field == "place" else error.field
        raise ApiError(422, "invalid", str(error), field) from None
    row = ProxySource(
        name=body.name,
        sealed_place=sealed,
        spider=body.spider,
        every=body.every,
        tier=fields["tier"],
        tags=" ".join(fields["tags"]),
        country=fields["country"],
        max_concurrency=fields["most"],
        enabled=body.enabled,
    )
    begin(row)
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError:
        raise ApiError(409, "exists", f"there is a list {body.name!r}", "name") from None
    request.auth.record("add proxy list", id=row.pk, name=row.name)
    return Status(201, _out(row))


@router.post("/proxy-lists/{number}/read", auth=CHANGE, response={200: ProxyListOut, **WRITING})
def read_proxy_list(request: ApiRequest, number: int) -> ProxyListOut:
    """The leading node reads it now, or starts its spider."""
    row = _found(number)
    if not row.every:
        message = f"the spider {row.spider} has a schedule of its own; run that, or submit a task"
        raise ApiError(409, "wrong_state", message)
    row.next_at = None
    row.save(update_fields=["next_at"])
    request.auth.record("read proxy list", id=number, name=row.name)
    return _out(row)


@router.delete("/proxy-lists/{number}", auth=DELETE, response={204: None, **WRITING})
def delete_proxy_list(request: ApiRequest, number: int) -> Status[None]:
    """Its proxies leave the pool."""
    row = _found(number)
    row.delete()
    request.auth.record("delete proxy list", id=number, name=row.name)
    return Status(204, None)


def _found(number: int) -> ProxySource:
    row = ProxySource.objects.filter(pk=number).first() if 0 < number < 1 << 63 else None
    if row is None:
        raise ApiError(404, "unknown_proxy_list", f"there is no proxy list {number}")
    return row


def _out(row: ProxySource) -> ProxyListOut:
    columns: dict[str, Any] = {name: getattr(row, name, None) for name in ProxyListOut.model_fields}
    return ProxyListOut(**{**columns, "tags": row.tags.split()})
