"""Rows that have others: a webhook its deliveries, a schedule its runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import CASCADE
from django.http import HttpRequest
from unfold.admin import ModelAdmin


class Owner(ModelAdmin):
    """When a row is deleted, what it has goes with it, though nobody may delete such alone. It is
    counted and not listed: there may be a million."""

    def get_deleted_objects(self, objs: Iterable[Any], request: HttpRequest) -> Any:
        going = list(objs)
        counts = {self.opts.verbose_name_plural: len(going)}
        for relation in self.opts.related_objects:
            if relation.on_delete is CASCADE:
                owned = relation.related_model
                number = owned._default_manager.filter(**{f"{relation.field.name}__in": going})
                counts[owned._meta.verbose_name_plural] = number.count()
        return [str(row) for row in going], counts, set(), []
