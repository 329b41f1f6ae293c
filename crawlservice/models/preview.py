"""Reports of previews: what a version does to the data of kept pages."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

REVISION = 300  # characters of a name of a version


class PreviewReport(models.Model):
    """The report about one version, compared with another; of a preview that a user has ordered, it
    grows. The newest are kept."""

    class State(models.TextChoices):
        WAITING = "waiting", _("waiting")
        RUNNING = "running", _("running")
        DONE = "done", _("done")
        FAILED = "failed", _("failed")

    version = models.CharField(_("code version"), max_length=REVISION, db_index=True)
    against = models.CharField(_("compared with"), max_length=REVISION)
    node = models.CharField(_("node"), max_length=100)
    pages = models.IntegerField(_("pages"), default=0)
    errors = models.IntegerField(_("errors by the rules"), default=0)
    report = models.JSONField(_("report"), default=dict, help_text=_("as the API shows it"))
    state = models.CharField(
        _("state"), max_length=8, choices=State, default=State.DONE, db_default=State.DONE
    )
    given = models.JSONField(_("order"), null=True, help_text=_("of a user; empty: of a node"))
    user = models.CharField(_("user"), max_length=150, default="", db_default="")
    problem = models.TextField(_("problem"), default="", db_default="")
    changed_at = models.DateTimeField(_("changed"), null=True)
    created_at = models.DateTimeField(_("created"), db_default=Now())

    class Meta:
        verbose_name = _("preview")
        verbose_name_plural = _("previews")
        ordering = ("-id",)

    def __str__(self) -> str:
        return self.version
