"""botauth: the keys with which requests are signed (Web Bot Auth)."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import transaction
from rich.table import Table

from crawlframe.identity.signing import DIRECTORY
from crawlservice.accounts.journal import record
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.connections import clock
from crawlservice.identity import bot_keys
from crawlservice.models import BotKey

HOURS = int(bot_keys.LEAD.total_seconds() // 3600)
MIN_HOURS = int(bot_keys.CACHE_AGE.total_seconds() // 3600)
MAX_HOURS = 24 * 90  # hours


class Command(ServiceCommand):
    help = "Makes, rotates, lists and retires the keys with which requests are signed."

    def add_arguments(self, parser: ArgumentParser) -> None:
        words = "create | rotate | list | retire"
        what = parser.add_subparsers(dest="what", required=True, metavar=words)
        what.add_parser("create", help="make the first key, which signs at once")
        rotate = what.add_parser("rotate", help="make the next key, published before it signs")
        when = rotate.add_mutually_exclusive_group()
        when.add_argument(
            "--hours", type=int, default=HOURS, metavar="N",
            help=f"hours until it signs, at least {MIN_HOURS} (%(default)s)",
        )  # fmt: skip
        when.add_argument(
            "--now", action="store_true",
            help="it signs at once, which sites that keep the directory may refuse for an hour: "
            "for a key that others have got",
        )  # fmt: skip
        what.add_parser("list", help="list all keys")
        retire = what.add_parser("retire", help="take a key out of the directory, for ever")
        retire.add_argument("key", help="its name, or how that begins")

    def handle(self, *args: Any, **options: Any) -> None:
        do = {"create": self._create, "rotate": self._rotate, "retire": self._retire}
        if options["what"] == "list":
            self._list()
            return
        with transaction.atomic():
            row, text = do[options["what"]](options)
            record(f"{options['what']} key", command=True, key=row.name)
        self.stdout.write(text)

    def _create(self, options: dict[str, Any]) -> tuple[BotKey, str]:
        row = bot_keys.create()
        return row, f"key {row.name} was made; it signs from now on\n{_place()}"

    def _rotate(self, options: dict[str, Any]) -> tuple[BotKey, str]:
        if not options["now"] and not MIN_HOURS <= options["hours"] <= MAX_HOURS:
            raise CommandError(
                f"--hours must be between {MIN_HOURS} and {MAX_HOURS}: sites may keep the "
                f"directory for {MIN_HOURS} h, and refuse an unknown key. In an emergency: --now"
            )
        lead = timedelta() if options["now"] else timedelta(hours=options["hours"])
        row = bot_keys.rotate(lead)
        when = "now" if options["now"] else f"{_day(row.starts_at)} UTC"
        return row, f"key {row.name} is published; it signs from {when} on"

    def _retire(self, options: dict[str, Any]) -> tuple[BotKey, str]:
        row = bot_keys.retire(options["key"])
        return row, f"key {row.name} was retired; sites stop accepting it within an hour"

    def _list(self) -> None:
        table = Table("key", "state", "made", "signs from", "retired", box=None, pad_edge=False)
        now, signing, shown = clock.now(), bot_keys.current(), bot_keys.published()
        for row in BotKey.objects.order_by("starts_at", "pk"):
            table.add_row(
                row.name, bot_keys.state(row, now, signing, shown), _day(row.created_at),
                _day(row.starts_at), _day(row.retired_at),
            )  # fmt: skip
        self.console.print(table)
        self.stdout.write(_place())


def _place() -> str:
    if origin := settings.CRAWLFRAME.bot_auth:
        return f"The directory is served at {origin.rstrip('/')}{DIRECTORY}"
    return (
        f"The web serves the directory at {DIRECTORY}. Set CRAWLFRAME_BOT_AUTH to the https origin "
        "at which sites reach it, and start the nodes again: then requests are signed"
    )


def _day(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M}" if at else "-"
