"""Palette: the results of Ctrl-K in the admin, and the commands that can be typed there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from unfold.dataclasses import SearchResult

from crawlservice.accounts.roles import may_steer, may_submit
from crawlservice.admin.parts.keyset import row_number
from crawlservice.admin.tasks.page import buttons_of
from crawlservice.hosts.rules import named
from crawlservice.models import Host, Task
from crawlservice.tasks.progress.progress import read
from crawlservice.tasks.spider_runs import overview
from crawlservice.theme import menu

MAX_ROWS = 5  # rows of each kind
TYPED = re.compile(r"(?:task\s+)?(?:(submit|pause|resume|cancel|retry)\s+)?(\S+)", re.IGNORECASE)


def search(request: HttpRequest) -> HttpResponse:
    """The results of the theme's palette that the user may open."""
    text = request.GET.get("s", "").replace("\0", "").strip()
    found = [*_found(request, text)] if text else []
    template = "unfold/helpers/command_results.html"
    context = {"results": found, "page_obj": {"count": len(found)}, "page_counter": 0}
    return TemplateResponse(request, template, context)


def _found(request: HttpRequest, text: str) -> Iterator[SearchResult]:
    """A command such as ``pause 3`` is found before its object: the button of the page."""
    typed = TYPED.fullmatch(text)
    verb, name = ((typed[1] or "").lower(), typed[2]) if typed else ("", text)
    yield from _tasks(request, name, verb)
    yield from _spiders(request, name, verb)
    for entries in menu.shown(request).values():
        for tab in (tab for _entry, tabs in entries for tab in tabs):
            if text.lower() in tab.title.lower():
                yield SearchResult(tab.title, _("page"), tab.place, "tab")
    if request.user.has_perm("crawlservice.view_host"):
        for host in named(Host.objects.order_by("name"), text)[:MAX_ROWS]:
            place = reverse("admin:crawlservice_host_change", args=[host.pk])
            yield SearchResult(host.name, _("host"), place, "language")
    if "/" in text and request.user.has_perm("crawlservice.view_page"):
        place = f"{reverse('admin:crawlservice_page_changelist')}?{urlencode({'q': text})}"
        yield SearchResult(text, _("pages with this in their URL"), place, "description")


def _tasks(request: HttpRequest, number: str, verb: str) -> Iterator[SearchResult]:
    pk = row_number(number) or 0
    task = Task.objects.defer("seeds").filter(pk=pk).first()
    if task is None or not request.user.has_perm("crawlservice.view_task"):
        return
    place = reverse("admin:crawlservice_task_change", args=[task.pk])
    found = {"": SearchResult(str(task), _("task"), place, "play_circle")}
    for button in buttons_of(read([task])[0]) if may_steer(request.user, task) else ():
        there = f"{place}#cf-{button.verb}"
        found[button.verb] = SearchResult(str(button.text), str(task), there, button.icon)
    yield from (found[name] for name in sorted(found, key=lambda name: name != verb))


def _spiders(request: HttpRequest, text: str, verb: str) -> Iterator[SearchResult]:
    if not text or not request.user.has_perm("crawlservice.view_task"):
        return
    names = [one.name for one in overview().found if text.lower() in one.name.lower()]
    for name in names[:MAX_ROWS]:
        place = reverse("admin:spider", args=[name])
        found = [SearchResult(name, _("spider"), place, "bug_report")]
        if may_submit(request.user):
            place = f"{reverse('admin:submit')}?{urlencode({'spider': name})}"
            found.insert(verb != "submit", SearchResult(_("Submit"), name, place, "add_circle"))
        yield from found
