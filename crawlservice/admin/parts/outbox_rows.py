"""OutboxRows: the list of the messages of an outbox, with their states, to be sent again."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from crawlservice.accounts.journal import by, record
from crawlservice.admin.parts.columns import column
from crawlservice.admin.parts.created import state_filter
from crawlservice.admin.parts.read_only import ReadOnly
from crawlservice.display import badge, moment
from crawlservice.outbox.outbox import Outbox

STATES = {
    "waiting": (_("waiting"), "muted"),
    "retrying": (_("retrying"), "warn"),
    "sent": (_("sent"), "good"),
    "failed": (_("given up"), "bad"),
}


def filter_of(outbox: Outbox[Any]) -> type[admin.SimpleListFilter]:
    """The filter of a list by the states of an outbox."""
    return state_filter({name: (STATES[name][0], rows) for name, rows in outbox.states.items()})


class OutboxRows(ReadOnly):
    """``steers``: the right to send again."""

    outbox: ClassVar[Outbox[Any]]
    steers: ClassVar[str]
    actions = ("send_again",)

    def has_send_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(self.steers)

    def resend(self, row: Any) -> dict[str, Any]:
        """Sends one again. Returns the facts for the journal."""
        raise NotImplementedError

    @admin.display(description=_("state"))
    def state(self, row: Any) -> SafeString:
        return badge(*STATES[self.outbox.state(row)])

    next_try = column(moment, _("next attempt"), "next_at")

    @admin.action(description=_("Send again"), permissions=["send"])
    def send_again(self, request: HttpRequest, chosen: QuerySet[Any]) -> None:
        for row in chosen:
            record(**by(request), **self.resend(row))
        text = _("messages to be sent again: %d") % len(chosen)
        self.message_user(request, text, messages.SUCCESS)
