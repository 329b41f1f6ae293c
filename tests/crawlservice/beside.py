"""Beside: work of another connection to the database at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from django.db import connections, transaction

T = TypeVar("T")


@contextmanager
def another_transaction(work: Callable[[], T]) -> Iterator[T]:
    """Does the work over another connection, which commits at the end of the block."""
    written, go_on = threading.Event(), threading.Event()
    made: list[T] = []

    def write() -> None:
        try:
            with transaction.atomic():
                made.append(work())
                written.set()
                assert go_on.wait(60)
        finally:
            written.set()
            connections.close_all()

    thread = threading.Thread(target=write)
    thread.start()
    assert written.wait(60)
    try:
        yield made[0]
    finally:
        go_on.set()
        thread.join(60)
