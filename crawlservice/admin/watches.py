"""Watches in the admin: the list, and beginning one; the page of one, with its numbers, its pages
with their next visits, its days, and its actions."""

from __future__ import annotations

import json
from datetime import UTC, datetime, time
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import F
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from crawlframe.errors import CrawlframeError
from crawlservice.accounts.journal import by, record
from crawlservice.accounts.roles import may_steer, may_submit
from crawlservice.admin.parts.fields import choice, lines, number
from crawlservice.admin.parts.keyset import KeysetList, row_number
from crawlservice.admin.parts.lookups import column, with_facts
from crawlservice.admin.parts.pages import (
    POST,
    Decision,
    check,
    form_page,
    live,
    may,
    page,
    place_of,
    posted,
    to_row,
    verbs,
    whole_page,
)
from crawlservice.admin.parts.read_only import OwnPage
from crawlservice.display import badge
from crawlservice.models import Task, Watch, WatchedPage
from crawlservice.tasks import submit
from crawlservice.tasks.submit import RedisNotUpdated
from crawlservice.watches import editing
from crawlservice.watches.clock import NOW
from crawlservice.watches.editing import LEAST_BUDGET, MOST_BUDGET
from crawlservice.watches.overview import Numbers, days_of, numbers_of, polled_numbers, rate_of

LIST_PAGES = 50  # pages in one list
ROUNDS = 10  # latest ones shown
MAX_PAGE = 10_000  # the last page of the list that is shown
TONES = {"new": "primary", "live": "good", "gone": "muted", "failed": "bad"}
STATES = {"running": "good", "paused": "warn", "ended": "muted"}
NOTHING_TO_WATCH = _(
    "No spider says when its pages are visited again. Give one revisit = Revisit(...)."
)


BOUNDS = {"min_value": LEAST_BUDGET, "max_value": MOST_BUDGET}


class BudgetForm(forms.Form):
    """Requests per day, in place of the spider's setting."""

    budget = number(_("Budget"), _("requests per day; empty: as the spider says"), **BOUNDS)
    host_budget = number(
        *(_("Budget of a host"), _("requests per day and host; empty: as the spider says")),
        **BOUNDS,
    )


class BeginForm(BudgetForm):
    spider = choice(
        _("Spider"),
        help_text=_("spiders that say when their pages are visited again"),
        required=True,
    )
    arguments = lines(_("Arguments"), 3, _('A JSON object, such as {"city": "Ulm"}.'))
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


def _add_numbers(request: HttpRequest, watches: list[Any]) -> None:
    found = numbers_of([watch.pk for watch in watches])
    for watch in watches:
        watch.numbers = found[watch.pk]


def _of(watch: Watch) -> Numbers:
    found: Numbers | None = getattr(watch, "numbers", None)
    return found or numbers_of([watch.pk])[watch.pk]


