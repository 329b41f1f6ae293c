"""credential: names and secrets with which requests to hosts are authenticated."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from rich.table import Table

from crawlframe.identity.credentials import BEARER, SCHEMES
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.cli.secret_input import read_secret
from crawlservice.cli.terminal import plain
from crawlservice.identity import papers
from crawlservice.models import HostCredential


class Command(ServiceCommand):
    help = "Stores, lists and deletes the credentials of hosts (basic, digest, bearer)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        what = parser.add_subparsers(dest="what", required=True, metavar="set | list | delete")
        give = what.add_parser("set", help="store one; the secret is asked for, or read from stdin")
        give.add_argument("host", help="such as www.example.com or *.example.com")
        give.add_argument("--scheme", choices=SCHEMES, default="basic", help="(%(default)s)")
        give.add_argument("--user", default="", help="name, except for bearer")
        give.add_argument("--http", action="store_true", help="also send it unencrypted")
        give.add_argument("--note", default="", help="what it is for")
        what.add_parser("list", help="list them, without the secrets")
        delete = what.add_parser("delete", help="delete the one of a host")
        delete.add_argument("host", help="as it is listed")

    def handle(self, *args: Any, **options: Any) -> None:
        {"set": self._set, "list": self._list, "delete": self._delete}[options["what"]](options)

    def _set(self, options: dict[str, Any]) -> None:
        what = "token" if options["scheme"] == BEARER else "password"
        row = papers.store(
            options["host"],
            options["scheme"],
            options["user"],
            read_secret(f"{what}: "),
            http=options["http"],
            note=options["note"][:200],
        )
        self.stdout.write(f"{row.host}: stored; nodes use it within some seconds")

    def _list(self, options: dict[str, Any]) -> None:
        table = Table("host", "scheme", "user", "http", "note", box=None, pad_edge=False)
        for row in HostCredential.objects.order_by("host"):
            http = "yes" if row.http else "no"
            table.add_row(plain(row.host), row.scheme, plain(row.user), http, plain(row.note))
        self.console.print(table)

    def _delete(self, options: dict[str, Any]) -> None:
        if not papers.remove(options["host"]):
            raise CommandError(f"there is no credential for {options['host']}")
        self.stdout.write(f"{options['host']}: deleted; nodes stop using it within some seconds")
