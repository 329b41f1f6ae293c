"""Mirror: a link that sends each command to the store and to a real server, and compares both."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from redis import Redis
from redis.exceptions import NoScriptError, ResponseError

from tests.simulation.redis.client import Command, Link, parsed
from tests.simulation.redis.store import Reply, Store
from tests.simulation.redis.values import ReplyError

UNORDERED = {"SMEMBERS", "HKEYS", "HVALS", "KEYS"}
SCANS = {"SCAN", "HSCAN", "SSCAN", "ZSCAN"}
OWN_ANSWER = {"TIME", "INFO", "CONFIG", "PTTL"}  # differs by nature
SHORTHAND = "local call = redis.call\n"  # in all scripts of the frontier
PAIRS = re.compile(r"(?<![\w.])pairs\(")
# Redis 7.0 writes scores with 17 digits, later servers with the fewest that say the same.
FRACTION = re.compile(rb"-?\d+(\.\d+|(\.\d+)?e[+-]?\d+)")
CALL = Path(__file__).with_name("mirror.lua").read_text()


class Mirror(Link):
    """Compares every reply, and with ``compare`` all keys. ``server`` must be empty."""

    def __init__(self, store: Store, server: Redis) -> None:
        super().__init__(store)
        options = {**server.connection_pool.connection_kwargs, "protocol": 2}
        connection: Any = server.connection_pool.connection_class(**options)
        connection.connect()
        self._server = connection

    def __enter__(self) -> Mirror:
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.disconnect()

    def deliver(self, command: Command) -> Reply:
        name = command[0]
        if name == "SCRIPT" and command[1] == "LOAD":
            command = ("SCRIPT", "LOAD", _fixed(command[2]))
        elif name in {"EVAL", "EVALSHA"}:
            if name == "EVAL":
                command = (name, _fixed(command[1]), *command[2:])
            now = round(1_000_000 * self.store.clock())
            command = (*command, f"{now // 1_000_000} {now % 1_000_000}")
        reply, other = super().deliver(command), self._ask(command)
        if name not in OWN_ANSWER | SCANS:
            ours, theirs = _plain(reply, name), _plain(other, name)
            assert ours == theirs, f"{str(command)[:200]}:\n{ours}\n{theirs}"
        return reply

    def compare(self) -> None:
        """Compares the content of all keys."""
        assert self._dump(self.store.execute) == self._dump(self._ask)

    def _dump(self, ask: Any) -> dict[bytes, Any]:
        read: dict[bytes, tuple[Any, ...]] = {
            b"string": ("GET",), b"hash": ("HGETALL",), b"set": ("SMEMBERS",),
            b"list": ("LRANGE", 0, -1), b"zset": ("ZRANGE", 0, -1, "WITHSCORES"),
        }  # fmt: skip
        content = {}
        for key in ask(("KEYS", "*")):
            kind = ask(("TYPE", key))
            name, *rest = read[kind]
            value = ask((name, key, *rest))
            lasts = ask(("PTTL", key)) < 0
            content[key] = kind, _plain(value, name), lasts
        return content

    def _ask(self, command: Command) -> Reply:
        self._server.send_command(*command)
        try:
            return self._server.read_response()
        except ResponseError as error:
            return error


def _fixed(source: str) -> str:
    """A script whose calls are fixed. It must not have more locals: 200 are allowed."""
    if SHORTHAND not in source:
        return f" local call =\n{CALL}" + source.replace("redis.call", "call")
    return PAIRS.sub("call('PAIRS', ", source.replace(SHORTHAND, f"local call =\n{CALL}"))


def _plain(reply: Reply, name: str) -> Any:
    """A reply as a value that compares: an error by its first words, sets sorted."""
    if isinstance(reply, ReplyError):
        reply = parsed(reply)
    if isinstance(reply, ResponseError):
        words = "" if isinstance(reply, NoScriptError) else reply.args[0]
        return type(reply), words.partition(" script: ")[0]
    if name in UNORDERED and isinstance(reply, list):
        return sorted(reply)
    if name == "HGETALL" and isinstance(reply, list):
        return dict(zip(reply[::2], _plain(reply[1::2], ""), strict=True))
    if isinstance(reply, list):
        return [_plain(one, "") for one in reply]
    if isinstance(reply, bytes) and FRACTION.fullmatch(reply):
        return float(reply)
    return reply
