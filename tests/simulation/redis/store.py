"""Store: a Redis server without a network, on an injected clock."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha1
from random import Random
from typing import Any

from tests.simulation.redis.command import Command
from tests.simulation.redis.engine import COMMANDS, engine
from tests.simulation.redis.keyspace import Keyspace, Snapshot
from tests.simulation.redis.values import ReplyError, integer, text

VERSION = "7.2.4"
Reply = Any  # int, bytes, None, a list of replies, or an exception in the list of an EXEC


class Store:
    """One server. ``clock``: seconds since the epoch. ``full``: it refuses to grow."""

    def __init__(self, clock: Callable[[], float], *, seed: int = 0) -> None:
        self.clock = clock
        self.full = False
        self.run_id = sha1(str(seed).encode()).hexdigest()
        self.db = Keyspace(Random(seed))
        self._scripts: dict[bytes, bytes] = {}  # hash -> source
        self._full = False
        self._server: dict[bytes, Callable[..., Reply]] = {
            b"AUTH": lambda *_: b"OK", b"BGREWRITEAOF": lambda: b"OK", b"CLIENT": lambda *_: b"OK",
            b"CONFIG": self._config, b"ECHO": lambda message: message, b"EVAL": self._eval,
            b"EVALSHA": self._evalsha, b"EXEC": self._exec, b"INFO": self._info,
            b"PING": lambda message=b"PONG": message, b"SCRIPT": self._script,
            b"SELECT": lambda _: b"OK", b"FLUSHALL": self.flush,
        }  # fmt: skip

    def execute(self, command: tuple[bytes | str | int | float, ...]) -> Reply:
        """The reply to a command. Raises ReplyError."""
        self.db.advance(round(1_000_000 * self.clock()))
        self._full = self.full
        return self._execute(command)

    def flush(self) -> bytes:
        """Removes all keys."""
        self.db.clear()
        return b"OK"

    def snapshot(self) -> Snapshot:
        """The content, for ``restore``; it takes microseconds a key, and is never changed."""
        return self.db.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        self.db.restore(snapshot)

    def restart(self) -> None:
        """Drops what only a running server has: its scripts, and its name."""
        self._scripts.clear()
        self.run_id = sha1(self.run_id.encode()).hexdigest()

    def _execute(self, command: tuple[Any, ...]) -> Reply:
        name = text(command[0]).upper()
        try:
            if serve := self._server.get(name):
                return serve(*(command[1:] if name == b"EXEC" else map(text, command[1:])))
            found = COMMANDS.get(name)
            if found is None:
                words = "".join(f"'{text(word).decode(errors='replace')}' " for word in command[1:])
                raise ReplyError(
                    f"ERR unknown command '{name.decode()}', with args beginning with: {words}"
                )
            self._check(found)
            return _reply(found.run(self.db, *map(text, command[1:])))
        except TypeError as error:
            problem = f"ERR wrong number of arguments for '{name.decode().lower()}' command"
            raise ReplyError(problem) from error

    def _check(self, command: Command) -> None:
        if command.grows and self._full:
            raise ReplyError("OOM command not allowed when used memory > 'maxmemory'.")

    def _check_script(self, command: Command) -> None:
        self._check(command)
        if command.writes:
            self._full = False  # a script that has written is not stopped

    def _exec(self, *commands: tuple[Any, ...]) -> Reply:
        replies: list[Reply] = []
        for command in commands:
            try:
                replies.append(self._execute(command))
            except ReplyError as error:
                replies.append(error)
        return replies

    def _eval(self, source: bytes, keys: bytes, *arguments: bytes) -> Reply:
        sha = sha1(source).hexdigest().encode()
        self._scripts[sha] = source
        return self._evalsha(sha, keys, *arguments)

    def _evalsha(self, sha: bytes, keys: bytes, *arguments: bytes) -> Reply:
        source = self._scripts.get(sha.lower())
        if source is None:
            raise ReplyError("NOSCRIPT No matching script. Please use EVAL.")
        count = integer(keys)
        if not 0 <= count <= len(arguments):
            raise ReplyError("ERR Number of keys can't be greater than number of args")
        lua = engine()
        lua.db = self.db
        lua.check = self._check_script if self._full else None
        try:
            reply = lua.run(lua.load(source), count, arguments)
        except ReplyError as error:
            raise ReplyError(f"{error} script: {sha.decode()}, on @user_script.") from error
        if isinstance(reply, ReplyError):
            raise reply
        return reply

    def _script(self, word: bytes, *arguments: bytes) -> Reply:
        match word.upper():
            case b"LOAD":
                sha = sha1(arguments[0]).hexdigest().encode()
                engine().load(arguments[0])
                self._scripts[sha] = arguments[0]
                return sha
            case b"EXISTS":
                return [int(sha.lower() in self._scripts) for sha in arguments]
            case b"FLUSH":
                self._scripts.clear()
                return b"OK"
        raise ReplyError("ERR unknown subcommand of SCRIPT")

    def _config(self, word: bytes, *names: bytes) -> Reply:
        if word.upper() != b"GET":
            raise ReplyError("ERR only GET of CONFIG is known here")
        values = {b"appendfsync": b"everysec", b"maxmemory": b"0"}
        return [part for name in names if name in values for part in (name, values[name])]

    def _info(self, *_sections: bytes) -> Reply:
        used = sum(map(self.db.size, self.db.values))
        facts = {
            "redis_version": VERSION, "run_id": self.run_id, "cluster_enabled": 0, "aof_enabled": 1,
            "used_memory": used, "maxmemory": 0, "maxmemory_policy": "noeviction", "role": "master",
        }  # fmt: skip
        return "".join(f"{name}:{value}\r\n" for name, value in facts.items()).encode()


def _reply(value: Any) -> Reply:
    """The reply of a command as a client receives it."""
    if isinstance(value, tuple | list):
        return [None if one is False else one for one in value]
    return None if value is False else value
