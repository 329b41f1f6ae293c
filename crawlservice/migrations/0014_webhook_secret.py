"""Secrets of webhooks, and names and passwords in their addresses, are kept encrypted."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.db import migrations, models

from crawlservice.sealing import seal, unseal
from crawlservice.webhooks import MASK, split_login


def encrypt(apps: Any, schema_editor: Any) -> None:
    for webhook in _webhooks(apps, schema_editor):
        webhook.url, login = split_login(webhook.url)
        webhook.sealed_secret, webhook.sealed_login = seal(webhook.sealed_secret), seal(login)
        webhook.save(update_fields=["url", "sealed_secret", "sealed_login"])


def decrypt(apps: Any, schema_editor: Any) -> None:
    for webhook in _webhooks(apps, schema_editor):
        login = unseal(webhook.sealed_login)
        if login and urlsplit(webhook.url).netloc.startswith(f"{MASK}@"):
            webhook.url = webhook.url.replace(f"//{MASK}@", f"//{login}@", 1)
        webhook.sealed_secret = unseal(webhook.sealed_secret)
        webhook.save(update_fields=["url", "sealed_secret"])


def _webhooks(apps: Any, schema_editor: Any) -> Any:
    model = apps.get_model("crawlservice", "Webhook")
    return model.objects.using(schema_editor.connection.alias).order_by("pk")


class Migration(migrations.Migration):
    dependencies = [("crawlservice", "0013_schedule_problem")]

    operations = [
        migrations.RenameField("webhook", "secret", "sealed_secret"),
        migrations.AlterField(
            "webhook", "sealed_secret", models.TextField("secret", editable=False)
        ),
        migrations.AddField(
            "webhook",
            "sealed_login",
            models.TextField("login", blank=True, default="", editable=False),
        ),
        migrations.RunPython(encrypt, decrypt),
    ]
