"""Hosts in the admin: the list with live numbers, and orders for several at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from crawlframe.errors import CrawlframeError
from crawlservice.accounts.journal import by
from crawlservice.admin.hosts import page as hostpage
from crawlservice.admin.parts.keyset import KeysetList
from crawlservice.admin.parts.own_page import OwnPage, RowPage
from crawlservice.display import badge
from crawlservice.hosts import orders
from crawlservice.hosts.host_labels import LABELS, speed, why
from crawlservice.hosts.rules import Which, chosen, named
from crawlservice.hosts.states import HostNow, read
from crawlservice.models import Host

DONE: dict[str, str | Promise] = {
    "pause": _("Hosts paused: {n}"),
    "resume": _("Hosts resumed: {n}"),
    "clear": _("Orders cleared: {n}"),
}


class WhichHosts(admin.SimpleListFilter):
    title = _("hosts")
    parameter_name = "which"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [
            (Which.HELD, _("held")),
            (Which.PAUSED, _("paused")),
            (Which.ORDERED, _("with an order")),
            (Which.ERRORS, _("with errors")),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Host]) -> QuerySet[Host]:
        word = self.value()
        if word is None:
            return queryset
        return queryset & chosen(Which(word)) if word in {*Which} else queryset.none()


class HostList(KeysetList):
    """Adds to every host on the page its state, with one query to Redis."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        for now in read(self.result_list):
            now.host.now = now  # type: ignore[attr-defined]


def _now(host: Host) -> HostNow:
    found: HostNow | None = getattr(host, "now", None)
    return found or read([host])[0]


def _number(of: Callable[[HostNow], int], title: Any) -> Callable[[HostAdmin, Host], str]:
    @admin.display(description=title)
    def column(self: HostAdmin, host: Host) -> str:
        return f"{of(_now(host)):,}"

    return column


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

    queued = _number(lambda now: now.state.queued, _("queue"))
    in_flight = _number(lambda now: now.state.in_flight, _("in flight"))
    shown_pages = _number(lambda now: now.host.pages, _("pages"))
    changelist = HostList

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

    @admin.display(description=_("rate now"))
    def rate(self, host: Host) -> str:
        return speed(_now(host).rate)

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

    @admin.action(description=_("Pause selected hosts"), permissions=["steer"])
    def pause(self, request: HttpRequest, hosts: QuerySet[Host]) -> None:
        self._order(request, hosts, "pause", orders.pause)

    @admin.action(description=_("Resume selected hosts"), permissions=["steer"])
    def resume(self, request: HttpRequest, hosts: QuerySet[Host]) -> None:
        self._order(request, hosts, "resume", orders.resume)

    @admin.action(description=_("Clear the orders of selected hosts"), permissions=["steer"])
    def clear(self, request: HttpRequest, hosts: QuerySet[Host]) -> None:
        self._order(request, hosts, "clear", orders.clear)

    def _order(
        self,
        request: HttpRequest,
        hosts: QuerySet[Host],
        verb: str,
        decide: Callable[[str, dict[str, Any]], Host],
    ) -> None:
        changed = 0
        for name in hosts.order_by("name").values_list("name", flat=True):
            try:
                decide(name, by(request))
            except CrawlframeError as error:
                self.message_user(request, f"{name}: {error}", messages.ERROR)
            else:
                changed += 1
        if changed:
            self.message_user(request, str(DONE[verb]).format(n=changed), messages.SUCCESS)
