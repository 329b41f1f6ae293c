"""The look of the admin: its name, its style sheets, and its menu."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest
from django.templatetags.static import static
from django.utils.timezone import get_current_timezone_name


def _file(name: str) -> Callable[[HttpRequest], str]:
    """The address of a static file, as the theme asks for it."""
    return lambda request: static(f"crawlservice/{name}")


def zone(request: HttpRequest) -> tuple[str, str]:
    """The label in the head of each page: the zone of its times."""
    return get_current_timezone_name(), "default"


UNFOLD = {
    "SITE_TITLE": "Crawlframe",
    "SITE_HEADER": "Crawlframe",
    "SITE_SYMBOL": "hub",
    "SITE_URL": None,  # there is no other site
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": _file("icon.svg")}],
    "SHOW_HISTORY": False,
    "SHOW_VIEW_ON_SITE": False,
    "SHOW_LANGUAGES": True,
    "STYLES": [_file("theme.css"), _file("pages.css")],
    "SCRIPTS": [_file("theme.js"), _file("evaluator.js")],
    "ENVIRONMENT": "crawlservice.theme.theme.zone",
    "SIDEBAR": {"navigation": "crawlservice.theme.menu.groups"},
    "TABS": "crawlservice.theme.menu.tabs",
}
