"""Cases: list, show, acknowledge, close."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Query
from pydantic import Field

from crawlservice.api.parts.auth import ApiRequest, Bearer
from crawlservice.api.parts.errors import Operations
from crawlservice.api.parts.paging import TEXT, After, Id, Limit, OwnerIs, newest_first, page_of
from crawlservice.api.parts.schemas import Output
from crawlservice.cases import decisions
from crawlservice.cases.wording import described
from crawlservice.models import Case
from crawlservice.monitoring.owners import spiders_of

CauseWord = Literal[
    "commit", "redesign", "renamed", "moved", "challenge", "host_dead", "redirected", "locale",
    "empty", "blocked", "unknown",
]  # fmt: skip
StateWord = Literal["open", "acknowledged", "fixed", "closed"]
BlameWord = Literal["site", "commit", "we", "unknown"]
router = Operations(tags=["alerts"])
READ = Bearer("read", "view_case")
HANDLE = Bearer("operate", "handle_case")


class CaseExampleOut(Output):
    """A value before and now. The pages are numbers of kept pages; 0: there is none."""

    field: str
    url: str
    old_page: int
    new_page: int
    old: str
    new: str
    place: str = Field(description="where the old value stands now")


class ProvedExampleOut(Output):
    """A value that was known, and the one that is found on the new page; ``page``: a kept page."""

    page: int
    url: str
    known: str
    found: str


class ProposalOut(Output):
    """An expression that reads a lost field from the new pages, with its proof."""

    spider: str
    field: str
    expression: str
    code: str = Field(description="a line for a callback")
    line: str = Field(description="the field of a recipe; empty if the spider is none")
    right: int = Field(description="pages on which it reads the known value")
    of: int = Field(description="new pages whose value is known")
    alike: int = Field(description="other pages on which it reads one value of the same kind")
    others: int = Field(description="new pages whose value is not known")
    examples: list[ProvedExampleOut]


class CaseSpiderOut(Output):
    spider: str
    fields: list[str]
    first_task: int
    last_task: int
    last_good: int | None
    good_version: str
    version: str
    is_good: bool = Field(description="a later run was good")


class CaseOut(Output):
    """A cause of bad runs, of one or more spiders."""

    id: int
    text: str
    cause: CauseWord
    state: StateWord
    blame: BlameWord
    proof: list[str]
    host: str
    fields: list[str]
    version: str
    since: datetime
    first_task: int
    first_url: str
    spiders: list[CaseSpiderOut]
    owners: list[str] = Field(description="of its spiders")
    examples: list[CaseExampleOut]
    proposals: list[ProposalOut] = Field(description="of each spider and field the best first")
    earlier: int | None = Field(description="an earlier case with the same cause")
    link: str
    opened_at: datetime
    seen_at: datetime
    ended_at: datetime | None
    acknowledged_at: datetime | None
    acknowledged_by: str | None


@router.get("/cases", auth=READ, response=page_of("cases", CaseOut))
def list_cases(
    request: ApiRequest,
    ended: Annotated[bool, Query(description="also fixed and closed ones")] = False,
    cause: CauseWord | None = None,
    spider: Annotated[str | None, Query(max_length=100, pattern=TEXT)] = None,
    owner: OwnerIs | None = None,
    after: After = None,
    limit: Limit = 100,
) -> dict[str, Any]:
    """Cases that have not ended, the latest first."""
    rows: QuerySet[Case] = Case.objects.select_related("acknowledged_by")
    rows = rows if ended else rows.filter(Case.LIVE)
    rows = rows if cause is None else rows.filter(cause=cause)
    rows = rows if spider is None else rows.filter(spiders__spider=spider)
    if owner is not None:
        names = spiders_of(owner, request.auth.user)
        rows = rows.filter(spiders__spider__in=names).distinct()
    rows = rows.prefetch_related("spiders")
    return newest_first("cases", rows, after, limit, lambda some: [*map(described, some)])


@router.get("/cases/{case_id}", auth=READ, response=CaseOut)
def show_case(request: HttpRequest, case_id: Id) -> dict[str, Any]:
    """One case."""
    return described(decisions.get(case_id))


@router.post("/cases/{case_id}/acknowledge", auth=HANDLE, response=CaseOut)
def acknowledge_case(request: ApiRequest, case_id: Id) -> dict[str, Any]:
    """Acknowledges a case: its alert is not reported again."""
    decisions.get_live(case_id)
    decisions.acknowledge([case_id], request.auth.who)
    return described(decisions.get(case_id))


@router.post("/cases/{case_id}/close", auth=HANDLE, response=CaseOut)
def close_case(request: ApiRequest, case_id: Id) -> dict[str, Any]:
    """Closes a case. A later bad run opens another one."""
    decisions.get_live(case_id)
    decisions.close([case_id], request.auth.who)
    return described(decisions.get(case_id))
