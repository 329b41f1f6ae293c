"""Cases: one row for each cause of bad runs, however many tasks it has spoiled."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from crawlservice.models.host import HOST
from crawlservice.models.ledger import VERSION
from crawlservice.models.task import SPIDER, user_key

KEY = 400  # characters of the identity of a cause
LIVE = ("open", "acknowledged")  # states


class Case(models.Model):
    """A cause of bad runs. ``key`` is its identity: the same cause is one case while that is open.
    ``proof``: facts for its sentences, as diagnosis.py and trial.py name them."""

    class Cause(models.TextChoices):
        COMMIT = "commit", _("our commit")
        REDESIGN = "redesign", _("site redesigned")
        RENAMED = "renamed", _("field renamed")
        MOVED = "moved", _("field moved into JSON")
        CHALLENGE = "challenge", _("challenge or login")
        HOST_DEAD = "host_dead", _("host dead")
        REDIRECTED = "redirected", _("redirected")
        LOCALE = "locale", _("locale changed")
        EMPTY = "empty", _("empty listing")
        BLOCKED = "blocked", _("we are blocked")
        UNKNOWN = "unknown", _("unknown")

    class State(models.TextChoices):
        OPEN = "open", _("open")
        ACKNOWLEDGED = "acknowledged", _("acknowledged")
        FIXED = "fixed", _("fixed")  # a later run was good
        CLOSED = "closed", _("closed")  # by a person, by another case, or after some time

    class Blame(models.TextChoices):
        SITE = "site", _("the site")
        COMMIT = "commit", _("the commit")
        WE = "we", _("our addresses")
        UNKNOWN = "unknown", _("unknown")

    key = models.CharField(max_length=KEY, editable=False)
    cause = models.CharField(_("cause"), max_length=10, choices=Cause)
    state = models.CharField(_("state"), max_length=12, choices=State, default=State.OPEN)
    blame = models.CharField(_("blame"), max_length=7, choices=Blame, default=Blame.UNKNOWN)
    proof = models.JSONField(_("proof"), default=dict)
    host = models.CharField(_("host"), max_length=HOST, blank=True, default="")
    version = models.CharField(
        _("code version"), max_length=VERSION, blank=True, help_text=_("of the first bad run")
    )
    fields = models.JSONField(_("fields"), default=list, help_text=_("that are concerned"))
    examples = models.JSONField(
        _("examples"),
        default=list,
        help_text=_("old and new page, field, old and new value"),
    )
    since = models.DateTimeField(_("since"))
    first_task = models.BigIntegerField(_("first bad task"))
    first_url = models.TextField(_("first bad page"), blank=True, default="")
    acknowledged_at = models.DateTimeField(_("acknowledged"), null=True, blank=True)
    # Without a constraint: an older process deletes users without knowing this table.
    acknowledged_by = user_key(_("acknowledged by"), db_index=False, db_constraint=False)
    earlier = models.BigIntegerField(
        _("earlier case"), null=True, blank=True, help_text=_("with the same cause; it has ended")
    )
    opened_at = models.DateTimeField(_("found"), db_default=Now())
    seen_at = models.DateTimeField(_("last seen"), db_default=Now())
    ended_at = models.DateTimeField(_("ended"), null=True, blank=True)

    LIVE = Q(state__in=LIVE)

    class Meta:
        verbose_name = _("case")
        verbose_name_plural = _("cases")
        ordering = ("-id",)
        constraints = (
            models.UniqueConstraint(
                fields=("key",),
                condition=Q(state__in=LIVE),
                name="case_live_once",
            ),
        )
        indexes = (
            models.Index(
                fields=("id",),
                condition=Q(state__in=LIVE),
                name="case_live",
            ),
        )
        permissions = (("handle_case", _("Can acknowledge and close cases")),)

    def __str__(self) -> str:
        return f"{self.cause} {self.host or self.version}".rstrip()

    @property
    def is_live(self) -> bool:
        return self.state in (self.State.OPEN, self.State.ACKNOWLEDGED)


class CaseSpider(models.Model):
    """A spider with a case. ``held``: numbers of kept pages, of the last good runs and of the first
    bad one, that stay while the case is live. ``proposals``: by field, as repair.py makes them;
    None: none were looked for."""

    case = models.ForeignKey(
        Case, models.CASCADE, related_name="spiders", db_index=False, verbose_name=_("case")
    )
    spider = models.CharField(_("spider"), max_length=SPIDER)
    fields = models.JSONField(_("fields"), default=list)
    first_task = models.BigIntegerField(_("first bad task"))
    last_task = models.BigIntegerField(_("last bad task"))
    last_good = models.BigIntegerField(_("last good task"), null=True)
    good_version = models.CharField(_("its code version"), max_length=VERSION, blank=True)
    version = models.CharField(_("code version"), max_length=VERSION, blank=True)
    held = models.JSONField(default=list)
    proposals = models.JSONField(_("proposals"), null=True, editable=False)
    is_good = models.BooleanField(_("good again"), default=False)

    LIVE = Q(case__state__in=LIVE)

    class Meta:
        verbose_name = _("spider with a case")
        verbose_name_plural = _("spiders with a case")
        ordering = ("spider",)
        constraints = (models.UniqueConstraint(fields=("case", "spider"), name="case_spider_once"),)
        indexes = (models.Index(fields=("spider", "case"), name="case_spider"),)

    def __str__(self) -> str:
        return f"{self.spider} of case {self.case_id}"
