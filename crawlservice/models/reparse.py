"""Results of kept pages that were parsed again, and the items that were replaced."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from crawlservice.models.ledger import MODEL, VERSION
from crawlservice.models.task import task_key


class ParsedPage(models.Model):
    """A kept page whose items differ by today's code, whose request is in error no more, or which
    leads to requests that its task did not know. Written in the transaction of its row in the
    ledger."""

    rid = models.UUIDField(_("request id"), unique=True)
    # Without a constraint: an older process deletes tasks without knowing this table.
    task = task_key()
    source_task = models.BigIntegerField(_("task of the page"))
    source_rid = models.UUIDField(_("request that brought the page"))
    url = models.TextField(_("URL"))
    old_version = models.CharField(_("code version before"), max_length=VERSION, blank=True)
    version = models.CharField(_("code version"), max_length=VERSION, blank=True)
    before = models.IntegerField(_("items before"))
    after = models.IntegerField(_("items after"))
    added = models.IntegerField(_("items added"))
    removed = models.IntegerField(_("items removed"))
    changed = models.IntegerField(_("items changed"))
    fields = models.JSONField(_("fields"), help_text=_("how many items differ in each"))
    examples = models.JSONField(_("examples"), help_text=_("some of the items that differ"))
    links = models.IntegerField(_("new links"), help_text=_("that its task did not know"))
    repaired = models.BooleanField(_("repaired"), help_text=_("it was an error before"))
    created_at = models.DateTimeField(_("created"), db_default=Now())

    # Others only lead to new links.
    DIFFERS = (
        models.Q(added__gt=0)
        | models.Q(removed__gt=0)
        | models.Q(changed__gt=0)
        | models.Q(repaired=True)
    )

    class Meta:
        verbose_name = _("page parsed again")
        verbose_name_plural = _("pages parsed again")
        ordering = ("-id",)
        indexes = (
            models.Index(fields=("task", "id"), name="parsed_page_task"),
            models.Index(fields=("source_rid",), name="parsed_page_source"),
        )

    def __str__(self) -> str:
        return self.url


class ReplacedItem(models.Model):
    """An item in whose place others were stored when its page was parsed again."""

    task = task_key()
    rid = models.UUIDField(_("request id"))
    ordinal = models.IntegerField(_("place on the page"))
    data = models.JSONField(_("data"))
    version = models.CharField(_("code version"), max_length=VERSION, blank=True)
    model = models.CharField(_("model"), max_length=MODEL, blank=True)
    created_at = models.DateTimeField(_("created"))
    replaced_by = models.BigIntegerField(_("replaced by task"))
    replaced_at = models.DateTimeField(_("replaced"), db_default=Now())

    class Meta:
        verbose_name = _("replaced item")
        verbose_name_plural = _("replaced items")
        ordering = ("-id",)
        indexes = (
            models.Index(fields=("task", "id"), name="replaced_item_task"),
            models.Index(fields=("rid", "id"), name="replaced_item_rid"),
        )

    def __str__(self) -> str:
        return f"item {self.ordinal} of {self.rid}"
