"""Watches: spiders whose pages are visited again, the pages and items that they know, and their
counts of each day."""

from __future__ import annotations

from typing import Any

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from crawlframe.base.secret import masked
from crawlframe.request.request import MAX_TASK_PRIORITY
from crawlservice.models.ledger import VERSION
from crawlservice.models.task import user_key

SPIDER = 100  # characters of a spider's name
PLACE = 400  # characters of a host, with the route through proxies
CALLBACK = 100
REASON = 60  # characters, as in Page


class Watch(models.Model):
    """A spider whose pages are visited again. Due pages are submitted in rounds, which are tasks.
    The row is locked while a round is started."""

    class State(models.TextChoices):
        RUNNING = "running", _("running")
        PAUSED = "paused", _("paused")
        ENDED = "ended", _("ended")

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
        blank=True,
        help_text=_("settings of its rounds that replace the spider's"),
    )
    state = models.CharField(_("state"), max_length=7, choices=State, default=State.RUNNING)
    budget = models.FloatField(
        _("budget"),
        null=True,
        blank=True,
        validators=(MinValueValidator(0.01),),
        help_text=_("requests per day, in place of the spider's setting; empty: its setting"),
    )
    host_budget = models.FloatField(
        _("budget of a host"),
        null=True,
        blank=True,
        validators=(MinValueValidator(0.01),),
        help_text=_("requests per day and host, in place of the spider's setting"),
    )
    user = user_key(_("user"), editable=False)
    created_at = models.DateTimeField(_("created"), db_default=Now(), editable=False)
    start_at = models.DateTimeField(
        _("next start"),
        db_default=Now(),
        editable=False,
        help_text=_("when start runs again, to find new pages"),
    )
    round_at = models.DateTimeField(_("last round"), null=True, editable=False)
    settled_at = models.DateTimeField(
        _("first pass"),
        null=True,
        editable=False,
        help_text=_("when all pages had been visited once; pages found since are new"),
    )
    # By group of pages: level, prior, rest of the budget: crawlservice/watches/group.py.
    groups = models.JSONField(default=dict, editable=False)
    problem = models.TextField(
        _("problem"), blank=True, default="", editable=False, help_text=_("why it cannot continue")
    )

    class Meta:
        verbose_name = _("watch")
        verbose_name_plural = _("watches")
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"{self.spider} (watch {self.pk})"

    @property
    def shown_arguments(self) -> Any:
        """The arguments, with secrets masked."""
        return masked(self.arguments)


class WatchedPage(models.Model):
    """A page that a watch knows. Times are by the clock of watches, intervals in seconds."""

    class State(models.TextChoices):
        NEW = "new", _("new")  # not visited yet
        LIVE = "live", _("live")
        GONE = "gone", _("gone")  # answered 404 or 410 twice
        FAILED = "failed", _("failed")  # not visited again

    watch = models.ForeignKey(Watch, models.CASCADE, db_index=False, verbose_name=_("watch"))
    key = models.UUIDField(_("key"), help_text="hash of the request's fingerprint")
    url = models.TextField(_("URL"))
    host = models.CharField(_("host"), max_length=PLACE)  # with the route through proxies
    callback = models.CharField(_("callback"), max_length=CALLBACK)
    group = models.CharField(_("group"), max_length=CALLBACK)
    rank = models.IntegerField()
    record = models.BinaryField(help_text="of the request")
    state = models.CharField(_("state"), max_length=6, choices=State, default=State.NEW)
    importance = models.FloatField(_("importance"), default=1.0)
    visits = models.IntegerField(_("visits"), default=0)
    changes = models.IntegerField(_("changes"), default=0)
    misses = models.SmallIntegerField(
        _("misses"), default=0, help_text=_("visits in a row that found no page")
    )
    status = models.SmallIntegerField(_("HTTP status"), null=True)
    reason = models.CharField(_("reason"), max_length=REASON, blank=True, default="")
    digest = models.BinaryField(null=True, help_text="of what is compared")
    version = models.CharField(_("code version"), max_length=VERSION, blank=True, default="")
    # Evidence of the visits, added to the prior rate of change: crawlframe/revisit/rates.py.
    shape = models.FloatField(default=0.0)
    time = models.FloatField(default=0.0)
    every = models.FloatField(_("interval"), null=True, help_text=_("planned, in seconds"))
    said_every = models.FloatField(null=True)
    mean_every = models.FloatField(null=True)
    first_seen = models.DateTimeField(_("first seen"))
    last_visit = models.DateTimeField(_("last visit"), null=True)
    last_change = models.DateTimeField(_("last change"), null=True)
    next_at = models.DateTimeField(_("next visit"), null=True)
    gone_at = models.DateTimeField(_("gone"), null=True)
    lastmod = models.DateTimeField(_("lastmod"), null=True)
    said_at = models.DateTimeField(
        null=True, help_text="when it changed since the last visit, as a sitemap says"
    )
    # Of the visit that is on its way.
    round = models.BigIntegerField(_("task"), null=True)
    rid = models.UUIDField(_("request id"), null=True, unique=True)

    class Meta:
        verbose_name = _("watched page")
        verbose_name_plural = _("watched pages")
        ordering = ("id",)
        constraints = (models.UniqueConstraint(fields=("watch", "key"), name="watched_page_once"),)
        indexes = (
            models.Index(
                fields=("watch", "next_at"),
                condition=models.Q(rid__isnull=True, next_at__isnull=False),
                name="watched_page_due",
            ),
            models.Index(fields=("watch", "state", "id"), name="watched_page_state"),
            models.Index(
                fields=("round",), condition=models.Q(rid__isnull=False), name="watched_page_round"
            ),
        )

    def __str__(self) -> str:
        return self.url


