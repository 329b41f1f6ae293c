"""Messages of alerts in the admin: what was sent to whom, and what did not arrive."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from crawlservice.accounts.journal import by, record
from crawlservice.admin.readonly import ReadOnly
from crawlservice.alerts.outbox import UNSENT, send_again, word
from crawlservice.display import badge, laid_out, moment
from crawlservice.models import AlertMessage

WORDS = {
    "waiting": (_("waiting"), "muted"),
    "retrying": (_("retrying"), "warn"),
    "sent": (_("sent"), "good"),
    "failed": (_("given up"), "bad"),
}


class StateFilter(admin.SimpleListFilter):
    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [(name, text) for name, (text, _tone) in WORDS.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = UNSENT.get(self.value() or "")
        if self.value() == "sent":
            return queryset.filter(sent_at__isnull=False)
        return queryset.filter(chosen) if chosen is not None else queryset


@admin.register(AlertMessage)
class MessageAdmin(ReadOnly):
    list_display = (
        "id", "target", "title", "state", "attempts", "next_try", "sent", "problem", "created",
    )  # fmt: skip
    list_filter = (StateFilter, "target")
    list_select_related = ("target", "rule")
    fields = (
        "target", "rule", "title", "shown_text", "state", "attempts", "next_try", "sent",
        "problem", "reply", "created",
    )  # fmt: skip
    readonly_fields = fields
    actions = ("send_again",)

    def has_send_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("crawlservice.change_alertrule")

    @admin.display(description=_("text"))
    def shown_text(self, message: AlertMessage) -> SafeString:
        return laid_out(message.text)

    @admin.display(description=_("state"))
    def state(self, message: AlertMessage) -> SafeString:
        return badge(*WORDS[word(message)])

    @admin.display(description=_("next attempt"))
    def next_try(self, message: AlertMessage) -> SafeString | str:
        return moment(message.next_at)

    @admin.display(description=_("sent"))
    def sent(self, message: AlertMessage) -> SafeString | str:
        return moment(message.sent_at)

    @admin.action(description=_("Send again"), permissions=["send"])
    def send_again(self, request: HttpRequest, chosen: QuerySet[AlertMessage]) -> None:
        sent = 0
        for message in chosen.select_related("target"):
            send_again(message)
            name = message.target.name
            record("send again alert message", **by(request), target=name, message=message.pk)
            sent += 1
        self.message_user(request, _("messages to be sent again: %d") % sent, messages.SUCCESS)
