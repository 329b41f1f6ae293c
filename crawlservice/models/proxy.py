"""The pool of proxies, and the lists that it is filled from. Credentials are sealed
(security/sealing.py)."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from crawlservice.models.task import SPIDER

TAGS = 400  # characters of all tags of a proxy


class ProxySource(models.Model):
    """A list of proxies that is read periodically: a file or a page with a proxy in each line, or
    the proxies that the tasks of a spider name."""

    name = models.CharField(_("name"), max_length=100, unique=True)
    # It may have a key in its query. Of a spider: its arguments, as JSON.
    sealed_place = models.TextField(_("URL or path"), editable=False)
    spider = models.CharField(
        _("spider"),
        max_length=SPIDER,
        blank=True,
        default="",
        db_default="",
        help_text=_("one that yields Proxy items, in place of a URL or a path"),
    )
    run = models.BigIntegerField(default=0, db_default=0, editable=False)  # its latest task
    judged = models.BigIntegerField(default=0, db_default=0, editable=False)  # the last ended one
    every = models.IntegerField(
        _("every"),
        default=3600,
        help_text=_("seconds between two reads; 0: the spider has a schedule of its own"),
    )
    tier = models.SmallIntegerField(_("tier"), default=0)
    tags = models.CharField(_("tags"), max_length=TAGS, blank=True, default="")
    country = models.CharField(_("country"), max_length=2, blank=True, default="")
    max_concurrency = models.IntegerField(_("requests in flight"), default=0)
    enabled = models.BooleanField(_("enabled"), default=True)
    next_at = models.DateTimeField(_("next read"), null=True, blank=True)
    read_at = models.DateTimeField(_("last read"), null=True, blank=True)
    found = models.IntegerField(_("proxies"), default=0)
    problem = models.CharField(_("problem"), max_length=500, blank=True, default="")

    class Meta:
        verbose_name = _("proxy list")
        verbose_name_plural = _("proxy lists")
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class Proxy(models.Model):
    """A proxy of the pool. Only one that works is used; the leading steward checks all others."""

    class State(models.TextChoices):
        NEW = "new", _("not checked yet")
        WORKING = "working", _("working")
        FAILED = "failed", _("failed")

    url = models.CharField(
        _("URL"),
        max_length=300,
        help_text=_("scheme, host and port, such as http://proxy.example:3128"),
    )
    sealed_login = models.TextField(_("login"), editable=False, default="")  # user:password, or ""
    # Of URL and user name: two users of one server are two proxies.
    key = models.CharField(_("key"), max_length=64, unique=True, editable=False)
    tier = models.SmallIntegerField(
        _("tier"), default=0, help_text=_("the lowest one that works for a host is used")
    )
    tags = models.CharField(
        _("tags"), max_length=TAGS, blank=True, default="", help_text=_("separated by spaces")
    )
    country = models.CharField(
        _("country"), max_length=2, blank=True, default="", help_text=_("two letters")
    )
    max_concurrency = models.IntegerField(
        _("requests in flight"), default=0, help_text=_("at most, over all hosts; 0: no limit")
    )
    enabled = models.BooleanField(_("enabled"), default=True)
    source = models.ForeignKey(
        ProxySource,
        models.CASCADE,
        null=True,
        blank=True,
        editable=False,
        related_name="proxies",
        verbose_name=_("list"),
    )
    # The last task of its list that has named it; 0: it is not of a spider's.
    named_by = models.BigIntegerField(default=0, db_default=0, editable=False)
    state = models.CharField(_("state"), max_length=7, choices=State, default=State.NEW)
    life = models.IntegerField(_("lives"), default=0, editable=False)  # grows when it comes back
    failures = models.IntegerField(_("failed checks"), default=0, editable=False)  # in a row
    check_at = models.DateTimeField(_("next check"), null=True, blank=True, editable=False)
    checked_at = models.DateTimeField(_("last check"), null=True, blank=True, editable=False)
    latency_ms = models.IntegerField(_("latency (ms)"), null=True, blank=True, editable=False)
    problem = models.CharField(_("problem"), max_length=500, blank=True, default="", editable=False)
    changed_at = models.DateTimeField(_("changed"), auto_now=True)

    class Meta:
        verbose_name = _("proxy")
        verbose_name_plural = _("proxies")
        ordering = ("url", "pk")
        indexes = (models.Index(fields=("state", "check_at"), name="proxy_due"),)

    def __str__(self) -> str:
        return self.url
