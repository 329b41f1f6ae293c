"""MemoryWaits: requests that were lost while their transfers were paused for lack of memory."""

from __future__ import annotations

from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.errors import ConnectionLost, FetchError, FetchTimeout
from crawlframe.fetch.body.memory import Account

MAX_MEMORY_WAITS = 10_000  # requests remembered


class MemoryWaits:
    """The requests of one worker. Each request is excused once: the next time, the memory for the
    largest body is reserved before its transfer begins, so that it cannot fail for the same
    reason."""

    def __init__(self) -> None:
        # Of excused requests.
        self.rids: BoundedDict[bytes, None] = BoundedDict(MAX_MEMORY_WAITS)

    def excuses(self, rid: bytes, error: FetchError, account: Account) -> bool:
        """Whether the fetch failed because it had to wait for memory. Servers close connections
        that are idle, and firewalls forget them, which shows as a time-out."""
        lost = isinstance(error, ConnectionLost | FetchTimeout) and account.waited > 0
        if not lost or rid in self.rids:
            return False
        self.rids[rid] = None
        return True
