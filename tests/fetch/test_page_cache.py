"""The development cache: its content, its keys, and its bound."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from crawlframe import Request, Response
from crawlframe.errors import CacheUnusable
from crawlframe.fetch.page_cache import PageCache
from crawlframe.request.record import Hop

URL = "http://shop.example/a"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "pages.sqlite3"


def response(request: Request, body: bytes = b"<p>\xe4", status: int = 200) -> Response:
    headers = [("Content-Type", "text/html"), ("Set-Cookie", "a=1"), ("set-cookie", "b=\xfc")]
    return Response(request.url, status, headers, body, request)


def test_a_page_comes_back_as_it_was(path: Path) -> None:
    request = Request(URL)
    PageCache(path).keep(request, response(request, status=404))
    kept = PageCache(path).find(Request(f"{URL}#fragment"))
    assert kept is not None
    back = kept.response(request)
    assert (back.url, back.status, back.body, kept.hop) == (URL, 404, b"<p>\xe4", None)
    assert back.headers["content-type"] == "text/html"
    assert back.headers.getall("Set-Cookie") == ["a=1", "b=\xfc"]


def test_a_redirect_comes_back(path: Path) -> None:
    cache = PageCache(path)
    cache.keep_redirect(Request(URL), Hop(302, "http://other.example/"))
    kept = cache.find(Request(URL))
    assert kept is not None
    assert kept.hop == Hop(302, "http://other.example/")


@pytest.mark.parametrize(
    "other",
    [
        Request("http://shop.example/b"),
        Request(URL, method="POST"),
        Request(URL, method="POST", form={"a": "2"}),
        Request(URL, session="berta"),
    ],
)
def test_another_request_is_another_page(path: Path, other: Request) -> None:
    cache = PageCache(path)
    for known in (Request(URL), Request(URL, method="POST", form={"a": "1"})):
        cache.keep(known, response(known))
        assert cache.has(known)
    assert cache.find(other) is None
    assert not cache.has(other)


def test_the_oldest_pages_go_when_there_are_too_many(path: Path) -> None:
    cache = PageCache(path, max_size=30_000)
    for number in range(129):
        request = Request(f"{URL}{number}")
        cache.keep(request, response(request, os.urandom(1000)))
    pages, size = cache.extent()
    assert size <= 30_000
    assert 20 <= pages <= 28
    assert cache.has(Request(f"{URL}128"))
    assert not cache.has(Request(f"{URL}0"))


def test_refreshing_finds_nothing_and_keeps_all(path: Path) -> None:
    request = Request(URL)
    PageCache(path).keep(request, response(request, b"old"))
    fresh = PageCache(path, refresh=True)
    assert fresh.find(request) is None
    fresh.keep(request, response(request, b"new"))
    kept = PageCache(path).find(request)
    assert kept is not None
    assert kept.body == b"new"
    assert fresh.extent().pages == 1
    fresh.clear()
    assert fresh.extent() == (0, 0)


def test_only_the_owner_reads_the_file(path: Path) -> None:
    PageCache(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_is_none_of_ours(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"no database, but longer than the header of one" * 100)
    with pytest.raises(
        CacheUnusable, match=r"pages\.sqlite3 cannot be used: file is not a database"
    ):
        PageCache(path)
    PageCache.delete(path)
    assert PageCache(path).extent() == (0, 0)


def test_one_that_another_process_holds(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawlframe.fetch.page_cache.WAIT", 0.01)
    cache = PageCache(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(CacheUnusable, match="database is locked; free some space, end what"):
            cache.keep(Request(URL), response(Request(URL)))
        assert not cache.has(Request(URL)), "reading waits for nobody"


def test_a_full_disk(path: Path) -> None:
    cache = PageCache(path)
    cache._database.execute("PRAGMA max_page_count = 5")
    with pytest.raises(CacheUnusable, match="database or disk is full"):
        cache.keep(Request(URL), response(Request(URL), os.urandom(100_000)))


def test_a_page_that_is_damaged(path: Path) -> None:
    cache = PageCache(path)
    cache.keep(Request(URL), response(Request(URL)))
    cache._database.execute("UPDATE page SET body = x'00'")
    with pytest.raises(CacheUnusable):
        cache.find(Request(URL))
