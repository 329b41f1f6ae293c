"""Spending of tasks against their budgets, and the possible traps that they met."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from crawlservice.models.task import task_key

TEMPLATE = 500  # characters of the template of a trap
HOST = 260  # characters of a host with its port


class Spent(models.Model):
    """The bytes of a task's pages, of all hosts (``host`` is empty) or of one; only for tasks with
    such a limit. Written in the transactions of the pages."""

    task = task_key()
    host = models.CharField(_("host"), max_length=HOST, blank=True, default="")
    bytes = models.BigIntegerField(_("bytes"))

    class Meta:
        verbose_name = _("spent budget")
        verbose_name_plural = _("spent budgets")
        ordering = ("task", "host")
        constraints = (models.UniqueConstraint(fields=("task", "host"), name="spent_once"),)

    def __str__(self) -> str:
        return self.host or str(self.task)


class Trap(models.Model):
    """URLs of one form, many of which bring nothing new. The numbers of the workers that noticed it
    are added; they look at a sample of the pages."""

    task = task_key()
    template = models.CharField(_("URLs"), max_length=TEMPLATE)
    pages = models.BigIntegerField(_("pages"))
    contents = models.BigIntegerField(_("different contents"))

    class Meta:
        verbose_name = _("possible trap")
        verbose_name_plural = _("possible traps")
        ordering = ("task", "-pages")
        constraints = (models.UniqueConstraint(fields=("task", "template"), name="trap_once"),)

    def __str__(self) -> str:
        return self.template
