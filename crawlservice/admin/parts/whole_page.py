"""Whole pages: a template within the frame of the admin."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _


def whole_page(
    site: AdminSite, request: HttpRequest, template: str, title: Any, **context: Any
) -> TemplateResponse:
    """The page of a ``template`` in the folder of ours, as wide as the window, unless
    ``is_fullwidth`` is empty."""
    own = {**site.each_context(request), "title": title, "is_fullwidth": "1"}
    return TemplateResponse(request, f"admin/crawlservice/{template}.html", own | context)


def secret_page(
    site: AdminSite, request: HttpRequest, title: str, secret: str, back: str, **context: Any
) -> TemplateResponse:
    """The only page that shows a secret; browsers do not store it."""
    note = _("With it the receiver verifies that a message comes from this service.")
    own = {"secret": secret, "back": back, "note": note, "is_fullwidth": ""}
    page = whole_page(site, request, "secret", title, **own | context)
    page["Cache-Control"] = "no-store"
    return page
