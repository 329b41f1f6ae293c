"""Papers: our keys and credentials, as nodes and fetching commands use them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connection, transaction

from crawlframe.base.secret import Secret
from crawlframe.errors import ConfigError
from crawlframe.identity.credentials import Credential, check_credential, check_host
from crawlframe.identity.identity import Identity, Papers
from crawlservice.accounts.journal import record
from crawlservice.identity.bot_keys import check, published, signing_key
from crawlservice.models import HostCredential
from crawlservice.security.sealing import seal, unseal

COLUMNS = ("host", "scheme", "user", "sealed_secret", "http")


class StoredPapers:
    """Reads the papers periodically; unchanged secrets are not unsealed again."""

    def __init__(self) -> None:
        self._rows: Any = None
        self._papers = Papers()

    def read(self) -> Papers:
        """The present papers. Raises django.db.Error, and ConfigError for unreadable secrets, or
        when requests are to be signed and there is no key."""
        keys = published() if settings.CRAWLFRAME.bot_auth else []
        if not keys:
            check()
        logins = [*HostCredential.objects.order_by("host").values_list(*COLUMNS)]
        rows = ([(key.pk, key.starts_at, key.sealed_private) for key in keys], logins)
        if rows != self._rows:
            self._papers = Papers(
                tuple(map(signing_key, keys)),
                tuple(
                    Credential(host, scheme, user, Secret(unseal(sealed)), http)
                    for host, scheme, user, sealed, http in logins
                ),
            )
            self._rows = rows
        return self._papers


def identity_here() -> tuple[Identity, str]:
    """The identity of a command that fetches, and why it is without its papers: "" when it has
    them."""
    identity = Identity(settings.CRAWLFRAME.signature_agent)
    try:
        identity.load(StoredPapers().read())
    except (DatabaseError, ConfigError) as error:
        identity.load(Papers())
        if settings.CRAWLFRAME.bot_auth or not _has_no_tables():
            return identity, f"the request is neither signed nor logged in: {error}"
    return identity, ""


def _has_no_tables() -> bool:
    """Whether the database is one that nothing has migrated, so that it has no credentials."""
    with suppress(DatabaseError):
        return HostCredential._meta.db_table not in connection.introspection.table_names()
    return False


def store(
    host: str, scheme: str, user: str, secret: str, *, http: bool = False, note: str = ""
) -> HostCredential:
    """Stores the credential of a host, in place of an earlier one; for commands. Raises
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
