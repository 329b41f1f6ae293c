"""Hosts: statistics of their fetches, orders of operators, and why a host is held."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from crawlservice.models.task import user_key

HOST = 260  # characters of a name: a domain has 253 at most, a port 5
NOTE = 200  # characters of the note of an order
ORDERED = Q(ordered_at__isnull=False)
HELD = ~Q(held_why="")
UNSENT = ~Q(unsent="")


class Host(models.Model):
    """A host as it is in links, ``host`` or ``host:port``. Statistics are added by workers every
    few seconds; at most once, because they are no proof."""

    name = models.CharField(_("host"), max_length=HOST, unique=True)
    first_at = models.DateTimeField(_("first seen"), db_default=Now())
    last_at = models.DateTimeField(
        _("last fetch"), null=True, blank=True, help_text=_("within a few seconds")
    )

    pages = models.BigIntegerField(
        _("pages"), default=0, db_default=0, help_text=_("requests that ended, in errors too")
    )
    errors = models.BigIntegerField(_("errors"), default=0, db_default=0)
    bytes = models.BigIntegerField(
        _("bytes"), default=0, db_default=0, help_text=_("of bodies, after decompression")
    )
    statuses = models.JSONField(
        _("statuses"),
        default=dict,
        db_default=models.Value({}, models.JSONField()),
        blank=True,
        help_text=_("how often each was the answer, repeated tries included; 0: no answer"),
    )
    latency_ms = models.FloatField(
        _("latency, ms"), null=True, blank=True, help_text=_("of a fetch, smoothed")
    )
    last_status = models.SmallIntegerField(
        _("last status"), null=True, blank=True, help_text=_("empty: it did not answer")
    )
    last_reason = models.CharField(
        _("last problem"), max_length=60, default="", db_default="", blank=True
    )
    minute = models.BigIntegerField(
        default=0, db_default=0, editable=False, help_text="of the last fetch, since the epoch"
    )
    minute_fetches = models.BigIntegerField(
        default=0, db_default=0, editable=False, help_text="fetches in that minute"
    )
    before_fetches = models.BigIntegerField(
        default=0, db_default=0, editable=False, help_text="fetches in the minute before"
    )

    delay = models.FloatField(_("delay"), null=True, blank=True, help_text=_("seconds"))
    concurrency = models.PositiveIntegerField(_("concurrency"), null=True, blank=True)
    gates = models.JSONField(
        _("further rules"),
        default=dict,
        db_default=models.Value({}, models.JSONField()),
        blank=True,
        help_text=_("of the order, by name"),
    )
    paused = models.BooleanField(_("paused"), default=False, db_default=False)
    order_until = models.DateTimeField(
        _("until"), null=True, blank=True, help_text=_("empty: until it is cleared")
    )
    note = models.CharField(_("note"), max_length=NOTE, default="", db_default="", blank=True)
    ordered_by = user_key(_("ordered by"), db_index=False, help_text=_("no user: a command"))
    ordered_at = models.DateTimeField(
        _("ordered"), null=True, blank=True, help_text=_("empty: there is no order")
    )
    order_number = models.BigIntegerField(
        default=0, db_default=0, editable=False, help_text="grows with each action"
    )
    unsent = models.CharField(
        max_length=30,
        default="",
        db_default="",
        editable=False,
        help_text="words for what Redis has not received: order, resume, robots",
    )

    held_why = models.CharField(
        _("held because"),
        max_length=20,
        default="",
        db_default="",
        blank=True,
        help_text=_("as last seen by the leading node; empty: it is not held"),
    )
    held_since = models.DateTimeField(_("held since"), null=True, blank=True)
    held_until = models.DateTimeField(_("held until"), null=True, blank=True)

    class Meta:
        verbose_name = _("host")
        verbose_name_plural = _("hosts")
        ordering = ("-id",)
        # None on columns that every batch of statistics changes: PostgreSQL updates such rows in
        # place.
        indexes = (
            models.Index(fields=("id",), condition=HELD, name="host_held"),
            models.Index(fields=("id",), condition=Q(paused=True), name="host_paused"),
            models.Index(fields=("id",), condition=ORDERED, name="host_ordered"),
            models.Index(fields=("id",), condition=UNSENT, name="host_unsent"),
            models.Index(fields=("id",), condition=Q(errors__gt=0), name="host_errors"),
        )

    def __str__(self) -> str:
        return self.name

    def rate(self, now: float) -> float:
        """Fetches per second over about a minute before ``now``, in seconds since the epoch: the
        minute before counts as much as it overlaps with that."""
        minute, seconds = divmod(now, 60)
        match int(minute) - self.minute:
            case 0:
                return (self.minute_fetches + self.before_fetches * (1 - seconds / 60)) / 60
            case 1:
                return self.minute_fetches * (1 - seconds / 60) / 60
        return 0.0
