"""record: a folder of pages of a real site, the report about it, and a second recording."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from io import StringIO
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from crawlservice.management.commands import spider as command
from crawlservice.management.commands.spider import PLUGIN
from tests.recorded.site import SETTINGS, TOKEN, Site, running

SPIDERS = """
from crawlframe import Request, Secret, Spider

class Shop(Spider):
    name = "shop"
    token: Secret
    def start(self, site: str, pages: int = 1):
        for page in range(pages):
            yield Request(f"{site}/shelf?n={page}", headers={"Authorization": self.token.reveal()})
        yield Request(f"{site}/private")
    def parse(self, response):
        yield from response.follow_all(css="a.book", callback=self.book)
    def book(self, response):
        yield {"title": response.css("h1::text").get(), "price": response.css("b::text").get()}

class Once(Spider):
    name = "once"
    settings = {"robots": False}
    seen = []
    def start(self, site: str):
        yield Request(f"{site}/shelf")
    def parse(self, response):
        if self.seen:
            raise KeyError("again")
        self.seen.append(1)
        yield {"a": 1}

class Nested(Spider):
    name = "nested"
    settings = {"robots": False}
    def start(self, site: str, tokens: list[Secret]):
        yield Request(f"{site}/shelf")
    def parse(self, response): ...

class Gone(Spider):
    name = "gone"
    settings = {"retries": 0}
    def start(self, site: str):
        yield Request(f"{site}/book/gone")
    def parse(self, response): ...
"""

Record = Callable[..., str]


@pytest.fixture
def site() -> Iterator[Site]:
    with running() as site:
        yield site


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    package = tmp_path / "recorded_spiders"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "shop.py").write_text(SPIDERS)
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == package.name]:
        del sys.modules[name]  # the next test has another package of this name


@pytest.fixture
def record(
    project: Path, settings_with: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> Record:
    monkeypatch.syspath_prepend(project)
    monkeypatch.setattr(command.PageRecorder, "pause", 0.0)
    own = replace(
        settings.CRAWLFRAME, spiders="recorded_spiders", allow_private=SETTINGS.allow_private
    )
    settings_with(CRAWLFRAME=own, REDIS_URL="redis://127.0.0.1:1")

    def run(*words: object) -> str:
        out = StringIO()
        call_command("spider", "record", *map(str, words), stdout=out, stderr=out)
        return out.getvalue()

    return run


def test_pytest_is_told_of_the_plugin_where_nothing_else_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    point = EntryPoint("crawlframe", PLUGIN, "pytest11")
    monkeypatch.setattr(command, "entry_points", lambda group: [point])
    assert command._plugin() == ""
    monkeypatch.setattr(command, "entry_points", lambda group: [])
    assert command._plugin() == f"-p {PLUGIN} "
    assert importlib.util.find_spec(PLUGIN) is not None


def test_a_recording_is_written_and_recorded_again(
    record: Record, site: Site, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = record("shop", "-a", f"site={site.url}", "-a", f"token={TOKEN}", "--pages", 5)
    folder = project / "tests" / "recorded" / "shop"
    assert f"wrote 5 pages to {folder}" in said
    assert f"{site.url}/private: not recorded: {site.url}/robots.txt forbids" in said
    assert f"{site.url}/book/emma: items: 1, requests: 0" in said
    assert "stripped: argument token, cookie session, header Authorization" in said
    assert re.search(rf"Test them: python -m pytest (-p {PLUGIN} )?{folder}", said)
    assert TOKEN not in said
    assert site.asked["/private"] == 0
    head = json.loads((folder / "recording.json").read_text())
    assert head["arguments"] == {"site": site.url, "token": "stripped-token"}

    # Again: with the same arguments; fields ignored by hand stay so.
    head["ignore"] = ["items.title"]
    (folder / "recording.json").write_text(json.dumps(head))
    monkeypatch.setattr(command, "read_secret", lambda prompt: TOKEN)
    site.price = "13.00"
    said = record("shop", "--pages", 4)
    assert "changed: book-emma: items[0].price: '12.50' → '13.00'" in said
    assert f"gone: old-emma ({site.url}/old/emma)" in said
    assert json.loads((folder / "recording.json").read_text())["ignore"] == ["items.title"]
    assert not [*folder.glob("old-emma*")]
    assert "the results are the same as before" in record("shop", "--pages", 4)


def test_the_folder_can_be_chosen(record: Record, site: Site, tmp_path: Path) -> None:
    words = ("-a", f"site={site.url}", "-a", "token=abcdef", "--pages", 1, "-o", tmp_path / "x")
    record("shop", *words)
    assert (tmp_path / "x" / "start.page.json").exists()


def test_bad_input_is_refused_and_nothing_is_lost(
    record: Record, site: Site, project: Path
) -> None:
    for words, told in (
        (["shopp"], "did you mean 'shop'"),
        (["shop", "-a", f"site={site.url}"], "token"),
        (["shop", "-a", "nothing=1"], "nothing"),
        (["gone", "-a", f"site={site.url}"], "no page was fetched well, so nothing is recorded"),
        (["shop", "--pages", "0"], "must be a number of pages from 1 to 1000"),
    ):
        with pytest.raises(CommandError, match=told):
            record(*words)
    assert not (project / "tests").exists()


def test_a_folder_with_something_else_is_left_alone(
    record: Record, site: Site, tmp_path: Path
) -> None:
    words = ("-a", f"site={site.url}", "-a", "token=abcdef", "--pages", 1, "-o", tmp_path / "x")
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "notes.txt").write_text("mine")
    with pytest.raises(CommandError, match=r"has other files, such as notes\.txt"):
        record("shop", *words)
    (tmp_path / "x" / "notes.txt").unlink()
    record("shop", *words)
    (tmp_path / "x" / "notes.txt").write_text("mine")
    record("shop", *words)  # by now it is a recording
    assert (tmp_path / "x" / "notes.txt").read_text() == "mine"
    with pytest.raises(
        CommandError, match="has the recorded pages of the spider shop, not of gone"
    ):
        record("gone", "-a", f"site={site.url}", "-o", tmp_path / "x")
    assert (tmp_path / "x" / "start.page.json").exists()


def test_pages_that_do_not_replay_are_no_recording(
    record: Record, site: Site, project: Path
) -> None:
    with pytest.raises(
        CommandError, match=r"no page leads to the same.*/shelf: .*'done' → 'error'"
    ):
        record("once", "-a", f"site={site.url}")
    assert not (project / "tests").exists()


def test_secrets_within_arguments_are_to_be_given_again(
    record: Record, site: Site, project: Path
) -> None:
    record("nested", "-a", f"site={site.url}", "-a", 'tokens=["abcdef"]')
    with pytest.raises(CommandError, match="argument 'tokens' has secrets"):
        record("nested")


def test_a_host_is_left_alone_between_two_requests(
    record: Record, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("crawlframe.recorded.recorder.asyncio.sleep", sleep)
    monkeypatch.setattr(command.PageRecorder, "pause", 7.0)
    site.robots = "User-agent: *\nCrawl-delay: 9"
    record("shop", "-a", f"site={site.url}", "-a", "token=abcdef", "--pages", 3)
    assert len([pause for pause in slept if 8 < pause <= 9]) == 2
