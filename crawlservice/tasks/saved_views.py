"""Saved views: filters of the list of tasks, kept under a name."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from crawlframe.errors import ArgumentError
from crawlframe.items.encode import clean_text
from crawlservice.accounts.journal import record
from crawlservice.models import QUERY, VIEW_NAME, SavedView

FILTERS = ("status", "spider", "label", "user", "since", "until", "q")
MAX_VIEWS = 50  # views of one user


def of_user(user: Any) -> QuerySet[SavedView]:
    """The user's own views, and shared views of others."""
    rows = SavedView.objects.select_related("user")
    return rows.filter(Q(user=user.pk) | Q(shared=True)).order_by("name", "pk")


def save(user: User, name: str, query: str, *, shared: bool, who: dict[str, Any]) -> SavedView:
    """Keeps the filters of a query string, in place of an own view of this name. Raises
    ArgumentError."""
    name = " ".join(clean_text(name).split())
    if not 0 < len(name) <= VIEW_NAME:
        raise ArgumentError(f"give the view a name of 1 to {VIEW_NAME} characters")
    kept = filters_of(query)
    if len(kept) > QUERY:
        raise ArgumentError(f"these filters have more than {QUERY} characters")
    own = SavedView.objects.filter(user=user)
    if own.count() >= MAX_VIEWS and not own.filter(name=name).exists():
        raise ArgumentError(f"you have {MAX_VIEWS} views already; delete one first")
    row, _ = SavedView.objects.update_or_create(
        user=user, name=name, defaults={"query": kept, "shared": shared}
    )
    record("save saved view", **who, name=name, query=kept, shared=shared)
    return row


def delete(row: SavedView, who: dict[str, Any]) -> None:
    """Deletes a view."""
    row.delete()
    record("delete saved view", **who, name=row.name)


def may_delete(user: Any, row: SavedView) -> bool:
    """Whether the user may delete a view: an own one, or with the right to manage users a shared
    one."""
    return row.user_id == user.pk or (row.shared and user.has_perm("auth.change_user"))


def filters_of(query: str) -> str:
    """The filters of a query string, without its page and anything unknown."""
    pairs = parse_qsl(clean_text(query).removeprefix("?"), max_num_fields=100)
    return urlencode([(name, value) for name, value in pairs if name in FILTERS])
