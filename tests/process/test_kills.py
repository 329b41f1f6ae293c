"""kill -9 and SIGSTOP of real processes in the middle of a crawl. The simulation has these faults
at every step of the protocol; here the system ends, stops and reaps the processes."""

from __future__ import annotations

import signal
from collections.abc import Callable

import psutil
import pytest

from crawlservice.ledger.audit import audit
from tests.conftest import Running
from tests.process.conftest import Look, OddWeb, Submit, wait_for

pytestmark = pytest.mark.process

PAGES = 300


@pytest.mark.databases("postgres")
def test_a_worker_a_master_and_a_node_that_stands_still(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    submit: Submit,
    look: Look,
    web: OddWeb,
) -> None:
    def start(name: str) -> Running:
        return start_manage("runcrawler", "--node", name, "--workers", 1, "--concurrency", 8)

    def advance(share: float) -> None:
        look.wait(pk, lambda task: look.counts(pk).nf > share * PAGES)

    web.pages["/"] = [f"/page/{n}" for n in range(PAGES)]
    web.latency = 0.3
    one, two = start("one"), start("two")
    pk = submit("odd", url=web.url)

    # The youngest process of a node is its worker.
    advance(0.1)
    max(psutil.Process(one.process.pid).children(), key=lambda one: one.create_time()).kill()
    one.wait_for("died (SIGKILL)")

    # Its workers do not outlive a master, and another node replays it.
    advance(0.3)
    children = psutil.Process(one.process.pid).children()
    one.stop(signal.SIGKILL)
    _, alive = psutil.wait_procs(children, timeout=5)
    assert not alive, "workers outlive their master"
    assert look.counts(pk).in_progress > 8
    (heir,) = [node for node in look.frontier.leases.nodes() if node.node == "two"]
    wait_for(lambda: [n.node for n in look.frontier.leases.nodes()] == ["two"])

    # One that stands still for longer than its lease finds itself fenced, and starts over.
    start("three")
    advance(0.6)
    two.process.send_signal(signal.SIGSTOP)
    wait_for(lambda: heir.generation not in look.frontier.leases.left())
    two.process.send_signal(signal.SIGCONT)
    task = look.wait(pk)
    assert (task.state, task.na, task.nf, task.ne) == ("finished", PAGES + 2, PAGES + 2, 0)
    assert len(look.pages(pk)) == PAGES + 2
    assert len(look.items(pk)) == PAGES + 1
    assert look.finishes(pk) == 1
    assert audit(task) == []
    two.wait_for("starting as a new one")
    assert two.stop() == 0
