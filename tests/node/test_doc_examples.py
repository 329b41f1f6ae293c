"""Examples of the docs do as the text says."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from pathlib import Path

import pytest

from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.spider.task_info import Summary
from tests.node.runner import Runs, items, registry_of

DOCS = Path(__file__).parents[2] / "docs"
BOOKS = b"""<div class=book><b> Emma </b><i>10</i></div><div class=book><b>Ulysses</b><i>0</i></div>
<div class=book><b>Ada</b><i>20</i></div>"""


def example(page: str, heading: str) -> str:
    """The first code block below the heading."""
    text = (DOCS / page).read_text().split(f"# {heading}\n")[1]
    return text.split("```")[1].removeprefix("python")


def page(worker: Runs) -> Outcome:
    outcome = asyncio.run(worker.page())
    assert outcome.verdict is Verdict.DONE, outcome.detail
    return outcome


def test_pipelines(tmp_path: Path) -> None:
    registry = registry_of(tmp_path, example("guide/items.md", "Pipelines"))
    outcome = page(Runs(registry, "shop", BOOKS))
    assert items(outcome) == [
        {"title": "Emma", "price": 10.0, "euros": 10.5},
        {"title": "Ada", "price": 20.0, "euros": 21.0},
    ]
    assert outcome.results.stats is not None
    assert outcome.results.stats.counters == {"dropped/no price": 1}


def test_logs_and_stats(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    registry = registry_of(tmp_path, example("reference/spiders.md", "Logs and stats"))
    body = b"<table><tr><td>1</td></tr><tr><td>2</td></tr></table>"
    with caplog.at_level(logging.INFO, "spider.prices"):
        outcome = page(Runs(registry, "prices", body))
    assert items(outcome) == [{"row": "1"}, {"row": "2"}]
    assert outcome.results.stats is not None
    assert (outcome.results.stats.counters, outcome.results.stats.maxima) == (
        {"rows": 2}, {"longest page": len(body)},
    )  # fmt: skip
    assert caplog.messages == ["task 7 http://shop.example/a: 2 rows"]


def test_the_begin_and_the_end_of_a_task(tmp_path: Path) -> None:
    registry = registry_of(
        tmp_path, example("reference/spiders.md", "The begin and the end of a task")
    )
    worker = Runs(registry, "catalogue", BOOKS)
    outcome = page(worker)
    assert [item["session"] for item in items(outcome)] == ["crawl-7"] * 2
    assert outcome.results.closing == "enough books on one page"
    day = datetime(2026, 1, 1, tzinfo=UTC)
    reason = outcome.results.closing
    worker.summary = Summary(
        7, "catalogue", {}, "finished", reason, day, day, 2, 2, 0, 0, 2, {"books": 2}, {}
    )
    last = asyncio.run(worker.end())
    assert items(last) == [{"outcome": "finished", "reason": reason, "books": 2}]
