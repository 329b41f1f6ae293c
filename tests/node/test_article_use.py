"""Callbacks that read ``response.article`` do not hold the event loop."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

from crawlframe import Request, Response, Spider
from crawlframe.node.running_marks import STEPS
from crawlframe.node.worker.crawl import article_use
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.text import article as article_module
from crawlframe.text.article import Extracted
from tests.node.runner import HTML, URL, Ready, Tasks, items

EXTRACTION = 0.03  # seconds, of the stand-in below
PAGES = 20
PARAGRAPH = "A paragraph of an article, which has some length, with <a href=/x>a link</a> in it. "
PAGE = f"<html lang=en><body><article><h1>Title</h1>{f'<p>{PARAGRAPH * 3}</p>' * 100}</article>"


def item_of(response: Response) -> dict[str, Any]:
    return {"text": response.article.text, "thread": threading.current_thread().name}


class Plain(Spider):
    name = "plain"

    def parse(self, response: Response) -> Any:
        yield {"text": response.article.text, "thread": threading.current_thread().name}

    def nested(self, response: Response) -> Any:
        return [{"text": (lambda: response.article)().text} for _ in range(1)]

    def hidden(self, response: Response) -> Any:
        yield item_of(response)

    def article(self, response: Response) -> Any:
        yield Request(URL, self.article)

    def other(self, response: Response) -> Any:
        yield response.follow("/b", self.article)

    async def waits(self, response: Response) -> Any:
        article = await response.article
        yield {"text": article.text, "thread": threading.current_thread().name}

    async def blocks(self, response: Response) -> Any:
        yield item_of(response)


@pytest.fixture
def extractions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads that extract articles; each extraction takes EXTRACTION."""
    threads: list[str] = []

    def extract(*given: Any) -> Extracted:
        threads.append(threading.current_thread().name)
        until = time.thread_time() + EXTRACTION
        while time.thread_time() < until:
            pass
        return Extracted("its text")

    monkeypatch.setattr(article_module, "part", lambda name: SimpleNamespace(extract=extract))
    article_use._advise.cache_clear()
    return threads


def tasks() -> Tasks:
    return Tasks(Plain, Ready(body=PAGE.encode(), headers=HTML))


def run(task: Tasks, callback: str, pages: int = 1) -> list[Outcome]:
    async def main() -> list[Outcome]:
        return await asyncio.gather(
            *(task.run(Request(f"{URL}{n}", callback)) for n in range(pages))
        )

    outcomes = asyncio.run(main())
    assert {(one.verdict, one.detail) for one in outcomes} == {(Verdict.DONE, "")}
    return outcomes


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("parse", True), ("nested", True), ("hidden", False), ("article", False), ("other", False),
        ("waits", False), ("blocks", False), ("none", False),
    ],
)  # fmt: skip
def test_what_a_callback_names(name: str, names: bool) -> None:
    assert article_use._names_article(Plain, name) is names


@pytest.fixture
def real_extractions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads that run trafilatura."""
    pytest.importorskip("trafilatura")
    threads: list[str] = []
    kept = article_module.part

    def part(name: str) -> Any:
        threads.append(threading.current_thread().name)
        return kept(name)

    monkeypatch.setattr(article_module, "part", part)
    return threads


@pytest.mark.parametrize("which", ["extractions", "real_extractions"])
@pytest.mark.parametrize("callback", ["parse", "waits"])
def test_the_event_loop_ticks_while_articles_are_extracted(
    request: pytest.FixtureRequest, which: str, callback: str
) -> None:
    """Both ways: in a plain callback, which is in a thread, and awaited."""
    extractions: list[str] = request.getfixturevalue(which)

    async def main() -> tuple[list[Outcome], int, bool]:
        task, ticks, ended = tasks(), 0, False

        async def beat() -> None:
            nonlocal ticks
            while not ended:
                await asyncio.sleep(0.001)
                ticks += 1

        heart = asyncio.create_task(beat())
        ours = threading.current_thread().name
        found = await asyncio.gather(
            *(task.run(Request(f"{URL}{n}", callback)) for n in range(PAGES))
        )
        ended = True
        await heart
        return found, ticks, ours in extractions

    found, ticks, in_loop = asyncio.run(main())
    assert [one.verdict for one in found] == [Verdict.DONE] * PAGES
    assert len(extractions) == PAGES
    assert not in_loop
    assert ticks >= PAGES  # if extractions held the loop, it would tick at most between them


def test_one_that_was_not_foreseen_is_in_a_thread_the_second_time(extractions: list[str]) -> None:
    task = tasks()
    first, second = (items(run(task, "hidden")[0])[0]["thread"] for _ in range(2))
    assert first == threading.current_thread().name
    assert second.startswith("callback")


def test_an_async_one_that_does_not_wait_is_named_in_the_log_once(
    extractions: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    task = tasks()
    for _ in range(2):
        run(task, "blocks")
    (line,) = (record.message for record in caplog.records if record.levelno == logging.WARNING)
    assert line.startswith("callback blocks of task 1 extracts response.article in the event loop")
    assert line.endswith("write: article = await response.article")


def test_the_request_is_marked_while_its_article_is_extracted(extractions: list[str]) -> None:
    task = tasks()
    (outcome,) = run(task, "waits")
    slots = {slot for slot, rid in task.marks if rid == outcome.rid}
    assert any(slot > STEPS for slot in slots)  # of a thread


RESPONSES: list[weakref.ref[Response]] = []


class Reading(Spider):
    name = "reading"

    async def parse(self, response: Response) -> Any:
        RESPONSES.append(weakref.ref(response))
        article = await response.article
        yield {"text": article.text, "data": response.data.json_ld}

    def plain(self, response: Response) -> Any:
        RESPONSES.append(weakref.ref(response))
        yield {"text": response.article.text, "data": response.data.json_ld}


@pytest.mark.parametrize("name", ["parse", "plain"])
def test_a_page_is_freed_after_its_callback_without_garbage_collection(name: str) -> None:
    async def crawl() -> list[bool]:
        tasks = Tasks(Reading, Ready(body=PAGE.encode(), headers=HTML))
        for number in range(3):
            await tasks.run(Request(f"{URL}{number}", name))
        return [one() is None for one in RESPONSES]

    RESPONSES.clear()
    gc.disable()
    try:
        freed = asyncio.run(crawl())
    finally:
        gc.enable()
    assert freed[:2] == [True, True]  # the loop may still hold the last response
