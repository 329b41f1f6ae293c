"""A callback that waits or computes for long does not stop the other requests of its node."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from crawlservice.models import Task
from tests.conftest import Running
from tests.process.conftest import Look, OddWeb, Submit

PAGES = 40

pytestmark = pytest.mark.process


def test_other_requests_continue_beside_slow_callbacks(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    submit: Submit,
    look: Look,
    web: OddWeb,
    tmp_path: Path,
) -> None:
    node = start_manage("runcrawler", "--node", "one", "--workers", 1)
    tasks = ((1, False, "parse"), (20, False, "parse"), (1, False, "parse_async"))
    for number, (held, computes, callback) in enumerate((*tasks, (3, True, "parse"))):
        gate = tmp_path / f"gate{number}"
        pk = submit("slow", url=web.url, gate=gate, held=held, computes=computes, callback=callback)
        # The start, and all pages that are not held: with a single worker, which is in a callback.
        look.wait(pk, lambda task: look.counts(pk).nf == 1 + PAGES)  # noqa: B023
        assert look.counts(pk).nr == held
        gate.touch()
        task = look.wait(pk)
        assert (task.nf, task.ne) == (1 + PAGES + held, 0)
        assert len(look.pages(pk)) == 1 + PAGES + held
        urls = [item["url"] for item in look.items(pk)]
        assert len({*urls}) == len(urls) == PAGES + held
        assert look.finishes(pk) == 1
        assert node.output.count("others take over") > number


def test_the_others_go_on_when_a_thread_keeps_the_interpreters_lock(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    submit: Submit,
    look: Look,
    web: OddWeb,
    tmp_path: Path,
) -> None:
    """Its worker cannot run Python meanwhile; also if it is the worker for computing callbacks."""
    node = start_manage("runcrawler", "--node", "one", "--workers", 1)
    for number, computes in enumerate((False, True)):
        os.mkfifo(gate := tmp_path / f"gate{number}")
        pk = submit("hog", url=web.url, gate=gate, computes=computes)
        look.wait(pk, lambda task: look.counts(pk).nf == 2 + PAGES)  # noqa: B023
        assert look.counts(pk).nr == 1
        gate.write_text("go on")
        task = look.wait(pk)
        assert (task.nf, task.ne) == (3 + PAGES, 0)
        assert node.output.count("others take over") > number
        assert {page.deliveries for page in look.pages(pk).values()} == {0}


def test_what_waits_and_what_computes_on_one_node(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    submit: Submit,
    look: Look,
    web: OddWeb,
    tmp_path: Path,
) -> None:
    node = start_manage("runcrawler", "--node", "one", "--workers", 1)
    # No more callbacks wait at once than the host may be asked: they would take all slots.
    pk = submit("naps", url=web.url, pages=40)
    waiting = []  # pages that were fetched and have not ended, once it is known that they are slow

    def ended(task: Task) -> bool:
        fetched, done = web.hits.total(), look.counts(pk).nf
        if done > 5:
            waiting.append(1 + fetched - done)
        return task.state not in Task.ACTIVE

    assert look.wait(pk, ended).nf == 41
    assert max(waiting) <= 3 + 2  # the host may be asked for 3, and two are on their way

    # Callbacks that compute have a worker of their own.
    gate = tmp_path / "gate"
    pk = submit("computing", url=web.url, gate=gate)
    node.wait_for("is for callbacks that compute")
    (cpu_worker,) = re.findall(r"worker (\d+) is for callbacks", node.output)
    look.wait(pk, lambda task: int(cpu_worker) in _pids(look, pk, "heavy"))
    gate.touch()
    assert look.wait(pk).ne == 0
    assert int(cpu_worker) not in _pids(look, pk, "light")


def _pids(look: Look, pk: int, kind: str) -> set[int]:
    return {item["pid"] for item in look.items(pk) if kind in item["url"]}
