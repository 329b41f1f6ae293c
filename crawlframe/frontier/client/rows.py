"""Rows: reading the rows of Redis hashes one by one. An unreadable row, written by another program,
is set aside; all others are still read.

JSON of another form may be from another release, which can read it: it is skipped and counted, and
stays in place. So does a row that fails because of an error in our own code."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar

import msgspec
from redis import RedisError

from crawlframe.frontier.client.partitions import PartitionedStore

log = logging.getLogger(__name__)

T = TypeVar("T")
D = TypeVar("D")

UNREADABLE = (ValueError, TypeError, LookupError, ArithmeticError, OSError, msgspec.MsgspecError)


class SetAside(NamedTuple):
    """A row that could not be read. ``name``: hash and field; ``value``: its start."""

    at: datetime
    name: str
    value: str


class Rows:
    """The rows of one store. ``decode`` raises one of UNREADABLE for an invalid value."""

    def __init__(self, store: PartitionedStore) -> None:
        self._store = store

    def read_hash(
        self,
        name: str,
        decode: Callable[[bytes, bytes], T],
        argument: object = "",
        partition: int = 0,
    ) -> Iterator[T]:
        """The results of ``decode(field, value)`` for the rows of a hash."""
        rows = self._store.redis.hgetall(self._store.keys[partition](name, argument))
        for field, value in rows.items():
            one = self.read_row(name, field, value, decode, None, argument, partition)
            if one is not None:
                yield one

    def read_row(
        self,
        name: str,
        field: bytes,
        value: bytes,
        decode: Callable[[bytes, bytes], T],
        default: D,
        argument: object = "",
        partition: int = 0,
    ) -> T | D:
        """The result of ``decode(field, value)`` for one row that was read, or ``default``."""
        try:
            return decode(field, value)
        except UNREADABLE as error:
            self._set_aside(name, field, value, argument, partition, error, _is_junk(error))
            return default

    def read_members(
        self, name: str, members: list[bytes], partition: int = 0
    ) -> Iterator[tuple[int, int]]:
        """(place, number) of the members of a set that must be numbers."""
        for place, member in enumerate(members):
            number = self.read_row(name, member, b"", _member, None, "", partition)
            if number is not None:
                yield place, number

    def quarantined(self) -> list[SetAside]:
        """The rows that were set aside, oldest first; at most 1,000 per partition."""
        rows = [
            _set_aside(name, value)
            for keys in self._store.keys
            for name, value in self._store.redis.hgetall(keys("QUARANTINE")).items()
        ]
        return sorted(rows)

    def clear_quarantine(self) -> None:
        """Deletes the rows that were set aside."""
        for keys in self._store.keys:
            self._store.redis.delete(keys("QUARANTINE"))

    def _set_aside(
        self,
        name: str,
        field: bytes,
        value: bytes,
        argument: object,
        partition: int,
        error: Exception,
        junk: bool,
    ) -> None:
        keys = self._store.keys[partition]
        key = keys(name, argument)
        done = 0
        with suppress(RedisError):  # a read-only Redis can still be inspected
            suffix = key.removeprefix(keys.tag)
            done = self._store.run("quarantine", partition, suffix, field, value, int(junk))
        if done:
            fate = "set aside" if junk else "skipped"
            log.warning("%s %r cannot be read and is %s: %s", key, field[:200], fate, error)


class StorePart:
    """A part of the frontier, which reads and writes one store."""

    def __init__(self, store: PartitionedStore) -> None:
        self._store = store
        self._rows = Rows(store)


def _is_junk(error: Exception) -> bool:
    """Whether it is not a number, text or JSON at all."""
    of_other_form = isinstance(error, msgspec.ValidationError)
    return isinstance(error, (ValueError, msgspec.DecodeError)) and not of_other_form


def _member(member: bytes, _: bytes) -> int:
    return int(member)


def _set_aside(name: bytes, value: bytes) -> SetAside:
    at, _, start = value.partition(b" ")
    moment = int(at) / 1000 if at.isdigit() and len(at) < 15 else 0.0
    return SetAside(
        datetime.fromtimestamp(moment, UTC),
        name.decode(errors="backslashreplace"),
        start.decode(errors="backslashreplace"),
    )


def read_tries(_: bytes, tries: bytes) -> tuple[int, int]:
    """Attempts and deliveries."""
    attempts, deliveries = tries.split(b",")[:2]
    return int(attempts), int(deliveries)


def read_number(_: bytes, value: bytes) -> int:
    return int(value)
