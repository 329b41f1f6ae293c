"""Alerts in the admin: the list, and acknowledging and silencing several at once; the page of one
with its problem, the people notified, and the actions on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from crawlservice.accounts.journal import by
from crawlservice.admin.parts.filters import filter_by
from crawlservice.admin.parts.keyset import row_number
from crawlservice.admin.parts.lookups import column
from crawlservice.admin.parts.owned import Owned, OwnerFilter
from crawlservice.admin.parts.pages import POST, may, page, to, to_row, whole_page
from crawlservice.admin.parts.read_only import OwnPage
from crawlservice.alerts import dashboard_summary, state, wording
from crawlservice.alerts.condition import conditions
from crawlservice.connections import clock
from crawlservice.display import badge, moment
from crawlservice.models import OPEN, Action, Alert, AlertMessage, Severity

HOURS = (1, 4, 8, 24, 72)  # for which an alert can be silenced on its page
MAX_DECISIONS = 10  # decisions and messages shown
MAX_SEARCHED = 500  # latest decisions and messages among which those about this one are looked for
VERBS = ("acknowledge alert", "silence alert", "reopen alert")
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
class AlertAdmin(Owned, OwnPage):
    list_display = (
        "id", "shown_severity", "sentence", "owner", "shown_state", "began", "over", "who",
    )  # fmt: skip
    list_display_links = ("id",)
    list_filter = (AlertStateFilter, KindFilter, "severity", OwnerFilter)
    list_select_related = ("acknowledged_by",)
    actions = ("acknowledge", "silence_1", "silence_8", "silence_24", "reopen")

    def has_handle_permission(self, request: HttpRequest) -> bool:
        return may(request, "handle_alert")

    def row_page(self, request: HttpRequest, pk: str) -> HttpResponse:
        rows = Alert.objects.select_related("acknowledged_by")
        alert = get_object_or_404(rows, pk=row_number(pk))
        return whole_page(
            *(request, "alert", wording.title_of(alert.kind)),
            alert=alert,
            sentence=wording.sentence(alert),
            place=wording.place(alert),
            severity=severity_badge(alert.severity),
            state=state.word(alert, clock.now()),
            badge=state_badge(alert),
            hours=HOURS,
            unit=_unit(alert),
            sent=_messages(alert) if may(request, "view_alertmessage") else [],
            journal=_journal(alert) if may(request, "view_action") else [],
            opts=self.opts,
            is_fullwidth="",
        )

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


@page("crawlservice/alert/<int:pk>/decide/", "crawlservice_alert_decide", "handle_alert", POST)
def decide(request: HttpRequest, pk: int) -> HttpResponse:
    """Acknowledges, silences or reopens an alert."""
    alert = get_object_or_404(Alert, pk=pk)
    who = by(request)
    match request.POST.get("verb"):
        case "acknowledge":
            done = state.acknowledge([pk], who)
        case "silence" if request.POST.get("hours") in {*map(str, HOURS)}:
            done = state.silence([pk], int(request.POST["hours"]), clock.now(), who)
        case "reopen":
            done = state.withdraw([pk], who)
        case _:
            raise PermissionDenied
    tell(request, done)
    return to("index") if request.POST.get("from") == "dashboard" else to_row(alert)


@page(
    "crawlservice/alert/of/<slug:kind>/acknowledge/",
    *("crawlservice_alert_acknowledge_kind", "handle_alert", POST),
)
def acknowledge_kind(request: HttpRequest, kind: str) -> HttpResponse:
    """Acknowledges all open alerts of a condition."""
    numbers = Alert.objects.filter(OPEN, kind=kind, acknowledged_at=None)
    found = [*numbers.values_list("pk", flat=True)[: dashboard_summary.LOOKED_AT]]
    tell(request, state.acknowledge(found, by(request)))
    return to("index")


def tell(request: HttpRequest, number: int) -> None:
    """Says how many alerts a decision has changed."""
    dashboard_summary.snapshot.clear()
    messages.success(request, _("Alerts changed: %d") % number)


def _unit(alert: Alert) -> str:
    kind = conditions().get(alert.kind)
    return str(kind.threshold.unit) if kind and kind.threshold else ""


def _messages(alert: Alert) -> list[AlertMessage]:
    """The latest messages about the alert."""
    rows = AlertMessage.objects.filter(kind=alert.kind, created_at__gte=alert.opened_at)
    rows = rows.select_related("target", "rule").order_by("-pk")
    return [row for row in rows[:MAX_SEARCHED] if alert.pk in _told(row)][:MAX_DECISIONS]


def _told(message: AlertMessage) -> set[int]:
    content = message.content if isinstance(message.content, dict) else {}
    return {*content.get("numbers", ())}


def _journal(alert: Alert) -> list[Action]:
    rows = Action.objects.filter(verb__in=VERBS, at__gte=alert.opened_at).select_related("user")
    latest = rows.order_by("-pk")[:MAX_SEARCHED]
    return [row for row in latest if row.detail.get("alert") == alert.pk][:MAX_DECISIONS]
