"""The page of one task: how it ended, its answer, its tabs, and its actions."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from django.contrib import messages
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST, require_safe

from crawlframe.errors import CrawlframeError
from crawlservice.accounts.roles import may_steer, may_submit
from crawlservice.admin.pages import reparse as reparsepage
from crawlservice.admin.parts.live import STOP, View, part
from crawlservice.admin.parts.steering import VERBS, note, steer
from crawlservice.admin.tasks import answer, downloads, item_table, limits
from crawlservice.admin.tasks import labels as tasklabels
from crawlservice.admin.tasks.item_table import task_of
from crawlservice.admin.tasks.tabs import OVERVIEW, TABS, Tab
from crawlservice.admin.tasks.task_view import TaskView
from crawlservice.display import state_label
from crawlservice.models import Task
from crawlservice.monitoring import charts
from crawlservice.quality import deviation
from crawlservice.reparse.submission import has_pages
from crawlservice.tasks.progress.forecast import forecast
from crawlservice.tasks.progress.progress import Progress, read


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


def urls(site: AdminSite) -> list[URLPattern]:
    def own(place: str, view: View, **given: Any) -> URLPattern:
        name = f"crawlservice_task_{given.get('name', place)}"
        return path(f"<int:pk>/{place}/", view, given.get("more"), name=name)

    def tab_urls(tab: Tab) -> list[URLPattern]:
        view = site.admin_view(require_safe(partial(_show, site, tab)))
        live = part(site, require_safe(partial(_show_part, tab)), "view_task")
        part_url = own(f"{tab.name}/now", live, name=f"{tab.name}_now")
        return [part_url] if tab is OVERVIEW else [own(tab.name, view), part_url]

    def of_site(page: Any) -> Any:
        return site.admin_view(lambda request, pk: page(site, request, pk))

    return [
        own("now", part(site, now, "view_task")),
        own("chart", part(site, chart, "view_task")),
        own("accept", site.admin_view(accept)),
        own("limits", of_site(limits.page)),
        own("labels", of_site(tasklabels.page)),
        own("reparse", of_site(reparsepage.page)),
        *(url for tab in (OVERVIEW, *TABS) for url in tab_urls(tab)),
        *downloads.urls(site),
        *item_table.urls(site),
        *(own(verb, site.admin_view(act), more={"verb": verb}) for verb in (*VERBS, RETRY.verb)),
    ]


def page(site: AdminSite, request: HttpRequest, pk: str) -> HttpResponse:
    return _show(site, OVERVIEW, request, pk)


def _show(site: AdminSite, tab: Tab, request: HttpRequest, pk: int | str) -> HttpResponse:
    """The page with a tab."""
    view = TaskView(task_of(request, pk, tab.permission))
    head = _head(request, view)
    context: dict[str, Any] = {
        **site.each_context(request),
        **head,
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
        context |= answer.numbers(context["known"])
    return TemplateResponse(request, "admin/crawlservice/task.html", context)


def _show_part(tab: Tab, request: HttpRequest, pk: int) -> HttpResponse:
    """A tab as a fragment of the page."""
    view = TaskView(task_of(request, pk, tab.permission))
    context = {"task": view.task, **tab.shown(request, view)}
    status = 200 if context.get("lives") else STOP
    name = f"admin/crawlservice/task/{tab.name}.html"
    return TemplateResponse(request, name, context, status=status)


@require_safe
def now(request: HttpRequest, pk: int) -> HttpResponse:
    """The fragment with how the task is, and for the overview with its numbers."""
    view = TaskView(task_of(request, pk))
    context = _head(request, view)
    if request.GET.get("tab") == OVERVIEW.name:
        context |= {"is_part": True, **answer.numbers(context["known"])}
    status = STOP if view.progress.settled else 200
    return TemplateResponse(request, "admin/crawlservice/_task_now.html", context, status=status)


@require_safe
def chart(request: HttpRequest, pk: int) -> JsonResponse:
    progress = read([task_of(request, pk)])[0]
    return JsonResponse({"points": charts.of_task(progress), "ended": progress.ended})


@require_POST
def act(request: HttpRequest, pk: int, verb: str) -> HttpResponse:
    """Pauses, resumes, cancels or retries the task."""
    try:
        messages.success(request, steer(request, task_of(request, pk), verb))
    except CrawlframeError as error:
        messages.error(request, str(error))
    return HttpResponseRedirect(reverse("admin:crawlservice_task_change", args=[pk]))


@require_POST
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
    return HttpResponseRedirect(reverse("admin:crawlservice_task_change", args=[pk]))


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
