"""Quick: the marker of tests that need no server, no other process and no browser. Tests have it
unless they use one of those, or are in a folder where all do; ``make quick`` runs them. In such a
run, a test that starts a process fails: it needs another marker."""

from __future__ import annotations

import sys
from typing import Any

import pytest

# Fixtures that start servers or processes. Tests that use them, also indirectly, are not quick.
SLOW_FIXTURES = {
    "manage", "manage_env", "postgres_template", "postgres_url", "redis_client", "redis_server",
    "redis_url", "start_manage",
}  # fmt: skip
SLOW_MARKS = ("forks", "long", "postgres", "process")
SLOW_FOLDERS = {"benchmarks", "browser", "faults", "morning", "mutants", "process", "worlds"}
STARTS = {"os.fork", "os.forkpty", "os.posix_spawn", "subprocess.Popen"}


def mark(items: list[pytest.Item]) -> None:
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        slow = (
            not SLOW_FIXTURES.isdisjoint(fixtures)
            or any(map(item.get_closest_marker, SLOW_MARKS))
            or not SLOW_FOLDERS.isdisjoint(item.path.parts)
        )
        if not slow:
            item.add_marker(pytest.mark.quick)


def guard(config: pytest.Config) -> None:
    """From here on no process can be started, if this is a run of quick tests."""
    runs_tests = hasattr(config, "workerinput") or not config.getoption("numprocesses", None)
    if config.getoption("markexpr") == "quick" and runs_tests:
        sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event in STARTS:
        raise RuntimeError(
            f"a quick test starts a process ({event} {arguments[:1]}); mark it with "
            "@pytest.mark.forks"
        )
