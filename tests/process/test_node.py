"""One node: its stop, its refusals, and its survival of odd pages and odd spiders."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import closing

import psutil
import pytest

from tests.conftest import Running
from tests.process.conftest import LONGEST_WAIT, Look, OddWeb, Submit

pytestmark = pytest.mark.process


@pytest.fixture
def database(new_database: Callable[[str], str]) -> str:
    """The results here are the same on both databases; other crawl tests use both."""
    return new_database("sqlite")


Manage = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., Running]


def test_stopping_finishes_what_is_in_flight(
    odd_env: dict[str, str], start_manage: Start, submit: Submit, look: Look, web: OddWeb
) -> None:
    web.pages["/"] = [f"/page/{n}" for n in range(40)]
    web.latency = 0.4
    node = start_manage("runcrawler", "--workers", 1, "--concurrency", 8)
    pk = submit("odd", url=web.url)
    look.wait(pk, lambda task: look.counts(pk).nf >= 10)
    assert node.stop(signal.SIGHUP) == 0  # the end of its terminal
    counts = look.frontier.counts(pk)
    assert counts is not None
    assert counts.in_progress == 0
    assert 0 < counts.nr < 40
    assert sum(web.hits.values()) == counts.nf - 1  # every fetch counted, none was thrown away
    node = start_manage("runcrawler", "--workers", 1, "--once")
    look.wait(pk)
    assert node.process.wait(LONGEST_WAIT) == 0
    assert max(web.hits.values()) == 1


def test_a_second_signal_gives_everything_back_at_once(
    odd_env: dict[str, str], start_manage: Start, submit: Submit, look: Look, web: OddWeb
) -> None:
    odd_env["CRAWLFRAME_GRACE"] = "60"
    web.pages["/"] = [f"/page/{n}" for n in range(20)]
    web.delays = {f"/page/{n}": 100 for n in range(20)}
    node = start_manage("runcrawler", "--workers", 1)
    pk = submit("odd", url=web.url)
    look.wait(pk, lambda task: web.hits.total() == 21)
    node.process.send_signal(signal.SIGTERM)
    node.wait_for("stopping: finishing")
    assert node.stop(signal.SIGTERM) == 0
    counts = look.frontier.counts(pk)
    assert counts is not None
    assert (counts.in_progress, counts.ready) == (0, 20)
    assert look.frontier.audit() == []


def test_killers_and_a_second_node_of_the_name(
    odd_env: dict[str, str],
    start_manage: Start,
    manage: Manage,
    submit: Submit,
    look: Look,
) -> None:
    node = start_manage("runcrawler", "--node", "same", "--workers", 1, "--concurrency", 8)
    for check in (_killers, _beside_a_killer, _kills_from_outside):
        with closing(OddWeb()) as web:
            check(node, submit, look, web)

    second = manage("runcrawler", "--workers", 1, "--node", "same")
    assert second.returncode == 1
    assert "node name 'same' is in use by process" in second.stderr
    assert "--node" in second.stderr
    assert "Traceback" not in second.stderr

    # The master's end ends its children.
    children = psutil.Process(node.process.pid).children()
    assert len(children) >= 3
    node.stop(signal.SIGKILL)
    _, alive = psutil.wait_procs(children, timeout=3)
    assert alive == []


def _killers(node: Running, submit: Submit, look: Look, web: OddWeb) -> None:
    """A page that kills workers ends as poison, alone."""
    for number, page in enumerate(("killer", "crasher"), 1):
        web.pages["/"] = [f"/{page}", *(f"/page/{n}" for n in range(30))]
        pk = submit("odd", url=web.url)
        task = look.wait(pk)
        pages = look.pages(pk)
        killer = pages[web.url + page]
        assert (killer.state, killer.reason, killer.deliveries) == ("error", "poison", 2)
        assert killer.detail == "it killed 2 workers, the last one while it ran alone"
        assert killer.request is not None
        assert (task.nf, task.ne) == (32, 1)
        # Only the page whose callback was running is blamed, not its neighbours.
        assert {page.deliveries for page in pages.values() if page is not killer} == {0}
        assert node.output.count("isolated ") >= number
        assert node.output.count(" died (") == 2 * number


def _beside_a_killer(node: Running, submit: Submit, look: Look, web: OddWeb) -> None:
    """Requests whose callbacks ran at the same moment cannot be told apart; alone, they can."""
    web.pages["/"] = ["/sleeper", "/sleeper?1", "/sleeper?2", *(f"/page/{n}" for n in range(9))]
    web.pages["/page/1"] = ["/killer"]
    web.delays["/page/1"] = 1.0
    pk = submit("odd", url=web.url)
    task = look.wait(pk)
    pages = look.pages(pk)
    assert (task.nf, task.ne) == (14, 1)
    assert (pages[web.url + "killer"].reason, pages[web.url + "killer"].deliveries) == ("poison", 2)
    sleepers = [page for url, page in pages.items() if "sleeper" in url]
    assert {page.state for page in sleepers} == {"done"}
    assert max(page.deliveries for page in sleepers) == 1


def _kills_from_outside(node: Running, submit: Submit, look: Look, web: OddWeb) -> None:
    """A worker that is killed while it fetches does not blame the page, however often."""
    web.pages["/"] = [f"/page/{n}" for n in range(5)]
    web.delays = gate = {f"/page/{n}": 1.0 for n in range(5)}
    died = node.output.count(" died (SIGKILL)")
    pk = submit("odd", url=web.url)
    for kill in range(died + 1, died + 4):
        look.wait(pk, lambda task: look.counts(pk).in_progress == 5)
        children = psutil.Process(node.process.pid).children()
        max(children, key=lambda one: one.create_time()).kill()
        look.wait(pk, lambda task, n=kill: node.output.count(" died (SIGKILL)") == n)  # type: ignore[misc]
    gate.clear()
    task = look.wait(pk)
    assert (task.nf, task.ne) == (7, 0)
    assert {page.deliveries for page in look.pages(pk).values()} == {0}


def test_an_endless_callback_is_killed(
    odd_env: dict[str, str], start_manage: Start, submit: Submit, look: Look, web: OddWeb
) -> None:
    odd_env["CRAWLFRAME_DEADLINE"] = "2"
    web.pages["/"] = ["/endless", "/page/1"]
    node = start_manage("runcrawler", "--workers", 1)
    pk = submit("odd", url=web.url)
    task = look.wait(pk)
    assert (task.nf, task.ne) == (3, 1)
    assert look.pages(pk)[web.url + "endless"].reason == "poison"
    # First it holds the event loop, and then, alone, a thread; on a busy machine perhaps again it.
    killed = node.output.count("hangs and is killed")
    assert killed + node.output.count("does not end; the worker exits") == 2
    assert killed >= 1


def test_a_worker_that_grew_is_replaced(
    odd_env: dict[str, str], start_manage: Start, submit: Submit, look: Look, web: OddWeb
) -> None:
    odd_env["CRAWLFRAME_MAX_MEMORY"] = "180"
    web.pages["/"] = ["/leaks", *(f"/page/{n}" for n in range(50))]
    node = start_manage("runcrawler", "--workers", 1)
    pk = submit("odd", url=web.url)
    task = look.wait(pk)
    assert (task.nf, task.ne) == (53, 0)
    node.wait_for("is replaced")
    again = submit("odd", url=web.url + "page/1")
    assert look.wait(again).nf == 2
    assert web.hits.total() == 53
    assert node.stop() == 0


@pytest.mark.parametrize(
    ("body", "end"),
    [
        # A minute or more of Lexbor.
        (b"<p %b>" % b" ".join(b"a%d" % n for n in range(120_000)), "a parser that does not end"),
        # Each of the last <p> makes 6,000 <b> again.
        (b"".join(b"<p><b a=%d>" % n for n in range(6_000)) + b"<p>x" * 6_000, "too much memory"),
    ],
    ids=["time", "memory"],
)
def test_a_worker_whose_parser_does_not_end_ends(
    odd_env: dict[str, str], start_manage: Start, submit: Submit, look: Look, web: OddWeb,
    body: bytes, end: str,
) -> None:  # fmt: skip
    odd_env["CRAWLFRAME_MAX_MEMORY"] = "200"
    web.bodies["/hostile"] = body + b"x" * (64 << 10)
    web.pages["/"] = ["/hostile", *(f"/page/{n}" for n in range(50))]
    node = start_manage("runcrawler", "--workers", 1)
    pk = submit("odd", url=web.url)
    task = look.wait(pk)
    assert (task.nf, task.ne) == (52, 1)
    assert look.pages(pk)[web.url + "hostile"].reason == "too_complex"
    web.pages["/nap"] = ["/hostile"]
    # On a busy machine the callback holds up the event loop, and the worker is replaced anyway.
    for _ in range(3):
        again = look.wait(submit("odd", url=web.url + "nap"))
        assert (again.nf, again.ne) == (2, 1)
        time.sleep(1.5)  # until the next heartbeat
        if end in node.output:
            break
    node.wait_for(end)
    assert look.wait(submit("odd", url=web.url + "page/1")).nf == 2
    assert node.stop() == 0
