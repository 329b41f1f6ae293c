"""The form of commands: functions of the keyspace and of their arguments as bytes.

A reply is an integer, bytes, False for nil, or a tuple or list of these; errors are raised."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple
from zlib import crc32

from tests.simulation.redis.values import SYNTAX, ReplyError, integer, pattern

VALUE, STATUS, LIST, PAGE = "value", "status", "list", "page"
COUNTED = "counted"  # a value, or a list if the command has a second argument
OUT_OF_RANGE = "value is out of range, must be positive"
MAX_RESULTS = 7000  # values that a Lua function is given at once


class Command(NamedTuple):
    """``writes``: the rest of its script is not refused. ``grows``: refused when memory is full."""

    run: Callable[..., Any]
    shape: str = VALUE
    writes: bool = False
    grows: bool = False


def writing(run: Callable[..., Any], shape: str = VALUE) -> Command:
    return Command(run, shape, writes=True)


def growing(run: Callable[..., Any], shape: str = VALUE) -> Command:
    return Command(run, shape, writes=True, grows=True)


def several(values: Iterable[Any]) -> tuple[Any, ...] | list[Any]:
    """Reply of LIST commands: a tuple, or a list if it has more values than Lua can be given."""
    values = tuple(values)
    return values if len(values) <= MAX_RESULTS else [*values]


def positive(count: bytes) -> int:
    """The number of elements that a command is to return."""
    wanted = integer(count, OUT_OF_RANGE)
    if wanted < 0:
        raise ReplyError(f"ERR {OUT_OF_RANGE}")
    return wanted


def span(first: int, last: int, length: int) -> slice:
    """The part of ``length`` elements that an LRANGE or ZRANGE returns."""
    start = first if first >= 0 else max(0, first + length)
    return slice(start, max(0, last + 1 if last >= 0 else last + 1 + length))


def page(names: Collection[bytes], cursor: bytes, *options: bytes) -> tuple[bytes, list[bytes]]:
    """Next cursor, and names, of one call of a SCAN command. They are in the order of their hashes,
    so a scan finds all names that stay, whatever is added or removed between its calls."""
    count, fits = 10, None
    for option, value in zip(options[::2], options[1::2], strict=True):
        if option.upper() == b"COUNT":
            count = integer(value)
        elif option.upper() == b"MATCH":
            fits = pattern(value).fullmatch
        else:
            raise SYNTAX
    start, found, after = int(cursor), [*names], 0
    if start or len(found) > count:
        ranked = sorted((hash_, name) for name in found if (hash_ := crc32(name)) >= start)
        after = ranked[count - 1][0] + 1 if len(ranked) > count else 0
        found = [name for hash_, name in ranked if not after or hash_ < after]
    return b"%d" % after, [name for name in found if fits is None or fits(name)]
