"""A spider that some pages block, in different ways."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from crawlframe import Request, Response, Spider


class Slow(Spider):
    """A spider whose callback stays on pages named /held<n> until the file ``gate`` exists."""

    name = "slow"
    settings = {"concurrency": 64, "delay": 0}
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


class Computing(Spider):
    """A spider with a quick callback, and one that computes, until ``gate`` exists."""

    name = "computing"
    settings = {"delay": 0}
    url: str
    gate: str

    def start(self) -> Iterator[Request]:
        yield Request(f"{self.url}light/0")
        yield Request(f"{self.url}heavy/0", self.parse_heavy)

    def parse(self, response: Response) -> Iterator[Any]:
        yield from self.next(response, "parse")

    def parse_heavy(self, response: Response) -> Iterator[Any]:
        end = time.thread_time() + 0.15
        while time.thread_time() < end:
            pass
        yield from self.next(response, "parse_heavy")

    def next(self, response: Response, callback: str) -> Iterator[Any]:
        yield {"url": response.url, "pid": os.getpid()}
        if not Path(self.gate).exists():
            base, number = response.url.rsplit("/", 1)
            yield Request(f"{base}/{int(number) + 1}", callback)


class Hog(Spider):
    """A callback known to be slow, whose page holds the interpreter's lock until ``gate`` is
    written."""

    name = "hog"
    settings = {"concurrency": 64, "delay": 0}
    url: str
    gate: str
    computes: bool = False

    def start(self) -> Iterator[Request]:
        yield Request(f"{self.url}first")

    def parse(self, response: Response) -> Iterator[Any]:
        if response.url.endswith("hogs"):
            ctypes.PyDLL(None).open(self.gate.encode(), os.O_RDONLY)
        elif response.url.endswith("first"):
            self.take_time()
            yield Request(f"{self.url}hogs", priority=1)
            yield from (Request(f"{self.url}page{n}") for n in range(40))
        yield {"url": response.url}

    def take_time(self) -> None:
        if not self.computes:
            time.sleep(0.15)
        end = time.thread_time() + 0.15
        while self.computes and time.thread_time() < end:
            pass
