"""The site of the admin: its first page is the dashboard, and nothing in it needs inline styles."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from unfold.sites import UnfoldAdminSite


class AdminSite(UnfoldAdminSite):
    """Colours are in theme.css: the theme would write them into each page."""

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        return {**super().each_context(request), "colors": None}
