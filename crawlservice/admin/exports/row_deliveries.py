"""Row deliveries in the admin: model items on their way to other databases, and the rows that those
refused."""

from __future__ import annotations

from django.conf import settings
from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from crawlservice.accounts.journal import by, record
from crawlservice.admin.parts.filters import filter_by, state_filter
from crawlservice.admin.parts.lookups import column
from crawlservice.admin.parts.read_only import ReadOnly
from crawlservice.databases.delivery import send_again
from crawlservice.display import badge, moment, page_link, task_link
from crawlservice.models import Page, RowDelivery

DeliveryState = state_filter(
    {"waiting": (_("waiting"), Q(refused=False)), "refused": (_("refused"), Q(refused=True))}
)
DatabaseFilter = filter_by(  # of the settings: those of all rows would have to be looked for
    *(_("database"), "database"),
    lambda: ((alias, alias) for alias in sorted({*settings.APP_DATABASES.values()})),
    lambda rows, alias: rows.filter(database=alias),
)


@admin.register(RowDelivery)
class RowDeliveryAdmin(ReadOnly):
    list_display = (
        "id", "database", "shown_rows", "shown_task", "state", "attempts", "tried", "problem",
        "created",
    )  # fmt: skip
    list_filter = (DeliveryState, DatabaseFilter)
    fields = (
        "database", "shown_rows", "shown_task", "shown_page", "version", "state", "attempts",
        "tried", "problem", "created",
    )  # fmt: skip
    actions = ("send_again", "drop")

    @admin.display(description=_("rows"))
    def shown_rows(self, delivery: RowDelivery) -> str:
        """Counts by model, such as ``3 stock.Part, 1 stock.Maker``."""
        names = [str(row.get("model", "")) for row in delivery.rows]
        return ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))

    shown_task = column(task_link, _("task"), "task")

    @admin.display(description=_("page"))
    def shown_page(self, delivery: RowDelivery) -> SafeString | str:
        page = Page.objects.filter(rid=delivery.page).only("url").first()
        return page_link(page.url, "page_change", page.pk) if page else str(delivery.page)

    @admin.display(description=_("state"))
    def state(self, delivery: RowDelivery) -> SafeString:
        if delivery.refused:
            return badge(_("refused"), "bad")
        return badge(_("retrying"), "warn") if delivery.problem else badge(_("waiting"), "muted")

    tried = column(moment, _("last attempt"), "tried_at")

    @admin.action(description=_("Send again"), permissions=["steer"])
    def send_again(self, request: HttpRequest, chosen: QuerySet[RowDelivery]) -> None:
        sent = [*chosen.filter(refused=True)]
        for delivery in sent:
            send_again(delivery)
            record("send rows again", **by(request), page=str(delivery.page))
        self.message_user(
            request, _("pages whose rows are sent again: %d") % len(sent), messages.SUCCESS
        )

    @admin.action(description=_("Drop: their rows are not stored there"), permissions=["steer"])
    def drop(self, request: HttpRequest, chosen: QuerySet[RowDelivery]) -> None:
        dropped = [*chosen]
        for delivery in dropped:
            delivery.delete()
            record("drop rows", **by(request), page=str(delivery.page))
        self.message_user(
            request, _("pages whose rows were dropped: %d") % len(dropped), messages.SUCCESS
        )
