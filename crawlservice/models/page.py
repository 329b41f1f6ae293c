"""Kept pages: what sites sent, and where the bodies are."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from crawlservice.models.ledger import MODEL, VERSION
from crawlservice.models.task import task_key

MEDIA_TYPE = 100  # characters
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
    # Set anew by each page that has this body: what is in use is not deleted meanwhile.
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
                fields=("key", "fetched_at"),
                name="kept_page_key",
                condition=models.Q(key__isnull=False),
            ),
        )

    def __str__(self) -> str:
        return self.url


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
    # Of a picture that a browser took, what it shows: see crawlframe/response/picture.py.
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
