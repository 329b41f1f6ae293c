"""Labels of tasks: name=value pairs to find tasks by."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from crawlservice.models.task import task_key

LABELS = 20  # labels of one task
LABEL_NAME = 40  # characters
LABEL_VALUE = 100


class Label(models.Model):
    """One label of one task."""

    # Without a constraint: an older process deletes tasks without knowing this table.
    task = task_key(related_name="labels")
    name = models.CharField(_("name"), max_length=LABEL_NAME)
    value = models.CharField(_("value"), max_length=LABEL_VALUE)

    class Meta:
        verbose_name = _("label")
        verbose_name_plural = _("labels")
        ordering = ("task", "name")
        constraints = (models.UniqueConstraint(fields=("task", "name"), name="label_once"),)
        # With the task, so that the tasks of a label are read in their order.
        indexes = (models.Index(fields=("name", "value", "task"), name="label_found"),)

    def __str__(self) -> str:
        return f"{self.name}={self.value}"
