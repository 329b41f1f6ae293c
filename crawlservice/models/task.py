"""Task: one submitted crawl, its labels, and the schedules that submit them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from crawlframe.base.secret import masked
from crawlframe.request.request import MAX_TASK_PRIORITY

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.utils.functional import _StrPromise

SPIDER = 100  # characters of a spider's name
REASON = 200  # characters of the reason for a task's outcome
LABELS = 20  # labels of one task
LABEL_NAME = 40  # characters
LABEL_VALUE = 100
USER = settings.AUTH_USER_MODEL


def task_key(**options: Any) -> models.ForeignKey[Task, Task]:
    """The task of a row. Rows of a task are deleted in batches before it: no constraint."""
    return models.ForeignKey(
        "crawlservice.Task", models.CASCADE, db_index=False, db_constraint=False,
        verbose_name=_("task"), **options,
    )  # fmt: skip


def user_key(
    name: str | _StrPromise, **options: Any
) -> models.ForeignKey[User | None, User | None]:
    """The user of an action; none for a program, or for a deleted user."""
    return models.ForeignKey(
        USER, models.SET_NULL, null=True, blank=True, verbose_name=name, **options
    )


class Task(models.Model):
    """One submitted crawl of one spider."""

    class State(models.TextChoices):
        RUNNING = "running", _("running")
        PAUSED = "paused", _("paused")
        CANCELLING = "cancelling", _("cancelling")
        FINISHED = "finished", _("finished")
        CANCELLED = "cancelled", _("cancelled")

    class Outcome(models.TextChoices):
        FINISHED = "finished", _("finished")
        FINISHED_WITH_ERRORS = "finished_with_errors", _("finished with errors")
        FAILED = "failed", _("failed")
        CANCELLED = "cancelled", _("cancelled")

    spider = models.CharField(_("spider"), max_length=SPIDER)
    arguments = models.JSONField(_("arguments"), default=dict, blank=True)
    priority = models.SmallIntegerField(
        _("priority"), default=0, help_text=_("-100 to 100; higher runs first")
    )
    settings = models.JSONField(
        _("limits"), default=dict, blank=True, help_text=_("as the spider was published")
    )
    overrides = models.JSONField(
        _("settings"),
        default=dict,
        db_default={},
        blank=True,
        help_text=_("settings that replace its spider's"),
    )
    expect = models.JSONField(
        _("expected"),
        null=True,
        blank=True,
        help_text=_("the author's expectations of each run, as published"),
    )
    published_limits = models.JSONField(
        null=True,
        editable=False,
        help_text="the limits as the spider was published; null: they were not changed since",
    )
    limits_unsent = models.BooleanField(
        default=False,
        db_default=False,
        editable=False,
        help_text="its limits were changed, and Redis has not received them",
    )
    state = models.CharField(
        _("state"), max_length=12, choices=State, default=State.RUNNING, db_index=True
    )
    # With defaults of the database: a node of an older version may still be writing.
    outcome = models.CharField(
        _("outcome"),
        max_length=20,
        choices=Outcome,
        blank=True,
        default="",
        db_default="",
        help_text=_("how it ended; empty while it has not"),
    )
    reason = models.CharField(
        _("reason"),
        max_length=REASON,
        blank=True,
        default="",
        db_default="",
        help_text=_("why it has this outcome"),
    )
    closing = models.CharField(
        _("closed because"),
        max_length=REASON,
        blank=True,
        default="",
        db_default="",
        help_text=_("why its spider or one of its limits closed it; empty if none did"),
    )
    ends = models.BooleanField(
        _("ends"),
        default=False,
        db_default=False,
        help_text=_("its last request runs the spider's closed()"),
    )
    seeds = models.BinaryField(help_text="msgpack list of admissions: what the task starts with")
    created_at = models.DateTimeField(_("created"), db_default=Now())
    finished_at = models.DateTimeField(_("ended at"), null=True, blank=True)
    na = models.BigIntegerField(_("admitted"), default=0)
    nf = models.BigIntegerField(_("finished"), default=0)
    ne = models.BigIntegerField(_("errors"), default=0)
    items = models.BigIntegerField(_("items"), default=0)
    cancelled = models.BigIntegerField(
        _("cancelled"),
        default=0,
        db_default=0,
        help_text=_("requests that ended because the task was cancelled; NE counts them too"),
    )
    excluded = models.BigIntegerField(
        _("excluded"),
        default=0,
        db_default=0,
        help_text=_("requests that politeness ended, as robots.txt asks; NE counts them too"),
    )
    unwritten = models.BigIntegerField(
        _("rows to be written"),
        null=True,
        blank=True,
        help_text=_("cancelled requests whose rows are still to be written; empty: none"),
    )
    refused = models.JSONField(
        _("refused links"),
        null=True,
        blank=True,
        help_text=_("links that limits refused at admission, by limit; written when it ends"),
    )
    deadline = models.DateTimeField(
        _("deadline"), null=True, blank=True, help_text=_("when its time_limit is over")
    )
    paused_at = models.DateTimeField(
        _("paused at"), null=True, blank=True, help_text=_("its time does not pass since then")
    )
    # Seconds for which it was paused, or had ended before a retry.
    idle = models.FloatField(_("idle time"), default=0, db_default=0, editable=False)
    # Equal for runs of one spider with equal arguments, so that an index finds them.
    arguments_hash = models.BigIntegerField(_("hash of the arguments"), null=True, editable=False)
    previous_na = models.BigIntegerField(
        _("requests of the last run"),
        null=True,
        blank=True,
        help_text=_("that finished with the same arguments before this one was submitted"),
    )
    retries = models.PositiveIntegerField(
        _("retries"),
        default=0,
        db_default=0,
        help_text=_("how often its failed requests were run again"),
    )
    # The depth that it fetches now, if it is crawled in layers.
    layer = models.IntegerField(_("layer"), default=0, db_default=0, editable=False)
    # The kept pages that it parses in place of a site.
    reparse = models.JSONField(_("parses again"), null=True, blank=True, editable=False)
    user = user_key(
        _("user"),
        db_index=False,
        help_text=_("the submitter; empty for a command or a schedule"),
    )
    schedule = models.ForeignKey(
        "crawlservice.Schedule",
        models.SET_NULL,
        null=True,
        blank=True,
        db_index=False,
        verbose_name=_("schedule"),
    )
    watch = models.ForeignKey(  # it is a round of this watch
        "crawlservice.Watch",
        models.SET_NULL,
        null=True,
        blank=True,
        db_index=False,
        verbose_name=_("watch"),
    )

    ACTIVE = (State.RUNNING, State.PAUSED, State.CANCELLING)
    COMPLETED = (Outcome.FINISHED, Outcome.FINISHED_WITH_ERRORS)

    class Meta:
        verbose_name = _("task")
        verbose_name_plural = _("tasks")
        ordering = ("-id",)
        indexes = (
            models.Index(fields=("spider", "id"), name="task_spider"),
            models.Index(fields=("schedule", "id"), name="task_schedule"),
            models.Index(fields=("user", "id"), name="task_user"),
            models.Index(
                fields=("watch", "id"),
                condition=models.Q(watch__isnull=False),
                name="task_watch",
            ),
            models.Index(
                fields=("id",), condition=models.Q(unwritten__isnull=False), name="task_unwritten"
            ),
            models.Index(fields=("outcome", "id"), name="task_outcome"),
            models.Index(fields=("spider", "outcome", "id"), name="task_spider_outcome"),
            models.Index(fields=("arguments_hash", "id"), name="task_arguments"),
        )
        permissions = (
            ("submit_task", _("Can submit tasks, and steer those of their own")),
            ("steer_task", _("Can pause, resume, cancel and retry any task")),
        )

    def __str__(self) -> str:
        return f"{self.spider} #{self.pk}"

    @property
    def shown_arguments(self) -> Any:
        """The arguments, with secrets masked."""
        return masked(self.arguments)

    @property
    def errors(self) -> int:
        """Requests that ended in error, without those cancelled with the task and those excluded
        for politeness."""
        return self.ne - self.cancelled - self.excluded

    @property
    def status(self) -> str:
        """The word shown as status: the outcome of an ended task, else its state."""
        return self.outcome or self.state


class Schedule(models.Model):
    """When a spider is submitted repeatedly: by ``cron`` or by ``every``, one of them."""

    class Overlap(models.TextChoices):
        SKIP = "skip", _("skip it while the last run is active")
        QUEUE = "queue", _("start after the last run has ended")
        CANCEL = "cancel", _("cancel the last run, and start")
        ALLOW = "allow", _("start alongside the last run")

    class Missed(models.TextChoices):
        ONCE = "once", _("once, however many were missed")
        SKIP = "skip", _("not at all")

    name = models.CharField(_("name"), max_length=100, unique=True)
    spider = models.CharField(_("spider"), max_length=SPIDER)
    arguments = models.JSONField(_("arguments"), default=dict, blank=True)
    priority = models.SmallIntegerField(
        _("priority"),
        default=0,
        validators=(MinValueValidator(-MAX_TASK_PRIORITY), MaxValueValidator(MAX_TASK_PRIORITY)),
        help_text=_("-100 to 100; higher runs first"),
    )
    overrides = models.JSONField(
        _("settings"),
        default=dict,
        db_default={},
        blank=True,
        help_text=_("settings of its tasks that replace the spider's"),
    )
    labels = models.JSONField(
        _("labels"), default=dict, db_default={}, blank=True, help_text=_("of its tasks")
    )
    cron = models.CharField(
        _("cron"),
        max_length=100,
        blank=True,
        help_text=_("minute, hour, day of month, month, day of week: 0 6 * * 1-5"),
    )
    every = models.PositiveIntegerField(
        _("every"),
        null=True,
        blank=True,
        help_text=_("seconds between two starts; instead of cron"),
    )
    timezone = models.CharField(
        _("time zone"), max_length=64, default="UTC", help_text=_("such as Asia/Shanghai")
    )
    overlap = models.CharField(_("overlap"), max_length=6, choices=Overlap, default=Overlap.SKIP)
    missed = models.CharField(
        _("missed starts"),
        max_length=4,
        choices=Missed,
        default=Missed.ONCE,
        help_text=_("the handling of starts that were due while no node was running"),
    )
    enabled = models.BooleanField(_("enabled"), default=True)
    user = user_key(_("user"), editable=False)
    created_at = models.DateTimeField(_("created"), db_default=Now(), editable=False)
    next_at = models.DateTimeField(_("next"), null=True, blank=True, editable=False, db_index=True)
    # With a default of the database: a node of an older version may still be writing.
    problem = models.TextField(
        _("problem"),
        blank=True,
        default="",
        db_default="",
        editable=False,
        help_text=_("why it cannot start; empty if the last start succeeded"),
    )
    problem_since = models.DateTimeField(_("since"), null=True, blank=True, editable=False)

    class Meta:
        verbose_name = _("schedule")
        verbose_name_plural = _("schedules")
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    @property
    def shown_arguments(self) -> Any:
        """The arguments, with secrets masked."""
        return masked(self.arguments)


class Run(models.Model):
    """The outcome of one time at which a schedule was due. Unique, so that no second steward
    submits it again."""

    class Outcome(models.TextChoices):
        WAITING = "waiting", _("waiting")  # for the last run to end
        SUBMITTED = "submitted", _("submitted")
        SKIPPED = "skipped", _("skipped")  # the last run was still active
        MISSED = "missed", _("missed")  # no node was running when it was due
        FAILED = "failed", _("failed")

    schedule = models.ForeignKey(
        Schedule, models.CASCADE, related_name="runs", verbose_name=_("schedule")
    )
    due_at = models.DateTimeField(_("due at"))
    outcome = models.CharField(_("outcome"), max_length=9, choices=Outcome, default=Outcome.WAITING)
    task = models.ForeignKey(Task, models.SET_NULL, null=True, blank=True, verbose_name=_("task"))
    problem = models.TextField(_("problem"), blank=True)
    created_at = models.DateTimeField(_("created"), db_default=Now())

    class Meta:
        verbose_name = _("run")
        verbose_name_plural = _("runs")
        ordering = ("-due_at",)
        constraints = (models.UniqueConstraint(fields=("schedule", "due_at"), name="run_once"),)
        indexes = (
            models.Index(fields=("outcome", "schedule"), name="run_outcome"),
            models.Index(fields=("created_at",), name="run_made"),
        )

    def __str__(self) -> str:
        return f"{self.schedule} at {self.due_at:%Y-%m-%d %H:%M:%S}"


class Label(models.Model):
    """One label of one task."""

    # Without a constraint: an older process deletes tasks without knowing this table.
    task = task_key(related_name="labels")
    name = models.CharField(_("name"), max_length=LABEL_NAME)
    value = models.CharField(_("value"), max_length=LABEL_VALUE)

    class Meta:
        verbose_name = _("label")
        verbose_name_plural = _("labels")
        ordering = ("task", "name")
        constraints = (models.UniqueConstraint(fields=("task", "name"), name="label_once"),)
        # With the task, so that the tasks of a label are read in their order.
        indexes = (models.Index(fields=("name", "value", "task"), name="label_found"),)

    def __str__(self) -> str:
        return f"{self.name}={self.value}"
