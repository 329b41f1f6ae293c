"""Task: one submitted crawl, and the schedules that submit them."""

from __future__ import annotations

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models.functions import Now

from crawlframe.request import MAX_TASK_PRIORITY

SPIDER = 100  # characters of a spider's name
USER = settings.AUTH_USER_MODEL


class Task(models.Model):
    """One submitted crawl of one spider."""

    class State(models.TextChoices):
        RUNNING = "running"
        PAUSED = "paused"
        CANCELLING = "cancelling"
        FINISHED = "finished"
        CANCELLED = "cancelled"

    spider = models.CharField(max_length=SPIDER)
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
    retries = models.PositiveIntegerField(
        default=0, db_default=0, help_text="how often its failed requests were run again"
    )
    user = models.ForeignKey(
        USER,
        models.SET_NULL,
        null=True,
        blank=True,
        db_index=False,
        help_text="who submitted it; nobody when a command or a schedule did",
    )
    schedule = models.ForeignKey(
        "crawlservice.Schedule", models.SET_NULL, null=True, blank=True, db_index=False
    )

    ACTIVE = (State.RUNNING, State.PAUSED, State.CANCELLING)

    class Meta:
        ordering = ("-id",)
        indexes = (
            models.Index(fields=("spider", "id"), name="task_spider"),
            models.Index(fields=("schedule", "id"), name="task_schedule"),
            models.Index(fields=("user", "id"), name="task_user"),
        )
        permissions = (
            ("submit_task", "Can submit tasks, and steer those of their own"),
            ("steer_task", "Can pause, resume, cancel and retry any task"),
        )

    def __str__(self) -> str:
        return f"{self.spider} #{self.pk}"


class Schedule(models.Model):
    """When a spider is submitted again and again: ``cron`` or ``every``, one of them."""

    class Overlap(models.TextChoices):
        SKIP = "skip", "skip: none while the last one runs"
        QUEUE = "queue", "queue: after the last one has ended"
        CANCEL = "cancel", "cancel the last one, and start"
        ALLOW = "allow", "start beside it"

    class Missed(models.TextChoices):
        ONCE = "once", "once, however many were missed"
        SKIP = "skip", "not at all"

    name = models.CharField(max_length=100, unique=True)
    spider = models.CharField(max_length=SPIDER)
    arguments = models.JSONField(default=dict, blank=True)
    priority = models.SmallIntegerField(
        default=0,
        validators=(MinValueValidator(-MAX_TASK_PRIORITY), MaxValueValidator(MAX_TASK_PRIORITY)),
        help_text="-100 to 100, higher is earlier",
    )
    cron = models.CharField(
        max_length=100,
        blank=True,
        help_text="minute, hour, day of month, month, day of week: 0 6 * * 1-5",
    )
    every = models.PositiveIntegerField(
        null=True, blank=True, help_text="seconds between two starts, instead of cron"
    )
    timezone = models.CharField(max_length=64, default="UTC", help_text="such as Asia/Shanghai")
    overlap = models.CharField(max_length=6, choices=Overlap, default=Overlap.SKIP)
    missed = models.CharField(
        max_length=4,
        choices=Missed,
        default=Missed.ONCE,
        help_text="what to do about starts that fell due while no node was there",
    )
    enabled = models.BooleanField(default=True)
    user = models.ForeignKey(USER, models.SET_NULL, null=True, blank=True, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    next_at = models.DateTimeField(null=True, blank=True, editable=False, db_index=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class Run(models.Model):
    """What became of one time at which a schedule was due. Unique, so that no second steward
    submits it again."""

    class Outcome(models.TextChoices):
        WAITING = "waiting"  # for the last one to end
        SUBMITTED = "submitted"
        SKIPPED = "skipped"  # the last one still ran
        MISSED = "missed"  # nobody was there when it was due
        FAILED = "failed"

    schedule = models.ForeignKey(Schedule, models.CASCADE, related_name="runs")
    due_at = models.DateTimeField()
    outcome = models.CharField(max_length=9, choices=Outcome, default=Outcome.WAITING)
    task = models.ForeignKey(Task, models.SET_NULL, null=True, blank=True)
    problem = models.TextField(blank=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ("-due_at",)
        constraints = (models.UniqueConstraint(fields=("schedule", "due_at"), name="run_once"),)
        indexes = (
            models.Index(fields=("outcome", "schedule"), name="run_outcome"),
            models.Index(fields=("created_at",), name="run_made"),
        )

    def __str__(self) -> str:
        return f"{self.schedule} at {self.due_at:%Y-%m-%d %H:%M:%S}"
