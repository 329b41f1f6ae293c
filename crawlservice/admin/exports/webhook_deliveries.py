"""Deliveries in the admin: what was sent to webhooks, and what did not arrive."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from crawlservice.admin.parts.columns import column
from crawlservice.admin.parts.outbox_rows import OutboxRows, filter_of
from crawlservice.display import moment, task_link
from crawlservice.models import Delivery
from crawlservice.webhooks.deliveries import OUTBOX


@admin.register(Delivery)
class DeliveryAdmin(OutboxRows):
    outbox = OUTBOX
    steers = "crawlservice.change_webhook"
    list_display = (
        "id", "webhook", "kind", "shown_task", "state", "attempts", "next_try", "delivered",
        "problem",
    )  # fmt: skip
    list_filter = (filter_of(OUTBOX), "webhook")
    list_select_related = ("webhook", "event")
    fields = (
        "webhook", "kind", "shown_task", "state", "attempts", "next_try", "delivered", "problem",
    )  # fmt: skip

    def resend(self, row: Delivery) -> dict[str, Any]:
        OUTBOX.send_again(row)
        return {"verb": "send again", "webhook": row.webhook.name, "delivery": row.pk}

    @admin.display(description=_("event"))
    def kind(self, delivery: Delivery) -> str:
        return f"evt_{delivery.event_id}: {delivery.event.get_kind_display()}"

    shown_task = column(task_link, "event.task_id", _("task"))
    delivered = column(moment, "delivered_at", _("delivered"))
