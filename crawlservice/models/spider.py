"""Decisions of operators about spiders. The spiders themselves are code, or recipes."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from crawlservice.models.task import SPIDER, user_key

MAX_REASON = 500  # characters of the reason for which a spider is disabled


class DisabledSpider(models.Model):
    """A spider that is not started. There is a row only while it is disabled."""

    spider = models.CharField(_("spider"), max_length=SPIDER, unique=True)
    reason = models.CharField(_("reason"), max_length=MAX_REASON)
    # Without a constraint: an older process deletes users without knowing this table.
    user = user_key(_("user"), db_index=False, db_constraint=False)
    created_at = models.DateTimeField(_("disabled at"), db_default=Now(), editable=False)

    class Meta:
        verbose_name = _("disabled spider")
        verbose_name_plural = _("disabled spiders")
        ordering = ("spider",)

    def __str__(self) -> str:
        return self.spider
