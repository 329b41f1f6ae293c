"""Saved views: filters of the list of tasks under a name."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

VIEW_NAME = 60  # characters
QUERY = 1000  # characters of the filters


class SavedView(models.Model):
    """Filters that a user keeps, for themselves or for all."""

    # Without a constraint: an older process deletes users without knowing this table.
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, db_constraint=False, verbose_name=_("user")
    )
    name = models.CharField(_("name"), max_length=VIEW_NAME)
    query = models.CharField(_("filters"), max_length=QUERY, blank=True)
    shared = models.BooleanField(_("shared"), default=False, help_text=_("everybody sees it"))
    created_at = models.DateTimeField(_("created"), db_default=Now(), editable=False)

    class Meta:
        verbose_name = _("saved view")
        verbose_name_plural = _("saved views")
        ordering = ("name", "id")
        constraints = (models.UniqueConstraint(fields=("user", "name"), name="saved_view_once"),)

    def __str__(self) -> str:
        return self.name
