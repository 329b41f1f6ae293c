"""NearDuplicate: what a callback learns of a page whose text is nearly that of an earlier one."""

from __future__ import annotations

from typing import NamedTuple


class NearDuplicate(NamedTuple):
    """``url``: of the page that came first; "" if its row is gone. ``likeness``: estimated share of
    the pairs of neighbouring words that the two texts have in common, from 0.57 to 1; with 10 % of
    the words changed, about 0.7."""

    url: str
    likeness: float

    def __str__(self) -> str:
        url = self.url or "a page whose row is gone"
        return f"nearly the same text as {url} ({self.likeness:.0%} in common)"
