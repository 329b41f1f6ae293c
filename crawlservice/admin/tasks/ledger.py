"""Requests that ended, events and eras in the admin. The page of a request has its exchange with
the site, its outcome, its saved files, and its retry."""

from __future__ import annotations

import shlex
from collections import defaultdict
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from crawlframe.base.program import command
from crawlframe.errors import CrawlframeError, StoreError
from crawlservice.accounts.roles import may_steer, may_submit
from crawlservice.admin.parts.filters import (
    Created,
    RecentGroup,
    RecentLabel,
    RecentReason,
    RecentSpider,
    RecentTask,
    recent_version,
)
from crawlservice.admin.parts.keyset import row_number
from crawlservice.admin.parts.lookups import column
from crawlservice.admin.parts.pages import POST, page, to, whole_page
from crawlservice.admin.parts.read_only import ReadOnly, UrlRows
from crawlservice.admin.parts.steering import retry_some
from crawlservice.display import moment, page_link, readable, reason_words, state_badge
from crawlservice.files import download
from crawlservice.models import (
    Era,
    ErrorGroup,
    Event,
    KeptPage,
    Page,
    PageFile,
    ReplacedItem,
    Task,
)

MAX_REPLACED = 50  # items on the page of a request


@admin.register(Page)
class PageAdmin(UrlRows):
    list_display = (
        "id", "task_number", "shown_state", "shown_reason", "status", "short_url", "fetch_ms",
        "deliveries", "shown_items", "shown_labels", "version", "created",
    )  # fmt: skip
    list_filter = (
        "state", RecentReason, RecentGroup, recent_version(Page), RecentSpider, RecentTask,
        RecentLabel, Created,
    )  # fmt: skip
    slow_filters = ("reason", "version")
    actions = ("retry",)
    deferred = ("follow_ups", "request", "detail", "exchange")

    shown_state = column(state_badge, _("state"), "state")
    shown_reason = column(reason_words, _("reason"), "reason")

    def row_page(self, request: HttpRequest, pk: str) -> HttpResponse:
        row = _row(pk)
        failed = row.state == Page.State.ERROR
        steers = may_steer(request.user, row.task)
        files = [*PageFile.objects.select_related("file").filter(rid=row.rid)]
        return whole_page(
            *(request, "request", _("Request")),
            opts=self.opts,
            page=row,
            task=row.task,
            failed=failed,
            files=[one for one in files if one.kind not in download.SHOWN],
            pictures=[one for one in files if one.kind in download.SHOWN],
            group=_group(row),
            kept=KeptPage.objects.filter(rid=row.rid).only("pk").first(),
            replaced=_replaced(request, row),
            shell=shell_command(row.url, row.task.spider),
            may_retry=failed and steers and row.task.state not in Task.ACTIVE,
            wait_for_end=failed and steers and row.task.state in Task.ACTIVE,
        )

    @admin.display(description=_("items"))
    def shown_items(self, page: Page) -> SafeString | str:
        return page_link(page.items, "item_changelist", rid=page.rid) if page.items else "0"

    def has_steer_permission(self, request: HttpRequest) -> bool:
        return may_submit(request.user) or super().has_steer_permission(request)

    @admin.action(description=_("Retry selected errors"), permissions=["steer"])
    def retry(self, request: HttpRequest, pages: QuerySet[Page]) -> None:
        chosen: defaultdict[int, list[UUID]] = defaultdict(list)
        failed = pages.filter(state=Page.State.ERROR).order_by()
        for pk, rid in failed.values_list("task", "rid"):
            chosen[pk].append(rid)
        if not chosen:
            self.message_user(
                request, str(_("None of the selected pages is an error.")), messages.WARNING
            )
        for task in Task.objects.defer("seeds").filter(pk__in=chosen):
            try:
                self.message_user(request, retry_some(request, task, chosen[task.pk]))
            except (CrawlframeError, PermissionDenied) as error:
                self.message_user(request, f"{task}: {error}", messages.ERROR)


