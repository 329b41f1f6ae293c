"""The ledger and the results of its requests: one Page per request that ended, its items, the
statistics and logs of spiders, and what tasks have spent."""

from __future__ import annotations

from typing import Any, Self

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from crawlframe.items.key_order import in_order
from crawlframe.run.reasons import CANCELLED, EXCLUDED
from crawlservice.models.task import Task, task_key

VERSION = 40  # characters of the label of a code version
TEMPLATE = 500  # characters of the template of a trap
SPENT_HOST = 260  # characters of a host with its port
LOGGER = 100  # characters of a logger's name
MODEL = 200  # characters of the label of a model, such as shop.house


def _version_field() -> models.CharField[str, str]:
    # With a default of the database: a node of an older version may still be writing.
    return models.CharField(
        _("code version"),
        max_length=VERSION,
        default="",
        db_default="",
        blank=True,
        help_text=_(
            "code that made this row: git revision, with + and a digest when it was changed"
        ),
    )


class Page(models.Model):
    """The ledger: one row per request that ended. The unique rid decides which run counts."""

    class State(models.TextChoices):
        DONE = "done", _("done")
        ERROR = "error", _("error")

    rid = models.UUIDField(_("request id"), unique=True)
    task = models.ForeignKey(Task, models.CASCADE, db_index=False, verbose_name=_("task"))
    url = models.TextField(_("URL"))
    callback = models.CharField(_("callback"), max_length=100)
    state = models.CharField(_("state"), max_length=5, choices=State)
    reason = models.CharField(_("reason"), max_length=60, blank=True)
    detail = models.TextField(
        _("detail"), blank=True, help_text=_("message or traceback of an error")
    )
    status = models.SmallIntegerField(_("HTTP status"), null=True)
    depth = models.IntegerField(_("depth"))
    attempts = models.SmallIntegerField(_("attempts"))
    deliveries = models.SmallIntegerField(_("handed to workers"))
    size = models.BigIntegerField(_("size"), help_text=_("bytes of the body after decompression"))
    fetch_ms = models.IntegerField(_("fetch, ms"))
    items = models.IntegerField(_("items"))
    version = _version_field()
    created_at = models.DateTimeField(_("created"), db_default=Now())
    follow_ups = models.BinaryField(null=True, help_text="msgpack list of admissions")
    request = models.BinaryField(null=True, help_text="record of a request that failed")
    stats = models.JSONField(
        _("stats"), null=True, blank=True, help_text=_("counted by the spider on this page")
    )
    redirects = models.JSONField(
        _("redirects"),
        null=True,
        blank=True,
        help_text=_("statuses and URLs that the request was redirected to; 20 at most"),
    )
    landing = models.JSONField(_("target of its redirects"), null=True, editable=False)  # rid, URL
    usage = models.JSONField(
        _("usage"),
        null=True,
        blank=True,
        help_text=_("the page's declaration of its use; empty if there is none"),
    )
    error_group = models.BigIntegerField(
        _("group of errors"), null=True, blank=True, help_text=_("errors with the same cause")
    )
    exchange = models.JSONField(
        _("headers"),
        null=True,
        blank=True,
        help_text=_("of an error: request and response, without secrets"),
    )

    class Meta:
        verbose_name = _("page")
        verbose_name_plural = _("pages")
        ordering = ("-id",)
        indexes = (
            models.Index(fields=("task", "id"), name="page_task"),
            # With the reason, so that errors are grouped without reading their rows.
            models.Index(
                fields=("task", "id"),
                condition=models.Q(state="error"),
                include=("reason",),
                name="page_task_error",
            ),
            models.Index(fields=("id",), condition=models.Q(state="error"), name="page_error"),
            # With the task, so that tasks with errors of a group are found without their rows.
            models.Index(
                fields=("error_group", "id"),
                condition=models.Q(error_group__isnull=False),
                include=("task",),
                name="page_error_group",
            ),
        )

    def __str__(self) -> str:
        return self.url

    @classmethod
    def counts(cls) -> dict[str, models.Count]:
        """Aggregates: requests that are done, that ended in error, and of the latter those that
        were cancelled or excluded."""
        error = models.Q(state=cls.State.ERROR)
        return {
            "nf": models.Count("pk", filter=models.Q(state=cls.State.DONE)),
            "ne": models.Count("pk", filter=error),
            "cancelled": models.Count("pk", filter=error & models.Q(reason=CANCELLED)),
            "excluded": models.Count("pk", filter=error & models.Q(reason__in=EXCLUDED)),
        }

    @property
    def is_cancelled(self) -> bool:
        return self.state == self.State.ERROR and self.reason == CANCELLED

    @property
    def is_excluded(self) -> bool:
        return self.state == self.State.ERROR and self.reason in EXCLUDED


