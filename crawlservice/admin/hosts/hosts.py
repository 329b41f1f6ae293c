"""Hosts in the admin: the list with live numbers, and orders for several at once."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from crawlservice.accounts.journal import by
from crawlservice.admin.hosts import page as hostpage
from crawlservice.admin.parts.columns import column
from crawlservice.admin.parts.created import filter_by
from crawlservice.admin.parts.keyset import KeysetList
from crawlservice.admin.parts.lookups import row_action, with_facts
from crawlservice.admin.parts.own_page import OwnPage, RowPage
from crawlservice.display import badge
from crawlservice.hosts import orders
from crawlservice.hosts.host_labels import LABELS, speed, why
from crawlservice.hosts.rules import Which, chosen, named
from crawlservice.hosts.states import HostNow, read
from crawlservice.models import Host

WHICH = {
    Which.HELD: _("held"),
    Which.PAUSED: _("paused"),
    Which.ORDERED: _("with an order"),
    Which.ERRORS: _("with errors"),
}
WhichHosts = filter_by(
    *(_("hosts"), "which", WHICH.items),
    lambda rows, word: rows & chosen(Which(word)) if word in {*Which} else rows.none(),
)


def _add_states(request: HttpRequest, hosts: list[Host]) -> None:
    for now in read(hosts):
        now.host.now = now  # type: ignore[attr-defined]


def _now(host: Host) -> HostNow:
    found: HostNow | None = getattr(host, "now", None)
    return found or read([host])[0]


@admin.register(Host)
class HostAdmin(OwnPage):
    row_page: ClassVar[RowPage] = hostpage
    list_display = (
        "name", "condition", "rate", "allowed", "queued", "in_flight", "shown_pages",
        "shown_errors", "last_answer", "latency", "robots",
    )  # fmt: skip
    list_display_links = ("name",)
    list_filter = (WhichHosts,)
    search_fields = ("name",)
    search_help_text = _("Beginning of the name")
    actions = ("pause", "resume", "clear")

    queued = column(lambda host: f"{_now(host).state.queued:,}", _("queue"))
    in_flight = column(lambda host: f"{_now(host).state.in_flight:,}", _("in flight"))
    shown_pages = column("{:,}".format, _("pages"), "pages")
    changelist = with_facts(_add_states, KeysetList)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        return named(queryset, search_term), False

    @admin.display(description=_("state"))
    def condition(self, host: Host) -> SafeString:
        now = _now(host)
        shown = badge(*LABELS[now.condition])
        text = why(now)
        return format_html('{}<span class="cf-why">{}</span>', shown, text) if text else shown

    rate = column(lambda host: speed(_now(host).rate), _("rate now"))

    @admin.display(description=_("allowed"))
    def allowed(self, host: Host) -> str:
        now = _now(host)
        return str(_("no delay")) if now.gap == 0 else speed(now.allowed)

    @admin.display(description=_("errors"))
    def shown_errors(self, host: Host) -> SafeString | str:
        if not host.errors:
            return "0"
        return format_html('<span class="cf-bad-text">{}</span>', f"{host.errors:,}")

    @admin.display(description=_("last status"))
    def last_answer(self, host: Host) -> str:
        if host.last_status is not None:
            return str(host.last_status)
        return host.last_reason or "-"

    @admin.display(description=_("latency"))
    def latency(self, host: Host) -> str:
        return "-" if host.latency_ms is None else f"{host.latency_ms:,.0f} ms"

    @admin.display(description="robots.txt")
    def robots(self, host: Host) -> str:
        now = _now(host)
        if now.robots_wait is not None:
            return str(_("unreachable"))
        if now.robots_until is None:
            return "-"
        return str(_("known"))

    # -- actions ----------------------------------------------------------------------------------

    def has_steer_permission(self, request: HttpRequest) -> bool:
        return hostpage.may_order(request.user)

    pause = row_action(
        *(_("Pause selected hosts"), "steer"),
        lambda request, host: orders.pause(host.name, by(request)),
        _("Hosts paused: {n}"),
    )
    resume = row_action(
        *(_("Resume selected hosts"), "steer"),
        lambda request, host: orders.resume(host.name, by(request)),
        _("Hosts resumed: {n}"),
    )
    clear = row_action(
        *(_("Clear the orders of selected hosts"), "steer"),
        lambda request, host: orders.clear(host.name, by(request)),
        _("Orders cleared: {n}"),
    )
