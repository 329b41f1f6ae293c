"""Messages of alerts in the admin: what was sent to whom, and what did not arrive."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from crawlservice.admin.parts.columns import column
from crawlservice.admin.parts.outbox_rows import OutboxRows, filter_of
from crawlservice.alerts.outbox import OUTBOX, send_again
from crawlservice.display import laid_out, moment
from crawlservice.models import AlertMessage


@admin.register(AlertMessage)
class MessageAdmin(OutboxRows):
    outbox = OUTBOX
    steers = "crawlservice.change_alertrule"
    list_display = (
        "id", "target", "title", "state", "attempts", "next_try", "sent", "problem", "created",
    )  # fmt: skip
    list_filter = (filter_of(OUTBOX), "target")
    list_select_related = ("target", "rule")
    fields = (
        "target", "rule", "title", "shown_text", "state", "attempts", "next_try", "sent",
        "problem", "reply", "created",
    )  # fmt: skip
    readonly_fields = fields

    def resend(self, row: AlertMessage) -> dict[str, Any]:
        send_again(row)
        return {"verb": "send again alert message", "target": row.target.name, "message": row.pk}

    shown_text = column(laid_out, "text", _("text"))
    sent = column(moment, "sent_at", _("sent"))
