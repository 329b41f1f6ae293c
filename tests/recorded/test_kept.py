"""A kept page is tried without any effect."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pytest

from crawlframe import JSONSpider, Request, Response, Spider
from crawlframe.recorded.kept import KeptTrial
from tests.recorded.site import SETTINGS

URL = "https://shop.example/a"
PLACE = Path(__file__).with_name("written-by-a-trial")


def tried(callback: Callable[[Any, Response], Any]) -> dict[str, Any]:
    """The results of a spider with this callback on a page."""

    class Tried(Spider):
        name = "tried"
        settings: ClassVar[dict[str, Any]] = {"robots": False}
        parse = callback  # type: ignore[assignment]

    request = Request(URL)
    response = Response(URL, 200, [], b"<h1>a</h1>", request)
    return KeptTrial(Tried, {}, SETTINGS).run(request, response)


@pytest.mark.parametrize(
    ("effect", "told"),
    [
        (lambda: PLACE.write_text("x"), "no file is written"),
        (lambda: PLACE.open("a"), "no file is written"),
        (lambda: os.open(PLACE, os.O_CREAT | os.O_RDWR), "no file is written"),
        (PLACE.mkdir, "no file is written"),
        (Path(__file__).unlink, "no file is written"),
        (lambda: Path(__file__).rename(PLACE), "no file is written"),
        (lambda: PLACE.symlink_to(__file__), "no file is written"),
        (lambda: subprocess.run([sys.executable, "-c", "1"], check=True), "no process is started"),
        (lambda: os.system("true"), "no process is started"),
        (os.fork, "no process is started"),
    ],
)
def test_files_and_processes_are_refused(effect: Callable[[], Any], told: str) -> None:
    found = tried(lambda self, response: effect())
    assert found["end"] == "error"
    assert told in found["trace"]
    assert not PLACE.exists()
    assert Path(__file__).exists()


def test_what_is_temporary_may_be_written(tmp_path: Path) -> None:
    def parse(self: Any, response: Response) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "inner" / "a"
            file.parent.mkdir()
            file.write_bytes(response.body)
            yield {"size": file.stat().st_size, "self": len(Path(__file__).read_text()) > 0}
        Path(os.devnull).write_text("x")

    assert tried(parse)["items"] == [{"size": 10, "self": True}]
    PLACE.write_text("x")  # allowed again
    PLACE.unlink()


def test_a_token_is_not_asked_for() -> None:
    class Api(JSONSpider):
        name = "api"
        start_urls = ("https://api.example/a",)
        settings: ClassVar[dict[str, Any]] = {"robots": False}

        def token_request(self) -> Request:
            return Request("https://api.example/token")

        def parse(self, response: Response, page: int = 1, before: bytes = b"") -> Any:
            yield {"a": response.json()["a"]}

    request = Request("https://api.example/a")
    response = Response(request.url, 200, [], b'{"a": 1}', request)
    assert KeptTrial(Api, {}, SETTINGS).run(request, response)["items"] == [{"a": 1}]


def test_an_error_with_half_a_character_can_be_sent() -> None:
    def parse(self: Any, response: Response) -> Any:
        raise ValueError("\ud83d")

    assert r"ValueError: \ud83d" in tried(parse)["trace"]


def test_what_a_page_leaves_running_ends_with_it() -> None:
    ended = []

    class Leaving(Spider):
        name = "leaving"
        settings: ClassVar[dict[str, Any]] = {"robots": False}

        async def parse(self, response: Response) -> Any:
            async def wait() -> None:
                try:
                    await asyncio.sleep(99)
                finally:
                    ended.append(response.url)

            self.task = asyncio.create_task(wait())
            await asyncio.sleep(0)
            yield {"a": 1}

    request = Request(URL)
    with closing(asyncio.new_event_loop()) as loop:
        trial = KeptTrial(Leaving, {}, SETTINGS, loop)
        for _ in range(2):
            found = trial.run(request, Response(URL, 200, [], b"", request))
            assert found["items"] == [{"a": 1}]
    assert ended == [URL, URL]
