"""Noun: a command whose first word is a noun; its verbs are commands themselves."""

from __future__ import annotations

from argparse import SUPPRESS
from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, ClassVar

from django.core.management.base import CommandParser
from django.utils.module_loading import import_string

from crawlframe.base.program import command
from crawlservice.cli.command import ServiceCommand
from crawlservice.cli.exit_code import ExitCode
from crawlservice.cli.grammar import VERBS, WORDS, near


class Noun(ServiceCommand):
    """``verbs``: what makes the command of a verb, in the order of the grammar: its class, or a
    ``partial`` of one that several verbs share; as a dotted name, it is imported when it is typed.
    A verb says itself whether it needs a database."""

    verbs: ClassVar[Mapping[str, Callable[[], ServiceCommand] | str]]
    needs_database = False
    _typed: str | None = None  # the verb that was typed: the parser knows the options of no other

    def of_verb(self, verb: str) -> ServiceCommand:
        """The command of a verb."""
        make = self.verbs[verb]
        made: ServiceCommand = (import_string(make) if isinstance(make, str) else make)()
        return made

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        parser.description = f"{WORDS[subcommand][0].upper()}{WORDS[subcommand][1:]}."
        common = [one for one in parser._actions if one.option_strings and one.dest != "help"]
        adding = parser.add_subparsers(dest="verb", required=True, metavar="VERB", title="verbs")
        for name, line in VERBS[subcommand].items():
            if self._typed not in (name, None):
                adding.add_parser(name, help=line)
                continue
            made = self.of_verb(name)
            told = made.help or f"{line[0].upper()}{line[1:]}."
            verb = adding.add_parser(name, help=line, description=told)
            made.add_arguments(verb)
            # Options of every command of Django may stand after the verb, too.
            for action in common:
                if not set(action.option_strings) & verb._option_string_actions.keys():
                    hidden = copy(action)
                    hidden.default = hidden.help = SUPPRESS
                    verb._add_action(hidden)
        return parser

    def run_from_argv(self, argv: list[str]) -> None:
        """Shows the verbs if none is given."""
        noun, verbs = argv[1], VERBS[argv[1]]
        if len(argv) == 2:
            self.print_help(argv[0], noun)
            return
        if not argv[2].startswith("-") and argv[2] not in verbs:
            self.stderr.write(
                f"error: {noun} has no verb {argv[2]}{near(argv[2], [*verbs])}\n"
                f"Its verbs: {', '.join(verbs)} ({command(f'{noun} --help')})"
            )
            raise SystemExit(ExitCode.USAGE)
        self._typed = argv[2] if argv[2] in verbs else None
        super().run_from_argv(argv)

    def execute(self, *args: Any, **options: Any) -> str | None:
        return self.of_verb(options.pop("verb")).execute(*args, **options)
