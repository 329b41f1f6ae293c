"""Results: the results of a page's callback."""

from __future__ import annotations

from typing import NamedTuple


class Results(NamedTuple):
    """The results of a callback: its items as JSON, and the records of all requests that it
    yielded, known ones included."""

    items: list[bytes]
    requests: list[bytes]
