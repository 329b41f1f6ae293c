"""Pictures of a browser that are kept, and others that are not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from crawlframe.conf import Settings
from crawlframe.errors import ActionFailed, StoreError
from crawlframe.fetch.body import pictures
from crawlframe.fetch.body.pictures import PictureStore, pictures_of
from crawlframe.request.request import Request
from crawlframe.response.browser_response import Rendered, RenderedResponse
from crawlframe.response.picture import Picture
from crawlframe.response.response import Response
from crawlframe.run.outcome import Outcome, Verdict

URL = "https://shop.example/"


def outcome(verdict: Verdict, *given: Picture) -> Outcome:
    made = Outcome(b"r" * 16, 1, "h", b"record", 0, 0, url=URL)
    made.results.pictures = [*given]
    made.verdict = verdict
    return made


@pytest.mark.parametrize(
    ("verdict", "kinds"),
    [
        (Verdict.DONE, ["screenshot", "pdf"]),
        (Verdict.ERROR, ["failure"]),
        (Verdict.RETRY, []),
        (Verdict.PARK, []),
    ],
)
def test_the_verdict_decides(tmp_path: Path, verdict: Verdict, kinds: list[str]) -> None:
    store = PictureStore(Settings(files=str(tmp_path)))
    given = [Picture(kind, kind.encode()) for kind in ("screenshot", "pdf", "failure")]
    kept = asyncio.run(store.keep(outcome(verdict, *given))).results.pictures
    assert [one.kind for one in kept] == kinds
    for one in kept:
        assert one.file is not None
        assert (tmp_path / one.file.path).read_bytes() == one.kind.encode()
        assert one.data == b""


def test_a_large_picture_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "MAX_SIZE", 10)
    store = PictureStore(Settings(files=str(tmp_path)))
    given = outcome(Verdict.DONE, Picture("pdf", b"x" * 11), Picture("screenshot", b"x" * 10))
    assert [one.kind for one in asyncio.run(store.keep(given)).results.pictures] == ["screenshot"]


def test_a_store_that_fails_costs_the_picture_and_not_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = PictureStore(Settings(files=str(tmp_path)))

    def full(data: bytes, sha256: str) -> str:
        raise StoreError("no space left")

    monkeypatch.setattr(store._room, "keep", full)
    done = asyncio.run(store.keep(outcome(Verdict.DONE, Picture("screenshot", b"x"))))
    assert (done.verdict, done.results.pictures) == (Verdict.DONE, [])
    assert "the screenshot of https://shop.example/ is not kept: no space left" in caplog.text


def test_pictures_of_responses_and_errors() -> None:
    request = Request(URL, downloader="browser")
    response = RenderedResponse(URL, 200, {}, b"", request)
    response.rendered = Rendered(screenshot=b"s", picture=b"f")
    assert pictures_of(response) == [Picture("screenshot", b"s"), Picture("failure", b"f")]
    error = ActionFailed("no button")
    assert pictures_of(error) == []
    error.picture = b"f"
    assert pictures_of(error) == [Picture("failure", b"f")]
    assert pictures_of(Response(URL, 200, {}, b"", request)) == []
