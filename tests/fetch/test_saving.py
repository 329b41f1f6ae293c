"""Bodies that are saved as files: streamed, complete or not at all, and continued after a break."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import os
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import brotli
import pytest
import uvloop

from crawlframe.conf import Settings
from crawlframe.errors import (
    BadEncoding,
    BadResponse,
    BodyTooLarge,
    ConnectionLost,
    FetchError,
    FileNotStored,
    FileRefused,
)
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.journey.context import FetchContext
from crawlframe.items.encode import encode_item
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.spider.settings import SpiderSettings

from .conftest import LOOPBACK, Exchange, Site

MEGABYTE = 1 << 20
BODY = os.urandom(3 * MEGABYTE)
SHA256 = hashlib.sha256(BODY).hexdigest()
PNG = b"\x89PNG\r\n\x1a\n" + bytes(2000)
RID = b"r" * 16


@pytest.fixture
def downloader() -> str:
    return "curl"


BOTH = pytest.mark.parametrize("downloader", ["curl", "requests"])


class Files:
    """Fetches with one store."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.settings = Settings(var_dir=folder, node="n", allow_private=LOOPBACK)
        self.kind = kind
        self.folder = folder / "files"

    def fetch(self, url: str, rid: bytes = RID, spider: Any = None, **options: Any) -> Response:
        request = Request(url, **{"save": True, **options})
        settings = replace_struct(spider or SpiderSettings(), downloader=self.kind)

        async def main() -> Response:
            downloader = Downloader(self.settings)
            try:
                return await downloader.fetch(request, settings, FetchContext(rid=rid))
            finally:
                await downloader.close()

        response: Response = uvloop.run(main())
        return response

    def stored(self) -> list[bytes]:
        return [path.read_bytes() for path in self.folder.glob("sha256/??/??/*")]

    def spooled(self) -> list[str]:
        return sorted(path.suffix for path in self.folder.glob("spool/*/*"))


def replace_struct(settings: SpiderSettings, **changes: Any) -> SpiderSettings:
    import msgspec

    changed: SpiderSettings = msgspec.structs.replace(settings, **changes)
    return changed


@pytest.fixture
def files(tmp_path: Path, downloader: str) -> Files:
    return Files(tmp_path, downloader)


def ranged(site: Site, path: str, body: bytes, breaks: int = 1, **fields: Any) -> list[str | None]:
    """A server of parts that breaks off the first ``breaks`` responses after a MiB. Returns the
    Range headers that it gets."""
    asked: list[str | None] = []
    headers = {"ETag": '"v1"', "Content-Type": "application/zip", **fields}

    @site.on(path)
    async def handler(exchange: Exchange) -> bool:
        asked.append(exchange.header("Range"))
        first = 0
        if asked[-1] and exchange.header("If-Range") == headers.get("ETag"):
            first = int(asked[-1].removeprefix("bytes=").removesuffix("-"))
        status = "206 Part" if first else "200 OK"
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items() if value)
        if first:
            lines += f"Content-Range: bytes {first}-{len(body) - 1}/{len(body)}\r\n"
        head = f"HTTP/1.1 {status}\r\n{lines}Content-Length: {len(body) - first}\r\n\r\n"
        rest = body[first:]
        if len(asked) <= breaks:
            await exchange.send(head.encode() + rest[:MEGABYTE])
            return False
        await exchange.send(head.encode() + rest)
        return True

    return asked


@BOTH
def test_a_body_becomes_a_file(files: Files, site: Site) -> None:
    site.answer("/a.png", PNG, headers={"Content-Type": "image/png"})
    response = files.fetch(f"{site.url}/a.png")
    file = response.file
    assert file is not None
    assert (response.body, response.size, response.status) == (b"", len(PNG), 200)
    assert (file.url, file.size, file.media_type) == (f"{site.url}/a.png", len(PNG), "image/png")
    assert file.sha256 == hashlib.sha256(PNG).hexdigest()
    assert (files.folder / file.path).read_bytes() == PNG
    with file.open() as opened:
        assert opened.read() == PNG
    assert encode_item({"file": file}) == (
        f'{{"file":{{"url":"{site.url}/a.png","path":"{file.path}","sha256":"{file.sha256}",'
        f'"size":{len(PNG)},"media_type":"image/png"}}}}'.encode()
    )
    assert files.spooled() == []
    assert site.seen[0].header("Accept-Encoding") == "identity"


def test_equal_files_are_kept_once(files: Files, site: Site) -> None:
    for path in ("/a", "/b"):
        site.answer(path, PNG)
        files.fetch(f"{site.url}{path}")
    assert files.stored() == [PNG]


