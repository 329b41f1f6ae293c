"""LogLine and TaskLog: the latest lines that the spiders of a task logged and printed."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from crawlservice.models.task import task_key

LOGGER = 100  # characters of a logger's name


class LogLine(models.Model):
    """One message. Its time comes from the clock of the machine that ran the spider."""

    task = task_key()
    at = models.DateTimeField(_("time"))
    level = models.SmallIntegerField(_("level"), help_text=_("10 debug, 20 info, 30 warning, …"))
    logger = models.CharField(_("logger"), max_length=LOGGER)
    rid = models.UUIDField(_("request"), null=True, blank=True)
    url = models.TextField("URL", blank=True, default="")
    text = models.TextField(_("text"))
    worker = models.TextField(_("worker"), default="", db_default="")  # node and process

    class Meta:
        verbose_name = _("log line")
        verbose_name_plural = _("log lines")
        ordering = ("task", "id")
        indexes = (models.Index(fields=("task", "id"), name="logline_task"),)

    def __str__(self) -> str:
        return self.text


class TaskLog(models.Model):
    """The kept part of a task's log. Its row is locked while lines are added."""

    task = task_key()
    lines = models.BigIntegerField(_("lines"))
    size = models.BigIntegerField(_("bytes"))
    dropped = models.BigIntegerField(_("dropped lines"))

    class Meta:
        verbose_name = _("log of a task")
        verbose_name_plural = _("logs of tasks")
        ordering = ("task",)
        constraints = (models.UniqueConstraint(fields=("task",), name="tasklog_once"),)

    def __str__(self) -> str:
        return f"{self.lines} lines of task {self.task_id}"
