"""The outbox: events of tasks, schedules, nodes and hosts, the webhooks that report them, and model
items on their way to other databases."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from crawlservice.models.host import HOST
from crawlservice.models.ledger import VERSION
from crawlservice.models.task import REASON, SPIDER, Schedule, Task


class Event(models.Model):
    """An event of a task, a schedule, a node or a host, written in the transaction that made the
    change. ``detail``: further facts."""

    class Kind(models.TextChoices):
        FINISHED = "finished", _("finished")  # with errors or without
        FAILED = "failed", _("failed")
        CANCELLED = "cancelled", _("cancelled")
        SCHEDULE_FAILED = "schedule_failed", _("schedule failed")  # it cannot start its spider
        NODE_OFFLINE = "node_offline", _("node offline")
        NODE_BACK = "node_back", _("node back")
        HOST_HELD = "host_held", _("host held")  # nothing of it is fetched for long
        HOST_RESUMED = "host_resumed", _("host resumed")
        QUALITY_FAILED = "quality_failed", _("quality failed")  # of a task; detail has findings
        PAGES_FOUND = "pages_found", _("pages found")  # by a watch; detail has their URLs
        PAGE_GONE = "page_gone", _("page gone")

    task = models.ForeignKey(Task, models.CASCADE, null=True, blank=True, verbose_name=_("task"))
    schedule = models.ForeignKey(
        Schedule, models.CASCADE, null=True, blank=True, verbose_name=_("schedule")
    )
    node = models.CharField(_("node"), max_length=100, blank=True, default="", db_default="")
    host = models.CharField(_("host"), max_length=HOST, blank=True, default="", db_default="")
    detail = models.JSONField(_("detail"), null=True, blank=True)
    kind = models.CharField(_("kind"), max_length=20, choices=Kind)
    outcome = models.CharField(
        _("outcome"),
        max_length=20,
        choices=Task.Outcome,
        blank=True,
        default="",
        db_default="",
        help_text=_("of the task when this happened"),
    )
    reason = models.CharField(_("reason"), max_length=REASON, blank=True, default="", db_default="")
    created_at = models.DateTimeField(_("created"), db_default=Now())
    delivered_at = models.DateTimeField(
        _("delivered"), null=True, blank=True, help_text=_("when its webhook deliveries were made")
    )

    class Meta:
        verbose_name = _("event")
        verbose_name_plural = _("events")
        ordering = ("id",)
        indexes = (
            models.Index(
                fields=("id",), condition=models.Q(delivered_at__isnull=True), name="event_new"
            ),
            models.Index(fields=("created_at",), name="event_made"),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.task_id or self.schedule or self.node or self.host}"

    @property
    def spider(self) -> str | None:
        """The spider of its task or schedule."""
        of = self.task or self.schedule
        return of.spider if of else None


class Webhook(models.Model):
    """An address that receives events, each in a POST signed with the secret."""

    name = models.CharField(_("name"), max_length=100, unique=True)
    url = models.URLField(_("URL"), max_length=500)
    # Encrypted, see sealing.py. The column keeps its old name, because older processes read it. The
    # login is user:password of the URL and its query, which ``url`` has masked.
    sealed_secret = models.TextField(_("secret"), editable=False, db_column="secret")
    sealed_login = models.TextField(
        _("login"), default="", db_default="", blank=True, editable=False
    )
    spider = models.CharField(
        _("spider"),
        max_length=SPIDER,
        blank=True,
        help_text=_("only events of this spider; empty: of all spiders"),
    )
    kinds = models.JSONField(
        _("kinds of events"),
        default=list,
        blank=True,
        help_text=_('such as ["finished"]; empty: all kinds of events'),
    )
    enabled = models.BooleanField(_("enabled"), default=True)

    class Meta:
        verbose_name = _("webhook")
        verbose_name_plural = _("webhooks")
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class Delivery(models.Model):
    """One event on its way to one webhook."""

    webhook = models.ForeignKey(
        Webhook, models.CASCADE, related_name="deliveries", verbose_name=_("webhook")
    )
    event = models.ForeignKey(Event, models.CASCADE, verbose_name=_("event"))
    attempts = models.SmallIntegerField(_("attempts"), default=0)
    next_at = models.DateTimeField(
        _("next attempt"), null=True, db_default=Now(), help_text=_("empty: no more attempts")
    )
    delivered_at = models.DateTimeField(_("delivered"), null=True, blank=True)
    problem = models.TextField(_("problem"), blank=True, help_text=_("of the last attempt"))

    class Meta:
        verbose_name = _("delivery")
        verbose_name_plural = _("deliveries")
        ordering = ("-id",)
        constraints = (models.UniqueConstraint(fields=("webhook", "event"), name="delivery_once"),)
        indexes = (
            models.Index(
                fields=("webhook", "next_at"),
                condition=models.Q(next_at__isnull=False),
                name="delivery_next",
            ),
            models.Index(
                fields=("id",), condition=models.Q(delivered_at__isnull=True), name="delivery_open"
            ),
        )

    def __str__(self) -> str:
        return f"{self.event} to {self.webhook}"


class RowDelivery(models.Model):
    """The model items of one page on their way to another database. It is written in the
    transaction of the page, and deleted when they have arrived."""

    database = models.CharField(_("database"), max_length=60)
    rows = models.JSONField(_("rows"))  # see ledger/model_items/outgoing_rows.py
    size = models.BigIntegerField(_("size"), help_text=_("bytes of its items as JSON"))
    # The numbers alone: the task may be gone before its rows have arrived.
    task = models.BigIntegerField(_("task"))
    page = models.UUIDField(_("page"))
    version = models.CharField(_("code version"), max_length=VERSION)
    created_at = models.DateTimeField(_("stored"), db_default=Now())
    attempts = models.PositiveIntegerField(
        _("failed attempts"), default=0, db_default=0, help_text=_("of the first page that waits")
    )
    tried_at = models.DateTimeField(_("last attempt"), null=True, blank=True)
    refused = models.BooleanField(
        _("refused"), default=False, db_default=False,
        help_text=_("by that database; it is sent again only on request"),
    )  # fmt: skip
    problem = models.TextField(_("problem"), blank=True, default="", db_default="")

    class Meta:
        verbose_name = _("row delivery")
        verbose_name_plural = _("row deliveries")
        ordering = ("id",)
        indexes = (
            models.Index(
                fields=("database", "id"),
                condition=models.Q(refused=False),
                name="rowdelivery_next",
            ),
            models.Index(
                fields=("id",), condition=models.Q(refused=True), name="rowdelivery_refused"
            ),
        )

    def __str__(self) -> str:
        return f"{self.page} to {self.database}"
