"""Command lines in texts: which words, verbs and options of them do not exist."""

from __future__ import annotations

import re
import shlex
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator, Sequence
from functools import cache

from django.core.management import get_commands, load_command_class

from crawlservice.cli.grammar import VERBS, WORDS

# The programs of the project, at the start of a line, after a prompt or a path, or in backticks.
PROGRAM = re.compile(
    r"(?:manage\.py|(?:^|`|&& |- run: )crawlframe)\s+([a-z][a-z-]*(?: [^`\n#]*)?)", re.MULTILINE
)
INLINE = re.compile(r"`([a-z][a-z-]*) ([^`]+)`")
ENDS = re.compile(r"[|>&;]|  +| \\$|</|\"")  # of a command in a line of a shell or a sentence


@cache
def parser_of(word: str) -> ArgumentParser | None:
    app = get_commands().get(word)
    return app and load_command_class(app, word).create_parser("", word)  # type: ignore[return-value]


def problem_of(words: Sequence[str]) -> str:
    """The mistake in a command line; "" if there is none."""
    parser = parser_of(words[0])
    if words[0] == "help":
        return ""
    if parser is None:
        return f"no command: {words[0]}"
    rest = [*words[1:]]
    if words[0] in VERBS and rest and not rest[0].startswith("-"):
        (verbs,) = (one for one in parser._actions if isinstance(one, _SubParsersAction))
        if rest[0] not in verbs.choices:
            return f"no verb: {words[0]} {rest[0]}"
        parser = verbs.choices[rest[0]]
    known = parser._option_string_actions
    options = [word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)]
    wrong = [option for option in options if option not in known]
    return f"no option: {' '.join([*words[:2], *wrong])}" if wrong else ""


def lines_in(text: str) -> Iterator[list[str]]:
    """The words of the command lines that a text names."""
    for found in PROGRAM.findall(text):
        yield _words(found)
    for word, rest in INLINE.findall(text):
        if re.match(r"=|.*(: |→)", rest):  # a setting, or a line of an output
            continue
        if word in WORDS:
            yield [word, *_words(rest)]


def _words(line: str) -> list[str]:
    line = " ".join(ENDS.split(line.replace("\n", " "), maxsplit=1)[0].split())
    try:
        words = shlex.split(line)
    except ValueError:  # a quote that the end of the command has lost
        words = line.split()
    return [word.rstrip(".,:)") for word in words] or [""]