def test_a_page_that_is_not_saved_is_as_ever(files: Files, site: Site) -> None:
    site.answer("/", b"page")
    response = files.fetch(f"{site.url}/", save=None)
    assert (response.body, response.file) == (b"page", None)
    assert not files.folder.exists()


@pytest.mark.parametrize("status", [404, 500, 304])
def test_errors_are_not_saved(files: Files, site: Site, status: int) -> None:
    body = b"" if status == 304 else b"sorry"
    site.answer("/", body, status=status)
    response = files.fetch(f"{site.url}/")
    assert (response.status, response.body, response.file) == (status, body, None)
    assert (files.stored(), files.spooled()) == ([], [])


@BOTH
def test_a_large_error_page_is_as_large_as_a_page_may_be(files: Files, site: Site) -> None:
    site.answer("/", b"x" * 5000, status=404)
    with pytest.raises(BodyTooLarge):
        files.fetch(f"{site.url}/", spider=SpiderSettings(max_body=4999))
    response = files.fetch(f"{site.url}/", spider=SpiderSettings(max_body=5000))
    assert len(response.body) == 5000


def test_redirects_are_followed_and_only_the_target_is_saved(files: Files, site: Site) -> None:
    site.answer("/old", b"moved", status=302, headers={"Location": "/new"})
    site.answer("/new", PNG)
    response = files.fetch(f"{site.url}/old")
    assert response.file is not None
    assert response.file.url == f"{site.url}/new"
    assert files.stored() == [PNG]


@pytest.mark.parametrize("coding", ["gzip", "br", "gzip, br"])
def test_content_codings_are_undone(files: Files, site: Site, coding: str) -> None:
    body = BODY[:300_000] + bytes(500_000)
    sent = body
    for name in coding.split(", "):
        sent = gzip.compress(sent) if name == "gzip" else brotli.compress(sent, quality=1)
    site.answer("/", sent, headers={"Content-Encoding": coding})
    response = files.fetch(f"{site.url}/")
    assert response.file is not None
    assert response.file.size == len(body)
    assert files.stored() == [body]
    assert files.spooled() == []


def test_bombs_and_broken_codings_are_refused(files: Files, site: Site) -> None:
    packed = gzip.compress(bytes(5 * MEGABYTE))
    site.answer("/bomb", packed, headers={"Content-Encoding": "gzip"})
    with pytest.raises(BodyTooLarge, match="after decompression"):
        files.fetch(f"{site.url}/bomb", max_body=MEGABYTE)
    site.answer("/cut", packed[:-9], headers={"Content-Encoding": "gzip"})
    with pytest.raises(BadEncoding):
        files.fetch(f"{site.url}/cut")
    assert (files.stored(), files.spooled()) == ([], [])


