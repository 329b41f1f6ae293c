"""Pages and events in the admin. Failed requests can be retried from here."""

from __future__ import annotations

from collections import defaultdict
from typing import ClassVar
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from crawlframe.errors import CrawlframeError
from crawlservice.accounts.roles import may_submit
from crawlservice.admin.parts.columns import column
from crawlservice.admin.parts.created import Created
from crawlservice.admin.parts.own_page import RowPage
from crawlservice.admin.parts.read_only import ReadOnly
from crawlservice.admin.parts.recent import (
    RecentGroup,
    RecentLabel,
    RecentReason,
    RecentSpider,
    RecentTask,
    RecentVersion,
)
from crawlservice.admin.parts.search import UrlRows
from crawlservice.admin.parts.steering import retry_some
from crawlservice.admin.tasks import request_page as requestpage
from crawlservice.display import moment, page_link, readable, reason_words, state_badge, task_link
from crawlservice.models import Era, Event, Page, Task


@admin.register(Page)
class PageAdmin(UrlRows):
    row_page: ClassVar[RowPage] = requestpage
    list_display = (
        "id", "task_number", "shown_state", "shown_reason", "status", "short_url", "fetch_ms",
        "deliveries", "shown_items", "shown_labels", "version", "created",
    )  # fmt: skip
    list_filter = (
        "state", RecentReason, RecentGroup, RecentVersion, RecentSpider, RecentTask, RecentLabel,
        Created,
    )  # fmt: skip
    slow_filters = ("reason", "version")
    actions = ("retry",)
    deferred = ("follow_ups", "request", "detail", "exchange")

    shown_state = column(state_badge, _("state"), "state")
    shown_reason = column(reason_words, _("reason"), "reason")

    @admin.display(description=_("items"))
    def shown_items(self, page: Page) -> SafeString | str:
        return page_link(page.items, "item_changelist", rid=page.rid) if page.items else "0"

    def has_steer_permission(self, request: HttpRequest) -> bool:
        return may_submit(request.user) or request.user.has_perm("crawlservice.steer_task")

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
    readonly_fields = fields

    task_number = column(task_link, _("task"), "task_id")
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
