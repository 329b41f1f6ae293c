"""Django signals: from the outbox, at least once, whatever a receiver raises."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from crawlframe.conf import Settings
from crawlframe.frontier import Frontier
from crawlservice import signals
from crawlservice.chores.threads import ChoreThread
from crawlservice.connections.installation import check
from crawlservice.models import Event, Installation, Schedule, Task
from crawlservice.steward.steward import Steward
from crawlservice.webhooks import chores
from crawlservice.webhooks.chores import send_new
from tests.crawlservice.chores import work_of
from tests.crawlservice.test_steward import turn_until

pytestmark = pytest.mark.usefixtures("service")
Received = list[tuple[str, dict[str, Any]]]


NAMES = (
    "task_ended", "schedule_failed", "node_offline", "node_back", "host_held", "host_resumed",
)  # fmt: skip


@pytest.fixture
def installed(service: Frontier) -> None:
    check(service)


@pytest.fixture
def received() -> Iterator[Received]:
    """The signals received; the first receiver of each signal raises."""
    found: Received = []

    def receiver(name: str) -> Callable[..., None]:
        def note(sender: object, signal: object, **given: Any) -> None:
            found.append((name, given))

        return note

    def broken(sender: object, **given: Any) -> None:
        raise ValueError("a receiver of the team's own")

    connected = []
    for name in NAMES:
        signal = getattr(signals, name)
        for one in (broken, receiver(name)):
            signal.connect(one, weak=False)
            connected.append((signal, one))
    yield found
    for signal, one in connected:
        signal.disconnect(one)


def task(spider: str = "shop") -> Task:
    return Task.objects.create(spider=spider, state="finished", seeds=b"")


@pytest.mark.usefixtures("installed")
def test_each_event_is_sent_once_from_the_first_look_on(received: Received) -> None:
    Event.objects.create(task=task(), kind="finished", outcome="finished")
    assert send_new() == 0
    ended = task("books")
    schedule = Schedule.objects.create(name="daily", spider="shop", every=60)
    Event.objects.create(
        task=ended, kind="finished", outcome="finished_with_errors", reason="1 of 3"
    )
    Event.objects.create(schedule=schedule, kind="schedule_failed")
    Event.objects.create(node="alpha", kind="node_offline")
    Event.objects.create(node="alpha", kind="node_back")
    Event.objects.create(host="shop.example", kind="host_held")
    Event.objects.create(host="shop.example", kind="host_resumed")
    assert send_new() == 6
    assert send_new() == 0
    names = [name for name, _ in received]
    assert tuple(names) == NAMES
    told = received[0][1]
    assert (told["task"], told["task"].spider) == (ended, "books")
    assert (told["outcome"], told["reason"]) == ("finished_with_errors", "1 of 3")
    assert told["event"].task_id == ended.pk
    assert (received[1][1]["schedule"], received[2][1]["node"]) == (schedule, "alpha")
    assert received[4][1]["host"] == received[5][1]["host"] == "shop.example"


@pytest.mark.usefixtures("installed")
def test_who_dies_after_sending_sends_again(
    received: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_new()
    Event.objects.create(task=task(), kind="failed", outcome="failed")
    send, sent = signals.send, []

    def and_die(event: Event) -> None:
        send(event)
        sent.append(event)
        if len(sent) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(signals, "send", and_die)
    with pytest.raises(KeyboardInterrupt):
        send_new()
    assert send_new() == 1
    assert [name for name, _ in received] == ["task_ended"] * 2


def test_the_leading_steward_sends_them(
    service: Frontier, received: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chores, "IDLE_SECONDS", 0.01)
    steward = Steward(Settings(), service)
    steward.tick()
    turn_until(steward, lambda: Installation.objects.get().signalled is not None)
    Event.objects.create(task=task(), kind="cancelled", outcome="cancelled")
    turn_until(steward, lambda: bool(received))
    [sender] = [thread for thread in threading.enumerate() if thread.name == "signals"]
    steward.resign()
    sender.join(timeout=10)
    assert not sender.is_alive()


def test_without_receivers_nothing_is_done(service: Frontier) -> None:
    steward = Steward(Settings(), service)
    work_of(steward, "signals", ChoreThread).tick()
    assert "signals" not in [thread.name for thread in threading.enumerate()]


APP = (Path(__file__).parents[2] / "docs/schedules.md").read_text().split("## Signals")[1]
WANTED_PROGRAM = (
    "import django; django.setup(); from crawlservice import signals; print(signals.wanted())"
)


@pytest.mark.parametrize("settings", ["settings", "node_settings"])
@pytest.mark.parametrize(
    ("apps", "words"),
    [
        ("", "False"),
        ("shop_alerts.apps.Alerts", "True"),
        ("shop_alert", "CRAWLFRAME_APPS: there is no module 'shop_alert' to import"),
    ],
)
def test_an_app_of_ones_own_receives_them(
    tmp_path: Path, settings: str, apps: str, words: str
) -> None:
    package = tmp_path / "shop_alerts"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "apps.py").write_text(APP.split("```")[1].removeprefix("python"))
    done = subprocess.run(
        [sys.executable, "-c", WANTED_PROGRAM],
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": f"crawlservice.{settings}",
            "CRAWLFRAME_APPS": apps,
            "CRAWLFRAME_VAR": str(tmp_path / "var"),
            "PYTHONPATH": f"{Path.cwd()}:{tmp_path}",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert words in done.stdout + done.stderr
