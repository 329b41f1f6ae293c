"""token: tokens with which programs use the API; the link for the first administrator."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import CommandError

from crawlframe.base.program import command
from crawlservice.accounts import journal, setup_link, tokens
from crawlservice.cli.command import JsonCommand, ServiceCommand
from crawlservice.cli.listing import Listing, attributes
from crawlservice.cli.noun import Noun
from crawlservice.connections.lookup import find
from crawlservice.management.commands.up import bound
from crawlservice.models import Token

TOKENS = Listing[Token](
    "tokens",
    {
        **attributes("id=pk"),
        "token": lambda token: f"{token.start}…",
        **attributes("user=user.username", "name"),
        "state": tokens.state,
        "scope": lambda token: ", ".join(token.scopes),
        **attributes("expires=expires_at", "used=used_at"),
    },
    "no tokens",
    folded=("name",),
)


class AddToken(ServiceCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", help="the user's name")
        parser.add_argument(
            "--name", default="command line", help="purpose of the token (default: %(default)s)"
        )
        parser.add_argument(
            "--scope", choices=tokens.SCOPES, default="read",
            help="read; submit: also submits, and controls the user's own tasks; operate: all "
            "that the user may (default: read)",
        )  # fmt: skip
        parser.add_argument(
            "--expires-days", type=int, default=tokens.DAYS, metavar="N",
            help="days until it expires, 0 for never (%(default)s)",
        )  # fmt: skip

    def handle(self, *args: Any, **options: Any) -> None:
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
        told = f"This is {whose}, until {until}. It is not shown again."
        self.done(told, f"token revoke {token.pk}", out=self.stderr)


class ListTokens(JsonCommand):
    def handle(self, *args: Any, **options: Any) -> None:
        rows = Token.objects.select_related("user").order_by("pk")
        self.show_list(TOKENS, [*rows], options["json"])


class RevokeToken(ServiceCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=int, help="its number in the list")

    def handle(self, *args: Any, **options: Any) -> None:
        token = find(Token.objects.all(), "token", options["id"], listed="token list")
        if tokens.revoke(Token.objects.filter(pk=token.pk)):
            journal.record("revoke token", token=token, command=True, name=token.name)
        self.done(f"token {token.pk} was revoked", None)


class PrintSetupLink(ServiceCommand):
    help = (
        "Prints a link to the page on which the first administrator chooses name and password. It "
        "works once, for 24 hours, and only while there is no administrator."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        origins = [*settings.CSRF_TRUSTED_ORIGINS, f"http://{_bound()}"]
        parser.add_argument(
            "--url", default=origins[0], help="where browsers reach the web (%(default)s)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not setup_link.is_needed():
            raise CommandError(
                "there is an administrator already, who can add accounts; for a forgotten "
                f"password: {command('changepassword NAME')}"
            )
        journal.record("make setup link", command=True)
        self.stdout.write(f"{options['url'].rstrip('/')}/{setup_link.make()}")


class Command(Noun):
    verbs = {
        "list": ListTokens,
        "add": AddToken,
        "revoke": RevokeToken,
        "setup-link": PrintSetupLink,
    }


def _bound() -> str:
    """Host and port at which the web of this machine listens."""
    host, _, port = bound().rpartition(":")
    return f"{'127.0.0.1' if host in ('', '0.0.0.0', '[::]') else host}:{port}"
