"""Results: what the callback of a page led to."""

from __future__ import annotations

from typing import NamedTuple


class Results(NamedTuple):
    """What a callback led to: its items as JSON, and the records of all requests that it yielded,
    known ones included."""

    items: list[bytes]
    requests: list[bytes]
