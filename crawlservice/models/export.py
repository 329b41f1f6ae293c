"""Exports: continuous copies of items to outside targets, and the progress of each."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from crawlservice.models.task import SPIDER, user_key

EXPORT_NAME = 60  # characters


class Export(models.Model):
    """One continuous export: every committed row that it wants, in commit order."""

    class What(models.TextChoices):
        ITEMS = "items", _("items")
        PAGES = "pages", _("pages")  # the ledger

    name = models.CharField(_("name"), max_length=EXPORT_NAME, unique=True)
    what = models.CharField(_("what"), max_length=5, choices=What, default=What.ITEMS)
    spider = models.CharField(
        _("spider"), max_length=SPIDER, blank=True, default="",
        help_text=_("only of this spider; empty: of all"),
    )  # fmt: skip
    # The number alone: the task may be gone while its items are still in the target.
    task = models.BigIntegerField(
        _("task"), null=True, blank=True, help_text=_("only of this task; empty: of all")
    )
    labels = models.JSONField(
        _("labels"), default=dict, blank=True,
        help_text=_("only of tasks that have all of them"),
    )  # fmt: skip
    usage = models.CharField(
        _("usage"), max_length=200, blank=True, default="",
        help_text=_("only of pages whose usage signals match, such as ai-train!=no"),
    )  # fmt: skip
    fields = models.JSONField(
        _("fields"), default=list, blank=True, help_text=_("only these fields; empty: all")
    )
    # Without secrets, which are in ``sealed``: the JSON object of them, encrypted (sealing.py).
    target = models.JSONField(_("target"))
    sealed = models.TextField(_("secrets"), blank=True, default="", editable=False)
    from_file = models.BooleanField(
        _("from a file"), default=False, help_text=_("defined in exports.toml of the spiders")
    )
    listed = models.BooleanField(
        _("listed"), default=True, help_text=_("the file that defines it still names it")
    )
    paused = models.BooleanField(_("paused"), default=False)
    changed = models.PositiveIntegerField(default=0, help_text="counts changes of the definition")

    # -- how far it is ----------------------------------------------------------------------------

    run = models.PositiveIntegerField(
        _("run"), default=1, help_text=_("counts how often it was started again")
    )
    since = models.DateTimeField(
        _("since"), null=True, blank=True, help_text=_("only rows stored from then on")
    )
    position = models.BigIntegerField(
        _("position"), default=0, help_text=_("number of the last row that was exported")
    )
    # Written before a batch is sent, so that every attempt sends the same rows.
    planned = models.BigIntegerField(
        _("planned"), null=True, blank=True, help_text=_("last row of the batch being sent")
    )
    columns = models.JSONField(
        _("columns"), default=list, blank=True, help_text=_("name and kind of each, in order")
    )
    rows = models.BigIntegerField(_("exported"), default=0, help_text=_("rows in all"))
    batches = models.BigIntegerField(_("batches"), default=0)
    last_batch = models.TextField(_("last batch"), blank=True, default="")
    last_at = models.DateTimeField(_("last sent"), null=True, blank=True)
    attempts = models.PositiveIntegerField(
        _("failed attempts"), default=0, help_text=_("since the last success")
    )
    next_at = models.DateTimeField(_("next attempt"), null=True, blank=True)
    problem = models.TextField(_("problem"), blank=True, default="")
    problem_since = models.DateTimeField(_("since"), null=True, blank=True)
    # Without a constraint: an older process deletes users without knowing this table.
    user = user_key(_("user"), db_index=False, db_constraint=False)
    created_at = models.DateTimeField(_("created"), db_default=Now())

    class Meta:
        verbose_name = _("export")
        verbose_name_plural = _("exports")
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    @classmethod
    def active_ones(cls) -> models.QuerySet[Export]:
        """Exports that are neither paused nor stopped."""
        return cls.objects.filter(paused=False, listed=True)

    @property
    def active(self) -> bool:
        """Whether it exports."""
        return not self.paused and self.listed


class ExportFile(models.Model):
    """The only row: the fault of the file of exports, as the leading node read it."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    node = models.CharField(_("node"), max_length=100)
    path = models.TextField(_("path"))
    problems = models.JSONField(_("problems"), default=list)

    def __str__(self) -> str:
        return self.path