class Item(models.Model):
    """One item of one page; ordinal is its place among the items of that page's callback."""

    task = models.ForeignKey(Task, models.CASCADE, db_index=False, verbose_name=_("task"))
    rid = models.UUIDField(_("request id"))
    ordinal = models.IntegerField(_("place on the page"))
    data = models.JSONField(_("data"))
    key_order = models.TextField(_("order of fields"), default="", db_default="")
    version = _version_field()
    model = models.CharField(
        _("model"),
        max_length=MODEL,
        default="",
        db_default="",
        blank=True,
        help_text=_("of the row that the item was also stored in; empty: none"),
    )
    created_at = models.DateTimeField(_("created"), db_default=Now())

    class Meta:
        verbose_name = _("item")
        verbose_name_plural = _("items")
        ordering = ("-id",)
        constraints = (models.UniqueConstraint(fields=("rid", "ordinal"), name="item_once"),)
        indexes = (models.Index(fields=("task", "id"), name="item_task"),)

    @classmethod
    def from_db(cls, *row: Any, **options: Any) -> Self:
        item = super().from_db(*row, **options)
        if item.__dict__.get("key_order") and "data" in item.__dict__:
            item.data = in_order(item.data, item.key_order)
        return item

    def __str__(self) -> str:
        return f"item {self.pk}"


class RowChange(models.Model):
    """A change that an Upsert with ``history`` made in a row of a team's model. Written in the
    transaction of the page. Kept when the task is removed."""

    model = models.CharField(_("model"), max_length=MODEL)
    row = models.TextField(_("primary key"))
    task = models.BigIntegerField(_("task"))
    page = models.UUIDField(_("request id"))
    version = _version_field()
    changes = models.JSONField(
        _("changes"), help_text=_("by field: the value before, and the value after")
    )
    created_at = models.DateTimeField(_("created"), db_default=Now())

    class Meta:
        verbose_name = _("row change")
        verbose_name_plural = _("row changes")
        ordering = ("-id",)
        indexes = (models.Index(fields=("model", "row", "id"), name="row_change_row"),)

    def __str__(self) -> str:
        return f"{self.model} {self.row}"


class Stat(models.Model):
    """A statistic of a task's pages under one name: a sum, or a maximum. Written in the
    transactions of the pages."""

    class Kind(models.TextChoices):
        COUNTER = "counter", _("counter")
        MAXIMUM = "maximum", _("maximum")

    # Without a constraint: an older process deletes tasks without knowing this table.
    task = task_key()
    kind = models.CharField(_("kind"), max_length=7, choices=Kind)
    name = models.CharField(_("name"), max_length=100)
    value = models.FloatField(_("value"))

    class Meta:
        verbose_name = _("stat")
        verbose_name_plural = _("stats")
        ordering = ("task", "kind", "name")
        constraints = (models.UniqueConstraint(fields=("task", "kind", "name"), name="stat_once"),)

    def __str__(self) -> str:
        return self.name


class StartPart(models.Model):
    """Requests that a task's start has yielded while it still runs. They are admitted like seeds,
    however the run ends. The number decides which run of start counts."""

    # Without a constraint, as in Stat.
    task = task_key()
    number = models.IntegerField(_("number"))
    position = models.BigIntegerField(_("requests yielded until its end"))
    mark = models.BinaryField(help_text="identifies the last of these requests")
    duplicates = models.BigIntegerField(_("duplicates"))
    follow_ups = models.BinaryField(help_text="msgpack list of admissions")
    created_at = models.DateTimeField(_("created"), db_default=Now())

    class Meta:
        verbose_name = _("part of a start")
        verbose_name_plural = _("parts of starts")
        ordering = ("task", "number")
        constraints = (models.UniqueConstraint(fields=("task", "number"), name="start_part_once"),)

    def __str__(self) -> str:
        return f"part {self.number}"


