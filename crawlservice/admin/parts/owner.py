"""Rows that own others: a webhook its deliveries, a schedule its runs, a user its tokens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import CASCADE
from django.http import HttpRequest

from crawlservice.admin.parts.lookups import DeclaredLookups


class Owner(DeclaredLookups):
    """Deleting a row deletes the rows it owns, though nobody may delete those by themselves. They
    are counted, not listed: there may be a million."""

    def get_deleted_objects(self, objs: Iterable[Any], request: HttpRequest) -> Any:
        going = list(objs)
        counts = {self.opts.verbose_name_plural: len(going)}
        for relation in self.opts.related_objects:
            owned = relation.related_model
            rows = owned._default_manager.filter(**{f"{relation.field.name}__in": going})
            if relation.on_delete is CASCADE and (number := rows.count()):
                counts[owned._meta.verbose_name_plural] = number
        lacking = {
            self.opts.verbose_name for row in going if not self.has_delete_permission(request, row)
        }
        return [str(row) for row in going], counts, lacking, []
