"""Maze: a site of small pages with links, redirects, failures and latency, all determined by its
seed, and the spider that crawls it. ``python -m tests.faults.maze PAGES SEED SECONDS`` serves
one."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
from collections import Counter, deque
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import uvloop

from crawlservice.cli.process_group import die_with_parent
from examples.demo_site.server import Answer, answer_until_stopped, listen

CHILDREN, CROSSINGS = 8, 6  # links of a page to pages below it, and to any
MOVED, FAILS, GONE = 0.02, 0.01, 0.01  # shares of pages: redirect, answer 500 first, link to a 404

ALIASED = "s"  # the end of a walk, whose pages have many URLs; these differ in
SESSION = "sid"  # this parameter

SPIDER = '''"""Version {version} of the spider that walks the maze."""

from crawlframe import Request, Spider, Upsert
from grove.models import Leaf, Word


class Maze(Spider):
    name = "maze"
    settings = {{
        "concurrency": 512, "delay": 0, "retries": 8, "reuse": 3600,
    }}

    def start(self, site: str):
        yield Request(site + "/page/0")

    def parse(self, response):
        page = response.tree
        number, text = int(page.css_first("h1").text()), page.css_first("p").text()
        site = response.url.rsplit("/", 2)[0]
        yield {{"page": number, "word": text}}
        word = Word(word=text, site=site)
        yield Leaf(site=site, page=number, word=word)
        yield Upsert(word, on="word", history=True)
        yield from response.follow_all(page.css("a"))
'''


def number_of(url: str) -> int:
    """The number of the page that a URL leads to."""
    return int(url.partition("?")[0].rpartition("/")[2])


class Maze:
    """The contents of the site. Every page can be reached from page 0."""

    def __init__(self, pages: int, seed: int, slowest: float) -> None:
        """``slowest``: most seconds that an answer takes; the others are spread below it."""
        self.pages, self.seed, self.slowest = pages, seed, slowest
        self.page = lru_cache(maxsize=1 << 16)(self._page)

    def _page(self, number: int) -> Page:
        return Page(self, number)

    def gone(self) -> int:
        """The number of linked addresses that do not exist."""
        return sum(self.page(number).leads_nowhere for number in range(self.pages))

    def distances(self) -> dict[int, int]:
        """Page -> links on the shortest way to it from page 0."""
        found, reached = {0: 0}, deque([0])
        while reached:
            number = reached.popleft()
            for link in self.page(number).links:
                if link not in found:
                    found[link] = found[number] + 1
                    reached.append(link)
        return found

    def items(self) -> dict[int, dict[str, Any]]:
        """Page -> its item."""
        return {n: {"page": n, "word": self.page(n).word} for n in range(self.pages)}


class Page:
    """A page of the maze."""

    def __init__(self, maze: Maze, number: int) -> None:
        chance = random.Random(f"{maze.seed}/{number}")
        first = CHILDREN * number + 1
        self.number = number
        self.links = [*range(first, min(first + CHILDREN, maze.pages))]
        self.links += [chance.randrange(maze.pages) for _ in range(CROSSINGS)]
        self.moved, self.fails, self.leads_nowhere = (
            chance.random() < share for share in (MOVED, FAILS, GONE)
        )
        self.seconds = chance.uniform(0, maze.slowest)
        self.word = "".join(chance.choices("abcdefghij", k=8))

    def html(self, walk: str) -> bytes:
        """The page as a walk sees it."""
        query = f"?{SESSION}={self.number}" if walk.endswith(ALIASED) else ""
        links = [f"../page/{number}{query}" for number in self.links]
        if self.leads_nowhere:
            links.append(f"../gone/{self.number}")
        anchors = "".join(f'<li><a href="{link}">on</a>' for link in links)
        return f"<!DOCTYPE html><h1>{self.number}</h1><p>{self.word}</p><ul>{anchors}".encode()


class Site:
    """The application. ``/<walk>/page/<number>``: each walk through the maze meets every
    failure again. In walks that end with ``ALIASED``, every page links to another URL of a page."""

    def __init__(self, maze: Maze) -> None:
        self._maze = maze
        self._asked: Counter[str] = Counter()

    async def __call__(self, method: str, target: str) -> Answer:
        path = unquote(target.partition("?")[0])
        if path == "/robots.txt":
            return 404, {}, b""
        self._asked[path] += 1
        _, walk, kind, number = path.split("/")
        page = self._maze.page(int(number))
        await asyncio.sleep(page.seconds)
        fields = {"Content-Type": "text/html; charset=utf-8"}
        if kind == "gone":
            return 404, fields, b"nothing"
        if page.fails and self._asked[path] == 1:
            return 500, fields, b"again"
        if page.moved and kind == "page":
            return 302, fields | {"Location": f"../moved/{number}"}, b""
        return 200, fields, page.html(walk)


class MazeServer:
    """``with MazeServer(maze) as server``: a process of its own serves it on ``url``."""

    def __init__(self, maze: Maze) -> None:
        self.maze = maze

    def __enter__(self) -> MazeServer:
        size = map(str, (self.maze.pages, self.maze.seed, self.maze.slowest))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.maze", *size],
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent(signal.SIGKILL),
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate()


def serve(maze: Maze) -> None:
    """Serves until it is killed."""
    with listen("127.0.0.1", 0) as listener:
        print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        uvloop.run(answer_until_stopped(Site(maze), listener))


if __name__ == "__main__":
    pages, seed, slowest = sys.argv[1:]
    serve(Maze(int(pages), int(seed), float(slowest)))
