"""Alerts: conditions that need a person, the rules of notification, and their messages."""

from __future__ import annotations

from uuid import uuid4

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from crawlservice.models.host import HOST
from crawlservice.models.outbox import Webhook
from crawlservice.models.task import SPIDER, user_key

KIND = 30  # characters of the name of a condition
SUBJECT = 300
OPEN = Q(resolved_at__isnull=True)


class Severity(models.IntegerChoices):
    """How bad a condition is."""

    NOTICE = 1, _("notice")
    WARNING = 2, _("warning")
    SEVERE = 3, _("severe")


class Alert(models.Model):
    """A condition from when it was found until it is over. ``facts``: the values in its sentence;
    ``value``: the number that thresholds are compared with."""

    kind = models.CharField(_("condition"), max_length=KIND)
    subject = models.CharField(max_length=SUBJECT, help_text="what has it; once among open alerts")
    severity = models.SmallIntegerField(_("severity"), choices=Severity)
    facts = models.JSONField(_("facts"), default=dict)
    value = models.FloatField(_("value"), null=True, blank=True)
    spider = models.CharField(_("spider"), max_length=SPIDER, default="", db_default="", blank=True)
    host = models.CharField(_("host"), max_length=HOST, default="", db_default="", blank=True)
    labels = models.JSONField(_("labels"), default=dict, blank=True)
    since = models.DateTimeField(_("since"), help_text=_("when the condition began"))
    opened_at = models.DateTimeField(_("found"), db_default=Now())
    seen_at = models.DateTimeField(_("last seen"), db_default=Now())
    resolved_at = models.DateTimeField(_("resolved"), null=True, blank=True)
    acknowledged_at = models.DateTimeField(_("acknowledged"), null=True, blank=True)
    # Without a constraint: an older process deletes users without knowing this table.
    acknowledged_by = user_key(_("acknowledged by"), db_index=False, db_constraint=False)
    silenced_until = models.DateTimeField(_("silenced until"), null=True, blank=True)

    class Meta:
        verbose_name = _("alert")
        verbose_name_plural = _("alerts")
        ordering = ("-id",)
        constraints = (
            models.UniqueConstraint(
                fields=("kind", "subject"), condition=OPEN, name="alert_open_once"
            ),
        )
        indexes = (models.Index(fields=("resolved_at",), name="alert_resolved"),)
        permissions = (("handle_alert", _("Can acknowledge and silence alerts")),)

    def __str__(self) -> str:
        return f"{self.kind} of {self.subject}" if self.subject else self.kind


