"""Previews: what versions of the code do to the data of kept pages; and the decisions of operators
about versions that lose some."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Path, Query
from pydantic import Field

from crawlservice.api.parts.auth import ApiRequest, Bearer
from crawlservice.api.parts.errors import Operations
from crawlservice.api.parts.paging import TEXT, After, Id, Limit, newest_first, page_of
from crawlservice.api.parts.schemas import Output
from crawlservice.models import PreviewReport
from crawlservice.preview.result import VALUES
from crawlservice.rollouts import decisions

router = Operations(tags=["cluster"])
READ = Bearer("read", "view_previewreport")
DECIDE = Bearer("operate", "forget_generation")
Version = Annotated[str, Path(min_length=1, max_length=100, pattern=TEXT)]
VersionIs = Annotated[str, Query(min_length=1, max_length=100, pattern=TEXT)]


class PreviewOut(Output):
    """The number of pages that two versions were run over, and of the differences that are errors
    by the rules of the project."""

    id: int
    version: str
    against: str = Field(description="the version that it was compared with")
    node: str
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
    return newest_first("previews", rows, after, limit)


@router.get("/previews/{preview_id}", auth=READ, response=PreviewReportOut)
def show_preview(request: HttpRequest, preview_id: Id) -> PreviewReport:
    """One preview with its differences."""
    return get_object_or_404(PreviewReport, pk=preview_id)


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
