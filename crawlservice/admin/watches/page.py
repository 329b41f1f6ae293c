"""The page of one watch: its numbers, its pages with their next visits, its days, and its
actions."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, time
from typing import Any, NamedTuple

from django import forms
from django.contrib import messages
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.db.models import F
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.functional import Promise
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe
from unfold.widgets import (
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
)

from crawlframe.errors import CrawlframeError
from crawlservice.accounts.journal import by, record
from crawlservice.accounts.roles import may_steer_watch
from crawlservice.admin.hosts.order_form import NoForm
from crawlservice.admin.parts.form_page import decision_urls, form_page
from crawlservice.admin.parts.keyset import row_number
from crawlservice.admin.parts.live import part
from crawlservice.admin.parts.whole_page import whole_page
from crawlservice.models import Task, Watch, WatchedPage
from crawlservice.tasks.submit import RedisNotUpdated
from crawlservice.watches import editing
from crawlservice.watches.clock import NOW
from crawlservice.watches.editing import LEAST_BUDGET, MOST_BUDGET
from crawlservice.watches.overview import days_of, polled_numbers, rate_of

LIST_PAGES = 50  # pages in one list
ROUNDS = 10  # latest ones shown
MAX_PAGE = 10_000  # the last page of the list that is shown
TONES = {"new": "primary", "live": "good", "gone": "muted", "failed": "bad"}
STATES = {"running": "good", "paused": "warn", "ended": "muted"}


class BudgetForm(forms.Form):
    """Requests per day, in place of the spider's setting."""

    budget = forms.FloatField(
        label=_("Budget"),
        required=False,
        min_value=LEAST_BUDGET,
        max_value=MOST_BUDGET,
        widget=UnfoldAdminDecimalFieldWidget(attrs={"step": "any"}),
        help_text=_("requests per day; empty: as the spider says"),
    )
    host_budget = forms.FloatField(
        label=_("Budget of a host"),
        required=False,
        min_value=LEAST_BUDGET,
        max_value=MOST_BUDGET,
        widget=UnfoldAdminDecimalFieldWidget(attrs={"step": "any"}),
        help_text=_("requests per day and host; empty: as the spider says"),
    )