class TaskState(models.Model):
    """State that requests of a task need in addition to their records, such as a cookie."""

    # Without a constraint, as in Stat.
    task = task_key()
    kind = models.CharField(_("kind"), max_length=10)
    key = models.CharField(_("key"), max_length=32)  # a digest: the key itself is sealed
    sealed = models.TextField(_("value"))  # the key, too

    class Meta:
        verbose_name = _("state of a task")
        verbose_name_plural = _("states of tasks")
        constraints = (
            models.UniqueConstraint(fields=("task", "kind", "key"), name="task_state_once"),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


class TaskLayer(models.Model):
    """A layer of a task that is crawled in layers, and its counts when it was done. Written with
    the task's step to the next layer; the present layer has no row."""

    # Without a constraint, as in Stat.
    task = task_key()
    number = models.IntegerField(_("layer"))
    nf = models.BigIntegerField(_("finished"))
    ne = models.BigIntegerField(_("errors"))
    cancelled = models.BigIntegerField(_("cancelled"), default=0)
    excluded = models.BigIntegerField(_("excluded"), default=0)
    items = models.BigIntegerField(_("items"))
    ended_at = models.DateTimeField(
        _("ended at"),
        null=True,
        help_text=_("empty: its failed requests are retried, or wait for it"),
    )

    class Meta:
        verbose_name = _("layer of a task")
        verbose_name_plural = _("layers of tasks")
        ordering = ("task", "number")
        constraints = (models.UniqueConstraint(fields=("task", "number"), name="task_layer_once"),)

    def __str__(self) -> str:
        return f"layer {self.number}"


class Spent(models.Model):
    """The bytes of a task's pages, of all hosts (``host`` is empty) or of one; only for tasks with
    such a limit. Written in the transactions of the pages."""

    task = task_key()
    host = models.CharField(_("host"), max_length=SPENT_HOST, blank=True, default="")
    bytes = models.BigIntegerField(_("bytes"))

    class Meta:
        verbose_name = _("spent budget")
        verbose_name_plural = _("spent budgets")
        ordering = ("task", "host")
        constraints = (models.UniqueConstraint(fields=("task", "host"), name="spent_once"),)

    def __str__(self) -> str:
        return self.host or str(self.task)


class Trap(models.Model):
    """URLs of one form, many of which bring nothing new. The numbers of the workers that noticed it
    are added; they look at a sample of the pages."""

    task = task_key()
    template = models.CharField(_("URLs"), max_length=TEMPLATE)
    pages = models.BigIntegerField(_("pages"))
    contents = models.BigIntegerField(_("different contents"))

    class Meta:
        verbose_name = _("possible trap")
        verbose_name_plural = _("possible traps")
        ordering = ("task", "-pages")
        constraints = (models.UniqueConstraint(fields=("task", "template"), name="trap_once"),)

    def __str__(self) -> str:
        return self.template


class LogLine(models.Model):
    """One message that a spider of a task logged or printed, with the time of the machine that ran
    it."""

    task = task_key()
    at = models.DateTimeField(_("time"))
    level = models.SmallIntegerField(_("level"), help_text=_("10 debug, 20 info, 30 warning, …"))
    logger = models.CharField(_("logger"), max_length=LOGGER)
    rid = models.UUIDField(_("request"), null=True, blank=True)
    url = models.TextField("URL", blank=True, default="")
    text = models.TextField(_("text"))
    worker = models.TextField(_("worker"), default="", db_default="")  # node and process

    class Meta:
        verbose_name = _("log line")
        verbose_name_plural = _("log lines")
        ordering = ("task", "id")
        indexes = (models.Index(fields=("task", "id"), name="logline_task"),)

    def __str__(self) -> str:
        return self.text


class TaskLog(models.Model):
    """The kept part of a task's log. Its row is locked while lines are added."""

    task = task_key()
    lines = models.BigIntegerField(_("lines"))
    size = models.BigIntegerField(_("bytes"))
    dropped = models.BigIntegerField(_("dropped lines"))

    class Meta:
        verbose_name = _("log of a task")
        verbose_name_plural = _("logs of tasks")
        ordering = ("task",)
        constraints = (models.UniqueConstraint(fields=("task",), name="tasklog_once"),)

    def __str__(self) -> str:
        return f"{self.lines} lines of task {self.task_id}"
