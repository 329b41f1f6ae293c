"""LocalNode: stops its process gracefully, and reports how one ended that should not have."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.test import override_settings

from crawlservice.cli import utility
from crawlservice.cli.local_node import LAST_LINES, LocalNode, last_lines

pytestmark = pytest.mark.process


class Command:
    """In place of the command: says how it was started, then behaves as the test wants."""

    def __init__(self, words: list[str], behave: Callable[[], None]) -> None:
        own_group = os.getpgid(0) == os.getpid()
        print(json.dumps([words[1:], os.environ.get("EXTRA"), own_group]), flush=True)
        self.execute = behave


def graceful() -> None:
    def leave(*_: object) -> None:
        print("draining", flush=True)
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, leave)
    print("ready", flush=True)
    time.sleep(60)


def full_port() -> None:
    for number in range(50):
        print("line", number)
    sys.exit("port in use")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[LocalNode]:
    with override_settings(VAR_DIR=tmp_path / "var"), graceful_node() as node:
        yield node


def graceful_node(behave: Callable[[], None] = graceful) -> LocalNode:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(utility, "Utility", lambda words: Command(words, behave))
        return LocalNode()


def wait_for(node: LocalNode, text: str) -> None:
    while text not in node.log.read_text():
        assert node.exit_code() is None, node.log.read_text()


def test_it_is_a_node_of_its_own_session_and_leaves_when_asked(node: LocalNode) -> None:
    with node.run("crawl-7", "n.crawl", workers=3, concurrency=9, env={"EXTRA": "x"}):
        wait_for(node, "ready")
        assert node.exit_code() is None
    assert node.exit_code() == 0
    lines = node.log.read_text().splitlines()
    arguments, extra, own_group = json.loads(lines[0])
    assert arguments == [
        "runcrawler", "--once", "--node", "n.crawl", "--workers", "3", "--concurrency", "9",
    ]  # fmt: skip
    assert (extra, own_group) == ("x", True)
    assert lines[1:] == ["ready", "draining"]
    node.stop()


def test_a_failing_block_stops_it_too(node: LocalNode) -> None:
    def fail() -> None:
        with node.run("crawl-7", "n.crawl"):
            wait_for(node, "ready")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert node.exit_code() == 0


def test_without_a_run_it_ends_with_the_context(tmp_path: Path) -> None:
    with graceful_node() as node:
        pass
    assert node.exit_code() is not None
    assert not [*tmp_path.iterdir()]


def test_it_ends_with_a_command_that_is_killed() -> None:
    read, write = os.pipe()
    if (command := os.fork()) == 0:
        node = graceful_node()
        os.write(write, str(node.process.pid).encode())
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(command, 0)
    os.close(write)
    with os.fdopen(read, "rb") as line:
        assert int(line.read())  # up to its end, when the node has closed it too


def test_an_early_end_is_reported_with_the_end_of_the_log(tmp_path: Path) -> None:
    with (
        override_settings(VAR_DIR=tmp_path),
        graceful_node(full_port) as node,
        node.run("crawl-7", "n"),
    ):
        node.process.join(30)
        words = str(node.ended_early("task 7 is running"))
    assert "ended with code 1 while task 7 is running" in words
    assert str(node.log) in words
    assert "port in use" in words
    assert "line 49" in words
    assert "line 30" not in words


def test_a_killed_node_is_reported_as_killed(node: LocalNode) -> None:
    with node.run("crawl-7", "n.crawl"):
        wait_for(node, "ready")
        node.process.kill()
        node.process.join(30)
        assert "was killed by signal 9" in str(node.ended_early("something"))


def test_a_spider_that_ignores_its_children_does_not_hold_it_up(node: LocalNode) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with node.run("crawl-7", "n.crawl"):
            wait_for(node, "ready")
        assert node.exit_code() == 0
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_last_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert last_lines(path) == []
    path.write_bytes(b"".join(b"%d\xff\n" % n for n in range(100)))
    assert len(last_lines(path)) == LAST_LINES
    assert last_lines(path, 2) == ["98\ufffd", "99\ufffd"]
