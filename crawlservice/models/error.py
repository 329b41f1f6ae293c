"""Errors over all tasks: the groups that they belong to, and retries of many of them."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from crawlservice.models.ledger import VERSION
from crawlservice.models.task import SPIDER, user_key

REASON = 60  # characters of a reason in the ledger
EXCEPTION = 100  # characters of the name of an exception
PLACE = 200  # characters of the place where it was raised


class ErrorGroup(models.Model):
    """Errors of one spider with one cause. ``id`` is a hash of the cause; pages in error have it
    in ``error_group``."""

    id = models.BigIntegerField(primary_key=True)
    spider = models.CharField(_("spider"), max_length=SPIDER)
    reason = models.CharField(_("reason"), max_length=REASON)
    exception = models.CharField(
        _("exception"), max_length=EXCEPTION, blank=True, help_text=_("its type; empty: none")
    )
    place = models.CharField(
        _("place"), max_length=PLACE, blank=True, help_text=_("file and function that raised it")
    )
    first_version = models.CharField(
        _("first code version"),
        max_length=VERSION,
        blank=True,
        help_text=_("of the code that ran when it was first seen"),
    )
    created_at = models.DateTimeField(_("first seen"), db_default=Now(), editable=False)

    class Meta:
        verbose_name = _("group of errors")
        verbose_name_plural = _("groups of errors")
        ordering = ("spider", "reason", "id")
        indexes = (models.Index(fields=("spider", "id"), name="error_group_spider"),)

    def __str__(self) -> str:
        return " ".join(filter(None, (self.spider, self.reason, self.exception, self.place)))


class BulkRetry(models.Model):
    """Errors of one spider, over its tasks, that are run again: one task after the other."""

    class State(models.TextChoices):
        RUNNING = "running", _("running")
        DONE = "done", _("done")
        STOPPED = "stopped", _("stopped")

    spider = models.CharField(_("spider"), max_length=SPIDER)
    reason = models.CharField(_("reason"), max_length=REASON, blank=True)
    group = models.BigIntegerField(_("group of errors"), null=True, blank=True)
    since = models.DateTimeField(_("since"), null=True, blank=True)
    state = models.CharField(
        _("state"), max_length=7, choices=State, default=State.RUNNING, db_index=True
    )
    tasks = models.JSONField(
        _("tasks"), default=list, help_text=_("number and errors of each, in their order")
    )
    position = models.IntegerField(
        default=0, editable=False, help_text="how many of these tasks are done"
    )
    first_page = models.BigIntegerField(editable=False, help_text="only newer pages are retried")
    last_page = models.BigIntegerField(editable=False, help_text="newer pages are not retried")
    all_tasks = models.IntegerField(_("tasks"))
    all_errors = models.BigIntegerField(_("errors"))
    retried_tasks = models.IntegerField(_("retried tasks"), default=0)
    retried_errors = models.BigIntegerField(_("retried errors"), default=0)
    skipped = models.JSONField(
        _("skipped"), default=list, help_text=_("tasks that could not be retried, and why")
    )
    skipped_tasks = models.IntegerField(_("skipped tasks"), default=0)
    problem = models.TextField(_("problem"), blank=True, help_text=_("why it does not continue"))
    # Without a constraint: an older process deletes users without knowing this table.
    user = user_key(_("user"), db_index=False, db_constraint=False)
    created_at = models.DateTimeField(_("created"), db_default=Now(), editable=False)
    finished_at = models.DateTimeField(_("ended at"), null=True, blank=True)

    class Meta:
        verbose_name = _("retry of errors")
        verbose_name_plural = _("retries of errors")
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"retry {self.pk} of {self.spider}"

    @property
    def left(self) -> int:
        """Tasks that are still to be retried."""
        return len(self.tasks) - self.position
