"""Recordings of a real site replay without it, with the same result, and hold no secret."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pytest

from crawlframe import CloseTask, JSONSpider, Request, Response, Secret, Spider
from crawlframe.actions import KeepPage
from crawlframe.recorded.folder import Recording, RecordingError
from crawlframe.recorded.record import Made, make
from crawlframe.recorded.recorder import RecordedVisit, Recorder
from crawlframe.recorded.replay import NotReplayed, RecordingReplay
from crawlframe.robots.rules import Rules
from tests.recorded.site import CSRF, PICTURE, REFRESH, SESSION, SETTINGS, TOKEN, Site, running


@dataclass
class Place:
    shelf: int
    day: date
    price: Decimal


class Shop(Spider):
    name = "shop"
    settings: ClassVar[dict[str, Any]] = {"delay": 0, "retries": 1}
    key: Secret

    def start(self, site: str, shelves: int = 1) -> Iterator[Request]:
        for n in range(shelves):
            place = Place(n, date(2026, 1, 31), Decimal("1.50"))
            yield Request(
                f"{site}/shelf?n={n}&api_key={self.key.reveal()}",
                self.shelf,
                headers={"Authorization": f"Bearer {self.key.reveal()}"},
                cb_kwargs={"place": place, "pair": (1, 2)},
                meta={"password": "hunter2", "n": n},
            )

    def shelf(self, response: Response, place: Place, pair: tuple[int, int]) -> Iterator[Any]:
        yield {"title": response.css("title::text").get(), "day": place.day, "pair": list(pair)}
        assert isinstance(pair, tuple)
        yield from response.follow_all(css="a.book", callback=self.book, errback=self.failed)
        yield response.form({"q": "x", "password": "hunter2"}, self.found)
        yield response.follow("/cover.png", self.cover, save=True)
        yield response.follow("/cut", self.book, errback=self.failed, retries=0)
        yield response.follow("/stocked", self.stocked)
        yield response.follow("/raises", self.raises)

    def book(self, response: Response) -> Iterator[Any]:
        self.stats.inc("books")
        yield {
            "title": response.css("h1::text").get(),
            "price": response.css("b::text").get(),
            "from": [*response.redirects],
        }

    def found(self, response: Response) -> Iterator[Any]:
        yield {"found": response.css("h1::text").get(), "sent": response.css("p::text").getall()}

    def cover(self, response: Response) -> Iterator[Any]:
        assert response.file is not None
        with response.file.open() as file:
            yield {"file": response.file, "size": len(file.read())}

    async def stocked(self, response: Response) -> Any:
        assert self._inline is not None
        got = await self._inline.fetch(Request(response.urljoin("/stock.json")))
        return [{"stock": got.json()["stock"], "at": time.time()}]

    def raises(self, response: Response) -> Any:
        raise KeyError("price")

    def failed(self, error: Any) -> Iterator[Any]:
        yield {"failed": error.reason}


def record(
    kind: type[Spider], folder: Path, pages: int = 20, check: Any = None, **arguments: Any
) -> tuple[Made, list[RecordedVisit]]:
    settings = replace(SETTINGS, files=str(folder.parent / "files"))
    recorder = Recorder(kind, arguments, settings, check=check, pause=0)
    visits = recorder.run(pages)
    return make(folder, kind, arguments, visits, SETTINGS), visits


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A recording of a site that is gone."""
    with running() as site:
        folder = tmp_path_factory.mktemp("recorded") / "shop"
        made, _ = record(Shop, folder, site=site.url, key=Secret(TOKEN))
    made.recording.write()
    return made


@pytest.fixture
def made(shop: Made, tmp_path: Path) -> Made:
    """A copy to change."""
    folder = shutil.copytree(shop.recording.directory, tmp_path / "shop")
    return shop._replace(recording=Recording.read(folder))


