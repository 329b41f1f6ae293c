"""Errors in the admin: grouped over all tasks, the page of a group, and retries of many errors."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from crawlframe.errors import CrawlframeError
from crawlframe.items.encode import clean_text
from crawlservice.accounts.journal import by
from crawlservice.admin.parts.filters import moment_of
from crawlservice.admin.parts.keyset import row_number
from crawlservice.admin.parts.pages import FORM, POST, STOP, live, may, page, to, whole_page
from crawlservice.connections.lookup import NotFound
from crawlservice.models import SPIDER, BulkRetry, KeptPage
from crawlservice.models.error import REASON
from crawlservice.tasks import bulk_retry
from crawlservice.tasks.bulk_retry import WantedErrors
from crawlservice.tasks.results import error_groups

SPANS = {
    "hour": (gettext_lazy("Last hour"), timedelta(hours=1)),
    "day": (gettext_lazy("Last day"), timedelta(days=1)),
    "week": (gettext_lazy("Last week"), timedelta(days=7)),
    "all": (gettext_lazy("All"), None),
}
USUAL = "week"
FIRST_YEAR, LAST_YEAR = 1971, 2199  # of times that are read
RETRIES = 5  # latest bulk retries shown


def may_retry(request: HttpRequest) -> bool:
    """Whether the user may retry the errors of many tasks: the right to control the tasks of
    others."""
    return may(request, "steer_task")


@page("errors/", "errors", "view_page")
def index(request: HttpRequest) -> HttpResponse:
    given = request.GET
    span = given.get("span", USUAL)
    _title, length = SPANS.get(span, SPANS[USUAL])
    spider, reason = _text(given, "spider", SPIDER), _text(given, "reason", REASON)
    since = timezone.now() - length if length else None
    found = error_groups.latest(spider=spider, reason=reason, since=since)
    latest = BulkRetry.objects.select_related("user").defer("tasks")[:RETRIES]
    return whole_page(
        *(request, "errors", _("Errors")),
        found=found,
        groups=found.groups,
        spider=spider,
        reason=reason,
        reasons=error_groups.reasons(spider),
        spans=[(name, title, name == span) for name, (title, _length) in SPANS.items()],
        most=error_groups.MAX_GROUPS,
        shown=error_groups.PAGE_GROUPS,
        retries=latest,
        retry_query=urlencode(_given(spider, reason, None, since)),
        may_retry=may_retry(request),
    )


@page("errors/<int:pk>/", "error_group", "view_page")
def group_page(request: HttpRequest, pk: int) -> HttpResponse:
    """One group, with its latest example."""
    try:
        group = error_groups.one(pk)
    except NotFound as error:
        messages.warning(request, str(error))
        return to("errors")
    return whole_page(
        *(request, "error_group", _("Errors of {spider}").format(spider=group.row.spider)),
        group=group,
        versions=error_groups.versions(pk),
        kept=KeptPage.objects.filter(rid=group.example.rid).only("pk").first(),
        retry_query=urlencode(_given(group.row.spider, "", pk, None)),
        may_retry=may_retry(request),
    )


@page("errors/retry/", "errors_retry", "steer_task", FORM)
def retry_page(request: HttpRequest) -> HttpResponse:
    """Shows how much would be retried; POST starts it."""
    given = request.POST if request.method == "POST" else request.GET
    since = moment_of(given.get("since"))
    if since is not None and not FIRST_YEAR <= since.year <= LAST_YEAR:
        since = None
    group = row_number(given.get("group"))
    spider, reason = _text(given, "spider", SPIDER), _text(given, "reason", REASON)
    wanted = WantedErrors(spider, reason, group, since)
    problem, extent = "", None
    if given.get("since") and since is None:
        problem = _("The time is wrong: give one such as 2026-01-31T18:00.")
    elif request.method == "POST":
        try:
            row = bulk_retry.start(wanted, by(request))
            return to("bulk_retry", row.pk)
        except CrawlframeError as error:
            problem = str(error)
    elif wanted.spider:
        try:
            extent = bulk_retry.extent(wanted)
        except CrawlframeError as error:
            problem = str(error)
    return whole_page(
        *(request, "errors_retry", _("Retry errors")),
        wanted=wanted,
        since=given.get("since", ""),
        group=given.get("group", ""),
        reasons=error_groups.reasons(wanted.spider) if wanted.spider else (),
        extent=extent,
        problem=problem,
        is_fullwidth="",
    )


@page("errors/retries/<int:pk>/", "bulk_retry", "view_page")
def progress_page(request: HttpRequest, pk: int) -> HttpResponse:
    row = _retry(pk)
    return whole_page(
        *(request, "bulk_retry"),
        _("Retry {number} of {spider}").format(number=row.pk, spider=row.spider),
        **_progress(request, row),
        is_fullwidth="",
    )


@live("errors/retries/<int:pk>/now/", "bulk_retry_now", "view_page")
def progress_now(request: HttpRequest, pk: int) -> HttpResponse:
    """The fragment with its progress."""
    row = _retry(pk)
    status = 200 if row.state == BulkRetry.State.RUNNING else STOP
    name = "admin/crawlservice/_bulk_retry.html"
    return TemplateResponse(request, name, _progress(request, row), status=status)


@page("errors/retries/<int:pk>/stop/", "bulk_retry_stop", "steer_task", POST)
def stop(request: HttpRequest, pk: int) -> HttpResponse:
    try:
        bulk_retry.stop(pk, by(request))
    except NotFound:
        raise Http404 from None
    except CrawlframeError as error:
        messages.error(request, str(error))
    return to("bulk_retry", pk)


def _progress(request: HttpRequest, row: BulkRetry) -> dict[str, Any]:
    done = row.position
    return {
        "row": row,
        "running": row.state == BulkRetry.State.RUNNING,
        "done": done,
        "percent": round(100 * done / max(1, row.all_tasks), 1),
        "may_retry": may_retry(request),
    }


def _retry(pk: int) -> BulkRetry:
    return get_object_or_404(BulkRetry.objects.select_related("user"), pk=pk)


def _text(given: Any, name: str, size: int) -> str:
    """The typed text, in a form that databases accept."""
    return clean_text(given.get(name, ""))[:size]


def _given(spider: str, reason: str, group: int | None, since: Any) -> dict[str, Any]:
    """The filters that are set, as parameters of the page of retries."""
    given = {"spider": spider, "reason": reason, "group": group}
    given["since"] = since.strftime("%Y-%m-%dT%H:%M") if since else None
    return {name: value for name, value in given.items() if value}
