"""top: the cluster at a glance, live on a terminal, in lines elsewhere."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError
from django.utils import timezone
from rich.console import Console

from crawlframe.frontier import Completion, Frontier
from crawlservice.cli.process_group import die_with_parent
from crawlservice.management.commands import top
from crawlservice.management.commands.top import ClusterView
from crawlservice.models import Task
from crawlservice.tasks.submit import pause, submit
from tests.conftest import CHECKOUT
from tests.crawlservice.conftest import redis_at

Join = Callable[..., int]


def drawn(view: ClusterView, height: int = 40) -> str:
    out = StringIO()
    console = Console(file=out, width=200, height=height, markup=False, emoji=False)
    console.print(view)
    return out.getvalue()


def finish(frontier: Frontier, task: Task, generation: int) -> None:
    """Completes the only request of a task, with an item, and the task ends."""
    for root in frontier.claim(generation, generation, 10).requests:
        frontier.complete([Completion(root.rid, task.pk, root.host, False)])
    Task.objects.filter(pk=task.pk).update(
        state="finished", na=1, nf=1, items=4, finished_at=timezone.now()
    )


def test_it_shows_tasks_and_nodes(published: Frontier, join: Join) -> None:
    tasks = [submit("shop", {"city": "Ulm"}) for _ in range(3)]
    pause(tasks[0].pk)
    join("alpha", version="1f00c0ffee00", state="live", workers=3)
    join("beta", version="2f00c0ffee00", state="refused", problem="shop.py:3: \x1b[31mno\nmore")
    join("gamma", lease=-1, version="1f00c0ffee00")
    view = ClusterView()
    view.refresh()
    text = drawn(view)
    for word in ("shop #1", "paused", "shop #3", "alpha", "beta", "refused", "gamma", "offline"):
        assert word in text
    assert "ready 3   in flight 0   delayed 0   parked 0" in text
    assert "shop.py:3: \ufffd[31mno" in text
    assert "\x1b" not in text
    assert "2f00c0ffee00 (differs)" in text
    assert "tasks 3  nodes 2 of 3  ready 3  in flight 0  delayed 0  parked 0" in view.line()


def test_how_far_a_task_is_where_that_is_known(published: Frontier) -> None:
    new, like = submit("shop", {"city": "Ulm"}), submit("shop", {"city": "Bonn"})
    Task.objects.filter(pk=like.pk).update(previous_na=61)
    view = ClusterView()
    view.refresh()
    shown = {line.split()[1]: line.split() for line in drawn(view).splitlines() if "shop" in line}
    assert shown[f"#{new.pk}"][-8:] == ["-", "0", "1", "0", "0", "1", "0", "-"]
    assert shown[f"#{like.pk}"][-9:-6] == ["~0", "%", "0"]
    assert "~: estimated from the requests of the last run" in drawn(view)


def test_what_is_done_counts_once_also_when_the_task_ends(
    published: Frontier, join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr("crawlservice.tasks.progress.progress.time.monotonic", lambda: clock[0])
    old = submit("shop", {"city": "Ulm"})
    finish(published, old, join("alpha"))
    task = submit("shop", {"city": "Ulm"})
    view = ClusterView()
    view.refresh()
    assert view.rates() == (0, 0, 0)  # earlier pages do not count in this moment's rate
    finish(published, task, join("beta"))
    clock[0] += 2
    view.refresh()
    assert view.rates() == (0.5, 2, 0)
    assert view.tasks == []
    clock[0] += 60
    view.refresh()
    view.refresh()
    assert view.rates() == (0, 0, 0)
    assert view._meters == {}


def test_it_goes_on_without_redis_and_without_a_database(
    published: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit("shop", {"city": "Ulm"})
    view = ClusterView()
    with redis_at("redis://127.0.0.1:1/0"):
        view.refresh()
    assert "Redis does not answer" in drawn(view)
    assert "shop #1" in drawn(view)

    def away(_: object) -> None:
        raise OperationalError("the server closed\nthe connection")

    with monkeypatch.context() as patch:
        patch.setattr(top, "read", away)
        view.refresh()
    assert "the database failed: the server closed the connection" in view.line()
    view.refresh()
    assert view.problem == ""


def test_a_long_list_is_cut_where_the_terminal_ends(published: Frontier) -> None:
    for _ in range(30):
        submit("shop", {"city": "Ulm"})
    view = ClusterView()
    view.refresh()
    text = drawn(view, height=20)
    assert len(text.splitlines()) <= 20
    assert "shop #30" in text
    assert "shop #1 " not in text
    assert "… " in text


def test_without_a_terminal_it_writes_lines(published: Frontier) -> None:
    submit("shop", {"city": "Ulm"})
    out = StringIO()
    call_command("top", "-n", "2", "--every", "0.01", stdout=out)
    lines = out.getvalue().splitlines()
    assert len(lines) == 2
    assert all("pages/s" in line and "tasks 1" in line for line in lines)
    with pytest.raises(CommandError, match="--every 0 must be more than 0"):
        call_command("top", "--every", "0", stdout=out)


@pytest.mark.process
@pytest.mark.parametrize("by", ["q", "ctrl-c"])
def test_on_a_terminal_it_is_live_until_it_is_stopped(manage_env, by: str) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, str(CHECKOUT / "manage.py"), "top", "--every", "0.1"],
        env={**manage_env, "TERM": "xterm", "LINES": "30", "COLUMNS": "120"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        preexec_fn=die_with_parent(signal.SIGKILL),
    )
    os.close(theirs)
    seen, deadline, told = b"", time.monotonic() + 60, False
    try:
        while process.poll() is None and time.monotonic() < deadline:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    seen += os.read(ours, 65536)
                except OSError:  # its other end is closed
                    break
            if not told and seen.count(b"pages/s") > 4:
                told = True
                if by == "q":
                    os.write(ours, b"q")
                else:
                    process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0, seen.decode()
        assert told
        assert b"Traceback" not in seen
        assert b"\x1b[?1049h" in seen  # a screen of its own, and left again
        assert seen.rstrip().endswith(b"\x1b[?1049l") or b"\x1b[?1049l" in seen[-40:]
    finally:
        process.kill()
        process.wait()
        os.close(ours)
