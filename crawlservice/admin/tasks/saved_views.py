"""Saved views of the list of tasks: kept, shared and deleted."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.contrib import messages
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from crawlframe.errors import CrawlframeError
from crawlservice.accounts.journal import by
from crawlservice.models import SavedView
from crawlservice.tasks import saved_views


class ShownView(NamedTuple):
    """``chosen``: the list has exactly these filters now."""

    row: SavedView
    own: bool
    chosen: bool
    may_delete: bool


def urls(site: AdminSite) -> list[URLPattern]:
    return [
        path("views/save/", site.admin_view(save), name="save_view"),
        path("views/<int:pk>/delete/", site.admin_view(delete), name="delete_view"),
    ]


def shown(request: HttpRequest) -> dict[str, Any]:
    """The views that the user can choose, for the list of tasks."""
    query = saved_views.filters_of(request.META.get("QUERY_STRING", ""))
    user = request.user
    views = [
        ShownView(
            row, row.user_id == user.pk, row.query == query, saved_views.may_delete(user, row)
        )
        for row in saved_views.of_user(user)
    ]
    return {"views": views, "view_query": query}


@require_POST
def save(request: HttpRequest) -> HttpResponse:
    if not request.user.has_perm("crawlservice.view_task"):
        raise PermissionDenied
    query = saved_views.filters_of(request.POST.get("query", ""))
    try:
        name, shared = request.POST.get("name", ""), "shared" in request.POST
        row = saved_views.save(request.user, name, query, shared=shared, who=by(request))  # type: ignore[arg-type]
        messages.success(request, _("The view {name} is saved.").format(name=row.name))
    except CrawlframeError as error:
        messages.error(request, str(error))
    return HttpResponseRedirect(_list(query))


@require_POST
def delete(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(SavedView, pk=pk)
    if not saved_views.may_delete(request.user, row):
        raise PermissionDenied
    saved_views.delete(row, by(request))
    messages.success(request, _("The view {name} is deleted.").format(name=row.name))
    return HttpResponseRedirect(_list(""))


def _list(query: str) -> str:
    return f"{reverse('admin:crawlservice_task_changelist')}{'?' if query else ''}{query}"
