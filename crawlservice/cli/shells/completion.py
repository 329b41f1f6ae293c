"""Completion of words, verbs and names for shells, with argcomplete. It imports neither Django nor
the engine: each press of the key starts it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from crawlservice.cli.grammar import VERBS, WORDS

MAX_AGE = 20.0  # seconds after which names are collected again, for the next press of the key
COLLECTOR = "crawlservice.cli.shells.names"
# Kind of name by word, or word and verb; the noun's kind holds for its other verbs.
KINDS = {
    "crawl": "spiders",
    "submit": "spiders",
    "spider": "spiders",
    "watch start": "spiders",
    "task": "tasks",
    "task list": "",
    "spider list": "",
    "host": "hosts",
    "host list": "",
    "credential set": "hosts",
}


def complete() -> None:
    """Prints completions of the line that the shell names in the environment, and exits."""
    import argcomplete  # takes longer than all else

    argcomplete.autocomplete(_parser(), always_complete_options=False)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(add_help=False)
    words = parser.add_subparsers()
    for word, line in WORDS.items():
        of_word = words.add_parser(word, help=line, add_help=False)
        if word not in VERBS:
            _add_names(of_word, KINDS.get(word, ""))
            continue
        verbs = of_word.add_subparsers()
        for verb, told in VERBS[word].items():
            of_verb = verbs.add_parser(verb, help=told, add_help=False)
            _add_names(of_verb, KINDS.get(f"{word} {verb}", KINDS.get(word, "")))
    return parser


def _add_names(parser: ArgumentParser, kind: str) -> None:
    names: Any = parser.add_argument("names", nargs="*")
    if kind:
        names.completer = lambda **_: {} if _after_option() else names_of(kind)


def _after_option() -> bool:
    """Whether the word may be the value of an option, such as a file: the shell completes it."""
    line = os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])].split(" ")
    return line[-2].startswith("-")


def names_of(kind: str) -> dict[str, str]:
    """Names of spiders, tasks or hosts of this project with a word on each, as they were collected
    last. If that was long ago, starts to collect them."""
    folder = project()
    if folder is None:
        return {}
    path = cache_of(folder)
    try:
        age = time.time() - path.stat().st_mtime
        found: dict[str, str] = json.loads(path.read_bytes()).get(kind, {})
    except (OSError, ValueError):
        age, found = MAX_AGE, {}
    if age >= MAX_AGE:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(0o600)
        subprocess.Popen(
            [sys.executable, "-m", COLLECTOR, str(path)],
            cwd=folder, env={k: v for k, v in os.environ.items() if k != "_ARGCOMPLETE"},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
    return found


def project() -> Path | None:
    """The folder of the project: the one of the typed manage.py, or the nearest."""
    typed = Path(sys.argv[0]).absolute()
    here = Path.cwd()
    places = [typed.parent] if typed.name == "manage.py" else [here, *here.parents]
    return next((place for place in places if (place / "manage.py").is_file()), None)


def cache_of(folder: Path) -> Path:
    """The file with the names of a project."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = hashlib.blake2b(str(folder.resolve()).encode(), digest_size=8).hexdigest()
    return cache / "crawlframe" / f"{digest}.json"
