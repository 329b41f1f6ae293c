"""Reports of previews: what a version does to the data of kept pages."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

REVISION = 300  # characters of a name of a version


class PreviewReport(models.Model):
    """The report about one version, compared with another. The newest are kept."""

    version = models.CharField(_("code version"), max_length=REVISION, db_index=True)
    against = models.CharField(_("compared with"), max_length=REVISION)
    node = models.CharField(_("node"), max_length=100)
    pages = models.IntegerField(_("pages"), default=0)
    errors = models.IntegerField(_("errors by the rules"), default=0)
    report = models.JSONField(_("report"), default=dict, help_text=_("as the API shows it"))
    created_at = models.DateTimeField(_("created"), db_default=Now())

    class Meta:
        verbose_name = _("preview")
        verbose_name_plural = _("previews")
        ordering = ("-id",)

    def __str__(self) -> str:
        return self.version
