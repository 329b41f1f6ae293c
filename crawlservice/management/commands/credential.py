"""credential: secrets with which requests to hosts are authenticated, and keys that sign them."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import transaction

from crawlframe.identity.credentials import BEARER, SCHEMES
from crawlframe.identity.signing import DIRECTORY
from crawlservice.accounts.journal import record
from crawlservice.cli.command import JsonCommand, ServiceCommand
from crawlservice.cli.listing import Listing, attributes
from crawlservice.cli.noun import Noun
from crawlservice.cli.secret_input import read_secret
from crawlservice.connections import clock
from crawlservice.identity import bot_keys, papers
from crawlservice.models import BotKey, HostCredential

HOURS = int(bot_keys.LEAD.total_seconds() // 3600)
MIN_HOURS = int(bot_keys.CACHE_AGE.total_seconds() // 3600)
MAX_HOURS = 24 * 90  # hours
CREDENTIALS = Listing[HostCredential](
    "credentials",
    attributes("host", "scheme", "user", "http", "note"),
    "no credentials",
    folded=("note",),
)


class SetCredential(ServiceCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("host", help="such as www.example.com or *.example.com")
        parser.add_argument("--scheme", choices=SCHEMES, default="basic", help="(%(default)s)")
        parser.add_argument("--user", default="", help="name, except for bearer")
        parser.add_argument("--http", action="store_true", help="also send it unencrypted")
        parser.add_argument("--note", default="", help="its purpose")

    def handle(self, *args: Any, **options: Any) -> None:
        what = "token" if options["scheme"] == BEARER else "password"
        row = papers.store(
            options["host"],
            options["scheme"],
            options["user"],
            read_secret(f"{what}: "),
            http=options["http"],
            note=options["note"][:200],
        )
        self.done(
            f"{row.host}: stored; nodes use it within some seconds",
            f"credential delete {row.host}",
        )


class ListCredentials(JsonCommand):
    def handle(self, *args: Any, **options: Any) -> None:
        self.show_list(CREDENTIALS, [*HostCredential.objects.order_by("host")], options["json"])


class DeleteCredential(ServiceCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("host", help="as it is listed")

    def handle(self, *args: Any, **options: Any) -> None:
        if not papers.remove(options["host"]):
            raise CommandError(f"there is no credential for {options['host']}")
        self.done(
            f"{options['host']}: deleted; nodes stop using it within some seconds",
            f"credential set {options['host']}",
        )


class ChangeKeys(ServiceCommand):
    """``word``: the action, in the journal."""

    word = ""

    def handle(self, *args: Any, **options: Any) -> None:
        with transaction.atomic():
            row, text = self.change(options)
            record(f"{self.word} key", command=True, key=row.name)
        self.done(text, None if self.word == "retire" else f"credential retire-key {row.name}")

    def change(self, options: dict[str, Any]) -> tuple[BotKey, str]:
        raise NotImplementedError


class CreateKey(ChangeKeys):
    word = "create"

    def change(self, options: dict[str, Any]) -> tuple[BotKey, str]:
        row = bot_keys.create()
        return row, f"key {row.name} was made; it signs from now on\n{_place()}"


class RotateKey(ChangeKeys):
    word = "rotate"

    def add_arguments(self, parser: ArgumentParser) -> None:
        when = parser.add_mutually_exclusive_group()
        when.add_argument(
            "--hours", type=int, default=HOURS, metavar="N",
            help=f"hours until it signs, at least {MIN_HOURS} (%(default)s)",
        )  # fmt: skip
        when.add_argument(
            "--now", action="store_true",
            help="it signs at once, which sites that keep the directory may refuse for an hour: "
            "for a key that others have got",
        )  # fmt: skip

    def change(self, options: dict[str, Any]) -> tuple[BotKey, str]:
        if not options["now"] and not MIN_HOURS <= options["hours"] <= MAX_HOURS:
            raise CommandError(
                f"--hours must be between {MIN_HOURS} and {MAX_HOURS}: sites may keep the "
                f"directory for {MIN_HOURS} h, and refuse an unknown key. In an emergency: --now"
            )
        lead = timedelta() if options["now"] else timedelta(hours=options["hours"])
        row = bot_keys.rotate(lead)
        when = "now" if options["now"] else f"{row.starts_at:%Y-%m-%d %H:%M} UTC"
        return row, f"key {row.name} is published; it signs from {when} on"


class RetireKey(ChangeKeys):
    word = "retire"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("key", help="its name, or the start of it")

    def change(self, options: dict[str, Any]) -> tuple[BotKey, str]:
        row = bot_keys.retire(options["key"])
        return row, f"key {row.name} was retired; sites stop accepting it within an hour"


class ListKeys(JsonCommand):
    def handle(self, *args: Any, **options: Any) -> None:
        now, signing, shown = clock.now(), bot_keys.current(), bot_keys.published()
        listing = Listing[BotKey](
            "keys",
            {
                **attributes("key=name"),
                "state": lambda row: bot_keys.state(row, now, signing, shown),
                **attributes("made=created_at", "signs from=starts_at", "retired=retired_at"),
            },
            "no keys",
        )
        rows = [*BotKey.objects.order_by("starts_at", "pk")]
        self.show_list(listing, rows, options["json"])
        if not options["json"]:
            self.stdout.write(_place())


class Command(Noun):
    verbs = {
        "list": ListCredentials,
        "set": SetCredential,
        "delete": DeleteCredential,
        "keys": ListKeys,
        "create-key": CreateKey,
        "rotate-key": RotateKey,
        "retire-key": RetireKey,
    }


def _place() -> str:
    if origin := settings.CRAWLFRAME.bot_auth:
        return f"The directory is served at {origin.rstrip('/')}{DIRECTORY}"
    return (
        f"The web serves the directory at {DIRECTORY}. Set CRAWLFRAME_BOT_AUTH to the https origin "
        "at which sites reach it, and start the nodes again: then requests are signed"
    )
