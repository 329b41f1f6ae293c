"""The page of one host: its state now, its latest pages, and orders for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from django import forms
from django.contrib import messages
from django.contrib.admin import AdminSite
from django.contrib.auth.models import AbstractUser, AnonymousUser
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.defaultfilters import floatformat
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe
from redis import RedisError

from crawlframe.errors import CrawlframeError
from crawlservice.accounts.journal import by
from crawlservice.admin.hosts.order_form import NoForm, OrderForm, PauseForm, ordered
from crawlservice.admin.parts.form_page import decision_urls, form_page
from crawlservice.admin.parts.keyset import row_number
from crawlservice.admin.parts.live import part
from crawlservice.admin.parts.whole_page import whole_page
from crawlservice.admin.people.journal import verb_text
from crawlservice.hosts import orders
from crawlservice.hosts.host_labels import LABELS, pace, speed, why
from crawlservice.hosts.rules import HostCondition, rule_of
from crawlservice.hosts.states import HostNow, read, tasks_of
from crawlservice.models import Action, Host, Task
from crawlservice.proxies.use import at_host, lacks_at, lasts, no_proxy
from crawlservice.tasks.stored_limits import limits_as_written
from crawlservice.templatetags.crawls import WHO

TASKS = 50  # tasks shown
MAX_SEARCHED = 500  # latest decisions about hosts among which those about this one are looked for
MAX_DECISIONS = 10  # decisions shown
VERBS = ("pause host", "resume host", "order host", "clear host", "forget robots")
TONES = {"2": "good", "3": "primary", "4": "warn", "5": "bad"}  # by the first digit of a status


class HostDecision(NamedTuple):
    """A decision that operators can make. ``do`` gets the host's name, the operator, and the valid
    form."""

    verb: str
    text: str | Promise
    icon: str
    form: type[forms.Form]
    do: Callable[[str, dict[str, Any], Any], Host]
    question: str | Promise
    tone: str = ""


DECISIONS = {
    one.verb: one
    for one in (
        HostDecision(
            "pause", _("Pause"), "pause", PauseForm,
            lambda name, who, form: orders.pause(name, who, form.terms),
            _("No task fetches anything from it until it is resumed. Its requests wait."),
        ),
        HostDecision(
            "resume", _("Resume"), "play_arrow", NoForm,
            lambda name, who, form: orders.resume(name, who),
            _("Ends its pause, and the rest after it refused, blocked or was unreachable."),
        ),
        HostDecision(
            "order", _("Set limits"), "tune", OrderForm,
            lambda name, who, form: orders.order(
                name, who, delay=form.cleaned_data["delay"],
                concurrency=form.cleaned_data["concurrency"], rules=form.rules, terms=form.terms,
            ),
            _("An order: the limits of this host, in place of the limits of all tasks."),
        ),
        HostDecision(
            "clear", _("Clear order"), "close", NoForm,
            lambda name, who, form: orders.clear(name, who),
            _("The limits of each task apply again. A pause ends, too."),
        ),
        HostDecision(
            "forget-robots", _("Forget robots.txt"), "refresh", NoForm,
            lambda name, who, form: orders.forget_robots(name, who),
            _("Tasks that obey it fetch its robots.txt again before anything else."),
        ),
    )
}  # fmt: skip


def urls(site: AdminSite) -> list[URLPattern]:
    live = path("<int:pk>/now/", part(site, now, "view_host"), name="crawlservice_host_now")
    return [live, *decision_urls(site, "host", DECISIONS, decide)]


def may_order(user: AbstractUser | AnonymousUser) -> bool:
    """Whether the user may decide about hosts: the right to control the tasks of others."""
    return user.has_perm("crawlservice.steer_task")


def page(site: AdminSite, request: HttpRequest, pk: str) -> HttpResponse:
    host = _host(pk)
    return whole_page(
        *(site, request, "host", host.name),
        opts=Host._meta,
        journal=_journal(request, host),
        **_now(request, host),
    )


@require_safe
def now(request: HttpRequest, pk: int) -> HttpResponse:
    """The fragment with everything that changes."""
    context = _now(request, _host(pk))
    return TemplateResponse(request, "admin/crawlservice/_host_now.html", context)


def decide(site: AdminSite, request: HttpRequest, pk: int, verb: str) -> HttpResponse:
    """Asks for a confirmation, and for the details of an order; then decides."""
    if not may_order(request.user) or not request.user.has_perm("crawlservice.view_host"):
        raise PermissionDenied
    host, decision = _host(pk), DECISIONS[verb]
    data = request.POST if request.method == "POST" else None
    form = decision.form(data, initial=ordered(host) if verb == "order" else {})

    def act() -> None:
        decision.do(host.name, by(request), form)
        text = _("“{what}” took effect for {host} on all nodes")
        messages.success(request, str(text).format(host=host.name, what=decision.text))

    now = read([host])[0]
    numbers = {"queued": now.state.queued, "flying": now.state.in_flight}
    waiting = {name: floatformat(n, "0g") for name, n in numbers.items()}
    return form_page(
        *(site, request, host, form, act),
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
    ready = tasks_of(host) if request.user.has_perm("crawlservice.view_task") else {}
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
        "buttons": _buttons(found) if may_order(request.user) else (),
        **_proxies(request, host, found),
    }


def _proxies(request: HttpRequest, host: Host, now: HostNow) -> dict[str, Any]:
    """The proxies used at the host, and the requests that wait for one."""
    if not now.live or not request.user.has_perm("crawlservice.view_proxy"):
        return {}
    try:
        used, tiers = at_host(host.name)
        lacks = [no_proxy(one) for one in lacks_at(host.name)]
    except (RedisError, CrawlframeError):
        return {}
    rows = [(row, lasts(row.state.resting_until, now.now) if row.state else None) for row in used]
    return {"proxies": rows, "tiers": sorted(tiers.items()), "lacks": lacks}


def _buttons(now: HostNow) -> list[HostDecision]:
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
    if not request.user.has_perm("crawlservice.view_action"):
        return []
    latest = Action.objects.filter(verb__in=VERBS).select_related("user", "token")
    rows = latest.order_by("-pk")[:MAX_SEARCHED]
    found = [row for row in rows if row.detail.get("host") == host.name][:MAX_DECISIONS]
    return [(row, verb_text(row.verb), _told(row.detail)) for row in found]


def _told(detail: dict[str, Any]) -> str:
    known = ("host", *WHO)
    return ", ".join(f"{name} {value}" for name, value in detail.items() if name not in known)
