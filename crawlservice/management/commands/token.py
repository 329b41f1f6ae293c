"""token: the tokens with which programs use the API."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError
from rich.table import Table

from crawlframe.base.program import command
from crawlservice.accounts import journal, tokens
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.cli.terminal import plain
from crawlservice.models import Token


class Command(ServiceCommand):
    help = "Makes, lists and revokes the tokens with which programs use the API."

    def add_arguments(self, parser: ArgumentParser) -> None:
        what = parser.add_subparsers(dest="what", required=True, metavar="add | list | revoke")
        add = what.add_parser("add", help="make a token of a user; it is shown once")
        add.add_argument("user", help="the user's name")
        add.add_argument(
            "--name", default="command line", help="what the token is for (default: %(default)s)"
        )
        add.add_argument(
            "--scope", choices=tokens.SCOPES, default="read",
            help="read; submit: also submits, and controls the user's own tasks; operate: all "
            "that the user may (default: read)",
        )  # fmt: skip
        add.add_argument(
            "--expires-days", type=int, default=tokens.DAYS, metavar="N",
            help="days until it expires, 0 for never (%(default)s)",
        )  # fmt: skip
        what.add_parser("list", help="list all tokens")
        revoke = what.add_parser("revoke", help="revoke a token")
        revoke.add_argument("id", type=int, help="its number in the list")

    def handle(self, *args: Any, **options: Any) -> None:
        {"add": self._add, "list": self._list, "revoke": self._revoke}[options["what"]](options)

    def _add(self, options: dict[str, Any]) -> None:
        user = User.objects.filter(username=options["user"]).first()
        if user is None:
            raise CommandError(f"there is no user {options['user']!r}")
        if not user.is_active:
            raise CommandError(f"user {options['user']!r} is not active; a token would not work")
        if not 0 <= options["expires_days"] <= tokens.MAX_DAYS:
            raise CommandError(f"--expires-days must be between 0 and {tokens.MAX_DAYS}")
        days = options["expires_days"] or None
        token, secret = tokens.make(user, options["name"], options["scope"], days)
        journal.record("add token", token=token, command=True, name=token.name, of=options["user"])
        self.stdout.write(secret)
        until = f"{token.expires_at:%Y-%m-%d}" if token.expires_at else "it is revoked"
        whose = f"token {token.pk} of {options['user']}, scope {options['scope']}"
        self.stderr.write(f"This is {whose}, until {until}. It is not shown again.")

    def _list(self, options: dict[str, Any]) -> None:
        table = Table("id", "token", "user", "name", "scope", box=None, pad_edge=False)
        for name in ("expires", "used", "state"):
            table.add_column(name)
        for token in Token.objects.select_related("user").order_by("pk"):
            table.add_row(
                str(token.pk), f"{token.start}…", plain(token.user.get_username()),
                plain(token.name), ", ".join(token.scopes), _day(token.expires_at),
                _day(token.used_at), tokens.state(token),
            )  # fmt: skip
        self.console.print(table)

    def _revoke(self, options: dict[str, Any]) -> None:
        token = Token.objects.filter(pk=options["id"]).first()
        if token is None:
            raise CommandError(
                f"there is no token {options['id']}; list them: {command('token list')}"
            )
        if tokens.revoke(Token.objects.filter(pk=token.pk)):
            journal.record("revoke token", token=token, command=True, name=token.name)
        self.stdout.write(f"token {token.pk} was revoked")


def _day(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M}" if at else "-"
