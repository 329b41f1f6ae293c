"""People: the tokens of their programs, and the journal of all actions."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from crawlservice.models.task import Task


class Token(models.Model):
    """Lets a program act for a user. Only the token's digest is stored."""

    class Scope(models.TextChoices):
        READ = "read", _("read")
        SUBMIT = "submit", _("submit")
        OPERATE = "operate", _("operate")

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, verbose_name=_("user"))
    name = models.CharField(_("name"), max_length=100, help_text=_("its purpose"))
    start = models.CharField(_("first characters"), max_length=12, editable=False)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    scopes = models.JSONField(_("scopes"), default=list)
    created_at = models.DateTimeField(_("created"), db_default=Now(), editable=False)
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True)
    revoked_at = models.DateTimeField(_("revoked at"), null=True, blank=True, editable=False)
    used_at = models.DateTimeField(_("last used"), null=True, blank=True, editable=False)

    class Meta:
        verbose_name = _("token")
        verbose_name_plural = _("tokens")
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"{self.name} ({self.start}…)"


class Submission(models.Model):
    """The Idempotency-Key of a submission, which prevents a second one."""

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
    """The journal: an action of a person or program, and whether it succeeded."""

    at = models.DateTimeField(_("time"), db_default=Now(), db_index=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, db_index=False, verbose_name=_("user")
    )
    name = models.CharField(
        _("name"),
        max_length=150,
        blank=True,
        default="",
        db_default="",
        help_text=_("of the user at that time; empty: a command, or before a login"),
    )
    token = models.ForeignKey(
        Token, models.SET_NULL, null=True, blank=True, verbose_name=_("token")
    )
    address = models.GenericIPAddressField(_("address"), null=True, blank=True)
    verb = models.CharField(_("action"), max_length=40)
    task = models.ForeignKey(
        Task,
        models.SET_NULL,
        null=True,
        blank=True,
        db_constraint=False,
        db_index=False,
        verbose_name=_("task"),
    )
    detail = models.JSONField(_("detail"), default=dict, blank=True)

    class Meta:
        verbose_name = _("action")
        verbose_name_plural = _("journal")
        ordering = ("-id",)
        indexes = (
            models.Index(fields=("task", "id"), name="action_task"),
            models.Index(fields=("user", "id"), name="action_user"),
            models.Index(fields=("verb", "id"), name="action_verb"),
        )

    def __str__(self) -> str:
        return f"{self.verb} by {self.name or 'nobody'}"


class SetupLink(models.Model):
    """Lets the holder of its token create the first administrator, once. Only a digest is
    stored."""

    digest = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"until {self.expires_at:%Y-%m-%d %H:%M}"
