"""The look of the admin: its name, its style sheets, and its menu."""

from __future__ import annotations

from django.http import HttpRequest
from django.templatetags.static import static
from django.utils.timezone import get_current_timezone_name


def _style(request: HttpRequest) -> str:
    return static("crawlservice/theme.css")


def _icon(request: HttpRequest) -> str:
    return static("crawlservice/icon.svg")


def _pages(request: HttpRequest) -> str:
    return static("crawlservice/pages.css")


def _script(request: HttpRequest) -> str:
    return static("crawlservice/theme.js")


def _evaluator(request: HttpRequest) -> str:
    return static("crawlservice/evaluator.js")


def zone(request: HttpRequest) -> tuple[str, str]:
    """The label in the head of each page: the zone of its times."""
    return get_current_timezone_name(), "default"


UNFOLD = {
    "SITE_TITLE": "Crawlframe",
    "SITE_HEADER": "Crawlframe",
    "SITE_SYMBOL": "hub",
    "SITE_URL": None,  # there is no other site
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": _icon}],
    "SHOW_HISTORY": False,
    "SHOW_VIEW_ON_SITE": False,
    "SHOW_LANGUAGES": True,
    "STYLES": [_style, _pages],
    "SCRIPTS": [_script, _evaluator],
    "ENVIRONMENT": "crawlservice.theme.theme.zone",
    "SIDEBAR": {"navigation": "crawlservice.theme.menu.groups"},
    "TABS": "crawlservice.theme.menu.tabs",
}
