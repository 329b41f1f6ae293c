"""CountedSite: a site on loopback, in a process of its own. It answers each request after the same
latency and counts its answers over time. It serves the files of a directory, or a Tree.

One uvloop process, 0.02 to 0.03 ms of CPU per page of 2 KB."""

from __future__ import annotations

import asyncio
import json
import mimetypes
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple, cast
from urllib.request import urlopen

import psutil
import uvloop

from benchmarks.lab.tree import Tree
from crawlservice.cli.process_group import die_with_parent

CHECKOUT = Path(__file__).resolve().parents[2]
BACKLOG = 4096  # connections that may wait
TAKE = b"/-/take"  # requests the counts
BIN = 0.05  # seconds whose answers are counted together
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


class Answered(NamedTuple):
    """When pages were answered, by time.monotonic(), which is the same in all processes."""

    counts: dict[int, int]  # number of the BIN -> pages
    different: int = 0  # pages, each counted once

    @property
    def pages(self) -> int:
        return sum(self.counts.values())

    def steady(self, low: float = 0.1, high: float = 0.9) -> float:
        """Pages per second between these shares of all pages, excluding the slow start from one
        page and the slow end. 0.0 when all came at once."""
        if not self.counts:
            return 0.0
        bins = range(min(self.counts), max(self.counts) + 1)
        done = [*accumulate(self.counts.get(number, 0) for number in bins)]
        start = next(place for place, pages in enumerate(done) if pages >= low * done[-1])
        end = next(place for place, pages in enumerate(done) if pages >= high * done[-1])
        return (done[end] - done[start]) / ((end - start) * BIN) if end > start else 0.0


class CountedSite:
    """``with CountedSite(content, 0.2) as site: site.url``; ``content`` is a Tree or a directory,
    which is read when the site starts; ``latency`` is in seconds. The URL is known before that.

    Raises RuntimeError when it does not start."""

    def __init__(self, content: Path | Tree, latency: float = 0.0) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        data = content.resolve() if isinstance(content, Path) else content.pages
        words = (self._socket.fileno(), data, latency)
        self._command = [sys.executable, "-m", __name__, *map(str, words)]
        self._process: subprocess.Popen[str] | None = None
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/"

    def take(self) -> Answered:
        """The answers counted since it started or since the last call."""
        with urlopen(f"{self.url}{TAKE.decode()[1:]}", timeout=30) as response:
            data = json.load(response)
        counts = {int(number): count for number, count in data["counts"].items()}
        return Answered(counts, data["different"])

    def cpu_seconds(self) -> float:
        """CPU seconds used since its start."""
        assert self._process is not None
        return float(sum(psutil.Process(self._process.pid).cpu_times()[:2]))

    def __enter__(self) -> CountedSite:
        self._process = subprocess.Popen(
            self._command,
            cwd=CHECKOUT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=[self._socket.fileno()],
            start_new_session=True,  # Ctrl-C is for the benchmark, which stops the server
            preexec_fn=die_with_parent(signal.SIGKILL),
        )
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise RuntimeError(f"the counted site ended with status {self._process.wait()}")
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.communicate()
        self._socket.close()


class _Count:
    """The counts since they were last taken."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.counts: Counter[int] = Counter()
        self._seen: set[int] = set()  # hashes, since there may be millions

    def add(self, page: bytes) -> None:
        self.counts[int(time.monotonic() / BIN)] += 1
        self._seen.add(hash(page))

    def take(self) -> bytes:
        data = {"counts": self.counts, "different": len(self._seen)}
        self._clear()
        return answer(json.dumps(data).encode(), "application/json")


class _Connection(asyncio.Protocol):
    """Receives requests one after another; clients do not pipeline."""

    def __init__(self, page: Callable[[bytes], bytes], latency: float, count: _Count) -> None:
        self._loop = asyncio.get_running_loop()
        self._received = b""
        self._page = page
        self._latency = latency
        self._count = count

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._received.endswith(b"\r\n\r\n"):
            return
        words = self._received.split(b" ", 2)
        self._received = b""
        target = words[1] if len(words) == 3 else b""
        if target == TAKE:
            self._transport.write(self._count.take())
        elif self._latency:
            self._loop.call_later(self._latency, self._write, self._page(target))
        else:
            self._write(self._page(target))

    def _write(self, page: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(page)
            if page is not NOT_FOUND:
                self._count.add(page)


def answer(body: bytes, kind: str = "text/html; charset=utf-8") -> bytes:
    """A complete HTTP response."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _files(root: Path) -> Callable[[bytes], bytes]:
    """Files that are all read at once, so that no answer waits for the disk."""
    answers = {}
    for file in root.rglob("*"):
        if file.is_file():
            kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
            path = f"/{file.relative_to(root).as_posix()}".encode()
            answers[path] = answer(file.read_bytes(), kind)
    return lambda target: answers.get(target, NOT_FOUND)


def _pages(tree: Tree) -> Callable[[bytes], bytes]:
    def page(target: bytes) -> bytes:
        number = tree.number_of(target)
        return NOT_FOUND if number is None else answer(tree.page(number))

    return page


async def _serve(listener: socket.socket, content: str, latency: float) -> None:
    """Prints a line when it is ready, and serves for ever."""
    page = _pages(Tree(int(content))) if content.isdecimal() else _files(Path(content))
    loop = asyncio.get_running_loop()
    count = _Count()
    server = await loop.create_server(
        lambda: _Connection(page, latency, count), sock=listener, backlog=BACKLOG
    )
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2], float(sys.argv[3])))