def test_all_kinds_of_pages_replay_without_the_site(made: Made) -> None:
    recording = made.recording
    assert made.refused == []
    assert next(iter(recording.pages)) == "start"
    results = {
        name: RecordingReplay(recording, Shop).run(name).snapshot for name in recording.pages
    }
    items = {name: result.get("items", []) for name, result in results.items()}
    assert items["book-emma"] == [{"title": "emma", "price": "12.50", "from": []}]
    [passed] = items["old-emma"][0]["from"]
    assert passed.endswith("/old/emma")
    assert items["book-gone"] == [{"failed": "http_404"}]
    assert items["cut"] == [{"failed": "connection_lost"}]
    assert items["cover.png"][0]["size"] == len(PICTURE)
    assert items["stocked"][0]["stock"] == 3
    [search] = [name for name in items if name.startswith("search")]
    assert items[search][0]["found"] == "Found"
    assert results["raises"]["raised"] == "KeyError: 'price'"
    assert made.raised == {"raises": "KeyError: 'price'"}
    assert results["book-emma"]["stats"] == {"books": 1}
    [shelf] = [name for name in items if name.startswith("shelf")]
    assert len(results[shelf]["requests"]) == 8
    assert results["start"]["requests"][0]["cb_kwargs"]["pair"] == {"$tuple": [1, 2]}
    # Only fields that change from run to run are not compared.
    assert recording.head.ignore == ["items.at"]
    for name, result in results.items():
        for snapshot in (result, recording.results[name]):
            for item in snapshot.get("items", ()):
                item.pop("at", None)
        assert result == recording.results[name], name


def test_no_secret_is_in_any_file(made: Made) -> None:
    for path in made.recording.directory.iterdir():
        for secret in (TOKEN, SESSION, CSRF, "hunter2", "s3cr3t"):
            assert secret.encode() not in path.read_bytes(), (path.name, secret)
    assert made.stripped == [
        "argument key", "cookie session", "field csrf_token", "field password",
        "header Authorization", "parameter api_key", "value password",
    ]  # fmt: skip
    start = (made.recording.directory / "start.result.json").read_text()
    assert "api_key=stripped" in start


def test_a_body_is_a_file_of_its_kind(made: Made) -> None:
    folder = made.recording.directory
    assert (folder / "book-emma.html").read_bytes() == b"<h1>emma</h1><b>12.50</b>"
    assert (folder / "cover.png.png").read_bytes() == PICTURE
    assert (folder / "stocked.2.json").read_bytes() == b'{"stock": 3}'
    assert (folder / ".gitattributes").read_text() == "* -text\n"
    assert not (folder.parent / ".gitattributes").exists()  # which may be the root of a project


def test_pages_are_spread_over_the_callbacks(site: Site, tmp_path: Path) -> None:
    made, visits = record(
        Shop, tmp_path / "shop", pages=6, site=site.url, shelves=30, key=Secret(TOKEN)
    )
    callbacks = [visit.request.callback or "" for visit in visits if visit.request]
    assert sorted(callbacks) == ["book", "cover", "found", "raises", "shelf", "stocked"]
    assert len(made.recording.pages) == 7
    again, _ = record(
        Shop, tmp_path / "shop", pages=6, site=site.url, shelves=30, key=Secret(TOKEN)
    )
    assert list(again.recording.pages) == list(made.recording.pages)


def test_what_robots_txt_forbids_is_neither_fetched_nor_recorded(
    site: Site, tmp_path: Path
) -> None:
    class Curious(Spider):
        name = "curious"
        settings: ClassVar[dict[str, Any]] = {"delay": 0}

        def start(self, site: str) -> Iterator[Request]:
            yield Request(f"{site}/private/a")
            yield Request(f"{site}/shelf")

        def parse(self, response: Response) -> Any:
            return []

    class Check:
        def __init__(self, fetch: Any) -> None:
            self.rules = Rules(site.url, site.robots, "crawlframe")

        async def __call__(self, url: str) -> None:
            from crawlframe.errors import RobotsForbidden

            if not self.rules.allows(url):
                raise RobotsForbidden(f"robots.txt forbids {url}")

    made, _ = record(Curious, tmp_path / "curious", check=Check, site=site.url)
    [refused] = made.refused
    assert refused.url == f"{site.url}/private/a"
    assert "robots.txt forbids" in refused.why
    assert list(made.recording.pages) == ["start", "shelf"]
    assert site.asked["/private/a"] == 0


