"""The credentials of hosts: entered, sealed, removed."""

from __future__ import annotations

from django.db import transaction

from crawlframe.identity.credentials import check_credential, check_host
from crawlservice.accounts.journal import record
from crawlservice.models import HostCredential
from crawlservice.security.sealing import seal


def store(
    host: str, scheme: str, user: str, secret: str, *, http: bool = False, note: str = ""
) -> HostCredential:
    """Stores the credential of a host, instead of the one it had; for commands. Raises
    BadCredential."""
    name = check_credential(host, scheme, user, secret)
    fields = {"scheme": scheme, "user": user, "sealed_secret": seal(secret), "http": http}
    with transaction.atomic():
        row, new = HostCredential.objects.update_or_create(
            host=name, defaults={**fields, "note": note, "by": None}
        )
        verb = "add credential" if new else "change credential"
        record(verb, command=True, host=name, scheme=scheme, http=http)
    return row


def remove(host: str) -> bool:
    """Returns whether there was one. Raises BadCredential."""
    name = check_host(host)
    with transaction.atomic():
        gone, _ = HostCredential.objects.filter(host=name).delete()
        if gone:
            record("delete credential", command=True, host=name)
    return bool(gone)
