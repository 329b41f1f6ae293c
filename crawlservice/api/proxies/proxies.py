"""Proxies: list, add, change, check and delete those of the pool."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Body, Query, Router, Status

from crawlservice.api.parts.auth import ApiRequest, Bearer
from crawlservice.api.parts.errors import READING, WRITING, ApiError
from crawlservice.api.parts.paging import After, Limit, oldest_first
from crawlservice.api.proxies.schemas import (
    ProxiesAdded,
    ProxiesIn,
    ProxiesOut,
    ProxyChange,
    ProxyOut,
)
from crawlservice.models import Proxy
from crawlservice.proxies.entry import check_fields, read_entry, store
from crawlservice.proxies.use import problems

router = Router(tags=["proxies"])

READ = Bearer("read", "view_proxy")
ADD = Bearer("operate", "add_proxy")
CHANGE = Bearer("operate", "change_proxy")
DELETE = Bearer("operate", "delete_proxy")


@router.get("/proxies", auth=READ, response={200: ProxiesOut, **READING})
def list_proxies(
    request: HttpRequest,
    state: Annotated[str | None, Query(pattern="^(new|working|failed)$")] = None,
    after: After = None,
    limit: Limit = 100,
) -> ProxiesOut:
    """The proxies of the pool, without their credentials."""
    rows = Proxy.objects.filter(state=state) if state else Proxy.objects.all()
    found, following = oldest_first(rows, after, limit)
    return ProxiesOut(proxies=_out(found), next=following)


@router.post("/proxies", auth=ADD, response={201: ProxiesAdded, **WRITING})
def add_proxies(request: ApiRequest, body: Annotated[ProxiesIn, Body()]) -> Status[ProxiesAdded]:
    """Adds proxies, or changes those that are there; they are used when a node has checked them.
    If one is wrong, none is added."""
    fields = {
        "tier": body.tier,
        "tags": body.tags,
        "country": body.country,
        "most": body.max_concurrency,
    }
    entries = [read_entry(text, **fields) for text in body.proxies]  # type: ignore[arg-type]
    done = store(entries)
    request.auth.record("import proxies", new=done.new, changed=done.changed)
    known = done.changed + done.unchanged
    return Status(201, ProxiesAdded(new=done.new, known=known, changed=done.changed))


@router.patch("/proxies/{number}", auth=CHANGE, response={200: ProxyOut, **WRITING})
def change_proxy(
    request: ApiRequest, number: int, body: Annotated[ProxyChange, Body()]
) -> ProxyOut:
    """Changes what is said of a proxy; nodes notice within seconds."""
    row = _found(number)
    given = body.model_dump(exclude_none=True)
    tags = given.get("tags", row.tags.split())
    checked = check_fields(
        given.get("tier", row.tier),
        tags,
        given.get("country", row.country),
        given.get("max_concurrency", row.max_concurrency),
    )
    row.tier, row.country = checked["tier"], checked["country"]
    row.tags, row.max_concurrency = " ".join(checked["tags"]), checked["most"]
    row.enabled = given.get("enabled", row.enabled)
    row.save()
    request.auth.record("change proxy", id=number, name=row.url, fields=[*given])
    return _out([row])[0]


@router.post("/proxies/{number}/check", auth=CHANGE, response={200: ProxyOut, **WRITING})
def check_proxy(request: ApiRequest, number: int) -> ProxyOut:
    """The leading node checks it, and it is not used until then."""
    row = _found(number)
    row.state, row.check_at = Proxy.State.NEW, None
    row.save(update_fields=["state", "check_at"])
    request.auth.record("check proxy", id=number, name=row.url)
    return _out([row])[0]


@router.delete("/proxies/{number}", auth=DELETE, response={204: None, **WRITING})
def delete_proxy(request: ApiRequest, number: int) -> Status[None]:
    """Nodes stop using it within seconds."""
    row = _found(number)
    url = row.url
    row.delete()
    request.auth.record("delete proxy", id=number, name=url)
    return Status(204, None)


def _found(number: int) -> Proxy:
    row = Proxy.objects.filter(pk=number).first() if 0 < number < 1 << 63 else None
    if row is None:
        raise ApiError(404, "unknown_proxy", f"there is no proxy {number}")
    return row


def _out(rows: list[Proxy]) -> list[ProxyOut]:
    known = problems(rows)
    found = []
    for row in rows:
        columns: dict[str, Any] = {
            name: getattr(row, name, None) for name in ProxyOut.model_fields if name != "login"
        }
        columns |= {"tags": row.tags.split(), "problem": known[row.pk]}
        found.append(ProxyOut(**columns, login=bool(row.sealed_login)))
    return found
