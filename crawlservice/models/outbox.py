"""The outbox: what happened to tasks, and who is told of it."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from crawlservice.models.task import SPIDER, Task


class Event(models.Model):
    """Outbox: what happened to a task, written in the transaction that made it happen."""

    class Kind(models.TextChoices):
        FINISHED = "finished"
        FAILED = "failed"  # finished, but nothing except errors came of it
        CANCELLED = "cancelled"

    task = models.ForeignKey(Task, models.CASCADE)
    kind = models.CharField(max_length=20, choices=Kind)
    created_at = models.DateTimeField(db_default=Now())
    delivered_at = models.DateTimeField(
        null=True, blank=True, help_text="when webhooks were given it to deliver"
    )

    class Meta:
        ordering = ("id",)
        indexes = (
            models.Index(
                fields=("id",), condition=models.Q(delivered_at__isnull=True), name="event_new"
            ),
            models.Index(fields=("created_at",), name="event_made"),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.task_id}"


class Webhook(models.Model):
    """An address that is told of events, by a POST signed with the secret."""

    name = models.CharField(max_length=100, unique=True)
    url = models.URLField(max_length=500)
    secret = models.CharField(
        max_length=100,
        help_text="signs what is sent (HMAC-SHA256); whoever receives it checks that",
    )
    spider = models.CharField(
        max_length=SPIDER, blank=True, help_text="only of tasks of this spider; empty: of all"
    )
    kinds = models.JSONField(
        default=list, blank=True, help_text='such as ["finished"]; none: all kinds of events'
    )
    enabled = models.BooleanField(default=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class Delivery(models.Model):
    """One event on its way to one webhook."""

    webhook = models.ForeignKey(Webhook, models.CASCADE, related_name="deliveries")
    event = models.ForeignKey(Event, models.CASCADE)
    attempts = models.SmallIntegerField(default=0)
    next_at = models.DateTimeField(null=True, db_default=Now(), help_text="empty: no more tries")
    delivered_at = models.DateTimeField(null=True, blank=True)
    problem = models.TextField(blank=True, help_text="of the last try")

    class Meta:
        ordering = ("-id",)
        verbose_name_plural = "deliveries"
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
