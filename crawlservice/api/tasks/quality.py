"""The quality of a run: its findings, and their acceptance."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from crawlservice.api.parts.auth import ApiRequest, Bearer, Caller
from crawlservice.api.parts.errors import ApiError, Operations
from crawlservice.api.parts.paging import Id
from crawlservice.api.parts.schemas import OutcomeNow, Output
from crawlservice.api.tasks.tasks import STEER, load_task, steered
from crawlservice.models import Finding, Profile
from crawlservice.quality import deviation
from crawlservice.quality.wording import sentence_of


class FindingExampleOut(Output):
    item: int | None = Field(description="null: the page itself is the example")
    rid: UUID
    url: str
    value: Any = Field(description="of the field; of a page, the reason of its error")


class FindingOut(Output):
    text: str
    source: Literal["expectation", "monitor"] = Field(
        description="the author's expectation, or the values of earlier runs"
    )
    monitor: str = Field(description="such as items, filled or errors")
    field: str = Field(description="empty: it is about the run")
    subject: str = Field(description="such as a status, a section of the site, or a value")
    unit: Literal["share", "count", "seconds", "chars", "number"]
    low: float | None = Field(description="expected at least")
    high: float | None = Field(description="expected at most")
    usual: float | None = Field(description="the median of the good runs")
    seen: float
    runs: int = Field(description="good runs that it was compared with")
    since: datetime | None = Field(description="null: since the start of the run")
    version: str = Field(description="code that ran when it was found")
    last_good: int | None = Field(description="the last good task")
    good_version: str = Field(description="code that ran most of it")
    accepted_at: datetime | None
    found_at: datetime = Field(validation_alias="created_at")
    examples: list[FindingExampleOut] = Field(description="empty without the right to see items")

    @staticmethod
    def resolve_text(finding: Finding) -> str:
        return sentence_of(finding)


class QualityOut(Output):
    task: int
    outcome: OutcomeNow
    judged: bool = Field(description="whether the end of the task was judged")
    good: bool = Field(description="whether later runs are compared with it")
    expect: dict[str, Any] | None = Field(description="the author's expectations")
    coverage: dict[str, float] = Field(description="by field, the share of items with a value")
    findings: list[FindingOut]


router = Operations(tags=["tasks"])


@router.get("/tasks/{task_id}/quality", auth=Bearer("read", "view_task"), response=QualityOut)
def show_quality(request: ApiRequest, task_id: Id) -> dict[str, Any]:
    """The quality of the run: deviations from its author's expectations, or from the last good
    runs. While the task runs, more may be found."""
    return _quality(task_id, request.auth)


@router.post("/tasks/{task_id}/quality/accept", auth=STEER, response=QualityOut)
def accept_quality(request: ApiRequest, task_id: Id) -> dict[str, Any]:
    """Accepts the findings: the run counts as good, and later runs are compared with it and its
    successors, no longer with earlier runs."""
    caller, task = steered(request, task_id)
    try:
        count = deviation.accept(task_id)
    except deviation.NothingFound as error:
        raise ApiError(409, "wrong_state", str(error)) from None
    caller.record("accept quality", task, findings=count)
    return _quality(task_id, caller)


def _quality(task_id: int, caller: Caller) -> dict[str, Any]:
    task = load_task(task_id)
    profile = Profile.objects.filter(task=task_id).defer("content").first()
    findings = deviation.of_task(task_id)
    if not caller.user.has_perm("crawlservice.view_item"):
        for finding in findings:
            finding.examples = []
    return {
        "task": task_id,
        "outcome": task.outcome,
        "judged": profile is not None and profile.judged,
        "good": profile is not None and profile.good,
        "expect": task.expect,
        "coverage": profile.coverage if profile else {},
        "findings": findings,
    }
