"""Hosts in the admin: the list with live numbers, and orders for several at once; the page of one,
with its state now, its latest pages, and orders for it."""

from __future__ import annotations

from typing import Any, NamedTuple

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.defaultfilters import floatformat
from django.template.response import TemplateResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from redis import RedisError
from unfold.widgets import UnfoldAdminTextInputWidget

from crawlframe import gates
from crawlframe.errors import CrawlframeError
from crawlservice.accounts.journal import by
from crawlservice.admin.parts.fields import number, text, whole
from crawlservice.admin.parts.filters import filter_by
from crawlservice.admin.parts.keyset import KeysetList, row_number
from crawlservice.admin.parts.lookups import column, row_action, with_facts
from crawlservice.admin.parts.pages import (
    Decision,
    check,
    form_page,
    live,
    may,
    posted,
    verbs,
    whole_page,
)
from crawlservice.admin.parts.read_only import OwnPage
from crawlservice.admin.people.journal import verb_text
from crawlservice.display import badge
from crawlservice.hosts import orders
from crawlservice.hosts.host_labels import LABELS, pace, speed, why
from crawlservice.hosts.orders import MAX_CONCURRENCY, MAX_DELAY, Terms
from crawlservice.hosts.rules import HostCondition, Which, chosen, named, rule_of
from crawlservice.hosts.states import HostNow, read, tasks_of
from crawlservice.models import NOTE, Action, Host, Task
from crawlservice.proxies.use import at_host, lacks_at, lasts, no_proxy
from crawlservice.tasks.stored_limits import limits_as_written
from crawlservice.templatetags.crawls import WHO

TASKS = 50  # tasks shown
MAX_SEARCHED = 500  # latest decisions about hosts among which those about this one are looked for
MAX_DECISIONS = 10  # decisions shown
VERBS = ("pause host", "resume host", "order host", "clear host", "forget robots")
TONES = {"2": "good", "3": "primary", "4": "warn", "5": "bad"}  # by the first digit of a status
TIME = "%Y-%m-%dT%H:%M"  # as browsers write it


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


def _state(host: Host) -> HostNow:
    found: HostNow | None = getattr(host, "now", None)
    return found or read([host])[0]


@admin.register(Host)
class HostAdmin(OwnPage):
    list_display = (
        "name", "condition", "rate", "allowed", "queued", "in_flight", "shown_pages",
        "shown_errors", "last_answer", "latency", "robots",
    )  # fmt: skip
    list_display_links = ("name",)
    list_filter = (WhichHosts,)
    search_fields = ("name",)
    search_help_text = _("Beginning of the name")
    actions = ("pause", "resume", "clear")

    queued = column(lambda host: f"{_state(host).state.queued:,}", _("queue"))
    in_flight = column(lambda host: f"{_state(host).state.in_flight:,}", _("in flight"))
    shown_pages = column("{:,}".format, _("pages"), "pages")
    changelist = with_facts(_add_states, KeysetList)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        return named(queryset, search_term), False

    def row_page(self, request: HttpRequest, pk: str) -> HttpResponse:
        host = _host(pk)
        return whole_page(
            *(request, "host", host.name),
            opts=self.opts,
            journal=_journal(request, host),
            **_now(request, host),
        )

    @admin.display(description=_("state"))
    def condition(self, host: Host) -> SafeString:
        now = _state(host)
        shown = badge(*LABELS[now.condition])
        text = why(now)
        return format_html('{}<span class="cf-why">{}</span>', shown, text) if text else shown

    rate = column(lambda host: speed(_state(host).rate), _("rate now"))

    @admin.display(description=_("allowed"))
    def allowed(self, host: Host) -> str:
        now = _state(host)
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
        now = _state(host)
        if now.robots_wait is not None:
            return str(_("unreachable"))
        if now.robots_until is None:
            return "-"
        return str(_("known"))

    # -- actions ----------------------------------------------------------------------------------

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