@admin.register(Watch)
class WatchAdmin(OwnPage):
    list_display = (
        "name", "shown_state", "pages", "due", "today", "fresh", "gone", "failed", "created",
    )  # fmt: skip
    list_display_links = ("name",)
    list_filter = ("state",)
    search_fields = ("spider",)
    changelist = with_facts(_add_numbers, KeysetList)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return may_submit(request.user)

    def add_view(
        self,
        request: HttpRequest,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Starts to watch a spider."""
        if not may_submit(request.user):
            raise PermissionDenied
        infos = {}
        try:
            infos = {name: one for name, one in submit.spiders().items() if one.revisit}
        except CrawlframeError as error:
            messages.error(request, str(error))
        initial = {"spider": request.GET.get("spider", "")}
        form = BeginForm(sorted(infos), posted(request), initial=initial)
        if request.method == "POST" and form.is_valid():
            try:
                watch = self._begin(request, form.cleaned_data)
            except CrawlframeError as error:
                form.add_error(None, str(error))
            else:
                messages.success(request, gettext("The watch has started"))
                return to_row(watch)
        return whole_page(
            *(request, "form_page", gettext("Watch the pages of a spider")),
            heading=gettext("Watch the pages of a spider"),
            opts=self.opts,
            form=form if infos else None,
            text="" if infos else NOTHING_TO_WATCH,
            button=gettext("Begin"),
            icon="visibility",
            back=reverse("admin:crawlservice_watch_changelist"),
            is_fullwidth="",
        )

    def _begin(self, request: HttpRequest, given: dict[str, Any]) -> Watch:
        watch = editing.begin(
            given["spider"],
            given["arguments"],
            budget=given["budget"],
            host_budget=given["host_budget"],
            user=request.user,
        )
        record("begin watch", **by(request), watch=watch.pk, spider=watch.spider)
        return watch

    def row_page(self, request: HttpRequest, pk: str) -> HttpResponse:
        watch = _watch(pk)
        return whole_page(
            *(request, "watch", str(watch)),
            opts=self.opts,
            **_now(request, watch) | _pages(request, watch),
        )

    name = column(str, _("watch"))

    @admin.display(description=_("state"))
    def shown_state(self, watch: Watch) -> SafeString:
        shown = badge(watch.get_state_display(), STATES[watch.state])
        if not watch.problem:
            return shown
        return format_html('{}<span class="cf-why">{}</span>', shown, watch.problem)

    pages = column(lambda watch: f"{_of(watch).pages:,}", _("pages"))
    due = column(lambda watch: f"{_of(watch).due:,}", _("due"))
    today = column(lambda watch: f"{_of(watch).today:,}", _("visits today"))

    @admin.display(description=_("up to date"))
    def fresh(self, watch: Watch) -> str:
        fresh = _of(watch).fresh
        return "-" if fresh is None else f"{fresh:.0%}"

    gone = column(lambda watch: f"{_of(watch).gone:,}", _("gone"))
    failed = column(lambda watch: f"{_of(watch).failed:,}", _("failed"))


ACTIVE = ("running", "paused")
JOURNALED = {"budget": "change watch", "start": "visit now"}  # the verbs of others
DECISIONS = {
    one.verb: one
    for one in (
        Decision(
            "pause", _("Pause"), "pause",
            _("No rounds are made until it is resumed. A round under way waits."),
            lambda request, watch, form: editing.pause(watch.pk), states=("running",),
        ),
        Decision(
            "resume", _("Resume"), "play_arrow", _("Visits the due pages."),
            lambda request, watch, form: editing.resume(watch.pk), states=("paused",),
        ),
        Decision(
            "budget", _("Set budget"), "speed",
            _("How much it may fetch, in place of its spider's setting."),
            lambda request, watch, form: editing.set_budget(watch.pk, **form.cleaned_data),
            BudgetForm, ACTIVE,
        ),
        Decision(
            "start", _("Look for new pages"), "travel_explore",
            _("Runs start with the next round."),
            lambda request, watch, form: editing.visit_now(watch.pk), states=ACTIVE,
        ),
        Decision(
            "end", _("End the watch"), "stop",
            _("It visits nothing any more, for ever. Its data stays."),
            lambda request, watch, form: editing.end(watch.pk), states=ACTIVE,
        ),
    )
}  # fmt: skip


@live("crawlservice/watch/<int:pk>/now/", "crawlservice_watch_now", "view_watch")
def now(request: HttpRequest, pk: int) -> HttpResponse:
    """The fragment with the numbers."""
    context = _now(request, _watch(pk))
    return TemplateResponse(request, "admin/crawlservice/_watch_now.html", context)


@live("crawlservice/watch/<int:pk>/chart/", "crawlservice_watch_chart", "view_watch")
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


@verbs("watch", DECISIONS)
def decide(request: HttpRequest, pk: int, verb: str) -> HttpResponse:
    """Asks for a confirmation, then does it."""
    watch, decision = _steered(request, pk), DECISIONS[verb]
    initial = {"budget": watch.budget, "host_budget": watch.host_budget}
    form = decision.form(posted(request), initial=initial)

    def act() -> None:
        try:
            decision.do(request, watch, form)
        except RedisNotUpdated as error:  # done in the database
            messages.warning(request, str(error))
        verb_done = JOURNALED.get(verb, f"{verb} watch")
        record(verb_done, **by(request), watch=watch.pk, **form.cleaned_data)
        messages.success(request, gettext("Done: {what}").format(what=decision.text))

    return form_page(
        *(request, watch, form, act),
        heading=f"{decision.text}: {watch}",
        text=decision.question,
        button=decision.text,
        icon=decision.icon,
    )


@page("crawlservice/watch/<int:pk>/visit/", "crawlservice_watch_visit", methods=POST)
def visit(request: HttpRequest, pk: int) -> HttpResponse:
    """Makes one page due before all others."""
    watch = _steered(request, pk)
    number = row_number(request.POST.get("page"))
    if number is None:
        raise PermissionDenied
    try:
        pages = editing.visit_now(watch.pk, [number])
    except CrawlframeError as error:
        messages.error(request, str(error))
    else:
        record("visit now", **by(request), watch=watch.pk, pages=pages)
        text = ngettext("{n} page is visited next", "{n} pages are visited next", pages)
        messages.success(request, text.format(n=pages))
    query = request.META.get("QUERY_STRING", "")
    return HttpResponseRedirect(f"{place_of(watch)}?{query}" if query else place_of(watch))


def _steered(request: HttpRequest, pk: int) -> Watch:
    check(request, "view_watch")
    watch = _watch(pk)
    if not may_steer(request.user, watch):
        raise PermissionDenied
    return watch


def _watch(pk: int | str) -> Watch:
    return get_object_or_404(Watch.objects.select_related("user"), pk=row_number(pk))


def _now(request: HttpRequest, watch: Watch) -> dict[str, Any]:
    rounds = Task.objects.filter(watch=watch).defer("seeds").order_by("-pk")[:ROUNDS]
    steers = may_steer(request.user, watch)
    return {
        "watch": watch,
        "tone": STATES[watch.state],
        "numbers": polled_numbers(watch.pk),
        "rounds": rounds if may(request, "view_task") else (),
        "buttons": [one for one in DECISIONS.values() if steers and watch.state in one.states],
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
