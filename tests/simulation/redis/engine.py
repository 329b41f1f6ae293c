"""Engine: runs Lua scripts on the commands of a store.

LuaJIT is faster than Redis's Lua 5.1, and differs only in the order of ``pairs``, which redis.lua
fixes."""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from hashlib import sha1
from pathlib import Path
from typing import Any

from lupa.luajit21 import LuaError, LuaRuntime

from tests.simulation.redis import commands, sorted_sets
from tests.simulation.redis.command import MAX_RESULTS, Command
from tests.simulation.redis.keyspace import Keyspace
from tests.simulation.redis.values import ReplyError, double_text, text

LIBRARY = Path(__file__).with_name("redis.lua")
COMMANDS: dict[bytes, Command] = {**commands.COMMANDS, **sorted_sets.COMMANDS}
ERROR = -1  # in place of a table's length, as ``flatten`` writes it
SIZES = ((8, "B"), (16, "H"), (32, "I"), (64, "Q"))  # bits, format
LOCALS = re.compile(r"^local (function )?([\w, ]+?)(?= *(=|\(|--|$))(.*)$", re.MULTILINE)


class Engine:
    """One Lua for all stores of a process: each script is compiled once."""

    def __init__(self) -> None:
        lua = LuaRuntime(
            encoding=None, unpack_returned_tuples=True, register_eval=False, register_builtins=False
        )
        shapes = lua.table_from({name: one.shape.encode() for name, one in COMMANDS.items()})
        self.db: Keyspace
        self.check: Callable[[Command], None] | None = None
        self._load, self._run = lua.compile(LIBRARY.read_bytes())(
            self._execute, _message_of, _sha1hex, _pack_number, _pack_head, _unpack_double, shapes,
            MAX_RESULTS,
        )  # fmt: skip
        self._scripts: dict[bytes, tuple[Any, Any]] = {}  # source -> Lua function, its globals

    def load(self, source: bytes) -> tuple[Any, Any]:
        """A compiled script. Raises ReplyError."""
        if source not in self._scripts:
            script, globals_ = self._load(source_of_globals(source.decode("latin-1")))
            if script is None:
                problem = globals_.decode(errors="replace")
                raise ReplyError(f"ERR Error compiling script (new function): {problem}")
            self._scripts[source] = script, globals_
        return self._scripts[source]

    def run(self, script: tuple[Any, Any], keys: int, arguments: Sequence[bytes]) -> Any:
        """The reply of a script to arguments that begin with its keys, on the keyspace ``db``.
        ``check`` raises ReplyError for commands that must not be called. Raises ReplyError."""
        try:
            found = self._run(*script, keys, *arguments)
        except LuaError as error:
            raise ReplyError(f"ERR {error}") from error
        except TypeError as error:
            raise ReplyError(
                "ERR Wrong number of args calling Redis command from script"
            ) from error
        if found.__class__ is tuple:
            return _built(found, 0)[0]
        if found is None or found.__class__ in {bytes, int, bool}:
            return None if found is False else found
        return _built([*found.values()], 0)[0]

    def _execute(self, name: bytes, *arguments: Any) -> Any:
        command = COMMANDS.get(name) or COMMANDS.get(name.upper())
        if command is None:
            raise ReplyError("ERR Unknown Redis command called from script")
        for argument in arguments:
            if argument.__class__ is not bytes:
                arguments = tuple([a if a.__class__ is bytes else _text(a) for a in arguments])
                break
        if self.check is not None:
            self.check(command)
        return command.run(self.db, *arguments)


@cache
def engine() -> Engine:
    return Engine()


def source_of_globals(source: str) -> bytes:
    """A script whose outermost locals are globals, as far as their names are unique. A run creates
    hundreds of functions: Lua looks up each local that a function uses when it creates the
    function, in a list of all of them."""
    declared = Counter(
        name.strip() for found in LOCALS.finditer(source) for name in found[2].split(",")
    )

    def declare(found: re.Match[str]) -> str:
        function, names, sign, rest = found.groups()
        if any(declared[name.strip()] > 1 for name in names.split(",")):
            return found[0]
        return f"{function or ''}{names}{'' if sign in {'=', '('} else ' = nil '}{rest}"

    return LOCALS.sub(declare, source).encode("latin-1")


def _pack_number(number: float) -> bytes:
    """A number as cmsgpack packs it."""
    if isinstance(number, int):
        if -32 <= number < 128:
            return struct.pack(">b", number)
        return _sized(0xCC, number) if number > 0 else _sized(0xD0, number)
    if abs(number) < 3e38 and struct.unpack(">f", single := struct.pack(">f", number))[0] == number:
        return b"\xca" + single
    return struct.pack(">Bd", 0xCB, number)


def _pack_head(is_array: bool, length: int) -> bytes:
    """The head of an array or a string as cmsgpack packs it."""
    if length < (16 if is_array else 32):
        return bytes([length + (0x90 if is_array else 0xA0)])
    if is_array and length < 1 << 8:
        return struct.pack(">BH", 0xDC, length)
    return _sized(0xDB if is_array else 0xD9, length)


def _sized(mark: int, number: int) -> bytes:
    """A number in the fewest bytes, and before it the mark of that size."""
    for step, (bits, form) in enumerate(SIZES):
        if -1 << (bits - 1) <= number < 1 << bits:
            return struct.pack(f">B{form if number >= 0 else form.lower()}", mark + step, number)
    raise OverflowError(number)


def _unpack_double(packed: bytes) -> float:
    (number,) = struct.unpack(">f" if len(packed) == 4 else ">d", packed)
    return float(number)


def _message_of(error: Any) -> bytes:
    if isinstance(error, bytes):
        return error
    if isinstance(error, ReplyError):
        return str(error).encode()
    raise error


def _sha1hex(content: bytes) -> bytes:
    return sha1(content).hexdigest().encode()


@lru_cache(maxsize=10_000, typed=True)  # most are small numbers
def _text(argument: Any) -> bytes:
    """An argument of a script's call as bytes."""
    if isinstance(argument, float):
        return double_text(argument)
    try:
        return text(argument)
    except TypeError:
        raise ReplyError(
            "ERR Lua redis lib command arguments must be strings or integers"
        ) from None


def _built(found: Sequence[Any], at: int) -> tuple[Any, int]:
    """The reply that begins at a place of a flat result, and the place after it."""
    value = found[at]
    if value is not True:
        return None if value is False else value, at + 1
    length, at = found[at + 1], at + 2
    if length < 0:
        content = found[at]
        return (ReplyError(content.decode()) if length == ERROR else content), at + 1
    items = []
    for _ in range(length):
        item, at = _built(found, at)
        items.append(item)
    return items, at