def test_what_cannot_be_replayed_is_refused_by_name(site: Site, tmp_path: Path) -> None:
    class Odd(Spider):
        name = "odd"
        settings: ClassVar[dict[str, Any]] = {"delay": 0, "robots": False}
        seen = 0

        def start(self, site: str) -> Iterator[Request]:
            yield Request(f"{site}/live", self.live, actions=[KeepPage()])
            yield Request(f"{site}/out", self.out)
            yield Request(f"{site}/one", self.counts)
            yield Request(f"{site}/two", self.counts)

        async def live(self, response: Response) -> Any:
            await response.page()

        def out(self, response: Response) -> Any:
            port = int(response.url.split(":")[2].split("/")[0])
            try:
                socket.create_connection(("127.0.0.1", port), 5).close()
            except OSError:
                raise
            return [{"out": True}]

        def counts(self, response: Response) -> Any:
            self.seen += 1
            return [{"seen": True}] * self.seen

    made, _ = record(Odd, tmp_path / "odd", site=site.url)
    why = {one.url.rpartition("/")[2]: one.why for one in made.refused}
    assert "uses the page of a browser" in why["live"]
    assert (
        f"127.0.0.1:{site.server_port}: recorded pages are replayed without network" in why["out"]
    )
    assert "does not lead to the same when it is replayed alone" in why["two"]
    assert list(made.recording.pages) == ["start", "one"]


def test_a_token_that_another_page_fetched_is_found(site: Site, tmp_path: Path) -> None:
    class Api(JSONSpider):
        name = "api"
        start_urls = (f"{site.url}/a.json", f"{site.url}/b.json")
        settings: ClassVar[dict[str, Any]] = {"delay": 0, "robots": False}
        secret: Secret

        def token_request(self) -> Request:
            return Request(
                f"{site.url}/token", form={"client_secret": self.secret.reveal(), "user": "ann"}
            )

        def parse(self, response: Response, page: int = 1, before: bytes = b"") -> Any:
            yield {"url": response.url, "sent": response.css("p::text").get()}

    made, _ = record(Api, tmp_path / "api", secret=Secret("cl13nt-s3cr3t"))
    made.recording.write()
    assert site.asked["POST /token"] == 1
    assert made.refused == []
    recording = Recording.read(tmp_path / "api")
    for name in recording.pages:
        assert RecordingReplay(recording, Api).run(name).snapshot == recording.results[name]
    assert len(recording.pages) == 3
    for path in recording.directory.iterdir():
        for secret in (TOKEN, REFRESH, "cl13nt"):
            assert secret not in path.read_text()


def test_a_spider_that_closes_its_task_is_recorded_so_far(site: Site, tmp_path: Path) -> None:
    class Closing(Spider):
        name = "closing"
        settings: ClassVar[dict[str, Any]] = {"delay": 0, "robots": False}

        def start(self, site: str) -> Iterator[Request]:
            yield Request(f"{site}/a")
            yield Request(f"{site}/b")

        def parse(self, response: Response) -> Any:
            raise CloseTask("enough")

    made, _ = record(Closing, tmp_path / "closing", site=site.url)
    assert list(made.recording.pages) == ["start", "a"]
    assert made.recording.results["a"]["closing"] == "enough"


def test_no_file_has_the_name_of_another_one(site: Site, tmp_path: Path) -> None:
    class Names(Spider):
        name = "names"
        settings: ClassVar[dict[str, Any]] = {"delay": 0, "robots": False}

        def start(self, site: str) -> Iterator[Request]:
            for path in ("recording", "v1", "v1.2", "V1.2", "a", "a.page", "v1.2"):
                yield Request(f"{site}/{path}", dont_filter=True, meta={"path": path})

        async def parse(self, response: Response) -> Any:
            assert self._inline is not None
            got = await self._inline.fetch(Request(response.urljoin("/stock.json")))
            return [{"url": response.url, "stock": got.json()["stock"]}]

    made, _ = record(Names, tmp_path / "names", site=site.url)
    made.recording.write()
    assert made.refused == []
    recording = Recording.read(tmp_path / "names")
    assert len({name.lower() for name in recording.pages}) == len(recording.pages) >= 7
    for name in recording.pages:
        assert RecordingReplay(recording, Names).run(name).snapshot == recording.results[name]


