"""RobotsFile: the robots.txt of each origin, as it was read last."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from crawlframe.robots.state import MAX_ORIGIN, Status


class RobotsFile(models.Model):
    """The state of the robots.txt of one origin. All times are of the database's clock."""

    class State(models.TextChoices):
        PENDING = Status.PENDING, _("not read yet")
        RULES = Status.RULES, _("rules")
        NO_RULES = Status.NO_RULES, _("no rules")
        NOT_TEXT = Status.NOT_TEXT, _("not text")
        UNREACHABLE = Status.UNREACHABLE, _("unreachable")
        GIVEN_UP = Status.GIVEN_UP, _("given up")

    origin = models.CharField(
        _("origin"), max_length=MAX_ORIGIN, unique=True, help_text=_("scheme, host and port")
    )
    status = models.CharField(_("state"), max_length=11, choices=State, default=State.PENDING)
    http_status = models.SmallIntegerField(_("HTTP status"), null=True, blank=True)
    body = models.TextField(_("text"), blank=True, default="")
    read_at = models.DateTimeField(_("last read"), null=True, blank=True)
    known_until = models.DateTimeField(_("valid until"), null=True, blank=True)
    unreachable_since = models.DateTimeField(_("unreachable since"), null=True, blank=True)
    reason = models.CharField(_("reason"), max_length=60, blank=True, default="")
    next_try = models.DateTimeField(_("next try"), null=True, blank=True)
    lease_until = models.DateTimeField(
        _("being read until"), null=True, blank=True, help_text=_("a worker reads it now")
    )
    crawl_delay = models.FloatField(
        _("Crawl-delay"), default=0.0, help_text=_("seconds that it asks for; 0: none")
    )
    note = models.TextField(_("note"), blank=True, default="")

    class Meta:
        verbose_name = _("robots.txt")
        verbose_name_plural = _("robots.txt")
        ordering = ("-id",)
        indexes = (models.Index(fields=("status", "id"), name="robots_status"),)

    def __str__(self) -> str:
        return self.origin
