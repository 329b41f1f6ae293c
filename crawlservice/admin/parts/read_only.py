"""Base of all lists of the admin: read-only, nothing counted, the newest rows first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from crawlservice.admin.parts.columns import column
from crawlservice.admin.parts.keyset import KeysetList
from crawlservice.admin.parts.lookups import DeclaredLookups
from crawlservice.display import label_chips, moment


class ReadOnly(DeclaredLookups):
    """A list without editing: only nodes write the ledger and its derived rows."""

    show_full_result_count = False
    list_per_page = 50
    list_fullwidth = True
    sortable_by: Sequence[str] = ()
    actions: Sequence[str] | None = None
    changelist = KeysetList

    created = column(moment, _("created"), "created_at")

    @admin.display(description=_("labels"))
    def shown_labels(self, row: Any) -> SafeString | str:
        """Labels of the row's task, which the list has looked up."""
        return label_chips(row.known_labels, "")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False
