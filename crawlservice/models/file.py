"""Saved files: contents of the file store, and the pages that saved them."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from crawlservice.models.task import task_key

MEDIA_TYPE = 100  # characters


class StoredFile(models.Model):
    """One content in the file store. Written in the transactions of the pages that save it, and
    deleted with the file: its row is locked meanwhile (crawlservice/files/pruning.py)."""

    sha256 = models.CharField("SHA-256", max_length=64, primary_key=True)
    size = models.BigIntegerField(_("size"), help_text=_("bytes"))
    media_type = models.CharField(_("media type"), max_length=MEDIA_TYPE)
    # Of the first page that saved it. The numbers alone: the task may be gone.
    task = models.BigIntegerField(_("task"))
    page = models.UUIDField(_("request id"))
    created_at = models.DateTimeField(_("created"), db_default=Now())
    saved_at = models.DateTimeField(
        _("saved"), db_default=Now(), db_index=True, help_text=_("by the last page so far")
    )

    class Meta:
        verbose_name = _("stored file")
        verbose_name_plural = _("stored files")
        ordering = ("-saved_at",)

    def __str__(self) -> str:
        return self.sha256


class PageFile(models.Model):
    """A file that a page has saved, or a picture of it. Written in the transaction of the page."""

    # Without a constraint: an older process deletes tasks without knowing this table.
    task = task_key()
    rid = models.UUIDField(_("request id"))
    file = models.ForeignKey(StoredFile, models.PROTECT, verbose_name=_("stored file"))
    url = models.TextField(_("URL"))
    # Of a picture that a browser took, its subject: see crawlframe/response/picture.py.
    kind = models.CharField(_("kind"), max_length=20, db_default="")

    class Meta:
        verbose_name = _("file of a page")
        verbose_name_plural = _("files of pages")
        ordering = ("id",)
        constraints = (models.UniqueConstraint(fields=("rid", "file"), name="page_file_once"),)
        indexes = (
            models.Index(fields=("task", "id"), name="page_file_task"),
            models.Index(
                fields=("task", "kind", "id"),
                name="page_file_pictures",
                condition=~models.Q(kind=""),
            ),
        )

    def __str__(self) -> str:
        return self.url
