"""NearSettings: settings of spiders about pages whose texts are nearly the same."""

from __future__ import annotations

import re
from typing import Literal

from crawlframe.near.fingerprint import LIKENESS
from crawlframe.proxies.settings import ProxySettings

WITHIN, LIMIT = "task", 1_000_000
# The settings of the comparison, and their defaults.
USUAL = {"near_within": WITHIN, "near_likeness": LIKENESS, "near_limit": LIMIT}
MIN_LIMIT, MAX_LIMIT = 1_000, 16_000_000  # pages; a record has a number of 24 bits
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,59}")


class NearSettings(ProxySettings, frozen=True):
    """``near_duplicates``: whether the text of each page is compared with the pages before it, and
    the treatment of one that is nearly the same: "mark" notes in its row which page came first,
    "drop" does not run its callback, either."""

    near_duplicates: Literal["off", "mark", "drop"] = "off"
    near_within: str = WITHIN  # or "spider", or a name that several spiders share
    near_likeness: float = LIKENESS  # share of neighbouring words in common; more finds fewer
    near_limit: int = LIMIT  # pages that are remembered, the last ones; some 40 bytes each

    def __post_init__(self) -> None:
        super().__post_init__()
        if not _NAME.fullmatch(self.near_within):
            raise ValueError(
                f"near_within is {self.near_within!r}; it must be 'task', 'spider' or a name of up "
                "to 60 lower-case letters, digits, - and _"
            )
        if not 0.5 <= self.near_likeness <= 1:
            raise ValueError(f"near_likeness is {self.near_likeness}; it must be from 0.5 to 1")
        if not MIN_LIMIT <= self.near_limit <= MAX_LIMIT:
            raise ValueError(
                f"near_limit is {self.near_limit}; it must be from {MIN_LIMIT:,} to {MAX_LIMIT:,}"
            )
        if self.near_duplicates == "off":
            for name, usual in USUAL.items():
                if getattr(self, name) != usual:
                    raise ValueError(f'{name} needs near_duplicates = "mark" or "drop"')
