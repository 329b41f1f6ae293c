"""The look of the admin: its name, its style sheet, and the entries of the sidebar."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse, reverse_lazy
from django.utils.functional import lazy
from django.utils.translation import gettext_lazy as _


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


def _may_submit(request: HttpRequest) -> bool:
    return request.user.has_perm("crawlservice.submit_task")


def _may_view_tasks(request: HttpRequest) -> bool:
    return request.user.has_perm("crawlservice.view_task")


def _may_view_pages(request: HttpRequest) -> bool:
    return request.user.has_perm("crawlservice.view_page")


def _may_view_row_deliveries(request: HttpRequest) -> bool:
    return bool(settings.APP_DATABASES) and request.user.has_perm("crawlservice.view_rowdelivery")


def _errors() -> str:
    return f"{reverse('admin:crawlservice_page_changelist')}?state__exact=error"


def _shows_errors(request: HttpRequest) -> bool:
    page = request.path == reverse("admin:crawlservice_page_changelist")
    return page and request.GET.get("state__exact") == "error"


def _shows_pages(request: HttpRequest) -> bool:
    below = request.path.startswith(reverse("admin:crawlservice_page_changelist"))
    return below and not _shows_errors(request)


def _list(model: str, title: Any, icon: str) -> dict[str, Any]:
    def may(request: HttpRequest) -> bool:
        app = "auth" if model in ("user", "group") else "crawlservice"
        return request.user.has_perm(f"{app}.view_{model}")

    app = "auth" if model in ("user", "group") else "crawlservice"
    link = reverse_lazy(f"admin:{app}_{model}_changelist")
    return {"title": title, "icon": icon, "link": link, "permission": may}


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
    "SIDEBAR": {
        "navigation": [
            {
                "items": [
                    {
                        "title": _("Dashboard"),
                        "icon": "monitoring",
                        "link": reverse_lazy("admin:index"),
                    },
                    {
                        "title": _("Submit"),
                        "icon": "add_circle",
                        "link": reverse_lazy("admin:submit"),
                        "permission": _may_submit,
                    },
                    _list("task", _("Tasks"), "play_circle"),
                    {
                        "title": _("Spiders"),
                        "icon": "bug_report",
                        "link": reverse_lazy("admin:spiders"),
                        "permission": _may_view_tasks,
                    },
                    _list("schedule", _("Schedules"), "schedule"),
                    _list("watch", _("Watches"), "visibility"),
                    _list("recipe", _("Recipes"), "menu_book"),
                    _list("item", _("Items"), "inventory_2"),
                    {**_list("page", _("Pages"), "description"), "active": _shows_pages},
                    _list("keptpage", _("Kept pages"), "archive"),
                    {
                        "title": _("Errors"),
                        "icon": "error",
                        "link": reverse_lazy("admin:errors"),
                        "permission": _may_view_pages,
                    },
                    {
                        "title": _("Dead letters"),
                        "icon": "report",
                        "link": lazy(_errors, str)(),
                        "permission": _may_view_pages,
                        "active": _shows_errors,
                    },
                    _list("host", _("Hosts"), "language"),
                    _list("generation", _("Nodes"), "dns"),
                    _list("robotsfile", _("robots.txt"), "smart_toy"),
                    _list("aliasrule", _("Aliases"), "link"),
                ],
            },
            {
                "title": _("Operation"),
                "separator": True,
                "items": [
                    _list("event", _("Events"), "notifications"),
                    _list("alert", _("Alerts"), "notification_important"),
                    _list("alertrule", _("Alert rules"), "rule"),
                    _list("alerttarget", _("Alert targets"), "contacts"),
                    _list("alertmessage", _("Alert messages"), "outgoing_mail"),
                    _list("webhook", _("Webhooks"), "webhook"),
                    _list("export", _("Exports"), "output"),
                    _list("hostcredential", _("Credentials"), "passkey"),
                    _list("proxy", _("Proxies"), "alt_route"),
                    _list("proxysource", _("Proxy lists"), "list_alt"),
                    _list("delivery", _("Deliveries"), "outbox"),
                    {
                        **_list("rowdelivery", _("Row deliveries"), "move_group"),
                        "permission": _may_view_row_deliveries,
                    },
                    _list("era", _("Eras"), "restart_alt"),
                ],
            },
            {
                "title": _("Programs"),
                "separator": True,
                "items": [
                    _list("token", _("Tokens"), "key"),
                    {
                        "title": _("API"),
                        "icon": "api",
                        "link": reverse_lazy("api:openapi-view"),
                    },
                ],
            },
            {
                "title": _("People"),
                "separator": True,
                "items": [
                    _list("user", _("Users"), "person"),
                    _list("group", _("Roles"), "badge"),
                    _list("action", _("Journal"), "history_edu"),
                ],
            },
        ],
    },
}
