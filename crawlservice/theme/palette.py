"""Palette: what Ctrl-K finds in the admin, and the commands that can be typed there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext as _
from unfold.dataclasses import SearchResult

from crawlservice.accounts.roles import may_steer, may_submit
from crawlservice.admin.hosts.order_form import NoForm
from crawlservice.admin.parts.form_page import form_page
from crawlservice.admin.parts.keyset import row_number
from crawlservice.admin.parts.steering import steer
from crawlservice.admin.tasks.page import BUTTONS, RETRY, Button
from crawlservice.hosts.rules import named
from crawlservice.models import Host, Task
from crawlservice.tasks.spider_runs import overview
from crawlservice.theme import menu

MOST = 5  # rows of each kind
TYPED = re.compile(r"(?:task\s+)?(?:(submit|pause|resume|cancel|retry)\s+)?(\S+)", re.IGNORECASE)


def urls(site: AdminSite) -> list[URLPattern]:
    def view(request: HttpRequest, pk: int, verb: str) -> HttpResponse:
        return confirm(site, request, pk, verb)

    place = "command/<int:pk>/<slug:verb>/"
    return [path(place, site.admin_view(view), name="command")]


def search(request: HttpRequest) -> HttpResponse:
    """The results of the theme's palette, of which the user may open each."""
    text = request.GET.get("s", "").replace("\0", "").strip()
    found = [*_found(request, text)] if text else []
    template = "unfold/helpers/command_results.html"
    context = {"results": found, "page_obj": {"count": len(found)}, "page_counter": 0}
    return TemplateResponse(request, template, context)


def _found(request: HttpRequest, text: str) -> Iterator[SearchResult]:
    """A command such as ``pause 3`` is found before what it is about."""
    typed = TYPED.fullmatch(text)
    verb, name = ((typed[1] or "").lower(), typed[2]) if typed else ("", text)
    yield from _tasks(request, name, verb)
    yield from _spiders(request, name, verb)
    for entries in menu.shown(request).values():
        for tab in (tab for one in entries for tab in one.tabs):
            if text.lower() in str(tab.title).lower():
                yield SearchResult(str(tab.title), _("page"), tab.place, "tab")
    if request.user.has_perm("crawlservice.view_host"):
        for host in named(Host.objects.order_by("name"), text)[:MOST]:
            place = reverse("admin:crawlservice_host_change", args=[host.pk])
            yield SearchResult(host.name, _("host"), place, "language")
    if "/" in text and request.user.has_perm("crawlservice.view_page"):
        place = f"{reverse('admin:crawlservice_page_changelist')}?{urlencode({'q': text})}"
        yield SearchResult(text, _("pages with this in their URL"), place, "description")


def _tasks(request: HttpRequest, number: str, verb: str) -> Iterator[SearchResult]:
    task = Task.objects.defer("seeds").filter(pk=row_number(number)).first()
    if task is None or not request.user.has_perm("crawlservice.view_task"):
        return
    place = reverse("admin:crawlservice_task_change", args=[task.pk])
    found = {"": SearchResult(str(task), _("task"), place, "play_circle")}
    for button in _buttons(task) if may_steer(request.user, task) else ():
        place = reverse("admin:command", args=[task.pk, button.verb])
        found[button.verb] = SearchResult(str(button.text), str(task), place, button.icon)
    yield from (found[name] for name in sorted(found, key=lambda name: name != verb))


def _buttons(task: Task) -> tuple[Button, ...]:
    if task.state in Task.ACTIVE:
        return BUTTONS.get(Task.State(task.state), ())
    return (RETRY,) if task.errors else ()


def _spiders(request: HttpRequest, text: str, verb: str) -> Iterator[SearchResult]:
    if not text or not request.user.has_perm("crawlservice.view_task"):
        return
    names = [one.name for one in overview().found if text.lower() in one.name.lower()]
    for name in names[:MOST]:
        place = reverse("admin:spider", args=[name])
        found = [SearchResult(name, _("spider"), place, "bug_report")]
        if may_submit(request.user):
            place = f"{reverse('admin:submit')}?{urlencode({'spider': name})}"
            found.insert(verb != "submit", SearchResult(_("Submit"), name, place, "add_circle"))
        yield from found


def confirm(site: AdminSite, request: HttpRequest, pk: int, verb: str) -> HttpResponse:
    """Asks before a command is carried out."""
    task = get_object_or_404(Task.objects.defer("seeds"), pk=pk)
    if not may_steer(request.user, task):
        raise PermissionDenied
    button = next((one for one in _buttons(task) if one.verb == verb), None)
    if button is None:
        raise Http404

    def act() -> None:
        messages.success(request, steer(request, task, verb))

    form = NoForm(request.POST if request.method == "POST" else None)
    texts = {"heading": f"{button.text}: {task}", "button": button.text, "icon": button.icon}
    return form_page(site, request, task, form, act, **texts)
