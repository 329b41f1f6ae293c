"""Owners: the people and teams that take care of spiders, by the file OWNERS of a project."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from crawlframe.code.registry import Registry
from crawlframe.errors import SpiderError
from crawlframe.spider.spider import Spider

FILE = "OWNERS"  # in the directory of the spiders package
MAX_OWNER = 100  # characters
COMMENT = re.compile(r"(^|\s)#.*")
PATTERN = re.compile(r"[\w.*?\[\]!-]+")


class OwnerRule(NamedTuple):
    """A pattern of names of spiders, as of a shell, and their owners."""

    pattern: str
    owners: tuple[str, ...]


def read_owners(text: str, place: object) -> list[OwnerRule]:
    """The rules of a file. Raises SpiderError, which names ``place`` and line."""
    rules = []
    for number, line in enumerate(text.splitlines(), 1):
        pattern, *owners = COMMENT.sub("", line).split() or [""]
        if pattern and not PATTERN.fullmatch(pattern):
            raise SpiderError(
                f"{place}:{number}: {pattern!r} is no pattern of spiders; write their names, with "
                "* ? and [...], then their owners: shop-* anna @data-team"
            )
        names = tuple(owner.removeprefix("@") for owner in owners)
        if wrong := [name for name in names if not 0 < len(name) <= MAX_OWNER]:
            raise SpiderError(
                f"{place}:{number}: the owner {wrong[0][:20]!r} must have 1 to {MAX_OWNER} "
                "characters, as the name of a user, of a group or of an alert target"
            )
        if pattern:
            rules.append(OwnerRule(pattern, names))
    return rules


def owners_of(spider: str, rules: Iterable[OwnerRule]) -> tuple[str, ...]:
    """The owners of a spider by the last rule that matches its name."""
    found = [rule.owners for rule in rules if fnmatchcase(spider, rule.pattern)]
    return found[-1] if found else ()


class OwnersFile:
    """A source of no spiders: the owners of those of all sources."""

    def __init__(self) -> None:
        self._path = Path()

    def find(self, registry: Registry) -> Iterable[type[Spider]]:
        self._path = path = registry.directory.parent / FILE
        try:
            rules = (
                read_owners(registry.read(path).decode("utf-8-sig"), path) if path.exists() else []
            )
        except UnicodeDecodeError as error:
            registry.refuse(FILE, f"{path}:1: not UTF-8: {error}; save it as UTF-8")
        except SpiderError as error:
            registry.refuse(FILE, str(error))
        except OSError as error:
            registry.refuse(FILE, f"{path}:1: cannot be read: {error.strerror}")
        else:
            registry.owners = lambda spider: owners_of(spider, rules)
        return ()

    def files(self) -> Iterable[Path]:
        return [self._path]
