"""ComparedPage: a page whose text was compared, and the store in which it was."""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

from crawlframe.near.fingerprint import MOST_BITS

HEAD, PREFIX = 7, 4  # bytes that name a page, and those of them that are the first of its rid


class NearStore(NamedTuple):
    """The texts of the pages of a task, or (task 0) of all tasks that give its name. ``limit``:
    pages that it remembers, the last ones. ``most``: bits in which the signatures of pages differ
    that count as nearly the same."""

    task: int = 0
    name: str = ""
    limit: int = 1
    most: int = MOST_BITS

    @property
    def key(self) -> str:
        return f"t{self.task}" if self.task else f"n{self.name}"


class ComparedPage(NamedTuple):
    """``head``: what ``head_of`` returns."""

    store: NearStore
    head: bytes


def head_of(rid: bytes, identity: bytes) -> bytes:
    """Return what names a page in a store: the beginning of its rid, and of a hash of what is the
    same of this page in all tasks."""
    return rid[:PREFIX] + blake2b(identity, digest_size=HEAD - PREFIX).digest()
