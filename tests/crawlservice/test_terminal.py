"""Terminal: durations, harmless text, the live view and its plain lines."""

from __future__ import annotations

from io import StringIO

import pytest
from django.db import OperationalError
from django.utils import timezone
from rich.console import Console

from crawlframe.frontier import Completion, Frontier
from crawlservice.cli import terminal
from crawlservice.cli.listing import plain
from crawlservice.cli.terminal import watch
from crawlservice.display import duration
from crawlservice.models import Task
from crawlservice.tasks.progress.progress import Progress
from crawlservice.tasks.submit import get_task, submit


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"), (0, "0:00"), (59.6, "1:00"), (75, "1:15"), (3600, "1:00:00"),
        (90061, "1 d 1:01:01"),
    ],
)  # fmt: skip
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_plain_text_keeps_letters_and_loses_control() -> None:
    assert plain("Häuser\n[x] \x1b[31m\x07\r\u202e") == "Häuser\n[x] \ufffd[31m\ufffd\ufffd\ufffd"


def finish(frontier: Frontier, task: Task) -> None:
    (root,) = frontier.claim(1, 1, 10).requests
    frontier.complete([Completion(root.rid, task.pk, root.host, False)])
    Task.objects.update(state="finished", na=1, nf=1, items=4, finished_at=timezone.now())


@pytest.mark.parametrize("terminal", [False, True])
def test_watching_shows_a_task_until_it_ends(published: Frontier, terminal: bool) -> None:
    task = submit("shop", {"city": "Ulm"})
    out = StringIO()
    environment = {"TERM": "xterm"}  # whatever the terminal of the tests is
    console = Console(
        file=out, force_terminal=terminal, width=120, markup=False, _environ=environment
    )
    seen: list[Progress] = []

    def each_time(progress: Progress) -> None:
        if not seen:
            finish(published, task)
        seen.append(progress)

    last = watch(task.pk, console, each_time)
    assert [progress.task.state for progress in seen] == ["running", "finished"]
    assert (last.ended, last.nf, last.items) == (True, 1, 4)
    text = out.getvalue()
    assert f"shop #{task.pk}" in text
    assert "requests 1  done 1  errors 0  left 0" in text
    assert ("\x1b" in text) is terminal


def test_what_is_raised_while_watching_ends_it(published: Frontier) -> None:
    task = submit("shop", {"city": "Ulm"})

    def stop(_: Progress) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError):
        watch(task.pk, Console(file=StringIO()), stop)


def test_watching_outlives_a_database_that_is_away_for_a_moment(
    published: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = submit("shop", {"city": "Ulm"})
    looks: list[int] = []

    def flaky(number: int) -> Task:
        looks.append(number)
        if len(looks) == 2:
            raise OperationalError("the server closed the connection")
        if len(looks) == 3:
            finish(published, task)
        return get_task(number)

    monkeypatch.setattr(terminal, "get_task", flaky)
    assert watch(task.pk, Console(file=StringIO())).ended
    assert looks == [task.pk] * 3
