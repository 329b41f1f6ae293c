"""Secret arguments of a command: a command line is visible in the shell's history and in ``ps``, so
``token=-`` asks for it."""

from __future__ import annotations

import sys
from getpass import getpass

from crawlframe.errors import ArgumentError
from crawlframe.spider.spider import SpiderInfo
from crawlservice.tasks.arguments.secrets import is_secret

ASKED = "-"


def read_secret(prompt: str) -> str:
    """A line that is typed unseen, or the next line of the standard input. Raises ArgumentError if
    there is none."""
    try:
        text = getpass(prompt) if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
    except EOFError:
        text = ""
    if not text:
        raise ArgumentError(f"{prompt}give it as a line of the standard input")
    return text


def with_secrets(info: SpiderInfo, given: dict[str, str]) -> dict[str, str]:
    """The arguments, with the secrets that were asked for. Raises ArgumentError."""
    properties = info.arguments.get("properties", {})
    found = dict(given)
    for name, text in given.items():
        if text == ASKED and is_secret(properties.get(name, {}), info.arguments):
            found[name] = read_secret(f"{name}: ")
    return found
