"""The bare limit: the standard job in a plain loop with the parts that Crawlframe is made of. No
frontier, no ledger, no other process; a failed fetch ends it. Any further cost of a crawler is the
price of its promises."""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from contextlib import closing
from typing import Any

import can_ada
import orjson
import psycopg2
import uvloop
from selectolax.lexbor import LexborHTMLParser

ROWS_PER_INSERT = 256  # rows in one statement
INSERT = """
INSERT INTO row SELECT * FROM jsonb_to_recordset(%s::jsonb)
AS row(url text, title text, h1 text, price numeric, date date, author text, links int)
"""


class CurlClient:
    """libcurl in one event loop, with its handles reused."""

    def __init__(self, in_flight: int) -> None:
        import pycurl

        self._pycurl: Any = pycurl
        self._multi = pycurl.AsyncCurlMulti()
        self._multi.setopt(pycurl.M_MAXCONNECTS, in_flight)
        self._idle: list[tuple[Any, list[bytes]]] = []

    async def get(self, url: str) -> bytes:
        curl, chunks = self._idle.pop() if self._idle else self._new()
        curl.setopt(self._pycurl.URL, url)
        await self._multi.add_handle(curl)
        if curl.getinfo(self._pycurl.RESPONSE_CODE) != 200:
            raise RuntimeError(f"{url}: status {curl.getinfo(self._pycurl.RESPONSE_CODE)}")
        body = b"".join(chunks)
        chunks.clear()
        self._idle.append((curl, chunks))
        return body

    def _new(self) -> tuple[Any, list[bytes]]:
        chunks: list[bytes] = []
        curl = self._pycurl.Curl()
        curl.setopt(self._pycurl.NOSIGNAL, 1)
        curl.setopt(self._pycurl.PROXY, "")
        curl.setopt(self._pycurl.BUFFERSIZE, 1 << 17)
        curl.setopt(self._pycurl.WRITEFUNCTION, chunks.append)
        return curl, chunks

    async def close(self) -> None:
        await self._multi.aclose()


class Crawl:
    """Crawls all pages from ``start`` on, and stores their rows in the database."""

    def __init__(self, start: str, database: str) -> None:
        self._database = psycopg2.connect(database)
        self._seen = {start}
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._queue.put_nowait(start)
        self._rows: list[dict[str, Any]] = []
        self._host = start.split("/p/")[0]
        self.pages = 0

    async def run(self, client: CurlClient, in_flight: int) -> None:
        with closing(self._database):
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._work(client)) for _ in range(in_flight)]
                await self._queue.join()
                for task in tasks:
                    task.cancel()
            self._store()
        await client.close()

    async def _work(self, client: CurlClient) -> None:
        while True:
            url = await self._queue.get()
            self._read(url, await client.get(url))
            self._queue.task_done()

    def _read(self, url: str, body: bytes) -> None:
        page: Any = LexborHTMLParser(body)
        hrefs: list[str] = [node.attributes["href"] for node in page.css("a[href]")]
        base, seen = can_ada.parse(url), self._seen
        for href in hrefs:
            target = (base + href).href
            if target not in seen and target.startswith(self._host):
                seen.add(target)
                self._queue.put_nowait(target)
        self._rows.append(
            {
                "url": url,
                "title": page.css_first("title").text(),
                "h1": page.css_first("h1").text(),
                "price": page.css_first(".amount").text(),
                "date": page.css_first("time").attributes["datetime"],
                "author": page.css_first(".author").text(),
                "links": len(hrefs),
            }
        )
        if len(self._rows) == ROWS_PER_INSERT:
            self._store()

    def _store(self) -> None:
        self.pages += len(self._rows)
        with self._database, self._database.cursor() as cursor:
            cursor.execute(INSERT, (orjson.dumps(self._rows).decode(),))
        self._rows.clear()


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--start", required=True)
    parser.add_argument("--database", required=True)
    parser.add_argument("--redis", help="not used: the set of seen URLs is a set")
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--processes", type=int, choices=[1], default=1)
    options = parser.parse_args()
    client = CurlClient(options.in_flight)
    crawl = Crawl(options.start, options.database)
    started = time.monotonic()
    await crawl.run(client, options.in_flight)
    seconds = time.monotonic() - started
    notes = (
        f"pycurl, Lexbor, can_ada, batches of {ROWS_PER_INSERT} rows as one jsonb "
        f"parameter, uvloop, {options.in_flight} in flight, a set of URLs"
    )
    print(json.dumps({"pages": crawl.pages, "seconds": seconds, "notes": notes}))


if __name__ == "__main__":
    uvloop.run(main())