class PauseForm(forms.Form):
    """Until when, and why."""

    until = forms.DateTimeField(
        label=_("End"),
        required=False,
        widget=UnfoldAdminTextInputWidget(attrs={"placeholder": "2026-01-31 18:00"}),
        help_text=_("in UTC; empty: it does not end by itself"),
    )
    note = text(_("Note"), _("why, for colleagues"), max_length=NOTE)

    @property
    def terms(self) -> Terms:
        return Terms(self.cleaned_data["until"], self.cleaned_data["note"])


class OrderForm(PauseForm):
    delay = number(
        _("Delay"),
        _("seconds between two requests, for all tasks and nodes; empty: as each task says"),
        min_value=0,
        max_value=MAX_DELAY,
    )
    concurrency = whole(
        _("Concurrency"),
        _("requests in flight, for all tasks and nodes; empty: as each task says"),
        min_value=1,
        max_value=MAX_CONCURRENCY,
    )
    field_order = ("delay", "concurrency", *gates.names(), "until", "note")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for name in gates.names():
            rule = rule_of(name)
            self.fields[name] = text(str(rule.label), str(rule.help))
        self.order_fields(self.field_order)

    @property
    def rules(self) -> dict[str, str]:
        return {name: self.cleaned_data[name] for name in gates.names()}


def ordered(host: Host) -> dict[str, Any]:
    """The initial values of an OrderForm."""
    until = host.order_until
    return {
        "delay": host.delay,
        "concurrency": host.concurrency,
        **host.gates,
        "until": until.strftime(TIME) if until else "",
        "note": host.note,
    }


DECISIONS = {
    one.verb: one
    for one in (
        Decision(
            "pause", _("Pause"), "pause",
            _("No task fetches anything from it until it is resumed. Its requests wait."),
            lambda request, host, form: orders.pause(host.name, by(request), form.terms),
            PauseForm,
        ),
        Decision(
            "resume", _("Resume"), "play_arrow",
            _("Ends its pause, and the rest after it refused, blocked or was unreachable."),
            lambda request, host, form: orders.resume(host.name, by(request)),
        ),
        Decision(
            "order", _("Set limits"), "tune",
            _("An order: the limits of this host, in place of the limits of all tasks."),
            lambda request, host, form: orders.order(
                host.name, by(request), delay=form.cleaned_data["delay"],
                concurrency=form.cleaned_data["concurrency"], rules=form.rules, terms=form.terms,
            ),
            OrderForm,
        ),
        Decision(
            "clear", _("Clear order"), "close",
            _("The limits of each task apply again. A pause ends, too."),
            lambda request, host, form: orders.clear(host.name, by(request)),
        ),
        Decision(
            "forget-robots", _("Forget robots.txt"), "refresh",
            _("Tasks that obey it fetch its robots.txt again before anything else."),
            lambda request, host, form: orders.forget_robots(host.name, by(request)),
        ),
    )
}  # fmt: skip


@live("crawlservice/host/<int:pk>/now/", "crawlservice_host_now", "view_host")
def now(request: HttpRequest, pk: int) -> HttpResponse:
    """The fragment with everything that changes."""
    context = _now(request, _host(pk))
    return TemplateResponse(request, "admin/crawlservice/_host_now.html", context)


@verbs("host", DECISIONS, "steer_task")
def decide(request: HttpRequest, pk: int, verb: str) -> HttpResponse:
    """Asks for a confirmation, and for the details of an order; then decides."""
    check(request, "view_host")
    host, decision = _host(pk), DECISIONS[verb]
    form = decision.form(posted(request), initial=ordered(host) if verb == "order" else {})

    def act() -> None:
        decision.do(request, host, form)
        text = _("“{what}” took effect for {host} on all nodes")
        messages.success(request, str(text).format(host=host.name, what=decision.text))

    now = read([host])[0]
    numbers = {"queued": now.state.queued, "flying": now.state.in_flight}
    waiting = {name: floatformat(n, "0g") for name, n in numbers.items()}
    return form_page(
        *(request, host, form, act),
        heading=f"{decision.text}: {host.name}",
        text=decision.question,
        note=_("Requests: %(queued)s ready, %(flying)s in flight.") % waiting if now.live else "",
        button=decision.text,
        icon=decision.icon,
    )


