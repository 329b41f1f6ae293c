"""A host's slots are taken while it is fetched from, not while the results are written."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing

import pytest

from crawlservice.models import Page
from tests.conftest import Running
from tests.process.conftest import LONGEST_WAIT, Look, OddWeb, Submit

pytestmark = [
    pytest.mark.process,
    pytest.mark.parametrize("database", ["sqlite"], indirect=True),
]


def test_a_slow_commit_holds_no_slot_of_the_host(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    submit: Submit,
    look: Look,
    web: OddWeb,
    database: str,
) -> None:
    web.pages["/"] = [f"/page/{n}" for n in range(60)]
    web.latency = 0.05
    start_manage("runcrawler", "--workers", 1)
    pk = submit("narrow", url=web.url)
    look.wait(pk, lambda task: look.counts(pk).nf > 2)
    path = database.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # no other connection writes now
        deadline = time.monotonic() + LONGEST_WAIT
        while web.hits.total() < 61:
            assert time.monotonic() < deadline, f"{web.hits.total()} of 61 pages were fetched"
            time.sleep(0.05)
        unwritten = web.hits.total() - Page.objects.filter(task_id=pk).count()
        assert unwritten > 2  # more than may be in flight
        assert look.frontier.audit() == []
        other.execute("ROLLBACK")
    task = look.wait(pk)
    assert (task.nf, task.ne) == (62, 0)
    assert max(web.hits.values()) == 1
    assert web.most == 2
