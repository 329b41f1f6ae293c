"""Unknown names in the environment are reported, with the name that was probably meant."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from crawlservice.environment import known_names, warnings
from crawlservice.web import server

CHECKOUT = Path(__file__).resolve().parents[2]
LISTS = "python manage.py config show lists them"
OF_SCRAPY = {"CRAWLFRAME_EXPECT"}  # a setting of Scrapy projects


def named_in(*places: str) -> set[str]:
    files = [file for place in places for file in [*CHECKOUT.glob(place)] if file.is_file()]
    assert files
    text = "\n".join(file.read_text("utf-8") for file in files)
    return set(re.findall(r"\bCRAWLFRAME_[A-Z][A-Z_]*[A-Z]\b", text))


def test_every_name_that_code_or_docs_mention_is_known() -> None:
    mentioned = named_in("crawlframe/**/*.py", "crawlservice/**/*.py", "manage.py", "docs/**/*.md",
                         "crawlservice/templates/deploy/**/*", "README.md", "Makefile",
                         "benchmarks/**/*.py")  # fmt: skip
    assert mentioned - OF_SCRAPY <= known_names()


def test_every_name_that_is_known_is_documented() -> None:
    assert known_names() <= named_in("docs/settings.md")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("CRAWLFRAME_WORKER", " (did you mean CRAWLFRAME_WORKERS?)"),
        ("CRAWLFRAME_ALLOW_PRIVAT", " (did you mean CRAWLFRAME_ALLOW_PRIVATE?)"),
        ("CRAWLFRAME_DATABASE_URL", " (did you mean DATABASE_URL?)"),
        ("CRAWLFRAME_QQQ", ""),
    ],
)
def test_an_unknown_name_is_reported(name: str, hint: str) -> None:
    (line,) = warnings({name: "1", "CRAWLFRAME_WORKERS": "2", "HOME": "/", "CRAWLFRAMES": "x"})
    assert line == f"{name} is set, but there is no such setting{hint}; {LISTS}"


@pytest.mark.parametrize(
    "name", ["SERVICE_HOST", "WEB_SERVICE_PORT_HTTP", "PORT", "WEB_PORT_8000_TCP_ADDR"]
)
def test_what_kubernetes_sets_is_not(name: str) -> None:
    assert warnings({f"CRAWLFRAME_{name}": "x"}) == []


def test_commands_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAWLFRAME_WORKER", "4")
    command = [sys.executable, "manage.py", "check"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "warning: CRAWLFRAME_WORKER is set, but there is no such setting" in done.stderr


def test_the_first_process_of_the_web_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAWLFRAME_WORKER", "4")
    told: list[str] = []
    log: Any = SimpleNamespace(warning=told.append)
    for age in (1, 2):
        server.post_worker_init(SimpleNamespace(age=age, log=log))
    assert len(told) == 1
    assert told[0].startswith("CRAWLFRAME_WORKER is set")
