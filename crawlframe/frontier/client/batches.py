"""Splits work into script calls of a bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

MAX_ENTRIES = 500  # requests and follow-ups per script call, so that each stays near 2 ms


def chunks(things: list[T], size: int = MAX_ENTRIES) -> Iterator[list[T]]:
    """Pieces of at most ``size``."""
    for start in range(0, len(things), size):
        yield things[start : start + size]


def by_weight(entries: Iterable[list[Any]]) -> Iterator[list[list[Any]]]:
    """Completions in pieces of at most MAX_ENTRIES requests and follow-ups together."""
    chunk: list[list[Any]] = []
    weight = 0
    for entry in entries:
        mine = 1 + len(entry[5])
        if chunk and weight + mine > MAX_ENTRIES:
            yield chunk
            chunk, weight = [], 0
        chunk.append(entry)
        weight += mine
    if chunk:
        yield chunk


def question_chunks(
    asked: list[tuple[int, list[T]]], size: int = 4 * MAX_ENTRIES
) -> Iterator[list[tuple[int, list[T]]]]:
    """(task, things to look up) in pieces of at most ``size`` things, in order."""
    chunk: list[tuple[int, list[T]]] = []
    weight = 0
    for task, things in asked:
        for part in chunks(things, size):
            if chunk and weight + len(part) > size:
                yield chunk
                chunk, weight = [], 0
            chunk.append((task, part))
            weight += len(part)
    if chunk:
        yield chunk
