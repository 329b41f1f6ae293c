"""Spiders, as nodes published them, with the JSON schemas of their arguments."""

from __future__ import annotations

import msgspec
from django.http import HttpRequest
from ninja import Router

from crawlframe.spider import SpiderInfo
from crawlservice.api.auth import Bearer
from crawlservice.api.errors import READING, ApiError
from crawlservice.api.schemas import SpiderOut, SpidersOut
from crawlservice.connections.frontier import frontier
from crawlservice.recipes.current import infos
from crawlservice.recipes.masking import masked_headers

router = Router(tags=["spiders"])

READ = Bearer("read", "view_task")


@router.get("/spiders", auth=READ, response={200: SpidersOut, **READING})
def list_spiders(request: HttpRequest) -> SpidersOut:
    """All spiders, recipes included."""
    known = infos() | frontier().spiders.all()
    return SpidersOut(spiders=[_out(known[name]) for name in sorted(known)])


@router.get("/spiders/{name}", auth=READ, response={200: SpiderOut, **READING})
def show_spider(request: HttpRequest, name: str) -> SpiderOut:
    """One spider."""
    info = (infos() | frontier().spiders.all()).get(name)
    if info is None:
        raise ApiError(404, "unknown_spider", "no node has published a spider of this name")
    return _out(info)


def _out(info: SpiderInfo) -> SpiderOut:
    return SpiderOut(
        name=info.name,
        doc=info.doc,
        arguments=info.arguments,
        settings={
            name: value
            for name, value in masked_headers(msgspec.structs.asdict(info.settings)).items()
            if value is not msgspec.UNSET
        },
    )
