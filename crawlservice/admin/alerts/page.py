"""The page of one alert: its problem, the people notified, and the actions on it."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from crawlservice.accounts.journal import by
from crawlservice.admin.parts.keyset import row_number
from crawlservice.admin.parts.whole_page import whole_page
from crawlservice.alerts import dashboard_summary, state, wording
from crawlservice.alerts.condition import conditions
from crawlservice.connections import clock
from crawlservice.models import OPEN, Action, Alert, AlertMessage, Severity

HOURS = (1, 4, 8, 24, 72)  # for which an alert can be silenced on its page
MAX_DECISIONS = 10  # decisions and messages shown
MAX_SEARCHED = 500  # latest decisions and messages among which those about this one are looked for
VERBS = ("acknowledge alert", "silence alert", "reopen alert")


def urls(site: AdminSite) -> list[URLPattern]:
    decision = require_POST(lambda request, pk: decide(request, pk))
    return [
        path("<int:pk>/decide/", site.admin_view(decision), name="crawlservice_alert_decide"),
        path("of/<slug:kind>/acknowledge/", site.admin_view(require_POST(acknowledge_kind)),
             name="crawlservice_alert_acknowledge_kind"),
    ]  # fmt: skip


def page(site: AdminSite, request: HttpRequest, pk: str) -> HttpResponse:
    rows = Alert.objects.select_related("acknowledged_by")
    alert = get_object_or_404(rows, pk=row_number(pk))
    known = Severity(alert.severity)
    return whole_page(
        *(site, request, "alert", wording.title_of(alert.kind)),
        alert=alert,
        sentence=wording.sentence(alert),
        place=wording.place(alert),
        severity=(known.label, dashboard_summary.TONES[known]),
        state=state.word(alert, clock.now()),
        hours=HOURS,
        unit=_unit(alert),
        sent=_messages(alert) if request.user.has_perm("crawlservice.view_alertmessage") else [],
        journal=_journal(alert) if request.user.has_perm("crawlservice.view_action") else [],
        opts=Alert._meta,
        is_fullwidth="",
    )


def decide(request: HttpRequest, pk: int) -> HttpResponse:
    """Acknowledges, silences or reopens an alert."""
    _check(request)
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
    back = "admin:index" if request.POST.get("from") == "dashboard" else None
    place = reverse(back) if back else reverse("admin:crawlservice_alert_change", args=[alert.pk])
    return HttpResponseRedirect(place)


def acknowledge_kind(request: HttpRequest, kind: str) -> HttpResponse:
    """Acknowledges all open alerts of a condition."""
    _check(request)
    numbers = Alert.objects.filter(OPEN, kind=kind, acknowledged_at=None)
    found = [*numbers.values_list("pk", flat=True)[: dashboard_summary.LOOKED_AT]]
    tell(request, state.acknowledge(found, by(request)))
    return HttpResponseRedirect(reverse("admin:index"))


def _check(request: HttpRequest) -> None:
    if not request.user.has_perm("crawlservice.handle_alert"):
        raise PermissionDenied


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
