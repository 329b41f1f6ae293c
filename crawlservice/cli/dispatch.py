"""Dispatch: finds the command that was typed, with the settings that it needs; help for all."""

from __future__ import annotations

import os
import sys

from crawlframe import __version__
from crawlframe.base.program import command
from crawlframe.errors import CrawlframeError
from crawlservice import project
from crawlservice.cli.exit_code import ExitCode
from crawlservice.cli.grammar import WORDS

SERVICE, NODE = "crawlservice.settings", "crawlservice.node_settings"
OUTSIDE = "crawlservice.outside_settings"
# Words that need the apps of the web, as commands of Django and of other apps may.
OF_WEB = ("check", "token", "up")
# Commands that work outside of a project. Help on other commands needs their settings.
ANYWHERE = ("", "help", "--help", "-h", "help startproject")


def run() -> None:
    """Runs the command in ``sys.argv``."""
    words = sys.argv[1:]
    if words in (["version"], ["--version"]):
        print(__version__)
        return
    # Also when one of our commands starts a node, or a node starts a command.
    if os.environ.get("DJANGO_SETTINGS_MODULE", SERVICE) in (SERVICE, NODE, OUTSIDE):
        os.environ["DJANGO_SETTINGS_MODULE"] = _settings(words)
    try:
        if words[:1] == ["runcrawler"] and os.environ["DJANGO_SETTINGS_MODULE"] == NODE:
            from crawlservice.cli.supervise import options_of, supervise

            if options := options_of(words[1:]):
                sys.exit(supervise(options))
        # A supervisor is a small process without it.
        from crawlservice.cli.utility import Utility

        Utility(sys.argv).execute()
    except CrawlframeError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)


def _settings(words: list[str]) -> str:
    if project.script() is None:
        if " ".join(words) not in ANYWHERE and words[:1] != ["startproject"]:
            sys.exit(
                "error: there is no project here: neither this directory nor one above it has a "
                "manage.py of Crawlframe. Go to the folder of a project, or make one: "
                f"{command('startproject NAME')}"
            )
        return OUTSIDE
    folder = str(project.directory())
    if folder not in sys.path:  # the entry point is elsewhere; the spiders are here
        sys.path.insert(0, folder)
    return NODE if {*words[:1]} & WORDS.keys() - {*OF_WEB} else SERVICE
