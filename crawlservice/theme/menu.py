"""Menu: the entries of the sidebar in their groups, and the pages that are tabs of an entry."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.apps import apps
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db.models import Exists
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _

DEAD_LETTERS = "state__exact=error"  # as a query of the list of pages
# Pages that are no list of a model, by the name of its URL: its title, and the right to see it.
PAGES = {
    "admin:index": (_("Dashboard"), ""),
    "admin:submit": (_("Submit"), "crawlservice.submit_task"),
    "admin:spiders": (_("Spiders"), "crawlservice.view_task"),
    "admin:errors": (_("Errors"), "crawlservice.view_page"),
    DEAD_LETTERS: (_("Dead letters"), "crawlservice.view_page"),
    "api:openapi-view": (_("API"), ""),
}
# Of lists that are not titled by the name of their model.
TITLES = {"aliasrule": _("Aliases"), "group": _("Roles"), "robotsfile": "robots.txt"}


class MenuEntry(NamedTuple):
    """An entry of the sidebar. Its tabs are models, shown as lists, and keys of PAGES. Lists but
    the first are left out while they are empty, unless rows are added there. While all lists of an
    optional entry are empty, the entry before it shows its tabs."""

    icon: str
    tabs: tuple[str, ...]
    title: str | Promise = ""  # default: the first tab's
    optional: bool = False


GROUPS = {
    _("Work"): (
        MenuEntry("monitoring", ("admin:index",)),
        MenuEntry("play_circle", ("task", "admin:submit")),
        MenuEntry("bug_report", ("admin:spiders", "recipe", "aliasrule")),
        MenuEntry("schedule", ("schedule", "run", "watch"), optional=True),
    ),
    _("Data"): (
        MenuEntry("inventory_2", ("item",)),
        MenuEntry("description", ("page", DEAD_LETTERS, "keptpage")),
        MenuEntry("output", ("export", "webhook", "delivery", "rowdelivery"), optional=True),
    ),
    _("Problems"): (
        MenuEntry("troubleshoot", ("case",), optional=True),
        MenuEntry("warning", ("alert", "alertrule", "alerttarget", "alertmessage", "event")),
        MenuEntry("error", ("admin:errors",)),
    ),
    _("Sites"): (
        MenuEntry("language", ("host", "proxy", "proxysource", "hostcredential", "robotsfile")),
    ),
    _("System"): (
        MenuEntry("dns", ("generation", "previewreport", "era")),
        MenuEntry("key", ("user", "group", "token", "action", "api:openapi-view"), _("Access")),
    ),
}


class MenuTab(NamedTuple):
    """A page of the menu that the user may see."""

    model: str
    title: str
    place: str


def shown(request: HttpRequest) -> dict[str, list[tuple[MenuEntry, list[MenuTab]]]]:
    """The entries that the user sees, by their groups. Found once a request, with one query."""
    if not hasattr(request, "menu"):
        used = _used(request)
        groups = {str(title): _entries(request, some, used) for title, some in GROUPS.items()}
        request.menu = {title: some for title, some in groups.items() if some}  # type: ignore[attr-defined]
    found: dict[str, list[tuple[MenuEntry, list[MenuTab]]]] = request.menu  # type: ignore[attr-defined]
    return found


def _entries(
    request: HttpRequest, entries: tuple[MenuEntry, ...], used: set[str]
) -> list[tuple[MenuEntry, list[MenuTab]]]:
    found: list[tuple[MenuEntry, list[MenuTab]]] = []
    for entry in entries:
        tabs = [tab for name in entry.tabs if (tab := _tab(request, name, entry, used))]
        if tabs and found and entry.optional and not used.intersection(entry.tabs):
            found[-1][1].extend(tabs)
        elif tabs:
            found.append((entry, tabs))
    return found


def _tab(request: HttpRequest, name: str, entry: MenuEntry, used: set[str]) -> MenuTab | None:
    if name in PAGES:
        title, right = PAGES[name]
        place = name if ":" in name else "admin:crawlservice_page_changelist"
        query = "" if ":" in name else f"?{name}"
        seen = not right or request.user.has_perm(right)
        return MenuTab(name, str(title), reverse(place) + query) if seen else None
    model = admin.site.get_model_admin(_model(name))
    first = name == entry.tabs[0] and not entry.optional
    if not model.has_view_permission(request) or not (
        first or name in used or model.has_add_permission(request)
    ):
        return None
    place = reverse(f"admin:{model.opts.app_label}_{name}_changelist")
    plural = capfirst(model.opts.verbose_name_plural)
    return MenuTab(model.opts.label_lower, str(TITLES.get(name, plural)), place)


def _model(name: str) -> Any:
    return apps.get_model("auth" if name in ("user", "group") else "crawlservice", name)


def _used(request: HttpRequest) -> set[str]:
    """The models that have rows, of those whose lists may be left out."""
    entries = [entry for some in GROUPS.values() for entry in some]
    tabs = {name for one in entries for name in one.tabs[not one.optional :]} - {*PAGES}
    rows = {f"has_{name}": Exists(_model(name).objects.all()) for name in tabs}
    user = get_user_model().objects.filter(username=request.user.get_username()).annotate(**rows)
    return {name.removeprefix("has_") for name, has in user.values(*rows)[0].items() if has}


def groups(request: HttpRequest) -> list[dict[str, Any]]:
    """The sidebar, as the theme takes it."""
    return [
        {
            "title": title,
            "items": [
                {"title": entry.title or tabs[0].title, "icon": entry.icon, "link": tabs[0].place}
                for entry, tabs in entries
            ],
        }
        for title, entries in shown(request).items()
    ]


def tabs(request: HttpRequest) -> list[dict[str, Any]]:
    """The tabs of each entry, as the theme takes them: of the lists of models, and under its path
    for a page of our own."""
    if not admin.site.has_permission(request):
        return []
    dead = DEAD_LETTERS in request.GET.urlencode()
    found = []
    for _entry, some in (pair for entries in shown(request).values() for pair in entries):
        own = [tab.place for tab in some if tab.model in PAGES and tab.place == request.path]
        items: list[dict[str, Any]] = [{"title": tab.title, "link": tab.place} for tab in some]
        if dead:  # the theme takes it for the list of all pages, too
            items = [one | {"active": DEAD_LETTERS in one["link"]} for one in items]
        if len(items) > 1:
            models = [tab.model for tab in some]
            found.append({"page": own[0] if own else None, "models": models, "items": items})
    return found
