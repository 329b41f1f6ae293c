"""Previews: what versions of the code do to the data of kept pages; and the decisions of operators
about versions that lose some."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Path, Query, Status
from pydantic import Field

from crawlservice.api.parts.auth import ApiRequest, Bearer
from crawlservice.api.parts.errors import Operations
from crawlservice.api.parts.paging import TEXT, After, Id, Limit, newest_first, page_of
from crawlservice.api.parts.schemas import Output, StrictInput
from crawlservice.models import PreviewReport
from crawlservice.preview import orders
from crawlservice.preview.result import LIVE, VALUES
from crawlservice.rollouts import decisions

router = Operations(tags=["cluster"])
READ = Bearer("read", "view_previewreport")
ORDER = Bearer("operate", "add_previewreport")
DECIDE = Bearer("operate", "forget_generation")
Version = Annotated[str, Path(min_length=1, max_length=100, pattern=TEXT)]
Text = Annotated[str, Field(min_length=1, max_length=orders.TEXT, pattern=TEXT)]
VersionIs = Annotated[str, Query(min_length=1, max_length=100, pattern=TEXT)]


class PreviewIn(StrictInput):
    """The revisions to be compared, as git names them."""

    revision: Text = Field(description="a branch, tag or commit that the checkout of a node has")
    against: Text = Field(LIVE, description="another one; `live`: the commit that the nodes run")
    spiders: list[Text] = Field(
        [], max_length=orders.PATTERNS,
        description="names, with * for other characters; empty: all spiders whose code differs",
    )  # fmt: skip
    pages: int = Field(orders.PAGES, ge=1, le=orders.MOST_PAGES, description="of each spider")
    node: str = Field("", max_length=100, pattern=TEXT, description="only by this node")


class PreviewOut(Output):
    """The number of pages that two versions were run over, and of the differences that are errors
    by the rules of the project."""

    id: int
    version: str
    against: str = Field(description="the version that it was compared with")
    state: Literal["waiting", "running", "done", "failed"]
    problem: str = Field(description="why it has failed")
    node: str
    user: str = Field(description="that has ordered it; empty: the node has tried the version")
    pages: int
    errors: int
    created_at: datetime


class PreviewReportOut(PreviewOut):
    """The same with the differences."""

    report: dict[str, Any] = Field(
        description=f"`rows`, by spider and part: {VALUES}, whether it `fails`, and `examples`: "
        "kind, before, after (null: no value), url, id of the kept page; `notes`; `untried`: "
        "spiders that are new or have no page; `more`: rows that are left out"
    )


@router.get("/previews", auth=READ, response=page_of("previews", PreviewOut))
def list_previews(
    request: HttpRequest, version: VersionIs | None = None, after: After = None, limit: Limit = 100
) -> dict[str, Any]:
    """The previews that are kept, the latest first."""
    rows = PreviewReport.objects.defer("report")
    if version is not None:
        rows = rows.filter(version=version)
    return newest_first("previews", rows, after, limit, lambda some: [*map(_settled, some)])


@router.post("/previews", auth=ORDER, response={201: PreviewReportOut})
def order_preview(request: ApiRequest, body: PreviewIn) -> Status[PreviewReport]:
    """Has a node with a git checkout run two revisions over kept pages. Nothing is fetched, and
    nothing is stored but the report."""
    caller = request.auth
    row = orders.order(**body.model_dump(), by=caller.user.get_username())
    caller.record("preview", preview=row.pk, **orders.given_of(row))
    return Status(201, PreviewReport.objects.get(pk=row.pk))


@router.get("/previews/{preview_id}", auth=READ, response=PreviewReportOut)
def show_preview(request: HttpRequest, preview_id: Id) -> PreviewReport:
    """One preview with its differences, as far as they are found."""
    return _settled(get_object_or_404(PreviewReport, pk=preview_id))


@router.post("/versions/{version}/accept", auth=DECIDE, response={200: list[str]})
def accept_version(request: ApiRequest, version: Version) -> list[str]:
    """Lets a version go live that nodes have refused because it loses data on kept pages. Returns
    their names."""
    names = decisions.accept(version, request.auth.user.get_username())
    request.auth.record("accept version", version=version)
    return names


@router.post("/versions/{version}/refuse", auth=DECIDE, response={200: list[str]})
def refuse_version(request: ApiRequest, version: Version) -> list[str]:
    """Decides that a version that nodes ask about does not go live; a newer one is tried anew.
    Returns their names."""
    names = decisions.refuse(version, request.auth.user.get_username())
    request.auth.record("refuse version", version=version)
    return names


def _settled(row: PreviewReport) -> PreviewReport:
    orders.settle(row)
    return row
