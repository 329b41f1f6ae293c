"""Every: all mutants of the scripts, from the current files."""

from __future__ import annotations

import tempfile
from collections.abc import Container, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from redis import Redis

from crawlframe.frontier.client.scripts import LUA, source
from tests.mutants import lua
from tests.mutants.arena import CHECKOUT
from tests.mutants.mutant import Mutant
from tests.servers import RedisServer

COMPILES = "return loadstring(ARGV[1]) and 1 or 0"


def scripts() -> list[str]:
    """The files of all scripts."""
    return sorted(str(path.relative_to(CHECKOUT)) for path in LUA.rglob("*.lua"))


class Shown(NamedTuple):
    """The sound scripts, by file, in forms that record their lines."""

    marked: dict[str, str]  # they log their lines
    bounded: dict[str, str]  # their loops end
    numbers: dict[str, set[int]]  # of the lines that are logged

    def statement(self, mutant: Mutant) -> int:
        """The line that must run for the mutant to be noticed."""
        text = (CHECKOUT / mutant.file).read_text()
        return lua.statement(text, self.numbers[mutant.file], mutant.number)


def shown() -> Shown:
    """Both forms have a tenth of the turns that a mutant has."""
    found = Shown({}, {}, {})
    with _redis() as redis:
        for file in scripts():
            text = (CHECKOUT / file).read_text()
            bounded = found.bounded[file] = lua.bounded(text, lua.TURNS // 10)
            marked, numbers = lua.marked(file, bounded, partial(_compiles, redis))
            found.marked[file], found.numbers[file] = marked, numbers
            # With a shared file comes a verb that uses all of them.
            whole = source("release" if Path(file).stem.startswith("_") else lua.verb_of(file))
            assert _compiles(redis, whole.replace(text, marked)), file
    return found


def mutants(names: list[str], lines: Container[str] | None = None) -> Iterator[Mutant]:
    """The mutants of scripts whose names end like these, in this order; of all if none is given.
    Only of these ``lines``, if they are given: each mutant has to be compiled once."""
    chosen = [file for name in names for file in scripts() if f"/{file}".endswith(f"/{name}")]
    with _redis() as redis:
        for file in chosen or scripts():
            text = (CHECKOUT / file).read_text()
            yield from lua.of_script(file, text, partial(_compiles, redis), lines)


@contextmanager
def _redis() -> Iterator[Redis]:
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        server = RedisServer(Path(directory))
        server.start()
        try:
            with Redis.from_url(server.url) as redis:
                yield redis
        finally:
            server.kill()


def _compiles(redis: Redis, text: str) -> bool:
    """Whether Redis would load it. Unlike SCRIPT LOAD, this keeps nothing."""
    return redis.eval(COMPILES, 0, text) == 1
