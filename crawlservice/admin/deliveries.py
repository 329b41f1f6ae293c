"""Deliveries in the admin: what was sent to webhooks, and what did not arrive."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display

from crawlservice.admin.readonly import ReadOnly
from crawlservice.admin.runs import task_link
from crawlservice.journal import by, record
from crawlservice.models import Delivery
from crawlservice.webhooks import send_again

STATES = {
    "waiting": (_("waiting"), Q(delivered_at=None, next_at__isnull=False)),
    "arrived": (_("arrived"), Q(delivered_at__isnull=False)),
    "given up": (_("given up"), Q(delivered_at=None, next_at=None)),
}
COLOURS = {"arrived": "success", "waiting": "info", "trying again": "warning", "given up": "danger"}


class StateFilter(admin.SimpleListFilter):
    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [(name, title) for name, (title, _rows) in STATES.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = STATES.get(self.value() or "")
        return queryset.filter(chosen[1]) if chosen else queryset


@admin.register(Delivery)
class DeliveryAdmin(ReadOnly):
    list_display = (
        "id", "webhook", "kind", "shown_task", "state", "attempts", "next_at", "delivered_at",
        "problem",
    )  # fmt: skip
    list_filter = (StateFilter, "webhook")
    list_select_related = ("webhook", "event")
    fields = (
        "webhook", "kind", "shown_task", "state", "attempts", "next_at", "delivered_at", "problem",
    )  # fmt: skip
    actions = ("send_again",)

    def has_send_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("crawlservice.change_webhook")

    @admin.display(description=_("event"))
    def kind(self, delivery: Delivery) -> str:
        return f"evt_{delivery.event_id}: {delivery.event.get_kind_display()}"

    @admin.display(description=_("task"))
    def shown_task(self, delivery: Delivery) -> SafeString | str:
        return task_link(delivery.event.task_id)

    @display(description=_("state"), label=COLOURS)
    def state(self, delivery: Delivery) -> tuple[str, str]:
        if delivery.delivered_at is not None:
            return "arrived", gettext("arrived")
        if delivery.next_at is None:
            return "given up", gettext("given up")
        if delivery.problem:
            return "trying again", gettext("trying again")
        return "waiting", gettext("waiting")

    @admin.action(description=_("Send again"), permissions=["send"])
    def send_again(self, request: HttpRequest, chosen: QuerySet[Delivery]) -> None:
        sent = 0
        for delivery in chosen.select_related("webhook"):
            send_again(delivery)
            record("send again", **by(request), webhook=delivery.webhook.name, delivery=delivery.pk)
            sent += 1
        self.message_user(request, _("to be sent again: %d") % sent, messages.SUCCESS)
