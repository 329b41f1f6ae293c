"""The cluster: its installation, lives of nodes, eras of its Redis, and samples of its work."""

from __future__ import annotations

from uuid import uuid4

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from crawlservice.models.task import Task


class Installation(models.Model):
    """The only row: the id of the cluster that this database belongs to. Its Redis has the same
    id."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    uuid = models.UUIDField(default=uuid4)
    # Sealed with the key of the first process: one that cannot open it has another SECRET_KEY.
    key_check = models.TextField(default="", db_default="", blank=True, editable=False)
    created_at = models.DateTimeField(db_default=Now())
    signalled = models.BigIntegerField(null=True, help_text="last event that was sent as a signal")
    checked_at = models.DateTimeField(
        null=True, help_text="when a leading steward last looked for alerts"
    )
    diagnosed = models.BigIntegerField(null=True, help_text="last event that cases were made of")

    def __str__(self) -> str:
        return str(self.uuid)


class Generation(models.Model):
    """One life of a node's master. Its id never repeats."""

    class Fate(models.TextChoices):
        ALIVE = "", _("alive")
        LEFT = "left", _("stopped")  # it was asked to stop
        DIED = "died", _("died")  # its lease ended before it left
        REPLACED = "replaced", _("replaced")  # by the next life of its node
        UNKNOWN = "unknown", _("unknown")  # it began before this was recorded

    node = models.CharField(_("node"), max_length=100, db_index=True)
    machine = models.CharField(_("machine"), max_length=255)
    pid = models.IntegerField(_("process id"))
    started_at = models.DateTimeField(_("started"), db_default=Now())
    fate = models.CharField(
        _("fate"), max_length=8, choices=Fate, blank=True, default="", db_default=""
    )
    ended_at = models.DateTimeField(_("ended at"), null=True, blank=True)
    given_back = models.IntegerField(
        _("given back"),
        default=0,
        db_default=0,
        help_text=_("requests that it held when it died; other nodes run them"),
    )
    offline = models.BooleanField(
        _("offline"),
        default=False,
        db_default=False,
        help_text=_("it died, and its node has neither come back nor been forgotten"),
    )

    once = models.BooleanField(
        _("once"),
        default=False,
        db_default=False,
        help_text=_("it ends when no task is left; when it dies, it is not shown as offline"),
    )

    class Meta:
        verbose_name = _("node")
        verbose_name_plural = _("nodes")
        ordering = ("-id",)
        indexes = (
            models.Index(fields=("started_at",), name="generation_started"),
            models.Index(fields=("id",), condition=models.Q(fate=""), name="generation_alive"),
            models.Index(
                fields=("id",), condition=models.Q(offline=True), name="generation_offline"
            ),
        )
        permissions = (("forget_generation", _("Can forget offline nodes")),)

    def __str__(self) -> str:
        return f"{self.node}/{self.pk}"


class Era(models.Model):
    """One life of the data in Redis. A new era starts when Redis has lost data."""

    number = models.BigIntegerField(_("number"), primary_key=True)
    reason = models.TextField(_("reason"))
    started_at = models.DateTimeField(_("started"), db_default=Now())
    opened_at = models.DateTimeField(
        _("opened"), null=True, blank=True, help_text=_("when Redis was whole again")
    )

    class Meta:
        verbose_name = _("era")
        verbose_name_plural = _("eras")
        ordering = ("-number",)

    def __str__(self) -> str:
        return f"era {self.number}"


class Sample(models.Model):
    """Numbers at one instant, of a task or (without one) of the whole cluster, for charts."""

    at = models.DateTimeField(db_default=Now())
    task = models.ForeignKey(Task, models.CASCADE, null=True, db_index=False)
    nf = models.BigIntegerField()
    ne = models.BigIntegerField()
    cancelled = models.BigIntegerField(default=0, db_default=0)
    excluded = models.BigIntegerField(default=0, db_default=0)
    items = models.BigIntegerField()
    ready = models.BigIntegerField()
    in_progress = models.BigIntegerField()
    delayed = models.BigIntegerField()
    parked = models.BigIntegerField()

    class Meta:
        ordering = ("at",)
        indexes = (
            models.Index(fields=("task", "at"), name="sample_task"),
            models.Index(fields=("at",), name="sample_at"),
        )

    def __str__(self) -> str:
        return f"{self.task_id or 'cluster'} at {self.at:%H:%M:%S}"
