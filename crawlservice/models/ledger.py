"""The ledger and what its requests brought: one Page per request that ended, and its items."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from crawlservice.models.task import Task

VERSION = 40  # characters of the label of a code version


def _version_field() -> models.CharField[str, str]:
    # With a default of the database: a node of before this column may still be writing.
    return models.CharField(
        max_length=VERSION,
        default="",
        db_default="",
        blank=True,
        help_text="code that made this row: git revision, with + and a digest when it was changed",
    )


class Page(models.Model):
    """The ledger: one row per request that ended. The unique rid decides which run counts."""

    class State(models.TextChoices):
        DONE = "done"
        ERROR = "error"

    rid = models.UUIDField(unique=True)
    task = models.ForeignKey(Task, models.CASCADE, db_index=False)
    url = models.TextField()
    callback = models.CharField(max_length=100)
    state = models.CharField(max_length=5, choices=State)
    reason = models.CharField(max_length=60, blank=True)
    detail = models.TextField(blank=True, help_text="message or traceback of an error")
    status = models.SmallIntegerField(null=True, help_text="HTTP status")
    depth = models.IntegerField()
    attempts = models.SmallIntegerField()
    deliveries = models.SmallIntegerField()
    size = models.BigIntegerField(help_text="bytes of the body after decompression")
    fetch_ms = models.IntegerField()
    items = models.IntegerField()
    version = _version_field()
    created_at = models.DateTimeField(db_default=Now())
    follow_ups = models.BinaryField(null=True, help_text="msgpack list of admissions")
    request = models.BinaryField(null=True, help_text="record of a request that failed")

    class Meta:
        ordering = ("-id",)
        indexes = (
            models.Index(fields=("task", "id"), name="page_task"),
            # With the reason, so that errors are grouped without a look at their rows.
            models.Index(
                fields=("task", "id"),
                condition=models.Q(state="error"),
                include=("reason",),
                name="page_task_error",
            ),
            models.Index(fields=("id",), condition=models.Q(state="error"), name="page_error"),
        )

    def __str__(self) -> str:
        return self.url


class Item(models.Model):
    """One item of one page; ordinal is its place among the items of that page's callback."""

    task = models.ForeignKey(Task, models.CASCADE, db_index=False)
    rid = models.UUIDField()
    ordinal = models.IntegerField()
    data = models.JSONField()
    version = _version_field()
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ("-id",)
        constraints = (models.UniqueConstraint(fields=("rid", "ordinal"), name="item_once"),)
        indexes = (models.Index(fields=("task", "id"), name="item_task"),)

    def __str__(self) -> str:
        return f"item {self.pk}"
