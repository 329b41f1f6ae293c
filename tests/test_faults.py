"""Fault points: read from the environment, strike once, and cost nothing when they are off."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from crawlframe.base import faults
from crawlframe.base.faults import ACTIONS, POINTS, Faults
from crawlframe.errors import ConfigError

ENGINE = Path(faults.__file__).parents[1]


def test_faults_are_off() -> None:
    assert faults.at is faults._nowhere
    faults.at("commit.before")


def test_every_point_is_passed_somewhere() -> None:
    code = "".join(
        path.read_text()
        for package in (ENGINE, ENGINE.parent / "crawlservice")
        for path in package.rglob("*.py")
    )
    passed = set(re.findall(r'faults\.at\(\s*"([a-z.]+)"', code))
    assert passed == set(POINTS)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("comit.middle:1:kill", "there is no fault point 'comit.middle'"),
        ("commit.after:0:kill", "write point:nth:action"),
        ("commit.after:one:kill", "write point:nth:action"),
        ("commit.after:1:explode", f"action one of {', '.join(ACTIONS)}"),
        ("commit.after", "write point:nth:action"),
    ],
)
def test_a_wrong_one_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(problem)):
        Faults(text)


def test_it_strikes_the_nth_time_only() -> None:
    mine = Faults("commit.after:2:error,claim.before:1:error")
    mine.at("commit.after")
    with pytest.raises(RuntimeError, match=r"FAULT=commit\.after:2:error"):
        mine.at("commit.after", RuntimeError)
    mine.at("commit.after")
    with pytest.raises(OSError, match="FAULT"):
        mine.at("claim.before")


def test_with_marks_it_strikes_one_process_only(tmp_path: Path) -> None:
    text = "commit.after:1:error"
    with pytest.raises(OSError, match="FAULT"):
        Faults(text, str(tmp_path)).at("commit.after")
    Faults(text, str(tmp_path)).at("commit.after")


def test_a_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "DELAY", 0.05)
    began = time.monotonic()
    Faults("known.before:1:delay").at("known.before")
    assert time.monotonic() - began >= 0.05
