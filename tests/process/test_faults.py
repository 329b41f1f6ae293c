"""Processes die, fail and lose their connections at the named points of the protocol; nothing is
lost, stored twice or reported twice."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from crawlservice.ledger.audit import audit
from crawlservice.models import Task
from tests.conftest import Running
from tests.process.conftest import LONGEST_WAIT, Look, OddWeb, Submit

pytestmark = [pytest.mark.process, pytest.mark.timeout(3 * LONGEST_WAIT)]

PAGES = 300

# Each strikes once, in the process that gets there first for the nth time.
WORKERS_DIE = [
    "fetch.before:20:kill", "fetch.after:31:kill", "parse.before:12:kill", "parse.after:25:kill",
    "commit.before:3:kill", "commit.after:4:kill", "known.before:2:kill", "known.after:2:kill",
    "complete.before:3:kill", "complete.after:5:kill", "finish.before:1:kill",
    "finish.after:1:kill", "close.before:1:kill",
]  # fmt: skip
MASTERS_DIE = [
    "begin.after:1:kill", "lease.before:3:kill", "claim.before:9:kill", "claim.after:14:kill",
    "dispatch.before:8:kill", "dispatch.after:11:kill", "replay.before:1:kill",
    "replay.after:1:kill",
]  # fmt: skip
LINKS_BREAK = [
    "claim.before:5:droplink", "claim.after:7:error", "lease.after:2:error", "known.after:3:error",
    "complete.before:2:droplink", "complete.after:3:error", "complete.after:6:droplink",
    "commit.before:5:error", "commit.after:6:error", "commit.after:8:droplink",
    "close.after:1:error", "finish.after:1:error", "release.after:1:error", "fetch.after:9:error",
    "claim.after:30:delay", "complete.before:9:delay", "commit.before:9:delay",
]  # fmt: skip


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "faults", [WORKERS_DIE, MASTERS_DIE, LINKS_BREAK], ids=["workers", "masters", "links"]
)
def test_a_crawl_through_faults_ends_with_the_exact_set(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    submit: Submit,
    look: Look,
    web: OddWeb,
    tmp_path: Path,
    faults: list[str],
) -> None:
    web.latency = 0.02
    marks = tmp_path / "marks"
    marks.mkdir()
    odd_env |= {"FAULT": ",".join(faults), "FAULT_MARKS": str(marks)}
    names = ("one", "two")
    nodes: dict[str, Running] = {}
    deadline = time.monotonic() + LONGEST_WAIT

    def wait(ready: Callable[[], bool]) -> None:
        """Nodes that died are started again."""
        while not ready():
            for name in names:
                if name not in nodes or nodes[name].process.poll() is not None:
                    options = ["--node", name, "--workers", 2, "--concurrency", 8]
                    nodes[name] = start_manage("runcrawler", *options)
            assert time.monotonic() < deadline
            time.sleep(0.1)

    wait(lambda: "odd" in look.frontier.spiders.all())
    pk = submit("odd", url=web.url, many=PAGES)
    wait(lambda: look.task(pk).state not in Task.ACTIVE and not look.frontier.open_tasks())
    task = look.task(pk)
    assert (task.state, task.na, task.ne) == ("finished", PAGES + 2, 0)
    assert (len(look.pages(pk)), len(look.items(pk))) == (PAGES + 2, PAGES + 1)
    assert look.finishes(pk) == 1
    assert audit(task) == []
    assert look.frontier.audit() == []
    struck = {mark.name.replace("_", ":") for mark in marks.iterdir()}
    assert len(struck) >= 0.7 * len(faults), f"these never came: {sorted({*faults} - struck)}"