@BOTH
def test_the_size_is_limited(files: Files, site: Site) -> None:
    site.answer("/announced", BODY)

    @site.on("/endless")
    async def endless(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            await exchange.send(b"10000\r\n" + bytes(1 << 16) + b"\r\n")

    small = SpiderSettings(max_file=2 * MEGABYTE, max_body=100)
    for path in ("/announced", "/endless"):
        with pytest.raises(BodyTooLarge, match=f"larger than {2 * MEGABYTE} bytes"):
            files.fetch(f"{site.url}{path}", spider=small)
    assert files.fetch(f"{site.url}/announced", spider=small, max_body=3 * MEGABYTE).size
    assert files.spooled() == []


@BOTH
def test_a_file_is_never_in_memory(files: Files, site: Site) -> None:
    size = 40 * MEGABYTE

    @site.on("/")
    async def large(exchange: Exchange) -> bool:
        await exchange.send(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode())
        for _ in range(size // MEGABYTE):
            await exchange.send(bytes(MEGABYTE))
        return True

    tracemalloc.start()
    try:
        response = files.fetch(f"{site.url}/", spider=SpiderSettings(max_body=1000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert response.size == size
    assert peak < 12 * MEGABYTE


@pytest.mark.parametrize(
    ("declared", "body", "refused"),
    [
        ("image/png", PNG, False),
        ("application/octet-stream", PNG, False),
        ("", PNG, False),
        ("image/png", b"<html><title>Log in</title>" + bytes(600), True),
        ("image/png", b"<html>", True),
        ("text/html", PNG, True),
        ("image/png", b"", True),
    ],
)
def test_only_wanted_types_are_saved(
    files: Files, site: Site, declared: str, body: bytes, refused: bool
) -> None:
    site.answer("/", body, headers={"Content-Type": declared} if declared else {})
    if refused:
        with pytest.raises(FileRefused, match=r"the request saves image/\*") as caught:
            files.fetch(f"{site.url}/", save=["image/*"])
        assert (caught.value.reason, caught.value.retryable) == ("file_type", False)
        assert files.stored() == []
    else:
        response = files.fetch(f"{site.url}/", save=["image/*"])
        assert response.file is not None
        assert response.file.media_type == "image/png"
    assert files.spooled() == []


@BOTH
def test_a_type_that_the_head_shows_is_refused_before_the_body(files: Files, site: Site) -> None:
    sent: list[int] = []

    @site.on("/")
    async def endless(exchange: Exchange) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 90000000\r\n\r\n"
        try:
            await exchange.send(head)
            for _ in range(900):
                await exchange.send(bytes(100_000))
        finally:
            sent.append(exchange.sent)

    with pytest.raises(FileRefused):
        files.fetch(f"{site.url}/", save=["application/pdf"])
    assert all(size < 90_000_000 for size in sent)


@BOTH
def test_a_broken_transfer_is_continued(files: Files, site: Site) -> None:
    asked = ranged(site, "/", BODY, breaks=2)
    for _ in range(2):
        with pytest.raises(ConnectionLost):
            files.fetch(f"{site.url}/")
        assert files.stored() == []
        assert files.spooled() == [".json", ".part"]
    response = files.fetch(f"{site.url}/")
    assert response.status == 200
    assert response.file is not None
    assert response.file.sha256 == SHA256
    assert asked[0] is None
    assert [int(str(one)[6:-1]) for one in asked[1:]] == [MEGABYTE, 2 * MEGABYTE]
    assert files.stored() == [BODY]
    assert files.spooled() == []


def test_nothing_of_another_request_is_continued(files: Files, site: Site) -> None:
    asked = ranged(site, "/", BODY)
    with pytest.raises(ConnectionLost):
        files.fetch(f"{site.url}/")
    assert files.fetch(f"{site.url}/", rid=b"s" * 16).size == len(BODY)
    assert asked == [None, None]


def test_a_file_that_has_changed_begins_anew(files: Files, site: Site) -> None:
    ranged(site, "/", BODY)
    with pytest.raises(ConnectionLost):
        files.fetch(f"{site.url}/")
    changed = BODY[::-1]
    asked = ranged(site, "/", changed, breaks=0, ETag='"v2"')
    assert files.fetch(f"{site.url}/").status == 200
    assert asked == [f"bytes={MEGABYTE}-"]
    assert files.stored() == [changed]


@pytest.mark.parametrize(
    "fields",
    [
        {"ETag": 'W/"weak"'},
        {"ETag": ""},
        {"ETag": "", "Last-Modified": "Mon, 02 Nov 2026 10:00:00 GMT"},
        {"Accept-Ranges": "none"},
        {"Content-Encoding": "gzip"},
    ],
    ids=str,
)
def test_what_nothing_identifies_exactly_is_not_continued(
    files: Files, site: Site, fields: dict[str, Any]
) -> None:
    asked = ranged(site, "/", BODY, **fields)
    with pytest.raises(ConnectionLost):
        files.fetch(f"{site.url}/")
    assert files.spooled() == []
    if "Content-Encoding" not in fields:
        files.fetch(f"{site.url}/")
        assert asked == [None, None]


def test_an_old_last_modified_identifies_a_file(files: Files, site: Site) -> None:
    modified = "Mon, 02 Nov 2026 10:00:00 GMT"
    fields: dict[str, Any] = {
        "ETag": "",
        "Last-Modified": modified,
        "Date": "Mon, 02 Nov 2026 10:05:00 GMT",
    }
    asked = ranged(site, "/", BODY, **fields)
    with pytest.raises(ConnectionLost):
        files.fetch(f"{site.url}/")
    files.fetch(f"{site.url}/")
    assert asked == [None, f"bytes={MEGABYTE}-"]
    assert site.seen[-1].header("If-Range") == modified
    assert files.stored() == [BODY]


PART = (
    "HTTP/1.1 206 Part\r\nETag: {tag}\r\nContent-Range: {part}\r\nContent-Length: {length}\r\n\r\n"
)


@pytest.mark.parametrize(
    ("tag", "part"),
    [
        ('"v1"', "bytes 0-1/3145728"),
        ('"v1"', "bytes 1048577-3145727/3145728"),
        ('"v1"', "bytes 1048576-2000000/3145728"),
        ('"v2"', "bytes 1048576-3145727/3145728"),
        ('"v1"', "nonsense"),
    ],
)
def test_a_wrong_part_is_not_put_together(files: Files, site: Site, tag: str, part: str) -> None:
    ranged(site, "/", BODY)
    with pytest.raises(ConnectionLost):
        files.fetch(f"{site.url}/")
    head = PART.format(tag=tag, part=part, length=2)
    site.raw("/", head.encode() + b"xx")
    with pytest.raises(ConnectionLost, match="did not send the rest"):
        files.fetch(f"{site.url}/")
    assert (files.stored(), files.spooled()) == ([], [])
    ranged(site, "/", BODY, breaks=0)
    assert files.fetch(f"{site.url}/").status == 200
    assert files.stored() == [BODY]


def test_a_rest_that_is_not_satisfiable_begins_anew(files: Files, site: Site) -> None:
    ranged(site, "/", BODY)
    with pytest.raises(ConnectionLost):
        files.fetch(f"{site.url}/")
    site.answer("/", b"no such range", status=416)
    with pytest.raises(ConnectionLost, match="changed"):
        files.fetch(f"{site.url}/")
    assert files.spooled() == []


def test_an_error_in_between_keeps_the_beginning(files: Files, site: Site) -> None:
    ranged(site, "/", BODY)
    with pytest.raises(ConnectionLost):
        files.fetch(f"{site.url}/")
    site.answer("/", b"busy", status=503)
    assert files.fetch(f"{site.url}/").status == 503
    asked = ranged(site, "/", BODY, breaks=0)
    files.fetch(f"{site.url}/")
    assert asked == [f"bytes={MEGABYTE}-"]


def test_a_part_that_nobody_asked_for_is_no_file(files: Files, site: Site) -> None:
    head = PART.format(tag='"v1"', part="bytes 0-1/3145728", length=2)
    site.raw("/", head.encode() + b"xx")
    with pytest.raises(BadResponse, match="unasked"):
        files.fetch(f"{site.url}/")
    response = files.fetch(f"{site.url}/", headers={"Range": "bytes=0-1"})
    assert response.size == 2
    assert site.seen[-1].header("If-Range") is None


@BOTH
def test_truncated_bodies_are_never_files(files: Files, site: Site) -> None:
    site.raw("/length", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort")
    site.raw("/chunks", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n")
    for path in ("/length", "/chunks"):
        with pytest.raises(FetchError):
            files.fetch(f"{site.url}{path}")
    assert (files.stored(), files.spooled()) == ([], [])


def test_a_store_that_cannot_be_written_is_an_error_that_is_tried_again(
    files: Files, site: Site
) -> None:
    files.folder.parent.mkdir(exist_ok=True)
    files.folder.write_bytes(b"a file in its place")
    site.answer("/", PNG)
    with pytest.raises(FileNotStored) as caught:
        files.fetch(f"{site.url}/")
    assert (caught.value.reason, caught.value.retryable) == ("file_store", True)


@BOTH
def test_a_cancelled_fetch_leaves_nothing_open(files: Files, site: Site) -> None:
    @site.on("/")
    async def slow(exchange: Exchange) -> None:
        head = b'HTTP/1.1 200 OK\r\nETag: "v1"\r\nContent-Length: 3145728\r\n\r\n'
        await exchange.send(head + BODY[:MEGABYTE])
        await asyncio.sleep(60)

    async def main() -> None:
        downloader = Downloader(files.settings)
        settings = SpiderSettings(downloader=files.kind)
        fetch = asyncio.ensure_future(
            downloader.fetch(Request(f"{site.url}/", save=True), settings, FetchContext(rid=RID))
        )
        # Not as soon as it exists: without a byte, it would be begun again.
        while not any(part.stat().st_size for part in files.folder.glob("spool/*/*.part")):
            await asyncio.sleep(0.01)
        fetch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetch
        await downloader.close()

    uvloop.run(main())
    assert files.stored() == []
    asked = ranged(site, "/", BODY, breaks=0)
    files.fetch(f"{site.url}/")
    assert len(asked) == 1
    assert files.stored() == [BODY]


def test_files_have_a_timeout_of_their_own(files: Files, site: Site) -> None:
    from crawlframe.fetch.downloader import limits_of

    settings = SpiderSettings(timeout=1, file_timeout=99, max_body=5)
    saved = limits_of(Request("http://a/", save=True, max_body=7), settings)
    assert (saved.timeout, saved.max_body) == (99, 5)
    assert limits_of(Request("http://a/", save=True, timeout=3), settings).timeout == 3
    assert limits_of(Request("http://a/"), settings).timeout == 1


def test_settings_name_the_directory(files: Files, site: Site, tmp_path: Path) -> None:
    files.settings = replace(files.settings, files=str(tmp_path / "elsewhere"))
    site.answer("/", PNG)
    response = files.fetch(f"{site.url}/")
    assert response.file is not None
    assert (tmp_path / "elsewhere" / response.file.path).read_bytes() == PNG
