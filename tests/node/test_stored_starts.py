"""The records of a start, on their way to database and Redis."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from crawlframe import Request, Response
from crawlframe.fetch.page_cache import PageCache
from crawlframe.node.worker.fetch.replay import KEPT_HOST, CacheReplay
from crawlframe.node.worker.start.stored_starts import StoredStarts
from crawlframe.request.request import Admission, make_rid
from crawlframe.run.ledger import StartPart

URL = "http://shop.example/a"


def test_pages_of_the_cache_do_not_wait_for_their_hosts(tmp_path: Path) -> None:
    cache = PageCache(tmp_path / "pages.sqlite3")
    request = Request(URL)
    cache.keep(request, Response(URL, 200, {}, b"", request))
    one = Admission(make_rid(1, request.fingerprint()), 5, request.host, 0, request.encode())
    part = StartPart(1, b"r" * 16, 0, 1, b"", 0, [one])
    pushed: list[Any] = []

    def push(*given: Any) -> bool:
        pushed.append(given)
        return True

    nothing: Any = SimpleNamespace(starts=SimpleNamespace(push=push))
    made = StoredStarts(
        nothing, nothing, nothing, nothing, 1, CacheReplay(lambda: cache, places=True)
    )
    assert made._push("start", part)
    assert [one.host for one in pushed[0][-1]] == [KEPT_HOST + one.rid.hex()]
    assert part.follow_ups == [one]  # the ledger has its real host
