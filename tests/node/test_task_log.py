"""Logs and prints taken by a worker, and kept until they are written."""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote_plus

import pytest

from crawlframe import Request, Spider
from crawlframe.base.secret import Secret
from crawlframe.base.stats import OPENING, RUNNING
from crawlframe.node.worker.commit.task_log import (
    MAX_HELD,
    MAX_TEXT,
    MAX_URL,
    LogWriter,
    Printed,
    Running,
    TaskLog,
)
from crawlframe.run.ledger import LedgerAway, LogLine, TaskSpec
from crawlframe.run.outcome import Outcome
from tests.node.runner import Ready, Tasks

URL = "http://shop.example/7"


@pytest.fixture
def log() -> Iterator[TaskLog]:
    """Takes the records of the root logger."""
    log = TaskLog()
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.INFO)
    root.addHandler(log)
    yield log
    root.removeHandler(log)
    root.setLevel(level)


@pytest.fixture
def page() -> Iterator[Outcome]:
    """A request that runs in this context."""
    outcome = Outcome(b"r" * 16, 7, "shop.example", b"", 0, 0, url=URL)
    token = RUNNING.set(outcome)
    yield outcome
    RUNNING.reset(token)


def texts(log: TaskLog) -> list[str]:
    return [line.text for line in log.take()[0]]


def test_logins_of_urls_are_masked(log: TaskLog, page: Outcome) -> None:
    logging.getLogger("spiders.shop").warning("bad: %s", "https://ann:pw@a.example/")
    try:
        raise ValueError("https://ann:pw@a.example/")
    except ValueError:
        logging.getLogger("spiders.shop").exception("it raised")
    found = texts(log)
    assert found[0] == "bad: https://********@a.example/"
    assert "ann:pw" not in found[1]


def test_a_line_has_its_request_level_and_time(log: TaskLog, page: Outcome) -> None:
    logging.getLogger("spiders.shop").warning("%d of %d", 3, 4)
    (line,), lost = log.take()
    assert line[:1] + line[2:7] == (7, logging.WARNING, "spiders.shop", page.rid, URL, "3 of 4")
    assert line.at > 1.7e9
    assert lost == {}
    assert log.take() == ([], {})
    assert not log.waits


def test_the_spiders_own_log_begins_with_its_text(log: TaskLog, page: Outcome) -> None:
    class Shop(Spider):
        name = "shop"

    spider = Shop()
    spider._task = 7
    spider.log.info("100 %% of %s", "it")
    spider.log.info("plain")
    assert texts(log) == ["100 % of it", "plain"]


def test_a_traceback_is_part_of_the_text(log: TaskLog, page: Outcome) -> None:
    try:
        raise ValueError("no price")
    except ValueError:
        logging.getLogger("shop").exception("it failed")
    (text,) = texts(log)
    assert text.startswith("it failed\nTraceback")
    assert text.endswith("ValueError: no price")


def test_what_is_not_the_spiders_is_left_out(log: TaskLog) -> None:
    logging.getLogger("shop").warning("no request runs")
    token = RUNNING.set(Outcome(b"r", 7, "h", b"", 0, 0, url=URL))
    logging.getLogger("crawlframe.node.worker").warning("ours")
    logging.getLogger("shop").debug("below the level of the node")
    RUNNING.reset(token)
    assert texts(log) == []


