"""Secrets of webhooks, and names and passwords in their addresses, are stored encrypted. The column
keeps its name: older processes still read the table."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Any
from urllib.parse import urlsplit

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.db import migrations, models

# As crawlservice/security/sealing.py and crawlservice/webhooks/deliveries.py had it when this was written.
PURPOSE = b"crawlframe sealed secrets 1"
MASK = "***"


def encrypt(apps: Any, schema_editor: Any) -> None:
    for webhook in _webhooks(apps, schema_editor):
        webhook.url, login = split_login(webhook.url)
        webhook.sealed_secret, webhook.sealed_login = seal(webhook.sealed_secret), seal(login)
        webhook.save(update_fields=["url", "sealed_secret", "sealed_login"])


def decrypt(apps: Any, schema_editor: Any) -> None:
    for webhook in _webhooks(apps, schema_editor):
        login = unseal(webhook.sealed_login, webhook.name)
        if login and urlsplit(webhook.url).netloc.startswith(f"{MASK}@"):
            webhook.url = webhook.url.replace(f"//{MASK}@", f"//{login}@", 1)
        webhook.sealed_secret = unseal(webhook.sealed_secret, webhook.name)
        webhook.save(update_fields=["url", "sealed_secret"])


def _webhooks(apps: Any, schema_editor: Any) -> Any:
    model = apps.get_model("crawlservice", "Webhook")
    return model.objects.using(schema_editor.connection.alias).order_by("pk")


def split_login(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    login, at, place = parts.netloc.rpartition("@")
    return (parts._replace(netloc=f"{MASK}@{place}").geturl(), login) if at else (url, "")


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
    dependencies = [("crawlservice", "0013_schedule_problem")]

    operations = [
        migrations.AlterField(
            "webhook", "secret", models.TextField("secret", editable=False, db_column="secret")
        ),
        migrations.RenameField("webhook", "secret", "sealed_secret"),
        migrations.AddField(
            "webhook",
            "sealed_login",
            models.TextField("login", blank=True, db_default="", default="", editable=False),
        ),
        migrations.RunPython(encrypt, decrypt),
    ]
