"""Crawlee for Python on the standard job."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[4]))

import can_ada
import uvloop
from crawlee import ConcurrencySettings, Request
from crawlee.crawlers import HttpCrawler, HttpCrawlingContext
from crawlee.http_clients import ImpitHttpClient
from crawlee.storage_clients import MemoryStorageClient

from benchmarks.standard.contenders.peer.garbage import RARELY, collect
from benchmarks.standard.contenders.peer.pages import read
from benchmarks.standard.contenders.peer.rows import RowWriter
from benchmarks.standard.contenders.peer.words import Words, heard, tell

NOTES = """
{in_flight} in flight at all times, memory storage, HttpCrawler with impit (no browser imitated),
compiled lxml XPath on the bytes, links joined by can_ada, uvloop, no sessions, no log, garbage
collected rarely; rows in batches by a thread, as one jsonb parameter
"""


def crawler(in_flight: int) -> HttpCrawler:
    """ParselCrawler with ``enqueue_links`` and the client httpx each cost nearly twice as much, the
    client curl a little more."""
    return HttpCrawler(
        http_client=ImpitHttpClient(browser=None, persist_cookies_per_session=False),
        storage_client=MemoryStorageClient(),
        concurrency_settings=ConcurrencySettings(
            in_flight, in_flight, desired_concurrency=in_flight
        ),
        use_session_pool=False,
        retry_on_blocked=False,
        configure_logging=False,
    )


async def crawl(words: Words, writer: RowWriter) -> None:
    job = crawler(words.in_flight)
    seen = {words.start}

    async def links(context: HttpCrawlingContext) -> list[str]:
        url = context.request.url
        row, hrefs = read(url, await context.http_response.read())
        writer.add(row)
        base = can_ada.parse(url)
        return [(base + href).href for href in hrefs]

    async def shipped(context: HttpCrawlingContext) -> None:
        await context.add_requests(await links(context))

    async def own_set(context: HttpCrawlingContext) -> None:
        new = [url for url in await links(context) if url not in seen]
        seen.update(new)
        # With a key given, it does not work one out of the URL.
        await context.add_requests([Request.from_url(url, unique_key=url) for url in new])

    job.router.default_handler(own_set if words.own_set else shipped)
    await job.run([words.start])


def main() -> None:
    words = heard()
    logging.disable(logging.WARNING)
    collect(RARELY)
    writer = RowWriter(words.database)
    first = time.monotonic()
    try:
        uvloop.run(crawl(words, writer))
    finally:
        writer.close()
    tell(writer.stored, writer.last - first, NOTES.format(in_flight=words.in_flight))


if __name__ == "__main__":
    main()
