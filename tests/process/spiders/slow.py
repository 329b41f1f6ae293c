"""A spider that is held up by some pages, in one manner or another."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from crawlframe import Request, Response, Spider


class Slow(Spider):
    """Its callback stays on pages named /held<n> until the file ``gate`` exists."""

    name = "slow"
    settings = {"concurrency": 64}
    url: str
    gate: str
    computes: bool = False

    def start(self, held: int = 1, callback: str = "parse") -> Iterator[Request]:
        names = [f"page{n}" for n in range(40)]
        names[10:10] = [f"held{n}" for n in range(held)]
        for name in names:
            yield Request(self.url + name, callback)

    def parse(self, response: Response) -> dict[str, Any]:
        self.stay(response)
        return {"url": response.url}

    async def parse_async(self, response: Response) -> AsyncIterator[dict[str, Any]]:
        self.stay(response)  # which a coroutine must not do
        yield {"url": response.url}

    def stay(self, response: Response) -> None:
        while "held" in response.url and not Path(self.gate).exists():
            if not self.computes:
                time.sleep(0.05)
