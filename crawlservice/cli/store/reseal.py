"""store reseal: encrypts all secrets in the database with the current CRAWLFRAME_SECRET_KEY."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from typing import Any

from django.core.management.base import CommandError
from django.db import models, transaction
from django.db.models.functions import Cast

from crawlframe.base.secret import SEALED
from crawlservice.accounts.journal import record
from crawlservice.cli.command import ServiceCommand, add_dry_run
from crawlservice.connections.installation import keep_key
from crawlservice.models import (
    AlertTarget,
    BotKey,
    Export,
    HostCredential,
    Proxy,
    ProxySource,
    Schedule,
    Task,
    Webhook,
)
from crawlservice.security.sealing import SealError, reseal
from crawlservice.tasks.arguments.secrets import resealed

# Model, its sealed columns, and how one of them is encrypted again.
Sealed = tuple[type[models.Model], tuple[str, ...], Callable[[Any], Any]]
PLACES: tuple[Sealed, ...] = (
    (Webhook, ("sealed_secret", "sealed_login"), reseal),
    (AlertTarget, ("sealed_address",), reseal),
    (Export, ("sealed",), reseal),
    (BotKey, ("sealed_private",), reseal),
    (HostCredential, ("sealed_secret",), reseal),
    (Proxy, ("sealed_login",), reseal),
    (ProxySource, ("sealed_place",), reseal),
    (Schedule, ("arguments",), resealed),
    (Task, ("arguments",), resealed),
)


class Reseal(ServiceCommand):
    help = (
        "Encrypts all secrets (of webhooks, hosts, keys, and arguments of tasks and schedules) "
        "with CRAWLFRAME_SECRET_KEY; afterwards the former key can be removed from "
        "CRAWLFRAME_SECRET_KEY_FALLBACKS. Exits with 1 if one cannot be read."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_dry_run(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        with self.progress("encrypting"), transaction.atomic():
            done, failed = reseal_all()
            if options["dry_run"]:
                transaction.set_rollback(True)
            else:
                keep_key()
                told: dict[str, Any] = {**done, "failed": failed}
                record("reseal", command=True, **told)
        secrets = ", ".join(f"{kind} {number:,}" for kind, number in done.items()) or "none"
        if not self.only_shows(options, f"encrypt secrets again: {secrets}"):
            self.done(f"secrets that were encrypted again: {secrets}", None)
        if failed:
            raise CommandError(
                f"secrets that are encrypted with an unknown key: {', '.join(failed)}; name that "
                "key in CRAWLFRAME_SECRET_KEY_FALLBACKS and repeat this, or enter them again"
            )


def reseal_all() -> tuple[dict[str, int], list[str]]:
    """Encrypts all secrets again, in the caller's transaction. Returns the number of rows of each
    kind, and the names of rows whose key is unknown."""
    done: dict[str, int] = {}
    failed = []
    for model, columns, again in PLACES:
        kind, number = str(model._meta.verbose_name_plural), 0
        for row in _rows(model, columns):
            try:
                for column in columns:
                    setattr(row, column, again(getattr(row, column)))
            except SealError:
                failed.append(f"{model._meta.verbose_name} {row}")
            else:
                row.save(update_fields=columns)
                number += 1
        if number:
            done[kind] = number
    return done, failed


def _rows(model: type[models.Model], columns: tuple[str, ...]) -> Iterator[Any]:
    """Rows with a secret, one after another; most tasks have none."""
    rows = model._default_manager.order_by("pk").select_for_update().only("pk", *columns)
    if columns == ("arguments",):
        told = Cast("arguments", models.TextField())
        rows = rows.annotate(told=told).filter(told__contains=f'"{SEALED}"')
    return rows.iterator(chunk_size=500)
