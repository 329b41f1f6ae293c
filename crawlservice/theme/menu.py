"""Menu: the entries of the sidebar in their groups, and the lists that are tabs of an entry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from django.apps import apps
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db.models import Exists
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise


class Tab(NamedTuple):
    """A page of the admin: the list of a model (``auth.user``), or the page of a URL's name, for
    users with a right. An optional list is left out while it is empty, unless rows are added
    there. ``query`` chooses rows of the list."""

    title: _StrPromise
    model: str = ""
    page: str = ""
    right: str = ""
    query: str = ""
    optional: bool = False

    @property
    def place(self) -> str:
        return reverse(self.page or f"admin:{self.model.replace('.', '_')}_changelist") + self.query


class Entry(NamedTuple):
    """An entry of the sidebar. While all lists of an optional one are empty, its tabs are those of
    the entry before it."""

    title: _StrPromise
    icon: str
    tabs: tuple[Tab, ...]
    optional: bool = False


@dataclass
class ShownEntry:
    """An entry with the tabs that a user sees."""

    entry: Entry
    tabs: list[Tab]

    def leads_to(self, path: str) -> bool:
        """Whether the page is one of the tabs, or below one."""
        places = [tab.place.partition("?")[0] for tab in self.tabs]
        index = reverse("admin:index")
        return any(path == one or (one != index and path.startswith(one)) for one in places)


def _of(name: str, title: Any, *, query: str = "") -> Tab:
    return Tab(title, f"crawlservice.{name}", query=query)


def _if_used(name: str, title: Any) -> Tab:
    return Tab(title, f"crawlservice.{name}", optional=True)


def _entry(icon: str, *tabs: Tab, title: Any = "", optional: bool = False) -> Entry:
    """With the title of its first tab, unless another is given."""
    return Entry(title or tabs[0].title, icon, tabs, optional)


GROUPS = {
    _("Work"): (
        _entry("monitoring", Tab(_("Dashboard"), page="admin:index")),
        _entry(
            "play_circle",
            _of("task", _("Tasks")),
            Tab(_("Submit"), page="admin:submit", right="crawlservice.submit_task"),
        ),
        _entry(
            "bug_report",
            Tab(_("Spiders"), page="admin:spiders", right="crawlservice.view_task"),
            _if_used("recipe", _("Recipes")),
            _if_used("aliasrule", _("Aliases")),
        ),
        _entry(
            "schedule",
            _if_used("schedule", _("Schedules")),
            _if_used("run", _("Runs")),
            _if_used("watch", _("Watches")),
            optional=True,
        ),
    ),
    _("Data"): (
        _entry("inventory_2", _of("item", _("Items"))),
        _entry(
            "description",
            _of("page", _("Pages")),
            _of("page", _("Dead letters"), query="?state__exact=error"),
            _if_used("keptpage", _("Kept pages")),
        ),
        _entry(
            "output",
            _if_used("export", _("Exports")),
            _if_used("webhook", _("Webhooks")),
            _if_used("delivery", _("Deliveries")),
            _if_used("rowdelivery", _("Row deliveries")),
            optional=True,
        ),
    ),
    _("Problems"): (
        _entry(
            "notification_important",
            _of("alert", _("Alerts")),
            _if_used("alertrule", _("Alert rules")),
            _if_used("alerttarget", _("Alert targets")),
            _if_used("alertmessage", _("Alert messages")),
            _if_used("event", _("Events")),
        ),
        _entry("error", Tab(_("Errors"), page="admin:errors", right="crawlservice.view_page")),
    ),
    _("Sites"): (
        _entry(
            "language",
            _of("host", _("Hosts")),
            _if_used("proxy", _("Proxies")),
            _if_used("proxysource", _("Proxy lists")),
            _if_used("hostcredential", _("Credentials")),
            _if_used("robotsfile", _("robots.txt")),
        ),
    ),
    _("System"): (
        _entry("dns", _of("generation", _("Nodes")), _if_used("era", _("Eras"))),
        _entry(
            "key",
            Tab(_("Users"), "auth.user"),
            Tab(_("Roles"), "auth.group"),
            _of("token", _("Tokens")),
            _of("action", _("Journal")),
            Tab(_("API"), page="api:openapi-view"),
            title=_("Access"),
        ),
    ),
}


def shown(request: HttpRequest) -> dict[_StrPromise, list[ShownEntry]]:
    """The groups as the user sees them. Computed once a request, with one query."""
    if not hasattr(request, "menu"):
        used = _used(request)
        groups = ((title, _entries(request, some, used)) for title, some in GROUPS.items())
        request.menu = {title: some for title, some in groups if some}  # type: ignore[attr-defined]
    found: dict[_StrPromise, list[ShownEntry]] = request.menu  # type: ignore[attr-defined]
    return found


def _entries(request: HttpRequest, entries: tuple[Entry, ...], used: set[str]) -> list[ShownEntry]:
    found: list[ShownEntry] = []
    for entry in entries:
        tabs = [tab for tab in entry.tabs if _sees(request, tab, used)]
        if not tabs:
            continue
        if found and entry.optional and not any(tab.model in used for tab in entry.tabs):
            found[-1].tabs += tabs
        else:
            found.append(ShownEntry(entry, tabs))
    return found


def _sees(request: HttpRequest, tab: Tab, used: set[str]) -> bool:
    if tab.page:
        return not tab.right or request.user.has_perm(tab.right)
    model = admin.site.get_model_admin(apps.get_model(tab.model))
    if not model.has_view_permission(request):
        return False
    return not tab.optional or tab.model in used or model.has_add_permission(request)


def _used(request: HttpRequest) -> set[str]:
    """The models of optional lists that have rows."""
    entries = (entry for some in GROUPS.values() for entry in some)
    names = [tab.model for entry in entries for tab in entry.tabs if tab.optional]
    rows = {f"used{n}": Exists(apps.get_model(name).objects.all()) for n, name in enumerate(names)}
    user = get_user_model().objects.filter(pk=request.user.pk).annotate(**rows)
    return {name for name, has in zip(names, user.values_list(*rows)[0], strict=True) if has}


def groups(request: HttpRequest) -> list[dict[str, Any]]:
    """The sidebar, as the theme takes it."""
    return [
        {
            "title": title,
            "items": [
                {
                    "title": one.entry.title,
                    "icon": one.entry.icon,
                    "link": one.tabs[0].place,
                    "active": one.leads_to(request.path),
                }
                for one in entries
            ],
        }
        for title, entries in shown(request).items()
    ]


def tabs(request: HttpRequest) -> list[dict[str, Any]]:
    """The tabs of the page, as the theme takes them: by the models of lists, and under the name
    ``menu`` for pages of our own. None on a page that is no tab, or the only one."""
    if not admin.site.has_permission(request):
        return []
    for one in (entry for entries in shown(request).values() for entry in entries):
        here = {tab: tab.place.partition("?") for tab in one.tabs}
        if len(here) > 1 and any(request.path == path for path, _mark, _query in here.values()):
            chosen = _chosen(request, [*here])
            items = [
                {"title": tab.title, "link": tab.place, "active": tab == chosen} for tab in here
            ]
            return [{"page": "menu", "models": [tab.model for tab in here], "items": items}]
    return []


def _chosen(request: HttpRequest, tabs: list[Tab]) -> Tab:
    """Of two tabs of one list, the one whose query the page has."""
    here = [tab for tab in tabs if tab.place.partition("?")[0] == request.path]
    query = request.GET.urlencode()
    return max(here, key=lambda tab: bool(tab.query) and tab.query[1:] in query)
