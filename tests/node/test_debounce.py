"""When a code change is handled: once everything is quiet and git has released its lock."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from crawlframe.node.code import Code
from crawlframe.node.supervisor.debounce import BUSY_POLL, BUSY_WARN, PACKAGES_QUIET, Changes

QUIET = 0.25  # seconds
AT = 1000.0  # of the first change, seconds
SPIDER, HEAD, INSTALLED = Path("/c/shop.py"), Path("/c/.git/HEAD"), Path("/v/site-packages")


class Disk(Code):
    """Code with nothing but the state of git."""

    marks = frozenset([HEAD])
    busy = ""

    def __init__(self) -> None:
        pass


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def changes(disk: Disk) -> Changes:
    return Changes(disk, QUIET)


def test_without_a_change_nothing_is_due(changes: Changes) -> None:
    assert changes.left(AT) is None
    assert not changes.are_due(AT)
    assert not changes.go_ahead()


def test_it_is_due_when_all_has_been_quiet(changes: Changes) -> None:
    changes.add(AT, SPIDER, again=False)
    assert changes.left(AT) == QUIET
    changes.add(AT + 0.2, SPIDER, again=False)
    assert changes.left(AT + QUIET) == pytest.approx(0.2)
    assert not changes.are_due(AT + QUIET)
    assert changes.are_due(AT + 0.2 + QUIET)
    assert changes.take() == AT + 0.2
    assert changes.left(AT + 1) is None


def test_an_installation_takes_longer(changes: Changes) -> None:
    changes.add(AT, INSTALLED, again=False)
    changes.add(AT + 0.1, SPIDER, again=False)  # which does not shorten it
    assert not changes.are_due(AT + PACKAGES_QUIET - 0.1)
    assert changes.are_due(AT + PACKAGES_QUIET)
    assert changes.installed
    changes.take()
    assert not changes.installed


def test_the_code_is_loaded_ahead_once(changes: Changes, disk: Disk) -> None:
    changes.add(AT, SPIDER, again=False)
    disk.busy = "git"
    assert not changes.go_ahead()
    disk.busy = ""
    assert changes.go_ahead() == AT
    changes.add(AT + 0.1, SPIDER, again=False)
    assert not changes.go_ahead()
    changes.take()
    changes.add(AT + 1, SPIDER, again=False)
    assert changes.go_ahead() == AT + 1


def test_git_is_waited_for(changes: Changes, disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    changes.add(AT, SPIDER, again=False)
    disk.busy, now = "git; if none runs, remove /c/.git/index.lock", AT + QUIET
    assert not changes.are_due(now)
    assert changes.left(now) == pytest.approx(BUSY_POLL)
    while now < AT + QUIET + BUSY_WARN:
        assert not changes.are_due(now)
        now += BUSY_POLL
    assert caplog.text == ""
    with caplog.at_level(logging.WARNING):
        assert not changes.are_due(now + BUSY_POLL)
    assert "remove /c/.git/index.lock" in caplog.text
    disk.busy = ""
    assert changes.are_due(now + 2 * BUSY_POLL)
    changes.take()
    caplog.clear()
    disk.busy, now = "git", now + 2 * BUSY_WARN
    changes.add(now, SPIDER, again=False)
    assert not changes.are_due(now + QUIET)
    assert caplog.text == ""  # that was another lock


@pytest.mark.parametrize(
    ("path", "refused", "again"),
    [(SPIDER, True, True), (SPIDER, False, False), (HEAD, True, False)],
)
def test_what_was_refused_is_tried_again_when_code_changes(
    changes: Changes, path: Path, refused: bool, again: bool
) -> None:
    changes.add(AT, path, again=refused)
    assert changes.again == again
    changes.note(AT)
    assert changes.again == again
    changes.take()
    assert not changes.again


def test_what_cannot_be_dealt_with_is_due_again_soon(changes: Changes) -> None:
    changes.add(AT, SPIDER, again=True)
    changes.wait(AT + QUIET)
    assert not changes.are_due(AT + QUIET)
    assert changes.are_due(AT + QUIET + BUSY_POLL)
    assert changes.again