@page("crawlservice/page/<int:pk>/files/<slug:sha256>/", "crawlservice_page_file", "view_page")
def saved_file(request: HttpRequest, pk: int, sha256: str) -> HttpResponseBase:
    """The download of a file that the request has saved."""
    rows = PageFile.objects.select_related("file").filter(rid=_row(pk).rid)
    found = get_object_or_404(rows, file=sha256)
    try:
        return download.answer(found)
    except StoreError as error:
        messages.error(request, str(error))
        return to("crawlservice_page_change", pk)


@page(
    "crawlservice/page/<int:pk>/pictures/<slug:sha256>/", "crawlservice_page_picture", "view_page"
)
def picture(request: HttpRequest, pk: int, sha256: str) -> HttpResponseBase:
    """A picture that the browser took of the page."""
    return picture_of(PageFile.objects.filter(rid=_row(pk).rid, kind__in=download.SHOWN), sha256)


def picture_of(rows: QuerySet[PageFile], sha256: str) -> HttpResponseBase:
    """Raises Http404, also for a file that is no picture."""
    try:
        shown = download.picture(get_object_or_404(rows.select_related("file"), file=sha256))
    except StoreError as error:
        raise Http404(str(error)) from None
    if shown is None:
        raise Http404("no picture")
    return shown


@page("crawlservice/page/<int:pk>/retry/", "crawlservice_page_retry", methods=POST)
def retry(request: HttpRequest, pk: int) -> HttpResponse:
    """Runs this request again; then its row is gone."""
    row = _row(pk)
    try:
        messages.success(request, retry_some(request, row.task, [row.rid]))
    except CrawlframeError as error:
        messages.error(request, str(error))
        return to("crawlservice_page_change", pk)
    return to("crawlservice_task_change", row.task_id)


def shell_command(url: str, spider: str) -> str:
    """The command that opens a URL in a prompt, as the spider would fetch it; "" if it has none."""
    if not url.startswith(("http://", "https://")):
        return ""
    return command(f"fetch --shell {shlex.quote(url)} --spider {shlex.quote(spider)}")


def _group(row: Page) -> ErrorGroup | None:
    if row.error_group is None:
        return None
    return ErrorGroup.objects.filter(pk=row.error_group).first()


def _replaced(request: HttpRequest, row: Page) -> list[ReplacedItem]:
    """The newest of its items in whose place others were stored, if the user may see items."""
    if not request.user.has_perm("crawlservice.view_item"):
        return []
    return [*ReplacedItem.objects.filter(rid=row.rid).order_by("-pk")[:MAX_REPLACED]]


def _row(pk: int | str) -> Page:
    rows = Page.objects.select_related("task").defer("follow_ups", "request", "task__seeds")
    return get_object_or_404(rows, pk=row_number(pk))


# Of ends, whose outcome says more.
END_KINDS = {Event.Kind.FINISHED, Event.Kind.FAILED, Event.Kind.CANCELLED}


@admin.register(Event)
class EventAdmin(ReadOnly):
    list_display = (
        "id", "task_number", "schedule", "node", "host", "shown_kind", "shown_reason", "created",
        "delivered",
    )  # fmt: skip
    list_filter = ("kind", "outcome", RecentTask, Created)
    list_select_related = ("schedule",)
    fields = (
        "task_number", "schedule", "node", "host", "shown_detail", "shown_kind", "shown_reason",
        "created_at", "delivered_at",
    )  # fmt: skip

    shown_reason = column(reason_words, _("reason"), "reason")

    @admin.display(description=_("detail"))
    def shown_detail(self, event: Event) -> SafeString | str:
        return readable(event.detail) if event.detail else "-"

    @admin.display(description=_("kind"))
    def shown_kind(self, event: Event) -> SafeString:
        is_end = event.kind in END_KINDS
        return state_badge((is_end and event.outcome) or event.kind)

    delivered = column(moment, _("delivered"), "delivered_at")


@admin.register(Era)
class EraAdmin(ReadOnly):
    list_display = ("number", "shown_reason", "started", "opened")

    shown_reason = column(reason_words, _("reason"), "reason")
    started = column(moment, _("started"), "started_at")
    opened = column(moment, _("opened"), "opened_at")