class AlertTarget(models.Model):
    """Where messages go: mail addresses, a chat or push service, or a webhook of ours."""

    class Kind(models.TextChoices):
        MAIL = "mail", _("mail")
        SERVICE = "service", _("chat or push service")
        WEBHOOK = "webhook", _("webhook")

    name = models.CharField(_("name"), max_length=100, unique=True)
    kind = models.CharField(_("kind"), max_length=10, choices=Kind)
    # Encrypted, see sealing.py: the URL of a service contains its token.
    sealed_address = models.TextField(_("address"), default="", blank=True, editable=False)
    shown = models.CharField(_("address"), max_length=200, default="", blank=True, editable=False)
    # Without a constraint: an older process deletes webhooks without knowing this table.
    webhook = models.ForeignKey(
        Webhook,
        models.CASCADE,
        null=True,
        blank=True,
        db_constraint=False,
        verbose_name=_("webhook"),
    )
    enabled = models.BooleanField(_("enabled"), default=True)

    class Meta:
        verbose_name = _("alert target")
        verbose_name_plural = _("alert targets")
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class AlertRule(models.Model):
    """Which alerts are reported to which targets, and when."""

    name = models.CharField(_("name"), max_length=100, unique=True)
    enabled = models.BooleanField(_("enabled"), default=True)
    targets = models.ManyToManyField(
        AlertTarget, blank=True, related_name="rules", verbose_name=_("targets")
    )
    kinds = models.JSONField(
        _("conditions"), default=list, blank=True, help_text=_("none: all of them")
    )
    thresholds = models.JSONField(
        _("thresholds"),
        default=dict,
        blank=True,
        help_text=_("by condition, instead of the usual ones"),
    )
    least_severity = models.SmallIntegerField(
        _("least severity"), choices=Severity, default=Severity.WARNING
    )
    spiders = models.JSONField(_("spiders"), default=list, blank=True)
    hosts = models.JSONField(_("hosts"), default=list, blank=True)
    labels = models.JSONField(_("labels"), default=list, blank=True)
    group_minutes = models.PositiveSmallIntegerField(
        _("grouping, minutes"),
        default=5,
        validators=(MaxValueValidator(1440),),
        help_text=_(
            "after a message, further alerts of the same condition wait for this long and make one"
        ),
    )
    quiet_from = models.TimeField(_("quiet from"), null=True, blank=True)
    quiet_until = models.TimeField(
        _("quiet until"),
        null=True,
        blank=True,
        help_text=_("no messages in these hours; alerts still open then are reported afterwards"),
    )
    timezone = models.CharField(
        _("time zone"), max_length=64, default="UTC", help_text=_("such as Asia/Shanghai")
    )
    severe_passes = models.BooleanField(
        _("severe ones pass"),
        default=True,
        help_text=_("severe alerts are reported in quiet hours, too"),
    )
    repeat_hours = models.PositiveSmallIntegerField(
        _("repeat, hours"),
        default=24,
        validators=(MinValueValidator(0), MaxValueValidator(720)),
        help_text=_("while an alert lasts and is not acknowledged; 0: never"),
    )
    reports_resolved = models.BooleanField(
        _("report resolved"), default=True, help_text=_("also report when an alert is over")
    )

    class Meta:
        verbose_name = _("alert rule")
        verbose_name_plural = _("alert rules")
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class AlertNotice(models.Model):
    """The fact that a rule has reported an alert. ``over``: it needs nothing more about it."""

    rule = models.ForeignKey(AlertRule, models.CASCADE, db_index=False)
    # Without a constraint: old alerts are deleted in batches, and their notices before them.
    alert = models.ForeignKey(Alert, models.CASCADE, related_name="notices", db_constraint=False)
    reported_at = models.DateTimeField()
    over = models.BooleanField(default=False)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("rule", "alert"), name="alert_notice_once"),)
        indexes = (
            models.Index(fields=("rule",), condition=Q(over=False), name="alert_notice_open"),
        )

    def __str__(self) -> str:
        return f"{self.rule_id} reported {self.alert_id}"


class AlertReport(models.Model):
    """The fact that an alert was reported to a target, by any rule: further rules with the same
    target do not repeat it. ``over``: its end was reported, too."""

    # Without constraints: an older process deletes targets and alerts without knowing this table.
    target = models.ForeignKey(AlertTarget, models.CASCADE, db_index=False, db_constraint=False)
    alert = models.ForeignKey(Alert, models.CASCADE, related_name="reports", db_constraint=False)
    reported_at = models.DateTimeField()
    over = models.BooleanField(default=False)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("target", "alert"), name="alert_report_once"),
        )

    def __str__(self) -> str:
        return f"{self.alert_id} was reported to {self.target_id}"


class AlertMessage(models.Model):
    """One message on its way to one target. ``key``: its id, so that receivers recognise a message
    that comes twice."""

    target = models.ForeignKey(
        AlertTarget, models.CASCADE, related_name="messages", verbose_name=_("target")
    )
    rule = models.ForeignKey(
        AlertRule, models.SET_NULL, null=True, blank=True, db_index=False, verbose_name=_("rule")
    )
    kind = models.CharField(_("condition"), max_length=KIND)
    severity = models.SmallIntegerField(_("severity"), choices=Severity)
    title = models.CharField(_("title"), max_length=200)
    text = models.TextField(_("text"))
    content = models.JSONField(_("content"), default=dict, help_text=_("for programs"))
    key = models.UUIDField(default=uuid4, editable=False)
    created_at = models.DateTimeField(_("created"), db_default=Now())
    attempts = models.SmallIntegerField(_("attempts"), default=0)
    next_at = models.DateTimeField(
        _("next attempt"), null=True, db_default=Now(), help_text=_("empty: no more attempts")
    )
    sent_at = models.DateTimeField(_("sent"), null=True, blank=True)
    problem = models.TextField(_("problem"), blank=True, help_text=_("of the last attempt"))
    reply = models.TextField(_("reply"), blank=True, help_text=_("of the target"))

    class Meta:
        verbose_name = _("alert message")
        verbose_name_plural = _("alert messages")
        ordering = ("-id",)
        indexes = (
            models.Index(
                fields=("target", "next_at"),
                condition=Q(next_at__isnull=False),
                name="alert_message_next",
            ),
            models.Index(fields=("rule", "kind", "id"), name="alert_message_rule"),
            models.Index(fields=("created_at",), name="alert_message_made"),
        )

    def __str__(self) -> str:
        return f"{self.title} to {self.target}"
