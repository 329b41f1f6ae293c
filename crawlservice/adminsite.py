"""The site of the admin: its first page is the dashboard, and nothing in it needs inline styles."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from unfold.sites import UnfoldAdminSite

from crawlservice.journal import by, record


class AdminSite(UnfoldAdminSite):
    """Colours are in theme.css: the theme would write them into each page."""

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        return {**super().each_context(request), "colors": None}

    def password_change(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        answer: HttpResponse = super().password_change(request, extra_context)
        if request.method == "POST" and answer.status_code == 302:
            record("change_password", **by(request))
        return answer
