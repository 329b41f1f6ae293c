"""Files in a worker: the argument of a callback, and the names in the outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar

import pytest

from crawlframe import Request, Response, Spider
from crawlframe.errors import FileGone
from crawlframe.fetch.downloader import Downloader
from crawlframe.node.worker.fetch.replay import CacheReplay
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.testing import run
from tests.fetch.conftest import Site, _server, site
from tests.node.runner import HERE, Tasks, items

__all__ = ("_server", "site")

PNG = b"\x89PNG\r\n\x1a\n" + bytes(2000)


class Shop(Spider):
    name = "shop"
    settings: ClassVar[dict[str, Any]] = {"robots": False, "retries": 0}

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"file": response.file, "size": response.size}

    def small(self, response: Response) -> Iterator[Any]:
        assert response.file is not None
        yield {"file": response.file, "small": response.file.thumbnail(20, 20)}

    def fails(self, response: Response) -> None:
        raise ValueError("no")

    def late(self, response: Response) -> Iterator[Any]:
        yield {"begins": "here"}
        assert response.file is not None
        for path in Path(str(response.meta["store"])).glob("files/sha256/*/*/*"):
            path.unlink()  # as pruning does
        response.file.open()

    def other(self, response: Response) -> None:
        raise FileGone("a file of another page", "0" * 64)

    async def more(self, response: Response) -> Any:
        assert self._inline is not None
        got = await self._inline.fetch(Request(f"{response.url}inline", save=True))
        return [{"file": got.file}]


def outcome_of(folder: Path, request: Request, *, cached: bool = False) -> Outcome:
    settings = replace(HERE, var_dir=folder, cache="on" if cached else "")

    async def main() -> Outcome:
        downloader = Downloader(settings)
        task = Tasks(Shop, downloader, settings=settings, replay=CacheReplay.of(settings))
        try:
            return await task.run(request)
        finally:
            await downloader.close()

    return asyncio.run(main())


def stored(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.glob("files/sha256/*/*/*")]


def test_a_file_is_an_item_of_its_page(site: Site, tmp_path: Path) -> None:
    site.answer("/a.png", PNG, headers={"Content-Type": "image/png"})
    outcome = outcome_of(tmp_path, Request(f"{site.url}/a.png", save=True))
    (item,) = items(outcome)
    assert (item["size"], item["file"]["media_type"]) == (len(PNG), "image/png")
    assert outcome.fetch.size == len(PNG)
    assert [file.sha256 for file in outcome.results.files] == [item["file"]["sha256"]]
    assert stored(tmp_path) == [PNG]


def test_a_thumbnail_belongs_to_the_page(site: Site, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    out = BytesIO()
    image.new("RGB", (400, 100)).save(out, "PNG")
    site.answer("/a.png", out.getvalue(), headers={"Content-Type": "image/png"})
    outcome = outcome_of(tmp_path, Request(f"{site.url}/a.png", "small", save=True))
    (item,) = items(outcome)
    assert [file.sha256 for file in outcome.results.files] == [
        item["file"]["sha256"],
        item["small"]["sha256"],
    ]
    assert len(stored(tmp_path)) == 2


@pytest.mark.parametrize(
    ("path", "options", "reason"),
    [
        ("/gone", {}, "http_404"),
        ("/a.png", {"save": ["application/pdf"]}, "file_type"),
        ("/a.png", {"max_body": 100}, "too_large"),
        ("/a.png", {"callback": "fails"}, "callback"),
    ],
)
def test_errors_name_no_file(
    site: Site, tmp_path: Path, path: str, options: dict[str, Any], reason: str
) -> None:
    site.answer("/a.png", PNG, headers={"Content-Type": "image/png"})
    request = Request(f"{site.url}{path}", **{"save": True, **options})
    outcome = outcome_of(tmp_path, request)
    assert (outcome.reason, outcome.results.files, outcome.results.items) == (reason, [], [])


def test_a_page_whose_file_was_pruned_is_fetched_again(site: Site, tmp_path: Path) -> None:
    site.answer("/a.png", PNG, headers={"Content-Type": "image/png"})
    request = Request(f"{site.url}/a.png", "late", save=True, meta={"store": str(tmp_path)})
    outcome = outcome_of(tmp_path, request)
    assert (outcome.verdict, outcome.reason) == (Verdict.DEFER, "file_gone")
    assert "was deleted from" in outcome.detail


def test_the_file_of_another_page_that_is_gone_is_an_error(site: Site, tmp_path: Path) -> None:
    site.answer("/", b"page")
    site.answer("/inline", PNG)
    outcome = outcome_of(tmp_path, Request(f"{site.url}/", "other"))
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "callback")


def test_files_of_inline_fetches_belong_to_the_page(site: Site, tmp_path: Path) -> None:
    site.answer("/", b"page")
    site.answer("/inline", PNG)
    outcome = outcome_of(tmp_path, Request(f"{site.url}/", "more"))
    assert [file.url for file in outcome.results.files] == [f"{site.url}/inline"]
    assert items(outcome)[0]["file"]["size"] == len(PNG)


def test_the_development_cache_leaves_files_alone(site: Site, tmp_path: Path) -> None:
    site.answer("/", PNG)
    for _ in range(2):
        outcome = outcome_of(tmp_path, Request(f"{site.url}/", save=True), cached=True)
        assert outcome.results.files
    assert len(site.seen) == 2


def test_the_test_kit_makes_a_file_of_the_body() -> None:
    request = Request("http://a.example/a.png", save=["image/*"])
    response = Response(request.url, 200, {"Content-Type": "image/png"}, PNG, request)
    (item,) = run(Shop, response).items
    assert item["file"]["size"] == len(PNG)
    refused = Response(request.url, 200, {"Content-Type": "image/png"}, b"<html>", request)
    assert run(Shop, refused).reason == "file_type"
