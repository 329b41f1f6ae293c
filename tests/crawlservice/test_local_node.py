"""LocalNode: stops its process gracefully, and reports how one ended that should not have."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from django.test import override_settings

from crawlservice.cli.local_node import LAST_LINES, LocalNode, last_lines

pytestmark = pytest.mark.process

# Replaces manage.py: prints how it was started, then behaves as the test wants.
HEAD = """
import json, os, signal, sys, time
print(json.dumps([sys.argv[1:], os.environ.get("EXTRA"), os.getpgid(0) == os.getpid()]), flush=True)
"""
GRACEFUL = """
def leave(*_):
    print("draining", flush=True)
    raise SystemExit(0)
signal.signal(signal.SIGTERM, leave)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., LocalNode]:
    def make(body: str, **options: object) -> LocalNode:
        script = tmp_path / "manage.py"
        script.write_text(HEAD + body)
        monkeypatch.setattr(sys, "argv", [str(script), "crawl"])
        with override_settings(VAR_DIR=tmp_path / "var"):
            return LocalNode("crawl-7", "n.crawl", **options)  # type: ignore[arg-type]

    return make


def wait_for(node: LocalNode, text: str) -> None:
    while text not in node.log.read_text():
        assert node.exit_code() is None, node.log.read_text()


def test_it_is_started_as_this_process_was_and_leaves_when_asked(
    start: Callable[..., LocalNode],
) -> None:
    with start(GRACEFUL, workers=3, concurrency=9, env={"EXTRA": "x"}) as node:
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


def test_a_failing_block_stops_it_too(start: Callable[..., LocalNode]) -> None:
    node = start(GRACEFUL)

    def fail() -> None:
        with node:
            wait_for(node, "ready")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert node.exit_code() == 0


def test_an_early_end_is_reported_with_the_end_of_the_log(start: Callable[..., LocalNode]) -> None:
    body = 'for n in range(50): print("line", n)\nsys.exit("port in use")\n'
    with start(body) as node:
        assert node.process is not None
        node.process.wait(30)
        words = str(node.ended_early("task 7 is running"))
    assert "ended with code 1 while task 7 is running" in words
    assert str(node.log) in words
    assert "port in use" in words
    assert "line 49" in words
    assert "line 30" not in words


def test_a_killed_node_is_reported_as_killed(start: Callable[..., LocalNode]) -> None:
    with start(GRACEFUL) as node:
        wait_for(node, "ready")
        assert node.process is not None
        os.kill(node.process.pid, signal.SIGKILL)
        node.process.wait(30)
        assert "was killed by signal 9" in str(node.ended_early("something"))


def test_last_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert last_lines(path) == []
    path.write_bytes(b"".join(b"%d\xff\n" % n for n in range(100)))
    assert len(last_lines(path)) == LAST_LINES
    assert last_lines(path, 2) == ["98\ufffd", "99\ufffd"]
