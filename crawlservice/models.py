"""The truth: tasks, the ledger (Page), the items, the lives of nodes, and the outbox of events."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

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


class Task(models.Model):
    """One submitted crawl of one spider."""

    class State(models.TextChoices):
        RUNNING = "running"
        PAUSED = "paused"
        CANCELLING = "cancelling"
        FINISHED = "finished"
        CANCELLED = "cancelled"

    spider = models.CharField(max_length=100, db_index=True)
    arguments = models.JSONField(default=dict, blank=True)
    priority = models.SmallIntegerField(default=0, help_text="-100 to 100, higher is earlier")
    settings = models.JSONField(default=dict, blank=True, help_text="limits, as published")
    state = models.CharField(max_length=12, choices=State, default=State.RUNNING, db_index=True)
    seeds = models.BinaryField(help_text="msgpack list of admissions: what the task starts with")
    created_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True, blank=True)
    na = models.BigIntegerField("admitted", default=0)
    nf = models.BigIntegerField("finished", default=0)
    ne = models.BigIntegerField("errors", default=0)
    items = models.BigIntegerField(default=0)

    ACTIVE = (State.RUNNING, State.PAUSED, State.CANCELLING)

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"{self.spider} #{self.pk}"


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
        indexes = (models.Index(fields=("task", "id"), name="page_task"),)

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


class Generation(models.Model):
    """One life of a node's master. Its id never repeats."""

    node = models.CharField(max_length=100, db_index=True)
    machine = models.CharField(max_length=255)
    pid = models.IntegerField()
    started_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ("-id",)
        verbose_name = "node"

    def __str__(self) -> str:
        return f"{self.node}/{self.pk}"


class Era(models.Model):
    """One life of the data in Redis. A new one begins when Redis has lost some of it."""

    number = models.BigIntegerField(primary_key=True)
    reason = models.TextField()
    started_at = models.DateTimeField(db_default=Now())
    opened_at = models.DateTimeField(null=True, blank=True, help_text="Redis was whole again")

    class Meta:
        ordering = ("-number",)

    def __str__(self) -> str:
        return f"era {self.number}"


class Event(models.Model):
    """Outbox: what happened to a task, written in the transaction that made it happen."""

    task = models.ForeignKey(Task, models.CASCADE)
    kind = models.CharField(max_length=20)
    created_at = models.DateTimeField(db_default=Now())
    delivered_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("id",)

    def __str__(self) -> str:
        return f"{self.kind} {self.task_id}"