class Share(NamedTuple):
    """One status among the fetches. ``start`` and ``part``: percent, for a bar."""

    status: str
    fetches: int
    start: float
    part: float
    tone: str


def shares(host: Host) -> list[Share]:
    """The shares of the statuses, in their order; no answer is the last."""
    total = sum(host.statuses.values()) or 1
    found: list[Share] = []
    start = 0.0
    for status, n in sorted(host.statuses.items(), key=lambda pair: (pair[0] == "0", pair[0])):
        part = 100 * n / total
        tone = TONES.get(status[0], "muted")
        found.append(Share(status, n, round(start, 2), round(part, 2), tone))
        start += part
    return found


def _host(pk: int | str) -> Host:
    return get_object_or_404(Host.objects.select_related("ordered_by"), pk=row_number(pk))


def _now(request: HttpRequest, host: Host) -> dict[str, Any]:
    found = read([host])[0]
    label, tone = LABELS[found.condition]
    ready = tasks_of(host) if may(request, "view_task") else {}
    tasks = Task.objects.only("spider", "state", "outcome", "settings").in_bulk([*ready][:TASKS])
    return {
        "host": host,
        "now": found,
        "state": found.state,
        "label": label,
        "tone": tone,
        "why": why(found),
        "rate": speed(found.rate),
        "allowed": speed(found.allowed),
        "pace": pace(found),
        "shares": shares(host),
        "rules": [(rule_of(name).label, value) for name, value in host.gates.items()],
        "tasks": [
            (task, ready[pk], limits_as_written(task).get("delay"))
            for pk, task in sorted(tasks.items())
        ],
        "buttons": _buttons(found) if may(request, "steer_task") else (),
        **_proxies(request, host, found),
    }


def _proxies(request: HttpRequest, host: Host, now: HostNow) -> dict[str, Any]:
    """The proxies used at the host, and the requests that wait for one."""
    if not now.live or not may(request, "view_proxy"):
        return {}
    try:
        used, tiers = at_host(host.name)
        lacks = [no_proxy(one) for one in lacks_at(host.name)]
    except (RedisError, CrawlframeError):
        return {}
    rows = [(row, lasts(row.state.resting_until, now.now) if row.state else None) for row in used]
    return {"proxies": rows, "tiers": sorted(tiers.items()), "lacks": lacks}


def _buttons(now: HostNow) -> list[Decision]:
    """The decisions that would change something."""
    wanted = {
        "pause": not now.host.paused,
        "resume": now.host.paused
        or bool(now.host.held_why)
        or now.condition in (HostCondition.HELD, HostCondition.RESTING),
        "order": True,
        "clear": now.host.ordered_at is not None,
        "forget-robots": True,
    }
    return [DECISIONS[verb] for verb, is_wanted in wanted.items() if is_wanted]


def _journal(request: HttpRequest, host: Host) -> list[tuple[Action, str, str]]:
    """The latest decisions about this host, among the latest about any: each with its verb and its
    details in words."""
    if not may(request, "view_action"):
        return []
    latest = Action.objects.filter(verb__in=VERBS).select_related("user", "token")
    rows = latest.order_by("-pk")[:MAX_SEARCHED]
    found = [row for row in rows if row.detail.get("host") == host.name][:MAX_DECISIONS]
    return [(row, verb_text(row.verb), _told(row.detail)) for row in found]


def _told(detail: dict[str, Any]) -> str:
    known = ("host", *WHO)
    return ", ".join(f"{name} {value}" for name, value in detail.items() if name not in known)
