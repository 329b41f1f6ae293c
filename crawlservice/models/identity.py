"""Our identity for the sites that are crawled: the keys that sign requests, and the credentials of
hosts. Secrets are sealed (security/sealing.py)."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from crawlservice.models.task import user_key


class BotKey(models.Model):
    """An Ed25519 key of the directory. The key that started last signs."""

    name = models.CharField(max_length=43, unique=True, help_text="JWK thumbprint")
    public = models.CharField(max_length=43, help_text="as the JWK has it in x")
    sealed_private = models.TextField(editable=False)
    created_at = models.DateTimeField(db_default=Now())
    starts_at = models.DateTimeField(help_text="when it begins to sign")
    retired_at = models.DateTimeField(null=True, help_text="since when it is not published")

    class Meta:
        verbose_name = "key"
        verbose_name_plural = "keys"
        ordering = ("starts_at", "pk")

    def __str__(self) -> str:
        return self.name


class HostCredential(models.Model):
    """With which name and secret requests to a host are authenticated (HTTP authentication)."""

    class Scheme(models.TextChoices):
        BASIC = "basic", "basic"
        DIGEST = "digest", "digest"
        BEARER = "bearer", "bearer"

    host = models.CharField(
        _("host"),
        max_length=255,
        unique=True,
        help_text=_(
            "such as www.example.com, with its port if that is not the usual one; *.example.com: "
            "all hosts below that domain"
        ),
    )
    scheme = models.CharField(_("scheme"), max_length=6, choices=Scheme, default=Scheme.BASIC)
    user = models.CharField(
        _("user name"),
        max_length=255,
        blank=True,
        default="",
        help_text=_("empty for bearer, which has only a token"),
    )
    sealed_secret = models.TextField(editable=False)
    http = models.BooleanField(
        _("also over http"),
        default=False,
        help_text=_("also sent unencrypted, where others can read it"),
    )
    note = models.CharField(_("note"), max_length=200, blank=True, default="")
    by = user_key(_("last changed by"), editable=False, help_text=_("empty: a command"))
    changed_at = models.DateTimeField(_("changed"), auto_now=True)

    class Meta:
        verbose_name = _("credential")
        verbose_name_plural = _("credentials")
        ordering = ("host",)

    def __str__(self) -> str:
        return self.host
