"""Credentials of hosts in the admin; their secrets are entered and never shown."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from crawlframe.base.secret import MASK
from crawlframe.identity.credentials import BadCredential, check_credential
from crawlservice.admin.parts.fields import secret
from crawlservice.admin.parts.lookups import DeclaredLookups, Journaled
from crawlservice.models import HostCredential
from crawlservice.security.sealing import seal


class CredentialForm(forms.ModelForm):
    """The secret is entered, and again when it would go to another host."""

    secret = secret(_("Password or token"))

    class Meta:
        model = HostCredential
        fields = ("host", "scheme", "user", "http", "note")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._has = bool(self.instance.sealed_secret)
        if self._has:
            self.fields["secret"].help_text = _("Stored encrypted; empty: unchanged.")
        else:
            self.fields["secret"].required = True

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if self.errors:
            return cleaned
        secret = cleaned.get("secret", "")
        kept = self._has and not secret
        try:
            # Unchanged ones were checked when they were entered.
            text = "kept" if kept else secret
            host = check_credential(cleaned["host"], cleaned["scheme"], cleaned["user"], text)
        except BadCredential as error:
            self.add_error(error.field, str(error))
            return cleaned
        sent = (host, cleaned["scheme"], cleaned["http"])
        if kept and (sent[:2] != self._before[:2] or (sent[2] and not self._before[2])):
            self.add_error(
                "secret",
                _("Enter it again: this change would send it to another host or in another way."),
            )
        if secret == MASK:
            self.add_error("secret", _("This is a mask. Enter the password or token itself."))
        cleaned["host"] = host
        return cleaned

    @property
    def _before(self) -> tuple[Any, ...]:
        return tuple(self.initial.get(name) for name in ("host", "scheme", "http"))

    def save(self, commit: bool = True) -> HostCredential:
        if secret := self.cleaned_data.get("secret"):
            self.instance.sealed_secret = seal(secret)
        row: HostCredential = super().save(commit)
        return row


@admin.register(HostCredential)
class CredentialAdmin(Journaled, DeclaredLookups):
    form = CredentialForm
    list_display = ("host", "scheme", "user", "http", "note", "by", "changed_at")
    list_select_related = ("by",)
    list_per_page = 50
    search_fields = ("host", "note")
    fields = ("host", "scheme", "user", "secret", "http", "note", "by", "changed_at")
    readonly_fields = ("by", "changed_at")

    def save_model(
        self, request: HttpRequest, obj: HostCredential, form: Any, change: bool
    ) -> None:
        obj.by_id = request.user.pk
        super().save_model(request, obj, form, change)

    def details(self, row: HostCredential) -> dict[str, Any]:
        return {"scheme": row.scheme, "http": row.http}
