"""Schedules in the admin, with their next times and the outcome of the last run; and their runs:
the outcome of each time at which one was due."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action

from crawlframe.errors import CrawlframeError
from crawlframe.spider.spider import SpiderInfo
from crawlservice.accounts.journal import by, record
from crawlservice.admin.parts.filters import RecentLabel
from crawlservice.admin.parts.keyset import row_number
from crawlservice.admin.parts.lookups import Journaled, Owner, column
from crawlservice.admin.parts.pages import page, whole_page
from crawlservice.admin.parts.read_only import ReadOnly
from crawlservice.admin.schedules.form import form_for
from crawlservice.display import badge, moment, outcome_of, readable, task_link
from crawlservice.models import DisabledSpider, Run, Schedule
from crawlservice.scheduling import schedules
from crawlservice.scheduling.timing import BadTiming, Timing, in_words
from crawlservice.tasks import submit

MAX_RUNS = 10  # shown of a schedule
NOT_SHOWN = ("task__seeds", "task__arguments", "task__settings")
TONES = {
    Run.Outcome.SUBMITTED: "good",
    Run.Outcome.WAITING: "muted",
    Run.Outcome.SKIPPED: "warn",
    Run.Outcome.MISSED: "warn",
    Run.Outcome.FAILED: "bad",
}
TIMES = "admin/crawlservice/schedule/times.html"
SHOWN_TIMES = 5
TIMING = ("cron", "every", "timezone", "enabled")


def outcome_badge(outcome: str) -> SafeString:
    known = Run.Outcome(outcome)
    return badge(known.label, TONES[known])


def zone_of(schedule: Schedule) -> ZoneInfo:
    """The schedule's time zone; UTC if this machine does not know it."""
    try:
        return ZoneInfo(schedule.timezone)
    except (KeyError, ValueError, OSError):
        return ZoneInfo("UTC")