class BeginForm(BudgetForm):
    spider = forms.ChoiceField(
        label=_("Spider"),
        widget=UnfoldAdminSelectWidget(),
        help_text=_("spiders that say when their pages are visited again"),
    )
    arguments = forms.CharField(
        label=_("Arguments"),
        required=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 3}),
        help_text=_('A JSON object, such as {"city": "Ulm"}.'),
    )
    field_order = ("spider", "arguments", "budget", "host_budget")

    def __init__(self, spiders: list[str], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["spider"].choices = [(name, name) for name in spiders]  # type: ignore[attr-defined]

    def clean_arguments(self) -> dict[str, Any]:
        text = self.cleaned_data["arguments"].strip()
        try:
            found = json.loads(text or "{}")
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise forms.ValidationError(_("Enter a JSON object."))
        return found


class WatchDecision(NamedTuple):
    """An action on a watch. ``do`` gets its number and the valid form."""

    verb: str
    text: str | Promise
    icon: str
    form: type[forms.Form]
    do: Callable[[int, dict[str, Any]], object]
    question: str | Promise
    states: tuple[str, ...]


ACTIVE = ("running", "paused")
JOURNALED = {"budget": "change watch", "start": "visit now"}  # the verbs of others
DECISIONS = {
    one.verb: one
    for one in (
        WatchDecision(
            "pause", _("Pause"), "pause", NoForm, lambda pk, given: editing.pause(pk),
            _("No rounds are made until it is resumed. A round under way waits."), ("running",),
        ),
        WatchDecision(
            "resume", _("Resume"), "play_arrow", NoForm, lambda pk, given: editing.resume(pk),
            _("Visits the due pages."), ("paused",),
        ),
        WatchDecision(
            "budget", _("Set budget"), "speed", BudgetForm,
            lambda pk, given: editing.set_budget(pk, **given),
            _("How much it may fetch, in place of its spider's setting."), ACTIVE,
        ),
        WatchDecision(
            "start", _("Look for new pages"), "travel_explore", NoForm,
            lambda pk, given: editing.visit_now(pk),
            _("Runs start with the next round."), ACTIVE,
        ),
        WatchDecision(
            "end", _("End the watch"), "stop", NoForm, lambda pk, given: editing.end(pk),
            _("It visits nothing any more, for ever. Its data stays."), ACTIVE,
        ),
    )
}  # fmt: skip


def urls(site: AdminSite) -> list[URLPattern]:
    name = "crawlservice_watch_{}".format
    return [
        path("<int:pk>/now/", part(site, now, "view_watch"), name=name("now")),
        path("<int:pk>/chart/", part(site, chart, "view_watch"), name=name("chart")),
        path("<int:pk>/visit/", site.admin_view(visit), name=name("visit")),
        *decision_urls(site, "watch", DECISIONS, decide),
    ]


def page(site: AdminSite, request: HttpRequest, pk: str) -> HttpResponse:
    watch = _watch(pk)
    return whole_page(
        *(site, request, "watch", str(watch)),
        opts=Watch._meta,
        **_now(request, watch) | _pages(request, watch),
    )


@require_safe
def now(request: HttpRequest, pk: int) -> HttpResponse:
    """The fragment with the numbers."""
    context = _now(request, _watch(pk))
    return TemplateResponse(request, "admin/crawlservice/_watch_now.html", context)


@require_safe
def chart(request: HttpRequest, pk: int) -> HttpResponse:
    """The days of a watch, in the form that charts.js reads."""
    days = days_of(_watch(pk))
    noon = [datetime.combine(day.day, time(12), UTC) for day in days]
    points = {
        "at": [round(1000 * moment.timestamp()) for moment in noon],
        "visited": [day.visited for day in days],
        "late": [day.late for day in days],
        "errors": [day.errors for day in days],
        "fresh": [None if day.fresh is None else round(100 * day.fresh, 1) for day in days],
    }
    return JsonResponse({"points": points, "ended": False})


def decide(site: AdminSite, request: HttpRequest, pk: int, verb: str) -> HttpResponse:
    """Asks for a confirmation, then does it."""
    watch, decision = _steered(request, pk), DECISIONS[verb]
    data = request.POST if request.method == "POST" else None
    initial = {"budget": watch.budget, "host_budget": watch.host_budget}
    form = decision.form(data, initial=initial)
    return form_page(
        *(site, request, watch, form),
        lambda: _act(request, watch, decision, form.cleaned_data),
        heading=f"{decision.text}: {watch}",
        text=decision.question,
        button=decision.text,
        icon=decision.icon,
    )


def visit(request: HttpRequest, pk: int) -> HttpResponse:
    """Makes one page due before all others."""
    watch = _steered(request, pk)
    number = request.POST.get("page", "")
    if request.method != "POST" or not (number.isdecimal() and len(number) < 19):
        raise PermissionDenied
    try:
        pages = editing.visit_now(watch.pk, [int(number)])
    except CrawlframeError as error:
        messages.error(request, str(error))
    else:
        record("visit now", **by(request), watch=watch.pk, pages=pages)
        text = ngettext("{n} page is visited next", "{n} pages are visited next", pages)
        messages.success(request, text.format(n=pages))
    back = reverse("admin:crawlservice_watch_change", args=[pk])
    query = request.META.get("QUERY_STRING", "")
    return HttpResponseRedirect(f"{back}?{query}" if query else back)


def _act(
    request: HttpRequest, watch: Watch, decision: WatchDecision, given: dict[str, Any]
) -> None:
    try:
        decision.do(watch.pk, given)
    except RedisNotUpdated as error:  # done in the database
        messages.warning(request, str(error))
    verb = JOURNALED.get(decision.verb, f"{decision.verb} watch")
    record(verb, **by(request), watch=watch.pk, **given)
    messages.success(request, gettext("Done: {what}").format(what=decision.text))


def _steered(request: HttpRequest, pk: int) -> Watch:
    watch = _watch(pk)
    if not request.user.has_perm("crawlservice.view_watch") or not may_steer_watch(
        request.user, watch
    ):
        raise PermissionDenied
    return watch


def _watch(pk: int | str) -> Watch:
    return get_object_or_404(Watch.objects.select_related("user"), pk=row_number(pk))


def _now(request: HttpRequest, watch: Watch) -> dict[str, Any]:
    rounds = Task.objects.filter(watch=watch).defer("seeds").order_by("-pk")[:ROUNDS]
    may = may_steer_watch(request.user, watch)
    return {
        "watch": watch,
        "tone": STATES[watch.state],
        "numbers": polled_numbers(watch.pk),
        "rounds": rounds if request.user.has_perm("crawlservice.view_task") else (),
        "buttons": [one for one in DECISIONS.values() if may and watch.state in one.states],
    }


def _pages(request: HttpRequest, watch: Watch) -> dict[str, Any]:
    """The list of pages: those first that are due first."""
    term, state = request.GET.get("q", "").strip(), request.GET.get("state", "")
    rows = WatchedPage.objects.filter(watch=watch)
    if term:
        rows = rows.filter(url__icontains=term)
    if state in WatchedPage.State.values:
        rows = rows.filter(state=state)
    text = request.GET.get("page", "")
    number = min(MAX_PAGE, int(text)) if text.isdecimal() and len(text) < 9 else 0
    ordered = rows.order_by(F("next_at").asc(nulls_last=True), "pk")
    found = [*ordered[number * LIST_PAGES : (number + 1) * LIST_PAGES + 1]]
    asked = request.GET.copy()
    asked.pop("page", None)
    return {
        "pages": [_row(watch, page) for page in found[:LIST_PAGES]],
        "term": term,
        "state": state,
        "states": WatchedPage.State.choices,
        "query": asked.urlencode(),
        "number": number,
        "before": number - 1 if number else None,
        "after": number + 1 if len(found) > LIST_PAGES and number < MAX_PAGE else None,
    }


def _row(watch: Watch, page: WatchedPage) -> dict[str, Any]:
    soon = page.next_at is not None and page.next_at <= NOW
    return {
        "page": page,
        "tone": TONES[page.state],
        "rate": rate_of(watch, page),
        "soon": soon,
    }
