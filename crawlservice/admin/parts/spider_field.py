"""Widgets in which spiders are typed. They offer the known ones, which the browser asks for by
itself: a page neither waits for Redis nor fails without it."""

from __future__ import annotations

from typing import Any

from django.template.loader import render_to_string
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

NAMES = "admin/crawlservice/_spider_names.html"


class SpiderWidget(UnfoldAdminTextInputWidget):
    """One spider."""

    def __init__(self, attrs: Any = None) -> None:
        super().__init__({**(attrs or {}), "list": "cf-spiders", "autocomplete": "off"})

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        field = super().render(name, value, attrs, renderer)
        return format_html("{}{}", field, render_to_string(NAMES))


class SpidersWidget(UnfoldAdminTextareaWidget):
    """Spiders, one a line, and a field for one more: a text of several lines has no list."""

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        one = SpiderWidget({"aria-label": _("one more"), "placeholder": _("one more")})
        return format_html(
            "{}{}", super().render(name, value, attrs, renderer), one.render(name, "")
        )

    def value_from_datadict(self, data: Any, files: Any, name: str) -> str | None:
        return "\n".join(filter(None, data.getlist(name))) if name in data else None
