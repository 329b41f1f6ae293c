"""RobotsState: the state of the robots.txt of one origin, and its lifetime."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

# Reasons of errors that mean that nothing answered.
SILENT = ("dns", "connect", "tls", "timeout", "connection_lost")
MAX_ORIGIN = 300  # characters; a DNS name has at most 253


class Status(StrEnum):
    """The kind of the last robots.txt that counts."""

    PENDING = "pending"  # none was read yet
    RULES = "rules"
    NO_RULES = "no_rules"  # there is none, or it is empty: everything is allowed
    NOT_TEXT = "not_text"  # a page of HTML or a binary file: everything is allowed
    UNREACHABLE = "unreachable"  # everything is forbidden until it can be read
    GIVEN_UP = "given_up"  # unreachable for so long that everything is allowed


class RobotsState(NamedTuple):
    """The robots.txt of one origin. Times are seconds since the epoch, by one clock; 0: never.

    ``text`` is the part that counts, as ``read_text`` returns it; ``read_at`` when it was read;
    ``known_until`` until when it counts. ``unreachable_since``: since when each attempt to read it
    has failed, ``reason`` is a word for the last failure, and ``next_try`` when to try again.
    ``crawl_delay``: seconds for the crawler that read it. ``note`` is for people."""

    status: Status = Status.PENDING
    http_status: int | None = None
    text: str = ""
    read_at: float = 0.0
    known_until: float = 0.0
    unreachable_since: float = 0.0
    next_try: float = 0.0
    reason: str = ""
    crawl_delay: float = 0.0
    note: str = ""

    def is_known(self, now: float) -> bool:
        """Whether its rules are known now."""
        return self.known_until > now

    def is_due(self, now: float) -> bool:
        """Whether the file should be read now."""
        return self.known_until <= now and self.next_try <= now
