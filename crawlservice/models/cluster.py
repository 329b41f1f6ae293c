"""The cluster: lives of its nodes, eras of its Redis, and how much it did when."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from crawlservice.models.task import Task


class Generation(models.Model):
    """One life of a node's master. Its id never repeats."""

    node = models.CharField(_("node"), max_length=100, db_index=True)
    machine = models.CharField(_("machine"), max_length=255)
    pid = models.IntegerField(_("process id"))
    started_at = models.DateTimeField(_("started"), db_default=Now())

    class Meta:
        verbose_name = _("node")
        verbose_name_plural = _("nodes")
        ordering = ("-id",)
        indexes = (models.Index(fields=("started_at",), name="generation_started"),)

    def __str__(self) -> str:
        return f"{self.node}/{self.pk}"


class Era(models.Model):
    """One life of the data in Redis. A new one begins when Redis has lost some of it."""

    number = models.BigIntegerField(_("number"), primary_key=True)
    reason = models.TextField(_("reason"))
    started_at = models.DateTimeField(_("started"), db_default=Now())
    opened_at = models.DateTimeField(
        _("opened"), null=True, blank=True, help_text=_("Redis was whole again")
    )

    class Meta:
        verbose_name = _("era")
        verbose_name_plural = _("eras")
        ordering = ("-number",)

    def __str__(self) -> str:
        return f"era {self.number}"


class Sample(models.Model):
    """Numbers at one instant, of a task or (without one) of the whole cluster: what charts show."""

    at = models.DateTimeField(db_default=Now())
    task = models.ForeignKey(Task, models.CASCADE, null=True, db_index=False)
    nf = models.BigIntegerField()
    ne = models.BigIntegerField()
    cancelled = models.BigIntegerField(default=0, db_default=0)
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