@admin.register(Schedule)
class ScheduleAdmin(Owner, Journaled):
    journal_noun = "schedule"
    list_display = ("name", "spider", "when", "next_run", "last_run", "last_task", "enabled")
    list_per_page = 50
    list_filter = ("enabled",)
    search_fields = ("name", "spider")
    actions = ("enable", "disable", "run")
    actions_submit_line = ("save_and_run",)
    readonly_fields = ("next_times", "told_arguments")
    change_form_outer_before_template = "admin/crawlservice/schedule/problem.html"
    change_form_outer_after_template = "admin/crawlservice/schedule/after.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Schedule]:
        last = Run.objects.filter(schedule=OuterRef("pk")).order_by("-due_at")
        rows: QuerySet[Schedule] = super().get_queryset(request)
        return rows.annotate(
            spider_off=Exists(DisabledSpider.objects.filter(spider=OuterRef("spider"))),
            last_outcome=Subquery(last.values("outcome")[:1]),
            last_task_id=Subquery(last.exclude(task=None).values("task")[:1]),
        )

    def get_fieldsets(self, request: HttpRequest, obj: Schedule | None = None) -> Any:
        may_change = obj is None or self.has_change_permission(request, obj)
        fields: tuple[str, ...] = ("told_arguments",)
        settings: tuple[str, ...] = ("overrides",)
        if may_change:
            form = form_for(request, obj)
            fields, settings = form.argument_names, form.setting_names
        nothing = "" if fields else _("This spider takes no arguments.")
        return (
            (None, {"fields": ("name", "spider", "priority", "labels")}),
            (_("Arguments"), {"fields": fields, "description": nothing}),
            (_("Settings of its tasks"), {"fields": settings, "classes": ("collapse",)}),
            (_("When"), {"fields": ("cron", "every", "timezone", "next_times")}),
            (_("Rules"), {"fields": ("overlap", "missed", "enabled")}),
        )

    def get_form(
        self, request: HttpRequest, obj: Schedule | None = None, change: bool = False, **kwargs: Any
    ) -> Any:
        return super().get_form(request, obj, change, **kwargs, form=form_for(request, obj))

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        made = super().formfield_for_dbfield(db_field, request, **kwargs)
        if db_field.name == "timezone":
            made.widget.attrs |= {"list": "zones", "autocomplete": "off"}
        elif db_field.name == "arguments":
            made.widget.attrs["rows"] = 4
            made.help_text = _('A JSON object, such as {"city": "Ulm"}.')
        return made

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        if request.method == "GET" and _is_to_choose(request, object_id):
            return self._choice(request, object_id)
        page: HttpResponse = super().changeform_view(request, object_id, form_url, extra_context)
        return page

    def form_context(self, request: HttpRequest, pk: str | None) -> dict[str, Any]:
        context: dict[str, Any] = {"zones": sorted(available_timezones())}
        if (number := row_number(pk)) is not None:
            runs = Run.objects.filter(schedule=number).select_related("schedule", "task")
            latest = runs.defer(*NOT_SHOWN).order_by("-due_at")[:MAX_RUNS]
            rows = [
                [
                    moment(run.due_at, zone_of(run.schedule)),
                    outcome_badge(run.outcome),
                    task_link(run.task_id),
                    outcome_of(run.task),
                    run.problem,
                ]
                for run in latest
            ]
            titles = [_("due at"), _("outcome"), _("task"), _("state of the task"), _("remark")]
            context["runs"] = {"headers": titles, "rows": rows}
        return context

    def _choice(self, request: HttpRequest, object_id: str | None) -> HttpResponse:
        """The list of spiders; each links to the form of a schedule for it."""
        schedule = self.get_object(request, object_id) if object_id else None
        may = self.has_change_permission if object_id else self.has_add_permission
        if not may(request) or (object_id and schedule is None):
            raise PermissionDenied
        spiders: dict[str, SpiderInfo] = {}
        try:
            spiders = submit.spiders()
        except CrawlframeError as error:
            messages.error(request, str(error))
        title = gettext("Add a schedule: choose its spider")
        if schedule:
            title = gettext("Choose the spider of {schedule}").format(schedule=schedule)
        return whole_page(
            *(request, "schedule/choice", title),
            opts=self.opts,
            spiders=spiders.values(),
            longest=Schedule._meta.get_field("spider").max_length,
            is_fullwidth="",
        )

    def save_model(self, request: HttpRequest, obj: Schedule, form: Any, change: bool) -> None:
        if change:  # the steward may have changed it while the form was open
            row = Schedule.objects.select_for_update().only("next_at").get(pk=obj.pk)
            obj.next_at = row.next_at
            obj.problem, obj.problem_since = "", None  # the change may have solved it
        super().save_model(request, obj, form, change)
        if not change or set(TIMING) & set(form.changed_data):
            schedules.plan(obj)
        verb = "change schedule" if change else "add schedule"
        record(verb, **by(request), schedule=obj.name, fields=form.changed_data)
        if form.chosen.problem:
            self.message_user(request, form.chosen.problem, messages.WARNING)

    @admin.display(description=_("when"))
    def when(self, schedule: Schedule) -> str:
        return f"{in_words(schedule.cron, schedule.every)} ({schedule.timezone})"

    @admin.display(description=_("next"), ordering="next_at")
    def next_run(self, schedule: Schedule) -> str:
        if not schedule.enabled:
            return gettext("disabled")
        if schedule.spider_off:  # type: ignore[attr-defined]
            return gettext("skipped: the spider is disabled")
        if schedule.next_at is None:
            return "-"
        return moment(schedule.next_at, zone_of(schedule))

    last_run = column(
        lambda outcome: outcome_badge(outcome) if outcome else "-",
        *(_("last outcome"), "last_outcome"),
    )
    last_task = column(task_link, _("last task"), "last_task_id")

    @admin.display(description=_("arguments"))
    def told_arguments(self, schedule: Schedule) -> SafeString | str:
        return readable(schedule.shown_arguments) if schedule.arguments else "-"

    @admin.display(description=_("next times"))
    def next_times(self, schedule: Schedule) -> SafeString:
        """Updates while the user types, if the form can be changed."""
        return format_html(
            '<div hx-get="{}" hx-include="[name=cron],[name=every],[name=timezone]" '
            'hx-trigger="{}" id="next-times">{}</div>',
            reverse("admin:schedule_times"),
            "input from:#id_cron delay:300ms, input from:#id_every delay:300ms, "
            "change from:#id_timezone",
            render_to_string(TIMES, _upcoming(schedule)) if schedule.pk else "",
        )

    @admin.action(description=_("Enable selected schedules"), permissions=["change"])
    def enable(self, request: HttpRequest, chosen: QuerySet[Schedule]) -> None:
        self._switch(request, chosen.filter(enabled=False), True)

    @admin.action(description=_("Disable selected schedules"), permissions=["change"])
    def disable(self, request: HttpRequest, chosen: QuerySet[Schedule]) -> None:
        self._switch(request, chosen.filter(enabled=True), False)

    @admin.action(description=_("Run selected schedules now"), permissions=["change"])
    def run(self, request: HttpRequest, chosen: QuerySet[Schedule]) -> None:
        for schedule in chosen:
            self._run(request, schedule)

    @action(description=_("Save and run now"), permissions=["change"])
    def save_and_run(self, request: HttpRequest, schedule: Schedule) -> None:
        transaction.on_commit(lambda: self._run(request, schedule))

    def _switch(self, request: HttpRequest, chosen: Iterable[Schedule], on: bool) -> None:
        changed = 0
        for schedule in chosen:
            Schedule.objects.filter(pk=schedule.pk).update(enabled=on)
            try:
                schedules.plan(schedule)
                schedules.clear(schedule)
            except BadTiming as error:
                Schedule.objects.filter(pk=schedule.pk).update(enabled=False)
                self.message_user(request, f"{schedule}: {error}", messages.ERROR)
                continue
            verb = "enable schedule" if on else "disable schedule"
            record(verb, **by(request), schedule=schedule.name)
            changed += 1
        text = _("schedules enabled: %d") if on else _("schedules disabled: %d")
        self.message_user(request, text % changed, messages.SUCCESS)

    def _run(self, request: HttpRequest, schedule: Schedule) -> None:
        try:
            with transaction.atomic():  # recorded even if Redis could not be updated
                run = schedules.run_now(schedule, request.user)
                record("run schedule", **by(request), task=run.task_id, schedule=schedule.name)
        except CrawlframeError as error:
            self.message_user(request, f"{schedule}: {error}", messages.ERROR)
            return
        if run.task_id:
            task = format_html("{} {}", _("task"), task_link(run.task_id))
            link = format_html("{}: {}", schedule.name, task)
            self.message_user(request, link, messages.SUCCESS)
        else:
            text = f"{schedule}: {run.get_outcome_display()}: {run.problem}"
            self.message_user(request, text, messages.WARNING)


