"""Utility: Django's runner of commands, with help by activity."""

from __future__ import annotations

import sys
from collections import defaultdict

from django.core.management import ManagementUtility, get_commands
from django.core.management.base import BaseCommand

from crawlframe.base.program import command
from crawlservice.cli.exit_code import ExitCode
from crawlservice.cli.grammar import GROUPS, WORDS, near

WIDTH = 14  # characters of the longest word, and two
DJANGO = ("crawlservice", "django.core")  # apps of our commands and of those replaced


class Utility(ManagementUtility):
    def main_help_text(self, commands_only: bool = False) -> str:
        if commands_only:
            text: str = super().main_help_text(commands_only=True)
            return text
        lines = [f"Usage: {command('WORD …')}", ""]
        for title, words in GROUPS.items():
            lines.append(title)
            lines += [f"  {word:{WIDTH}}{line}" for word, line in words.items()]
            lines.append("")
        lines.append("Django and other packages")
        others = defaultdict(list)
        for name, app in sorted(get_commands().items()):
            if name not in WORDS:
                others[_package(app)].append(name)
        lines += [f"  {app}: {', '.join(names)}" for app, names in sorted(others.items())]
        lines += ["", f"Verbs and options of a word: {command('WORD --help')}", ""]
        return "\n".join(lines)

    def fetch_command(self, subcommand: str) -> BaseCommand:
        if subcommand not in get_commands():
            hint = near(subcommand, [*WORDS, *get_commands()])
            print(f"error: there is no command {subcommand}{hint}", file=sys.stderr)
            print(f"All commands: {command('help')}", file=sys.stderr)
            sys.exit(ExitCode.USAGE)
        return super().fetch_command(subcommand)


def _package(app: str | BaseCommand) -> str:
    name = app.__module__ if isinstance(app, BaseCommand) else app
    return "django" if name in DJANGO else name.rpartition(".")[2]
