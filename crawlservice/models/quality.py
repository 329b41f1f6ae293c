"""The quality of runs: one profile of the items and pages of each task, and its findings."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from crawlservice.models.ledger import VERSION
from crawlservice.models.task import SPIDER, Task, task_key

FIELD = 100  # characters of the name of a field


class Profile(models.Model):
    """Measures of the items and pages of one task, and how far these have been read. Both change
    in one transaction, so that no row counts twice."""

    # Without a constraint: an older process deletes tasks without knowing this table.
    task = models.OneToOneField(
        Task,
        models.CASCADE,
        db_constraint=False,
        related_name="profile",
        verbose_name=_("task"),
    )
    spider = models.CharField(_("spider"), max_length=SPIDER)
    arguments_hash = models.BigIntegerField(_("hash of the arguments"), null=True)
    last_item = models.BigIntegerField(_("last item read"), default=0)
    last_page = models.BigIntegerField(_("last page read"), default=0)
    content = models.BinaryField(help_text="as quality/profile.py encodes it")
    coverage = models.JSONField(
        _("coverage"), default=dict, help_text=_("by field, the share of items with a value")
    )
    seconds = models.FloatField(_("duration"), null=True, help_text=_("seconds; of an ended run"))
    judged = models.BooleanField(
        _("judged"), default=False, help_text=_("its end was judged; no more is read")
    )
    good = models.BooleanField(
        _("good"), default=False, help_text=_("later runs are compared with it")
    )
    baseline = models.BooleanField(
        _("baseline"), default=False, help_text=_("later runs are not compared with earlier ones")
    )
    action_due = models.CharField(
        _("action due"), max_length=7, blank=True, default="", help_text=_("of the leading steward")
    )

    class Meta:
        verbose_name = _("profile")
        verbose_name_plural = _("profiles")
        ordering = ("-task_id",)
        indexes = (
            models.Index(
                fields=("task",), condition=models.Q(judged=False), name="profile_unjudged"
            ),
            models.Index(fields=("task",), condition=~models.Q(action_due=""), name="profile_due"),
            models.Index(
                fields=("spider", "arguments_hash", "task"),
                condition=models.Q(good=True),
                name="profile_good",
            ),
        )

    def __str__(self) -> str:
        return f"{self.spider} #{self.task_id}"


class Finding(models.Model):
    """One deviation of a run from its author's expectation, or from earlier runs."""

    class Source(models.TextChoices):
        EXPECTATION = "expectation", _("expectation")
        MONITOR = "monitor", _("monitor")

    # Without a constraint, as in Profile.
    task = task_key(related_name="findings")
    spider = models.CharField(_("spider"), max_length=SPIDER)
    source = models.CharField(_("source"), max_length=11, choices=Source)
    monitor = models.CharField(_("monitor"), max_length=20)
    field = models.CharField(_("field"), max_length=FIELD, blank=True)
    subject = models.CharField(
        _("subject"), max_length=FIELD, blank=True, help_text=_("such as a status, or a value")
    )
    unit = models.CharField(_("unit"), max_length=10)
    low = models.FloatField(_("expected at least"), null=True)
    high = models.FloatField(_("expected at most"), null=True)
    usual = models.FloatField(_("usual"), null=True, help_text=_("median of the last good runs"))
    seen = models.FloatField(_("seen"))
    runs = models.SmallIntegerField(_("runs compared with"), default=0)
    last_good = models.BigIntegerField(_("last good task"), null=True)
    good_version = models.CharField(_("its code version"), max_length=VERSION, blank=True)
    version = models.CharField(_("code version"), max_length=VERSION, blank=True)
    since = models.DateTimeField(_("since"), null=True, help_text=_("empty: the start of the run"))
    examples = models.JSONField(
        _("examples"), default=list, help_text=_("item, rid, page and value")
    )
    told = models.BooleanField(_("told"), default=False, help_text=_("an event names it"))
    accepted_at = models.DateTimeField(_("accepted"), null=True)
    created_at = models.DateTimeField(_("found"), db_default=Now())

    class Meta:
        verbose_name = _("finding")
        verbose_name_plural = _("findings")
        ordering = ("id",)
        constraints = (
            models.UniqueConstraint(
                fields=("task", "source", "monitor", "field", "subject"), name="finding_once"
            ),
        )
        indexes = (
            models.Index(
                fields=("id",),
                condition=models.Q(accepted_at__isnull=True),
                name="finding_open",
            ),
        )

    def __str__(self) -> str:
        return f"{self.monitor} {self.field or self.subject}".rstrip()
