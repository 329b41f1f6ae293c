"""reseal: encrypts the secrets of webhooks with the present CRAWLFRAME_SECRET_KEY."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from crawlservice.installation import keep_key
from crawlservice.journal import record
from crawlservice.models import Webhook
from crawlservice.sealing import reseal
from crawlservice.terminal import Command as ServiceCommand


class Command(ServiceCommand):
    help = (
        "Encrypts the secrets of webhooks with CRAWLFRAME_SECRET_KEY; afterwards the former key "
        "can leave CRAWLFRAME_SECRET_KEY_FALLBACKS."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        with transaction.atomic():
            webhooks = list(Webhook.objects.select_for_update())
            for webhook in webhooks:
                webhook.sealed_secret = reseal(webhook.sealed_secret)
                webhook.sealed_login = reseal(webhook.sealed_login)
                webhook.save(update_fields=["sealed_secret", "sealed_login"])
            keep_key()
            record("reseal", command=True, webhooks=len(webhooks))
        self.stdout.write(f"webhooks whose secrets were encrypted anew: {len(webhooks)}")
