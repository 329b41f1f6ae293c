"""Host names for tests, as CRAWLFRAME_RESOLVER gives them."""

from __future__ import annotations

HERE, THERE = "127.0.0.1", "127.0.0.2"  # the site, and an address that must not be reached
_asked = 0


async def resolve(host: str) -> tuple[list[str], float] | None:
    """``private.test`` is there; ``rebind.test`` is here at first, and there from then on."""
    global _asked
    if host == "private.test":
        return [THERE], 60
    if host == "rebind.test":
        _asked += 1
        return [HERE if _asked == 1 else THERE], 0
    return [HERE], 60
