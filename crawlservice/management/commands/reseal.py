"""reseal: encrypts all secrets in the database with the current CRAWLFRAME_SECRET_KEY."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError
from django.db import transaction

from crawlservice.accounts.journal import record
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.cli.resealing import reseal_all
from crawlservice.connections.installation import keep_key


class Command(ServiceCommand):
    help = (
        "Encrypts all secrets (of webhooks, hosts, keys, and arguments of tasks and schedules) "
        "with CRAWLFRAME_SECRET_KEY; afterwards the former key can be removed from "
        "CRAWLFRAME_SECRET_KEY_FALLBACKS. Exits with 1 if one cannot be read."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        with transaction.atomic():
            done, failed = reseal_all()
            keep_key()
            told: dict[str, Any] = {**done, "failed": failed}
            record("reseal", command=True, **told)
        for kind, number in done.items():
            self.stdout.write(f"{kind} whose secrets were encrypted again: {number}")
        if failed:
            raise CommandError(
                f"secrets that are encrypted with an unknown key: {', '.join(failed)}; name that "
                "key in CRAWLFRAME_SECRET_KEY_FALLBACKS and repeat this, or enter them again"
            )
