"""Parts of pages that browsers poll."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.translation import gettext_lazy as _

from crawlservice.accounts.sessions import polled

STOP = 286  # the status that makes htmx stop polling
SPANS = {"hour": timedelta(hours=1), "day": timedelta(days=1)}
SPAN_NAMES = {"hour": _("Last hour"), "day": _("Last day")}

View = Callable[..., HttpResponseBase]


def part(site: AdminSite, view: View, permission: str) -> View:
    """A view of a fragment, without the redirect to the login page, which would appear inside this
    page. If the user was logged out or lacks the permission, the whole page is reloaded."""
    inner = site.admin_view(view)

    @polled
    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if site.has_permission(request) and request.user.has_perm(f"crawlservice.{permission}"):
            found: HttpResponseBase = inner(request, *args, **kwargs)
            return found
        return HttpResponse(status=403, headers={"HX-Refresh": "true"})

    return answer
