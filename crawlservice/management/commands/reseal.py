"""reseal: encrypts the secrets of webhooks with the current CRAWLFRAME_SECRET_KEY."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError
from django.db import transaction

from crawlservice.accounts.journal import record
from crawlservice.cli.terminal import Command as ServiceCommand
from crawlservice.connections.installation import keep_key
from crawlservice.models import Webhook
from crawlservice.security.sealing import SealError, reseal


class Command(ServiceCommand):
    help = (
        "Encrypts the secrets of webhooks with CRAWLFRAME_SECRET_KEY; afterwards the former key "
        "can be removed from CRAWLFRAME_SECRET_KEY_FALLBACKS. Exits with 1 if one cannot be read."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        failed = []
        with transaction.atomic():
            webhooks = list(Webhook.objects.select_for_update())
            for webhook in webhooks:
                try:
                    webhook.sealed_secret = reseal(webhook.sealed_secret)
                    webhook.sealed_login = reseal(webhook.sealed_login)
                except SealError:
                    failed.append(webhook.name)
                else:
                    webhook.save(update_fields=["sealed_secret", "sealed_login"])
            keep_key()
            done = len(webhooks) - len(failed)
            record("reseal", command=True, webhooks=done, failed=failed)
        self.stdout.write(f"webhooks whose secrets were encrypted again: {done}")
        if failed:
            raise CommandError(
                f"webhooks whose secrets are encrypted with an unknown key: {', '.join(failed)}; "
                "name that key in CRAWLFRAME_SECRET_KEY_FALLBACKS and repeat this, or enter "
                "their addresses and make new secrets in the admin"
            )
