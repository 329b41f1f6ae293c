"""IdentityRefresh: before the first fetch, then every few seconds, and never forgetting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from crawlframe.base.secret import Secret
from crawlframe.errors import ConfigError
from crawlframe.identity.credentials import Credential
from crawlframe.identity.identity import Identity, Papers
from crawlframe.node.worker.task.identity_refresh import READ_SECONDS, IdentityRefresh
from crawlframe.run.ledger import LedgerAway


def papers(secret: str) -> Papers:
    return Papers(credentials=(Credential("a.org", "bearer", "", Secret(secret)),))


class Ledger:
    """Answers with ``papers``, or raises it."""

    def __init__(self) -> None:
        self.papers: Papers | Exception = papers("one")
        self.reads = 0

    def identity(self) -> Papers:
        self.reads += 1
        if isinstance(self.papers, Exception):
            raise self.papers
        return self.papers


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def identity() -> Identity:
    return Identity()


@pytest.fixture
def jobs() -> list[Callable[[], None]]:
    return []


@pytest.fixture
def refresh(ledger: Any, identity: Identity, jobs: Any) -> IdentityRefresh:
    return IdentityRefresh(identity, ledger, jobs.append, lambda job: job())


def sent(identity: Identity) -> str:
    return dict(identity.headers_for("https://a.org/", "GET", [])).get("Authorization", "")


def test_they_are_loaded_once_before_the_first_fetch(
    refresh: IdentityRefresh, ledger: Ledger, identity: Identity
) -> None:
    for error in (LedgerAway("away"), ConfigError("another key")):
        ledger.papers = error
        with pytest.raises(type(error)):
            refresh.load_first()
    assert not identity.is_loaded
    ledger.papers = papers("one")
    refresh.load_first()
    refresh.load_first()
    assert (sent(identity), ledger.reads) == ("Bearer one", 3)


def test_changes_are_read_every_few_seconds(
    refresh: IdentityRefresh, ledger: Ledger, identity: Identity, jobs: list[Any]
) -> None:
    refresh.tick(READ_SECONDS)
    assert jobs == []  # no task, nothing to fetch yet
    refresh.load_first()
    ledger.papers = papers("two")
    for now in (0.0, READ_SECONDS - 0.1, READ_SECONDS, READ_SECONDS + 1, 3 * READ_SECONDS):
        refresh.tick(now)
    assert len(jobs) == 1  # the thread is slow: it is asked once
    jobs.pop()()
    assert sent(identity) == "Bearer two"
    refresh.tick(3 * READ_SECONDS)
    assert len(jobs) == 1


@pytest.mark.parametrize("error", [LedgerAway("away"), ConfigError("another key")])
def test_what_was_known_stays_while_it_cannot_be_read(
    refresh: IdentityRefresh,
    ledger: Ledger,
    identity: Identity,
    jobs: list[Any],
    error: Exception,
    caplog: pytest.LogCaptureFixture,
) -> None:
    refresh.load_first()
    ledger.papers = error
    refresh.tick(READ_SECONDS)
    jobs.pop()()
    assert sent(identity) == "Bearer one"
    assert str(error) in caplog.text
    refresh.tick(2 * READ_SECONDS)
    assert len(jobs) == 1
