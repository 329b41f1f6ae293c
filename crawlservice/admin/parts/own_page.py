"""Lists whose rows have a page of their own instead of Django's form."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern

from crawlservice.admin.parts.read_only import ReadOnly


class RowPage(Protocol):
    """A module that makes the page of a row."""

    def urls(self, site: AdminSite) -> list[URLPattern]:
        """What belongs to the page, such as its live parts and its forms."""

    def page(self, site: AdminSite, request: HttpRequest, pk: str) -> HttpResponse:
        """The page."""


class OwnPage(ReadOnly):
    """``row_page`` makes the page of a row."""

    row_page: ClassVar[RowPage]

    def get_urls(self) -> list[URLPattern]:
        return [*self.row_page.urls(self.admin_site), *super().get_urls()]

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        return self.row_page.page(self.admin_site, request, object_id)
