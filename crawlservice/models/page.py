"""Kept pages: the answers of sites, and the places of their bodies."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from crawlservice.models.task import task_key

HOST = 300  # characters
NAME = 200  # characters of the name of a segment
TAG = 1000  # characters of an ETag; a longer one is not kept


class PageSegment(models.Model):
    """A WARC file with kept pages."""

    class State(models.TextChoices):
        OPEN = "open", _("open")
        FINISHED = "finished", _("finished")
        UPLOADED = "uploaded", _("uploaded")

    name = models.CharField(_("name"), max_length=NAME, unique=True)
    node = models.CharField(_("node"), max_length=HOST)
    state = models.CharField(_("state"), max_length=8, choices=State, default=State.OPEN)
    size = models.BigIntegerField(_("size"), default=0, help_text=_("bytes"))
    created_at = models.DateTimeField(_("created"), db_default=Now())

    class Meta:
        verbose_name = _("segment of pages")
        verbose_name_plural = _("segments of pages")
        ordering = ("-id",)

    def __str__(self) -> str:
        return self.name


class PageBody(models.Model):
    """The body of pages, kept once for all that have the same bytes: here, compressed by
    Zstandard, or in a segment."""

    digest = models.BinaryField(unique=True, max_length=32, help_text="BLAKE2b, 32 bytes")
    size = models.BigIntegerField(_("size"), help_text=_("bytes of the body after decompression"))
    data = models.BinaryField(null=True)
    stored = models.BigIntegerField(_("stored"), help_text=_("bytes that it takes"))
    segment = models.ForeignKey(
        PageSegment, models.PROTECT, null=True, verbose_name=_("segment of pages")
    )
    offset = models.BigIntegerField(null=True, help_text="of its record in the segment")
    length = models.BigIntegerField(null=True, help_text="bytes of its record")
    # Set anew by each page that has this body: a body in use is not deleted meanwhile.
    used_at = models.DateTimeField(_("used"), db_default=Now(), db_index=True)

    class Meta:
        verbose_name = _("body of pages")
        verbose_name_plural = _("bodies of pages")
        ordering = ("-id",)

    def __str__(self) -> str:
        return bytes(self.digest).hex()


class KeptPage(models.Model):
    """A page as its site sent it. Written in the transaction of its row in the ledger."""

    rid = models.UUIDField(_("request id"), unique=True)
    # Without a constraint: an older process deletes tasks without knowing this table.
    task = task_key()
    url = models.TextField(_("URL"), help_text=_("after redirects"))
    host = models.CharField(_("host"), max_length=HOST)
    method = models.CharField(_("method"), max_length=20)
    status = models.SmallIntegerField(_("HTTP status"))
    reason = models.CharField(
        _("reason"), max_length=60, blank=True, help_text=_("why it is kept; empty: it is done")
    )
    sample = models.CharField(
        _("sample"),
        max_length=100,
        null=True,
        help_text=_("the callback whose good pages it stands for; empty: it is kept for itself"),
    )
    headers = models.JSONField(_("headers"), help_text=_("sent and received, without secrets"))
    address = models.CharField(_("IP address"), max_length=45, blank=True)
    key = models.BinaryField(null=True, max_length=16, help_text="what its request is found by")
    etag = models.TextField(blank=True)
    modified = models.CharField(max_length=100, blank=True, help_text="Last-Modified")
    record = models.BinaryField(help_text="record of its request")
    # Of a page whose results may be taken over, if it does not change.
    signature = models.BinaryField(null=True, max_length=16, help_text="of what ran its callback")
    follow_ups = models.BinaryField(null=True, help_text="msgpack list of records, by Zstandard")
    body = models.ForeignKey(PageBody, models.PROTECT, verbose_name=_("body of pages"))
    fetched_at = models.DateTimeField(_("fetched"), db_default=Now(), db_index=True)

    class Meta:
        verbose_name = _("kept page")
        verbose_name_plural = _("kept pages")
        ordering = ("-id",)
        indexes = (
            models.Index(fields=("task", "id"), name="kept_page_task"),
            models.Index(
                fields=("task", "reason", "id"),
                name="kept_page_reason",
                condition=~models.Q(reason=""),
            ),
            models.Index(
                fields=("id",),
                name="kept_page_sample",
                condition=models.Q(sample__isnull=False),
            ),
            models.Index(
                fields=("key", "fetched_at"),
                name="kept_page_key",
                condition=models.Q(key__isnull=False),
            ),
        )

    def __str__(self) -> str:
        return self.url
