"""The admin site: its first page is the dashboard, and none of its pages needs inline styles."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern
from unfold.sites import UnfoldAdminSite

from crawlservice.accounts.journal import by, record


class AdminSite(UnfoldAdminSite):
    """Colours are in theme.css, because the theme would write them into each page."""

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        return {**super().each_context(request), "colors": None}

    def password_change(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        answer: HttpResponse = super().password_change(request, extra_context)
        if request.method == "POST" and answer.status_code == 302:
            record("change_password", **by(request))
        return answer

    def autocomplete_view(self, request: HttpRequest) -> HttpResponse:
        """Disabled: no form of ours needs it, and it would search any list by any field."""
        raise Http404

    def extra_urls(self) -> list[URLPattern]:
        from crawlservice.admin.parts import pages

        # Those with fewer parameters first: task/3/items/now/ is no item.
        return sorted(pages.urls, key=lambda one: str(one.pattern).count("<"))

    def search(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        from crawlservice.theme import palette

        return palette.search(request)

    def index(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        from crawlservice.admin import nodes

        if request.user.has_perm("crawlservice.view_task"):
            return nodes.dashboard(request)
        page: HttpResponse = super().index(request, extra_context)
        return page
