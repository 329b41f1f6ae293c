"""Who may do what: tokens of programs, and the journal of what everybody did."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from crawlservice.models.task import Task


class Token(models.Model):
    """Lets a program act for a user. Of the token itself only its digest is kept."""

    class Scope(models.TextChoices):
        READ = "read"
        SUBMIT = "submit"
        OPERATE = "operate"

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE)
    name = models.CharField(max_length=100, help_text="what it is for")
    start = models.CharField(max_length=12, editable=False, help_text="its first characters")
    digest = models.CharField(max_length=64, unique=True, editable=False)
    scopes = models.JSONField(default=list)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)
    used_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"{self.name} ({self.start}…)"


class Submission(models.Model):
    """The Idempotency-Key of a submission, so that it is not made twice."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE)
    key = models.CharField(max_length=200)
    digest = models.CharField(max_length=64, help_text="of what was submitted with it")
    tasks = models.JSONField(default=list, help_text="numbers of the tasks")
    created_at = models.DateTimeField(db_default=Now(), db_index=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("user", "key"), name="submission_once"),)

    def __str__(self) -> str:
        return self.key


class Action(models.Model):
    """The journal: what somebody did, and with what success."""

    at = models.DateTimeField(db_default=Now(), db_index=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, db_index=False)
    name = models.CharField(
        max_length=150,
        blank=True,
        default="",
        db_default="",
        help_text="of the user at that time; nobody: a command, or before a login",
    )
    token = models.ForeignKey(Token, models.SET_NULL, null=True, blank=True)
    address = models.GenericIPAddressField(null=True, blank=True)
    verb = models.CharField(max_length=40)
    task = models.ForeignKey(
        Task, models.SET_NULL, null=True, blank=True, db_constraint=False, db_index=False
    )
    detail = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering = ("-id",)
        indexes = (
            models.Index(fields=("task", "id"), name="action_task"),
            models.Index(fields=("user", "id"), name="action_user"),
            models.Index(fields=("verb", "id"), name="action_verb"),
        )

    def __str__(self) -> str:
        return f"{self.verb} by {self.name or 'nobody'}"


class SetupLink(models.Model):
    """Lets whoever has its token make the first administrator, once. Only a digest is kept."""

    digest = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"until {self.expires_at:%Y-%m-%d %H:%M}"
