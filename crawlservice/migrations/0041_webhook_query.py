"""Queries in the addresses of webhooks, which may be tokens, are stored encrypted with the login."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Any
from urllib.parse import urlsplit

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.db import migrations

# As crawlservice/security/sealing.py and crawlservice/webhooks/address.py had it when this was written.
PURPOSE = b"crawlframe sealed secrets 1"
MASK = "***"


def conceal(apps: Any, schema_editor: Any) -> None:
    for webhook in _webhooks(apps, schema_editor):
        parts = urlsplit(webhook.url)
        if parts.query and parts.query != MASK:
            login = unseal(webhook.sealed_login, webhook.name)
            webhook.url = parts._replace(query=MASK).geturl()
            webhook.sealed_login = seal(f"{login}?{parts.query}")
            webhook.save(update_fields=["url", "sealed_login"])


def reveal(apps: Any, schema_editor: Any) -> None:
    for webhook in _webhooks(apps, schema_editor):
        login, _, query = unseal(webhook.sealed_login, webhook.name).partition("?")
        if query:
            webhook.url = urlsplit(webhook.url)._replace(query=query).geturl()
            webhook.sealed_login = seal(login)
            webhook.save(update_fields=["url", "sealed_login"])


def _webhooks(apps: Any, schema_editor: Any) -> Any:
    model = apps.get_model("crawlservice", "Webhook")
    return model.objects.using(schema_editor.connection.alias).order_by("pk")


def seal(text: str) -> str:
    return _box().encrypt(text.encode()).decode() if text else ""


def unseal(sealed: str, webhook: str) -> str:
    try:
        return _box().decrypt(sealed.encode()).decode() if sealed else ""
    except InvalidToken:
        raise ValueError(
            f"the secret of webhook {webhook!r} was encrypted with another CRAWLFRAME_SECRET_KEY; "
            "name that one in CRAWLFRAME_SECRET_KEY_FALLBACKS, or delete the webhook"
        ) from None


def _box() -> MultiFernet:
    return MultiFernet([_key(key) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)])


def _key(secret: str) -> Fernet:
    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=PURPOSE).derive(secret.encode())
    return Fernet(urlsafe_b64encode(derived))


class Migration(migrations.Migration):
    dependencies = [("crawlservice", "0040_proxy_spiders")]

    operations = [migrations.RunPython(conceal, reveal)]
