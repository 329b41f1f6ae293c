"""Many names on few addresses, and the resolver that says where they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crawlframe import Request, Response, Spider

ADDRESSES = ("127.0.1.1", "127.0.1.2", "127.0.1.3", "127.0.1.4")
CONCURRENCY, DELAY = 2, 0.05


async def resolve(host: str) -> tuple[list[str], float]:
    """n7.test is on the fourth address."""
    return [ADDRESSES[int(host.removeprefix("n").removesuffix(".test")) % len(ADDRESSES)]], 60


class Shared(Spider):
    """``each`` pages of each of ``names`` names."""

    name = "shared"
    settings = {
        "delay": 0,
        "robots": False,
        "ip": {"concurrency": CONCURRENCY, "delay": DELAY},
    }

    def start(self, port: int, names: int, each: int) -> Iterator[Request]:
        for page in range(each):
            for n in range(names):
                yield Request(f"http://n{n}.test:{port}/{page}")

    def parse(self, response: Response) -> Iterator[dict[str, Any]]:
        yield {"url": response.url, "address": response.address}
