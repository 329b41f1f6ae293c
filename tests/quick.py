"""Quick: the marker of tests that need no server, no other process, no browser and no seconds of
CPU time; ``make quick`` runs them. Starts of processes are found in the code of the tests; where
the product starts one, the test has the marker ``forks``. In a quick run, a test that starts a
process fails."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

# Fixtures that start servers or processes. Tests that use them, also indirectly, are not quick.
SLOW_FIXTURES = {
    "manage", "manage_env", "postgres_template", "postgres_url", "redis_client", "redis_server",
    "redis_url", "start_manage",
}  # fmt: skip
SLOW_MARKS = {"forks", "long", "postgres", "process", "slow"}
SLOW_FOLDERS = {"benchmarks", "browser", "faults", "morning", "mutants", "process", "worlds"}
STARTS = {"os.fork", "os.forkpty", "os.posix_spawn", "subprocess.Popen"}
STARTERS = {"DemoServer", "Popen", "fork", "forkpty", "posix_spawn", "subprocess"}  # in code


def mark(items: list[pytest.Item]) -> None:
    """Gives ``forks`` to tests that start a process, and ``quick`` to tests without marker."""
    known: dict[Any, bool] = {}
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if SLOW_FIXTURES.intersection(fixtures) or any(_starts(one, known) for one in _used(item)):
            item.add_marker(pytest.mark.forks)
        slow = not SLOW_MARKS.isdisjoint(mark.name for mark in item.iter_markers())
        if not slow and not is_slow(item.path):
            item.add_marker(pytest.mark.quick)


@cache
def is_slow(path: Path) -> bool:
    """Whether it is a folder without quick tests, or in one."""
    return not SLOW_FOLDERS.isdisjoint(path.parts)


def only(config: pytest.Config) -> bool:
    """Whether this is a run of quick tests."""
    return bool(config.getoption("markexpr") == "quick")


def guard(config: pytest.Config) -> None:
    """Forbids starts of processes from here on, if this is a run of quick tests."""
    runs_tests = hasattr(config, "workerinput") or not config.getoption("numprocesses", None)
    if only(config) and runs_tests:
        sys.addaudithook(_refuse)


def _used(item: pytest.Item) -> Iterator[Any]:
    """The functions that a test is made of: itself, parameters and fixtures."""
    yield getattr(item, "function", None)
    yield from filter(callable, getattr(getattr(item, "callspec", None), "params", {}).values())
    fixtures = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    for definitions in fixtures.values():
        yield from (definition.func for definition in definitions)


def _starts(found: Any, known: dict[Any, bool]) -> bool:
    """Whether a function or class of the tests, or a name in it, starts processes."""
    found = inspect.unwrap(found) if callable(found) else found
    if not isinstance(found, FunctionType | type):
        return getattr(found, "__name__", "") in STARTERS
    if found not in known:
        known[found] = False  # until it is known, for functions that call each other
        known[found] = any(_names_starter(one, known) for one in _functions(found))
    return known[found]


def _functions(found: Any) -> list[FunctionType]:
    parts = vars(found).values() if isinstance(found, type) else (found,)
    return [part for part in parts if isinstance(part, FunctionType)]


def _names_starter(function: FunctionType, known: dict[Any, bool]) -> bool:
    names = {*_names(function.__code__)}
    if not names.isdisjoint(STARTERS):
        return True
    used = (function.__globals__.get(name) for name in names)
    near = ("tests.", function.__module__)
    return any(
        _starts(one, known)
        for one in used
        if isinstance(one, FunctionType | type) and one.__module__.startswith(near)
    )


def _names(code: CodeType) -> Iterator[str]:
    """The names in it and in the functions inside."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event in STARTS:
        raise RuntimeError(
            f"a quick test starts a process ({event} {arguments[:1]}); mark it with "
            "@pytest.mark.forks"
        )
