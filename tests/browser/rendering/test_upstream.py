"""A browser whose connections go through the proxy of its request."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from crawlframe.conf import Settings
from crawlframe.fetch.browser.client import BrowserClient
from crawlframe.fetch.browser.orders import Upstream
from crawlframe.fetch.limits import FetchLimits
from crawlframe.fetch.redirects import Journey
from crawlframe.request import Request
from crawlframe.spider import SpiderSettings
from tests.fetch.test_forward_proxy import Upstreams

from .conftest import QUICK, Host, Site, html


@pytest.fixture
def upstreams() -> Iterator[Upstreams]:
    """A proxy in a thread of its own."""
    proxy, loop = Upstreams(), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def stop() -> None:
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    server = asyncio.run_coroutine_threadsafe(proxy.start(), loop).result(10)
    yield proxy
    asyncio.run_coroutine_threadsafe(stop(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


@pytest.mark.parametrize("scheme", ["socks5"])
def test_pages_come_through_it(host: Host, site: Site, upstreams: Upstreams, scheme: str) -> None:
    html(site, "/", "<p id=x></p><script>x.textContent = 'new'</script>")
    place = site.url.replace("127.0.0.1", "far.example")  # a name that only the proxy knows
    request = Request(f"{place}/", downloader="browser")
    upstream = Upstream(scheme, "127.0.0.1", upstreams.port, "me", "secret")

    async def main() -> Any:
        client = BrowserClient(Settings(), host.socket)
        settings = SpiderSettings(**{**QUICK})
        transfer = partial(
            client.transfer, request=request, settings=settings, owner="7", upstream=upstream
        )
        try:
            return await Journey(request, FetchLimits(timeout=30.0), {}).run(transfer)
        finally:
            await client.close()

    response = asyncio.run(main())
    assert response.css("#x::text").get() == "new"
    assert upstreams.seen
    assert all(one.startswith("far.example:") for one in upstreams.seen)
