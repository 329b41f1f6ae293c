"""Rules that make several URLs one page, and their use by tasks."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from crawlframe.robots.state import MAX_ORIGIN
from crawlservice.models.task import Task

KIND = 10  # characters


class AliasRule(models.Model):
    """A rule that was learned from kept pages. One that was revoked or refuted stays, so that it is
    not learned again."""

    class State(models.TextChoices):
        PROPOSED = "proposed", _("proposed")
        VERIFIED = "verified", _("verified")
        REFUTED = "refuted", _("refuted")
        REVOKED = "revoked", _("revoked")

    origin = models.CharField(
        _("origin"), max_length=MAX_ORIGIN, help_text=_("scheme, host and port")
    )
    kind = models.CharField(_("kind"), max_length=KIND)
    rule = models.JSONField(_("rule"), help_text=_("as it is applied"))
    key = models.CharField(_("key"), max_length=32, unique=True, editable=False)
    state = models.CharField(_("state"), max_length=8, choices=State, default=State.PROPOSED)
    support = models.IntegerField(
        _("pages for it"),
        default=0,
        help_text=_("different pages that were kept from two of its URLs or more"),
    )
    contradictions = models.IntegerField(
        _("pages against it"), default=0, help_text=_("that differed at URLs it says are equal")
    )
    compared = models.IntegerField(
        _("pairs compared"), default=0, help_text=_("of URLs, fetched to verify it")
    )
    fetches = models.IntegerField(_("fetches"), default=0, help_text=_("spent on that"))
    examples = models.JSONField(_("examples"), default=list, help_text=_("pairs of URLs"))
    counterexamples = models.JSONField(_("counter-examples"), default=list)
    problem = models.TextField(_("problem"), blank=True, default="")
    created_at = models.DateTimeField(_("learned"), db_default=Now())
    decided_at = models.DateTimeField(
        _("decided"), null=True, help_text=_("when it was verified, refuted or revoked")
    )

    class Meta:
        verbose_name = _("rule of aliases")
        verbose_name_plural = _("rules of aliases")
        ordering = ("-id",)
        indexes = (models.Index(fields=("origin", "state", "id"), name="alias_rule_origin"),)

    def __str__(self) -> str:
        return f"{self.origin} {self.kind}"


class TaskAliases(models.Model):
    """The rules that held when a task was submitted: with others, it would not know again which
    pages it has."""

    # Without a constraint: an older process deletes tasks without knowing this table.
    task = models.OneToOneField(
        Task, models.CASCADE, db_constraint=False, primary_key=True, verbose_name=_("task")
    )
    rules = models.JSONField(_("rules"))

    class Meta:
        verbose_name = _("rules of a task")
        verbose_name_plural = _("rules of tasks")

    def __str__(self) -> str:
        return f"{len(self.rules)} rules"
