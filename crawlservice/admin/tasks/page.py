"""The page of one task: how it ended, its tabs, its actions, and the forms of its labels and
limits."""

from __future__ import annotations

from typing import Any, NamedTuple

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from crawlframe.errors import CrawlframeError
from crawlservice.accounts.journal import by
from crawlservice.accounts.roles import may_steer, may_submit
from crawlservice.admin.parts.fields import text, whole
from crawlservice.admin.parts.pages import (
    FORM,
    POST,
    STOP,
    form_page,
    live,
    page,
    posted,
    to,
    verbs,
)
from crawlservice.admin.parts.spider_fields import LabelsField
from crawlservice.admin.parts.steering import TASK, VERBS, TaskView, note, steer, steered, task_of
from crawlservice.admin.tasks.tabs import OVERVIEW, TABS, Tab, numbers
from crawlservice.display import state_label
from crawlservice.hosts.orders import MAX_CONCURRENCY
from crawlservice.models import Task
from crawlservice.monitoring import charts
from crawlservice.quality import deviation
from crawlservice.reparse.submission import has_pages
from crawlservice.tasks.labels import change_labels, of_task
from crawlservice.tasks.limits import AUTO, MAX_PAGES, Delay, change_limits
from crawlservice.tasks.progress.forecast import forecast
from crawlservice.tasks.progress.progress import Progress, read
from crawlservice.tasks.stored_limits import limits_as_written


class Button(NamedTuple):
    verb: str
    text: str | Promise
    icon: str
    tone: str = ""


PAUSE = Button("pause", _("Pause"), "pause")
RESUME = Button("resume", _("Resume"), "play_arrow")
CANCEL = Button("cancel", _("Cancel"), "stop", "danger")
RETRY = Button("retry", _("Retry failed"), "replay")
BUTTONS = {
    Task.State.RUNNING: (PAUSE, CANCEL),
    Task.State.PAUSED: (RESUME, CANCEL),
}


def show(request: HttpRequest, pk: int | str, tab: Tab) -> HttpResponse:
    """The page with a tab."""
    view = TaskView(task_of(request, pk, tab.permission))
    context: dict[str, Any] = {
        **admin.site.each_context(request),
        **_head(request, view),
        "title": str(view.task),
        "opts": Task._meta,
        "is_fullwidth": "1",
        "tab": tab,
        "tabs": [
            (one, getattr(view.progress, one.counted, None), one.name == (tab.parent or tab.name))
            for one in (OVERVIEW, *TABS)
            if not one.parent and request.user.has_perm(f"crawlservice.{one.permission}")
        ],
        **tab.shown(request, view),
    }
    if tab is OVERVIEW:
        context |= numbers(context["known"])
    return TemplateResponse(request, "admin/crawlservice/task.html", context)


def show_part(request: HttpRequest, pk: int, tab: Tab) -> HttpResponse:
    """A tab as a fragment of the page."""
    view = TaskView(task_of(request, pk, tab.permission))
    context = {"task": view.task, **tab.shown(request, view)}
    status = 200 if context.get("lives") else STOP
    name = f"admin/crawlservice/task/{tab.name}.html"
    return TemplateResponse(request, name, context, status=status)


for _tab in (OVERVIEW, *TABS):
    _name = f"crawlservice_task_{_tab.name}"
    live(f"{TASK}/{_tab.name}/now/", f"{_name}_now", "view_task", tab=_tab)(show_part)
    if _tab is not OVERVIEW:
        page(f"{TASK}/{_tab.name}/", _name, tab=_tab)(show)


@live(f"{TASK}/now/", "crawlservice_task_now", "view_task")
def now(request: HttpRequest, pk: int) -> HttpResponse:
    """The fragment with how the task is, and for the overview with its numbers."""
    view = TaskView(task_of(request, pk))
    context = _head(request, view)
    if request.GET.get("tab") == OVERVIEW.name:
        context |= {"is_part": True, **numbers(context["known"])}
    status = STOP if view.progress.settled else 200
    return TemplateResponse(request, "admin/crawlservice/_task_now.html", context, status=status)


@live(f"{TASK}/chart/", "crawlservice_task_chart", "view_task")
def chart(request: HttpRequest, pk: int) -> JsonResponse:
    progress = read([task_of(request, pk)])[0]
    return JsonResponse({"points": charts.of_task(progress), "ended": progress.ended})


