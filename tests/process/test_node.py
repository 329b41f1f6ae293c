"""One node: its stop, its refusals, and its survival of odd pages and odd spiders."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from io import StringIO
from pathlib import Path

import psutil
import pytest
from django.core.management import call_command

from tests.conftest import Running
from tests.crawlservice.conftest import redis_at
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


def test_what_ends_on_a_node_and_how_it_ends(
    odd_env: dict[str, str],
    start_manage: Start,
    manage: Manage,
    submit: Submit,
    look: Look,
    redis_url: str,
) -> None:
    node = start_manage("runcrawler", "--node", "same", "--workers", 1, "--concurrency", 8)
    for check in (_killers, _beside_a_killer, _kills_from_outside, _errors_of_callbacks):
        with closing(OddWeb()) as web:
            check(node, submit, look, web)
    with closing(OddWeb()) as web:
        _pause_resume_and_cancel(redis_url, submit, look, web)

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


def _errors_of_callbacks(node: Running, submit: Submit, look: Look, web: OddWeb) -> None:
    web.pages["/"] = ["/broken", "/quits", "/slow", "/gone", "/sick"]
    web.statuses = {"/gone": 404, "/sick": 500}
    pk = submit("odd", url=web.url)
    task = look.wait(pk)
    pages = look.pages(pk)

    def end(path: str) -> tuple[str, str, int]:
        page = pages[web.url + path]
        return page.state, page.reason, page.attempts

    assert end("broken") == ("error", "callback", 0)
    assert "as broken as can be" in pages[web.url + "broken"].detail
    assert "odd.py" in pages[web.url + "broken"].detail
    assert end("quits") == ("error", "callback", 0)
    assert end("slow") == ("done", "", 0)
    assert end("gone") == ("error", "http_404", 0)
    assert end("sick") == ("error", "http_500", 1)  # after one retry
    assert web.hits["/sick"] == 2
    items = look.items(pk)
    assert {"url": web.url + "slow", "slow": True} in items
    assert {"failed": web.url + "gone", "reason": "http_404"} in items
    assert {"failed": web.url + "sick", "reason": "http_500"} in items
    assert not any("never" in item for item in items)
    assert (task.nf, task.ne) == (3, 4)


def _pause_resume_and_cancel(redis_url: str, submit: Submit, look: Look, web: OddWeb) -> None:
    def run(verb: str) -> None:
        with redis_at(redis_url):
            call_command("task", verb, pk, stdout=StringIO())

    web.latency = 0.1
    pk = submit("odd", url=web.url, many=600)
    look.wait(pk, lambda task: look.counts(pk).nf > 10)
    run("pause")
    look.wait(pk, lambda task: look.frontier.counts(pk).in_progress == 0)  # type: ignore[union-attr]
    hits = sum(web.hits.values())
    time.sleep(0.6)
    assert sum(web.hits.values()) == hits
    run("resume")
    look.wait(pk, lambda task: sum(web.hits.values()) > hits)
    run("cancel")
    task = look.wait(pk)
    assert task.state == "cancelled"
    assert task.na == task.nf + task.ne == 602
    assert task.ne > 100
    reasons = {page.reason for page in look.pages(pk).values() if page.state == "error"}
    assert reasons == {"cancelled"}


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
    # First it holds the event loop, and then, alone, a thread.
    assert node.output.count("hangs and is killed") == 1
    assert node.output.count("does not end; the worker exits") == 1


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


LATER = """
from crawlframe import Request, Spider


class Later(Spider):
    name = "later"

    def start(self):
        yield Request({url!r})

    def {method}(self, response):
        yield {{"url": response.url}}
"""


def test_requests_of_missing_code_wait_and_come_back(
    odd_env: dict[str, str],
    start_manage: Start,
    submit: Submit,
    look: Look,
    web: OddWeb,
    tmp_path: Path,
) -> None:
    """Beside a module that does not import, which is named."""
    package = tmp_path / "some_spiders"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "bad.py").write_text("import nothing_of_this_name\n")
    odd_env |= {"CRAWLFRAME_SPIDERS": package.name, "PYTHONPATH": str(tmp_path)}
    module = package / "later.py"
    module.write_text(LATER.format(url=web.url, method="parse_it"))
    node = start_manage("runcrawler", "--workers", 1)
    pk = submit("later")
    look.wait(pk, lambda task: look.frontier.counts(pk).parked == 1)  # type: ignore[union-attr]
    assert set(look.frontier.parked(pk).values()) == {"spider 'later' has no method 'parse'"}
    assert "bad.py:1" in node.output
    assert "nothing_of_this_name" in node.output
    node.stop()
    module.unlink()
    node = start_manage("runcrawler", "--workers", 1)
    look.wait(pk, lambda task: "no spider 'later'" in str(look.frontier.parked(pk)))
    node.stop()
    module.write_text(LATER.format(url=web.url, method="parse"))
    start_manage("runcrawler", "--workers", 1)
    assert look.wait(pk).state == "finished"
    assert look.items(pk) == [{"url": web.url}]