def test_an_error_with_half_a_character_is_recorded(site: Site, tmp_path: Path) -> None:
    class Halves(Spider):
        name = "halves"
        settings: ClassVar[dict[str, Any]] = {"delay": 0, "robots": False}

        def start(self, site: str) -> Iterator[Request]:
            yield Request(f"{site}/a")

        def parse(self, response: Response) -> Any:
            raise ValueError("\ud83d")

    made, _ = record(Halves, tmp_path / "halves", site=site.url)
    made.recording.write()
    assert Recording.read(tmp_path / "halves").results["a"]["raised"] == r"ValueError: \ud83d"


# -- replaying -------------------------------------------------------------------------------------


def test_changed_code_shows_in_the_result(made: Made) -> None:
    class Changed(Shop):
        def book(self, response: Response) -> Iterator[Any]:
            for item in super().book(response):
                yield {**item, "price": None}

    replay = RecordingReplay(made.recording, Changed)
    assert replay.run("book-emma").snapshot["items"][0]["price"] is None


def test_code_that_asks_for_what_was_not_recorded_is_told_so(made: Made) -> None:
    class Elsewhere(Shop):
        async def stocked(self, response: Response) -> Any:
            assert self._inline is not None
            return [(await self._inline.fetch(Request(response.urljoin("/other.json")))).json()]

    with pytest.raises(NotReplayed, match=r"asks for GET http\S+/other.json, which was not rec"):
        RecordingReplay(made.recording, Elsewhere).run("stocked")


def test_a_missing_callback_is_named(made: Made) -> None:
    class Renamed(Shop):
        book = None  # type: ignore[assignment]

    with pytest.raises(NotReplayed, match=r"page book-emma \(http.*no method 'book'"):
        RecordingReplay(made.recording, Renamed).run("book-emma")
    with pytest.raises(RecordingError, match="has no page 'nothing'; it has start"):
        RecordingReplay(made.recording, Shop).run("nothing")


def test_a_connection_that_the_author_swallows_still_fails(made: Made) -> None:
    class Quiet(Shop):
        def book(self, response: Response) -> Iterator[Any]:
            try:
                socket.getaddrinfo("shop.example", 443)
            except Exception:
                pass
            yield {}

    with pytest.raises(NotReplayed, match=r"reached for shop\.example"):
        RecordingReplay(made.recording, Quiet).run("book-emma")
    assert socket.getaddrinfo("127.0.0.1", 80)  # allowed again


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("recording.json", '{"spider": "shop", "format": 9}', "format 9, of a newer Crawlframe"),
        ("recording.json", '{"spider": "shop", "ignored": []}', "contains unknown field `ignored`"),
        ("start.page.json", '{"exchange": []}', "contains unknown field `exchange`"),
        ("recording.json", "{", "recording.json is damaged: Input data was truncated"),
        ("start.page.json", '{"exchanges": 3}', "start.page.json is damaged: Expected `array`"),
        ("start.result.json", None, r"start.result.json cannot be read: No such file"),
        ("book-emma.html", None, r"book-emma.html cannot be read: No such file"),
    ],
)
def test_damage_is_named(made: Made, file: str, text: str | None, words: str) -> None:
    path = made.recording.directory / file
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(RecordingError, match=words):
        RecordingReplay(Recording.read(made.recording.directory), Shop).run("book-emma")


def test_a_recording_without_pages_is_no_recording(tmp_path: Path) -> None:
    (tmp_path / "recording.json").write_text('{"spider": "shop"}')
    with pytest.raises(RecordingError, match="has no pages"):
        Recording.read(tmp_path)


def test_pages_that_are_gone_are_deleted(made: Made) -> None:
    folder = made.recording.directory
    del made.recording.pages["book-emma"]
    made.recording.write()
    (folder / "notes.txt").write_text("of somebody else")
    made.recording.write()
    assert not [*folder.glob("book-emma*")]
    assert [*folder.glob("old-emma*")]
    assert (folder / "notes.txt").exists()
