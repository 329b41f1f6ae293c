"""Every: all mutants of the protocol, from the current files."""

from __future__ import annotations

import tempfile
from collections.abc import Container, Iterator
from pathlib import Path

from redis import Redis
from redis.exceptions import ResponseError

from crawlframe.frontier.scripts import LUA, source
from tests.mutants import lua, python
from tests.mutants.arena import CHECKOUT
from tests.mutants.mutant import Mutant
from tests.servers import RedisServer


def scripts() -> list[str]:
    """The files of all scripts."""
    return sorted(str(path.relative_to(CHECKOUT)) for path in LUA.glob("*.lua"))


def files() -> list[str]:
    """All files of the protocol."""
    return [*scripts(), *python.PROTOCOL]


def mutants(names: list[str], lines: Container[str] | None = None) -> Iterator[Mutant]:
    """The mutants of files whose names end like these; of all files if none is given. Of scripts,
    only those of these ``lines``, if they are given: each has to be loaded once."""
    chosen = [
        file
        for file in files()
        if not names or f"/{file}".endswith(tuple(f"/{name}" for name in names))
    ]
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        server = RedisServer(Path(directory))
        server.start()
        try:
            with Redis.from_url(server.url) as redis:
                for file in chosen:
                    if file.endswith(".lua"):
                        yield from _of_script(redis, file, lines)
                    else:
                        yield from python.of_file(CHECKOUT, file)
        finally:
            server.kill()


def _of_script(redis: Redis, file: str, lines: Container[str] | None) -> Iterator[Mutant]:
    text = (CHECKOUT / file).read_text()
    # Shared code is loaded with a verb that is guarded.
    whole = source("release" if Path(file).stem.startswith("_") else Path(file).stem)
    assert text in whole

    def compiles(changed: str) -> bool:
        try:
            redis.script_load(whole.replace(text, changed))
        except ResponseError:
            return False
        return True

    return lua.of_script(file, text, compiles, lines)
