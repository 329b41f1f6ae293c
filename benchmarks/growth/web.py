"""Web: URLs by number, which all lead to the same page, on any number of addresses of loopback."""

from __future__ import annotations

import multiprocessing
import signal
import socket
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from crawlframe.conf import Settings
from crawlframe.frontier import Frontier
from crawlframe.request.request import Admission, Request, make_rid

FIRST = 0x7F000001  # 127.0.0.1
URL = "http://{host}:{port}/page.html?section={section:03d}&article={number:010d}"
NEAR = 17  # links of each page to the same few pages
CHUNK = 5_000  # URLs that one filling process makes at a time
FILLERS = 2  # processes


class Web(NamedTuple):
    """URLs that are spread evenly over ``hosts`` hosts and ``tasks`` tasks: those of task number t
    are t, t + tasks, t + 2 * tasks and so on."""

    port: int
    hosts: int
    tasks: int
    queued: int

    def url(self, number: int) -> str:
        host = socket.inet_ntoa((FIRST + number % self.hosts).to_bytes(4, "big"))
        return URL.format(host=host, port=self.port, section=number % 1000, number=number)

    def admission(self, task: int, number: int) -> Admission:
        """The request of a URL, as a callback's becomes one."""
        request = Request(self.url(number), "parse", depth=1)
        rid = make_rid(task, request.fingerprint())
        return Admission(rid, request.rank(), request.host, 0, request.encode())

    def page(self) -> str:
        """The page, with links that each task knows after its first page."""
        links = "".join(f'<li><a href="{self.url(n)}">page {n}</a></li>\n' for n in range(NEAR))
        text = "<p>Stainless steel, dishwasher safe, one litre. By people who cook.</p>\n" * 100
        return f"<!DOCTYPE html>\n<title>A page</title>\n<h1>An item</h1>\n{text}<ul>{links}</ul>\n"

    def fill(self, redis: str, tasks: Sequence[int]) -> None:
        """Admits all URLs. ``tasks`` are the ids of the open tasks."""
        parts = (
            (self, redis, task, range(at, min(at + CHUNK * self.tasks, self.queued), self.tasks))
            for first, task in enumerate(tasks)
            for at in range(first, self.queued, CHUNK * self.tasks)
        )
        with multiprocessing.get_context("fork").Pool(FILLERS, _dies_quietly) as pool:
            for _ in pool.imap_unordered(_admit, parts, chunksize=20 if self.tasks > 1 else 1):
                pass


def _dies_quietly() -> None:
    """Leaves Ctrl-C and SIGTERM of a child to its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _admit(part: tuple[Web, str, int, range]) -> None:
    web, redis, task, numbers = part
    _frontier(redis).admit(task, [web.admission(task, number) for number in numbers])


@cache
def _frontier(redis: str) -> Frontier:
    return Frontier.connect(redis, Settings(), follows=True)
