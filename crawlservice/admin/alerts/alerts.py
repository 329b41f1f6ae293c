"""Alerts in the admin: the list, and acknowledging and silencing several at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from crawlservice.accounts.journal import by
from crawlservice.admin.alerts import page as alertpage
from crawlservice.admin.alerts.page import tell
from crawlservice.admin.parts.columns import column
from crawlservice.admin.parts.created import filter_by
from crawlservice.admin.parts.own_page import OwnPage, RowPage
from crawlservice.alerts import dashboard_summary, state, wording
from crawlservice.alerts.condition import conditions
from crawlservice.connections import clock
from crawlservice.display import badge, moment
from crawlservice.models import OPEN, Alert, Severity

WORDS = {
    "open": (_("open"), "bad"),
    "acknowledged": (_("acknowledged"), "primary"),
    "silenced": (_("silenced"), "muted"),
    "resolved": (_("resolved"), "good"),
}


def _in_state(rows: QuerySet[Alert], word: str) -> QuerySet[Alert]:
    silenced = Q(silenced_until__gt=clock.now())
    acknowledged = Q(acknowledged_at__isnull=False)
    found = {
        "open": (OPEN, ~silenced, ~acknowledged),
        "acknowledged": (OPEN, ~silenced, acknowledged),
        "silenced": (OPEN, silenced),
        "resolved": (~OPEN,),
    }
    return rows.filter(*found.get(word, ()))


AlertStateFilter = filter_by(
    *(_("state"), "state", lambda: ((word, text) for word, (text, _tone) in WORDS.items())),
    _in_state,
)


KindFilter = filter_by(
    *(_("condition"), "kind"),
    lambda: ((kind.name, kind.title) for kind in conditions().values()),
    lambda rows, name: rows.filter(kind=name),
)


def state_badge(alert: Alert) -> SafeString:
    return badge(*WORDS[state.word(alert, clock.now())])


def severity_badge(severity: int) -> SafeString:
    known = Severity(severity)
    return badge(known.label, dashboard_summary.TONES[known])


def _silencing(title: Any, hours: int) -> Callable[..., None]:
    @admin.action(description=title, permissions=["handle"])
    def run(self: Any, request: HttpRequest, chosen: QuerySet[Alert]) -> None:
        tell(request, state.silence(_numbers(chosen), hours, clock.now(), by(request)))

    return run


@admin.register(Alert)
class AlertAdmin(OwnPage):
    row_page: ClassVar[RowPage] = alertpage
    list_display = ("id", "shown_severity", "sentence", "shown_state", "began", "over", "who")
    list_display_links = ("id",)
    list_filter = (AlertStateFilter, KindFilter, "severity")
    list_select_related = ("acknowledged_by",)
    actions = ("acknowledge", "silence_1", "silence_8", "silence_24", "reopen")

    def has_handle_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("crawlservice.handle_alert")

    shown_severity = column(severity_badge, _("severity"), "severity")

    @admin.display(description=_("what"))
    def sentence(self, alert: Alert) -> SafeString:
        place, text = wording.place(alert), wording.sentence(alert)
        return format_html('<a class="cf-link cf-code" href="{}">{}</a>', place, text)

    shown_state = column(state_badge, _("state"))
    began = column(moment, _("since"), "since")
    over = column(moment, _("resolved"), "resolved_at")

    @admin.display(description=_("acknowledged by"))
    def who(self, alert: Alert) -> str:
        return alert.acknowledged_by.get_username() if alert.acknowledged_by else "-"

    # -- actions ----------------------------------------------------------------------------------

    @admin.action(description=_("Acknowledge"), permissions=["handle"])
    def acknowledge(self, request: HttpRequest, chosen: QuerySet[Alert]) -> None:
        tell(request, state.acknowledge(_numbers(chosen), by(request)))

    silence_1 = _silencing(_("Silence for 1 hour"), 1)
    silence_8 = _silencing(_("Silence for 8 hours"), 8)
    silence_24 = _silencing(_("Silence for 24 hours"), 24)

    @admin.action(description=_("Take back acknowledgement and silence"), permissions=["handle"])
    def reopen(self, request: HttpRequest, chosen: QuerySet[Alert]) -> None:
        tell(request, state.withdraw(_numbers(chosen), by(request)))


def _numbers(chosen: QuerySet[Alert]) -> list[int]:
    return [*chosen.values_list("pk", flat=True)]