def test_a_message_with_wrong_arguments_does_no_harm(
    log: TaskLog, page: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    log.emit(logging.LogRecord("shop", logging.INFO, "", 1, "%d", ("x",), None))
    assert texts(log) == []


def test_while_a_task_is_opened_lines_belong_to_it(log: TaskLog) -> None:
    token = OPENING.set(9)
    logging.getLogger("shop").info("made")
    OPENING.reset(token)
    (line,), _ = log.take()
    assert (line.task, line.rid, line.url) == (9, b"", "")


def test_long_lines_are_cut_and_old_ones_dropped_and_counted(log: TaskLog, page: Outcome) -> None:
    logging.getLogger("shop").info("x" * (MAX_TEXT + 5))
    assert texts(log) == [f"{'x' * MAX_TEXT}… (5 more characters)"]
    for number in range(MAX_HELD + 3):
        logging.getLogger("shop").info(str(number))
    lines, lost = log.take()
    assert [line.text for line in lines] == [str(n) for n in range(3, MAX_HELD + 3)]
    assert lost == {7: 3}


def test_secret_arguments_are_masked_wherever_they_appear(log: TaskLog, page: Outcome) -> None:
    secret = "pa ss/word"
    arguments: dict[str, Any] = {"login": {"password": Secret(secret)}, "pin": Secret("12")}
    log.learn(TaskSpec(7, "shop", arguments, 0))
    page.url = f"{URL}?p={quote_plus(secret)}"
    logging.getLogger("shop").info("%s and %s, 12", secret, page.url)
    (line,), _ = log.take()
    assert line.text == f"******** and {URL}?p=********, 12"
    assert line.url == f"{URL}?p=********"


def test_a_secret_at_the_place_where_a_line_is_cut_is_masked(log: TaskLog, page: Outcome) -> None:
    log.learn(TaskSpec(7, "shop", {"password": Secret("hunter22")}, 0))
    page.url = f"{URL}?{'x' * (MAX_URL - len(URL) - 4)}hunter22"
    logging.getLogger("shop").info("x" * (MAX_TEXT - 5) + "hunter22")
    (line,), _ = log.take()
    assert "hun" not in line.text + line.url
    printed: Any = Printed(io.StringIO(), log, "stdout", logging.INFO)
    print("x" * (MAX_TEXT - 1) + "hunter22", end="", file=printed)
    print(file=printed)
    (line,), _ = log.take()
    assert "hu" not in line.text


@pytest.mark.parametrize("runs", [True, False])
def test_what_is_printed_goes_to_both(log: TaskLog, runs: bool) -> None:
    token = RUNNING.set(Outcome(b"r", 7, "h", b"", 0, 0, url=URL) if runs else None)
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    printed: Any = Printed(out, log, "stdout", logging.INFO)
    print("one", 1, file=printed)
    print("two\nthree", end="", file=printed)
    print(file=printed)
    print("no end", end="", file=printed)
    RUNNING.reset(token)
    assert printed.encoding == "utf-8"
    assert printed.buffer.getvalue() == b"one 1\ntwo\nthree\nno end"
    lines, _ = log.take()
    assert [(line.logger, line.text) for line in lines] == [
        ("stdout", text) for text in ("one 1", "two", "three") if runs
    ]


class FakeLedger:
    def __init__(self) -> None:
        self.away = False
        self.lines: list[LogLine] = []
        self.lost: dict[int, int] = {}

    def add_log(self, lines: Sequence[LogLine], lost: Mapping[int, int]) -> None:
        if self.away:
            raise LedgerAway("no route")
        self.lines += lines
        self.lost |= lost


def test_lines_are_written_together_and_lost_ones_counted() -> None:
    ledger = FakeLedger()
    jobs: list[Callable[[], None]] = []
    writer = LogWriter(ledger, jobs.append, "crawl-2/4711")  # type: ignore[arg-type]
    here = Running(7, b"", "")
    writer.tick()
    assert jobs == []
    writer.lines.add(here, 20, "shop", "a", 1.0)
    writer.tick()
    writer.lines.add(here, 20, "shop", "b", 1.0)
    writer.tick()  # the first is still waiting
    assert len(jobs) == 1
    jobs.pop()()
    assert [line.text for line in ledger.lines] == ["a", "b"]
    ledger.away = True
    writer.lines.add(here, 20, "shop", "c", 1.0)
    writer.tick()
    jobs.pop()()
    ledger.away = False
    writer.tick()
    jobs.pop()()
    assert len(ledger.lines) == 2
    assert ledger.lost == {7: 1}


class Loud(Spider):
    name = "loud"
    settings = {"delay": 0}

    def __init__(self) -> None:
        logging.getLogger("shop.loud").warning("made")

    def opened(self, task: Any) -> None:
        self.log.warning("opened")

    def parse(self, response: Any) -> None:
        logging.getLogger("shop.loud").warning("parsed")


def test_a_worker_says_which_task_and_request_a_line_is_of(log: TaskLog) -> None:
    tasks = Tasks(Loud, Ready(body=b"x"), task=7)
    asyncio.run(tasks.run(Request(URL)))
    lines, _ = log.take()
    assert [(line.task, line.url, line.text) for line in lines] == [
        (7, "", "made"), (7, "", "opened"), (7, URL, "parsed"),
    ]  # fmt: skip