@verbs("task", (*VERBS, RETRY.verb), methods=POST)
def act(request: HttpRequest, pk: int, verb: str) -> HttpResponse:
    """Pauses, resumes, cancels or retries the task."""
    try:
        messages.success(request, steer(request, task_of(request, pk), verb))
    except CrawlframeError as error:
        messages.error(request, str(error))
    return to("crawlservice_task_change", pk)


@page(f"{TASK}/accept/", "crawlservice_task_accept", methods=POST)
def accept(request: HttpRequest, pk: int) -> HttpResponse:
    """Accepts the findings of a task: from it on, its values count as usual."""
    task = task_of(request, pk)
    if not may_steer(request.user, task):
        raise PermissionDenied
    try:
        count = deviation.accept(pk)
    except deviation.NothingFound as error:
        messages.error(request, str(error))
    else:
        note(request, "accept quality", task, findings=count)
        messages.success(request, _("Accepted. Later runs are compared with this one."))
    return to("crawlservice_task_change", pk)


def _head(request: HttpRequest, view: TaskView) -> dict[str, Any]:
    task, progress = view.task, view.progress
    return {
        "task": task,
        "progress": progress,
        "known": forecast(progress),
        "tone": state_label(task.status)[1],
        "buttons": buttons_of(progress) if may_steer(request.user, task) else (),
        "may_submit": may_submit(request.user),
        "may_parse": may_submit(request.user) and has_pages(task),
        "may_delete": progress.ended and request.user.has_perm("crawlservice.delete_task"),
    }


def buttons_of(progress: Progress) -> tuple[Button, ...]:
    """The actions that the state of a task offers."""
    if progress.ended:
        return (RETRY,) if progress.ne and progress.settled else ()
    return BUTTONS.get(Task.State(progress.task.state), ())


class LabelsForm(forms.Form):
    labels = LabelsField()


@page(f"{TASK}/labels/", "crawlservice_task_labels", methods=FORM)
def labels_page(request: HttpRequest, pk: int) -> HttpResponse:
    task = steered(request, pk)
    form = LabelsForm(posted(request), initial={"labels": of_task(pk)})

    def change() -> None:
        if form.has_changed():
            change_labels(pk, form.cleaned_data["labels"], by(request))
            messages.success(request, _("The labels are changed"))

    heading = gettext("Labels of %(task)s") % {"task": task}
    return form_page(request, task, form, change, heading=heading, button=_("Change labels"))


class LimitsForm(forms.Form):
    """The limits of a task that can be changed while it runs."""

    delay = text(
        _("Delay"),
        _("seconds between two requests to a host, or auto: as fast as each host can take"),
        required=True,
    )
    concurrency = whole(
        *(_("Concurrency"), _("requests in flight per host")),
        required=True,
        min_value=1,
        max_value=MAX_CONCURRENCY,
    )
    page_limit = whole(
        *(_("Page limit"), _("0: no limit. Links that were left out before are not brought back")),
        required=True,
        min_value=0,
        max_value=MAX_PAGES,
    )

    def clean_delay(self) -> Delay:
        text = self.cleaned_data["delay"].strip()
        if text == AUTO:
            return AUTO
        try:
            return float(text)
        except ValueError:
            raise forms.ValidationError(_("Enter a number of seconds, or auto.")) from None


@page(f"{TASK}/limits/", "crawlservice_task_limits", methods=FORM)
def limits_page(request: HttpRequest, pk: int) -> HttpResponse:
    """The page on which the limits of a running task are changed."""
    task = steered(request, pk)
    known = limits_as_written(task)
    present = {name: known.get(name, 0) for name in LimitsForm.base_fields}
    form = LimitsForm(posted(request), initial=present)

    def change() -> None:
        before = LimitsForm(data=present)
        before.is_valid()
        new = {
            name: value
            for name, value in form.cleaned_data.items()
            if value != before.cleaned_data.get(name)
        }
        if new:
            change_limits(task.pk, by(request), **new)
            messages.success(request, _("The limits are in force on all nodes"))

    return form_page(
        *(request, task, form, change),
        heading=gettext("Limits of %(task)s") % {"task": task},
        note=_("They change at once on all nodes, for this task only."),
        button=_("Change limits"),
    )
