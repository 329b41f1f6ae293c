"""The last request of a task, and the stats of its spider: once, whatever dies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crawlframe.node.worker.start.start_run import PART
from crawlservice.ledger.audit import audit
from crawlservice.tasks.progress.stats import TaskStats, of_tasks
from crawlservice.tasks.submit import cancel
from tests.conftest import Running
from tests.crawlservice.conftest import redis_at
from tests.process.conftest import Look, OddWeb, Submit

pytestmark = pytest.mark.process

PAGES = 60
COUNTERS = {"pages": PAGES, "sum": PAGES * (PAGES + 1) // 2, "dropped/odd number": PAGES // 2}
SUMMARY = {
    "outcome": "finished", "reason": "", "requests": PAGES + 1, "done": PAGES + 1,
    "items": PAGES // 2, "stats": COUNTERS, "maxima": {"largest": PAGES},
}  # fmt: skip


def summaries(look: Look, pk: int) -> list[Any]:
    return [item for item in look.items(pk) if "outcome" in item]


def check(look: Look, pk: int) -> None:
    task = look.wait(pk)
    assert (task.state, task.outcome, task.na, task.nf) == (
        "finished", "finished", PAGES + 2, PAGES + 2,
    )  # fmt: skip
    assert summaries(look, pk) == [SUMMARY]
    assert of_tasks([pk]) == {pk: TaskStats(COUNTERS, {"largest": PAGES})}
    assert look.pages(pk)["end:"].callback == "closed"
    assert look.finishes(pk) == 1
    assert look.frontier.audit() == audit(task) == []


# Each strikes once, one after another.
FAULTS = [
    "commit.after:2:kill", "complete.before:2:kill", "complete.after:2:error",
    "last.before:1:kill", "last.after:1:kill", "finish.after:1:kill",
]  # fmt: skip


@pytest.mark.databases("postgres")
def test_it_is_said_once_and_each_page_counts_once(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    submit: Submit,
    look: Look,
    redis_url: str,
    web: OddWeb,
    tmp_path: Path,
) -> None:
    web.latency = 0.02
    seen, marks = tmp_path / "seen", tmp_path / "marks"
    marks.mkdir()
    odd_env |= {"FAULT": ",".join(FAULTS), "FAULT_MARKS": str(marks)}
    node = start_manage("runcrawler", "--node", "one", "--workers", 2, "--concurrency", 8)
    pk = submit("ending", url=web.url, many=PAGES, seen=seen)
    check(look, pk)
    assert {*seen.read_text().splitlines()} == {f"{pk} {PAGES + 1}"}
    assert {mark.name for mark in marks.iterdir()} == {fault.replace(":", "_") for fault in FAULTS}

    # A worker that dies of it says it again.
    seen = tmp_path / "seen again"
    pk = submit("ending", url=web.url, many=PAGES, seen=seen, dies=True)
    check(look, pk)
    assert seen.read_text() == f"{pk} {PAGES + 1}\n" * 2

    # A spider closes its task. Its start is one part, so it has ended before the first page.
    web.latency = 0.3
    pk = submit("ending", url=web.url, many=PART - 1, enough=40)
    task = look.wait(pk)
    assert (task.state, task.outcome, task.reason) == ("finished", "finished", "page 40 is enough")
    assert task.cancelled > PART // 2
    assert task.na == len(look.pages(pk)) == PART + 1
    (summary,) = summaries(look, pk)
    assert (summary["outcome"], summary["reason"]) == ("finished", "page 40 is enough")
    assert look.finishes(pk) == 1
    assert look.frontier.audit() == audit(task) == []
    assert summary["stats"]["pages"] == task.nf - 2
    assert "spider.ending: task" in node.output
    assert "/page/40: enough with 40" in node.output

    # It is cancelled.
    pk = submit("ending", url=web.url, many=2000)
    look.wait(pk, lambda task: look.counts(pk).nf > 20)
    with redis_at(redis_url):
        cancel(pk)
    task = look.wait(pk)
    assert (task.state, task.outcome) == ("cancelled", "cancelled")
    assert [one["outcome"] for one in summaries(look, pk)] == ["cancelled"]
    assert audit(task) == []