class WatchedItem(models.Model):
    """An item that a watch knows, as it was last seen."""

    watch = models.ForeignKey(Watch, models.CASCADE, db_index=False, verbose_name=_("watch"))
    key = models.UUIDField(_("key"), help_text="hash of the fields that identify it")
    page = models.ForeignKey(
        WatchedPage, models.CASCADE, null=True, verbose_name=_("page"), related_name="items"
    )
    data = models.JSONField(_("data"))
    first_seen = models.DateTimeField(_("first seen"))
    last_seen = models.DateTimeField(_("last seen"))
    gone_at = models.DateTimeField(_("gone"), null=True)

    class Meta:
        verbose_name = _("watched item")
        verbose_name_plural = _("watched items")
        ordering = ("id",)
        constraints = (models.UniqueConstraint(fields=("watch", "key"), name="watched_item_once"),)

    def __str__(self) -> str:
        return f"item {self.pk}"


class WatchedHost(models.Model):
    """The rest of a host's budget, and how far its sitemap is trusted
    (crawlframe/revisit/trust.py)."""

    watch = models.ForeignKey(Watch, models.CASCADE, db_index=False, verbose_name=_("watch"))
    host = models.CharField(_("host"), max_length=PLACE)
    tokens = models.FloatField(null=True)
    tokens_at = models.DateTimeField(null=True)
    said = models.FloatField(default=0.0)
    wrong = models.FloatField(default=0.0)
    due_wrong = models.FloatField(default=0.0)
    expected = models.FloatField(default=0.0)

    class Meta:
        verbose_name = _("watched host")
        verbose_name_plural = _("watched hosts")
        ordering = ("host",)
        constraints = (models.UniqueConstraint(fields=("watch", "host"), name="watched_host_once"),)

    def __str__(self) -> str:
        return self.host


class WatchDay(models.Model):
    """The counts of a watch on one day (UTC)."""

    watch = models.ForeignKey(Watch, models.CASCADE, db_index=False, verbose_name=_("watch"))
    day = models.DateField(_("day"))
    visited = models.IntegerField(_("visited"), default=0)
    errors = models.IntegerField(_("errors"), default=0)
    late = models.IntegerField(
        _("late"), default=0, help_text=_("pages that were due and waited for the budget, at most")
    )
    fresh = models.FloatField(
        _("up to date"), null=True, help_text=_("estimated share of the pages, by importance")
    )

    class Meta:
        verbose_name = _("day of a watch")
        verbose_name_plural = _("days of watches")
        ordering = ("day",)
        constraints = (models.UniqueConstraint(fields=("watch", "day"), name="watch_day_once"),)

    def __str__(self) -> str:
        return f"{self.day}"