@page("crawlservice/schedule/times/", "schedule_times", "view_schedule")
def times(request: HttpRequest) -> HttpResponse:
    """A fragment: the next times of the timing typed in a form."""
    given = request.GET
    every = given.get("every", "")
    try:
        timing = Timing.of(
            given.get("cron", "")[:100],
            int(every[:10]) if every.isdecimal() else None,
            given.get("timezone", "UTC")[:64],
        )
    except BadTiming as error:
        return render(request, TIMES, {"problem": error})
    found = islice(timing.all_after(datetime.now(UTC)), SHOWN_TIMES)
    times = [moment(due, timing.zone) for due in found]
    words = in_words(timing.cron, timing.every)
    return render(request, TIMES, {"words": words, "times": times})


def _is_to_choose(request: HttpRequest, object_id: str | None) -> bool:
    """Whether a spider must be chosen: for a new schedule, or when ``?spider=`` asks for
    another."""
    return not request.GET.get("spider", "" if object_id is None else "its own")


def _upcoming(schedule: Schedule) -> dict[str, Any]:
    """The next times, for the template."""
    try:
        found = schedules.upcoming(schedule, SHOWN_TIMES)
    except BadTiming as error:
        return {"problem": error}
    words = in_words(schedule.cron, schedule.every)
    return {"words": words, "times": [moment(due, zone_of(schedule)) for due in found]}


@admin.register(Run)
class RunAdmin(ReadOnly):
    list_display = (
        "due", "schedule", "shown_outcome", "shown_task", "ended_as", "shown_labels", "problem",
    )  # fmt: skip
    list_filter = ("outcome", "schedule", RecentLabel)
    list_select_related = ("schedule", "task")
    ordering = ("-id",)
    fields = ("schedule", "due", "shown_outcome", "shown_task", "ended_as", "problem", "created_at")

    due = column(lambda run: moment(run.due_at, zone_of(run.schedule)), _("due at"))
    shown_outcome = column(outcome_badge, _("outcome"), "outcome")
    shown_task = column(task_link, _("task"), "task_id")
    ended_as = column(outcome_of, _("state of the task"), "task")
    deferred = NOT_SHOWN
