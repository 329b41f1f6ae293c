"""A machine whose clock is wrong writes correct times, from the database's clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.utils import timezone

from crawlframe.frontier import Counts, Frontier
from crawlservice.accounts import setup_link, tokens
from crawlservice.connections import clock
from crawlservice.ledger.recovery import renew
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import (
    Action,
    Era,
    Event,
    Generation,
    Sample,
    SetupLink,
    Submission,
    Task,
    Token,
)
from crawlservice.steward.pruning import Pruner
from crawlservice.steward.sampling import Sampler
from crawlservice.tasks.bulk_submit import WantedTask, submit_once

pytestmark = pytest.mark.databases("sqlite", "postgres")

NEAR = timedelta(minutes=5)
YEARS = timedelta(days=4000)
NUMBERS = dict.fromkeys(("nf", "ne", "items", "ready", "in_progress", "delayed", "parked"), 0)


@pytest.fixture(params=[YEARS, -YEARS], ids=["ahead", "behind"], autouse=True)
def wrong(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> timedelta:
    """Sets the clock of this process wrong; the database's is right."""
    by: timedelta = request.param
    monkeypatch.setattr(timezone, "now", lambda: datetime.now(UTC) + by)
    return by


def right(moment: datetime | None) -> bool:
    return moment is not None and abs(moment - datetime.now(UTC)) < NEAR


def test_the_time_is_the_databases(orm: str) -> None:
    assert right(clock.now())


def test_the_end_of_a_task(orm: str) -> None:
    task = Task.objects.create(spider="s", seeds=b"")
    assert DjangoLedger().tasks.finish({task.pk: Counts("running", 0, 0, 0, 0, 0, 0, 0, 0)}) == {
        task.pk
    }
    task.refresh_from_db()
    assert right(task.finished_at)
    assert task.finished_at is not None
    assert task.finished_at >= task.created_at


def test_samples_and_eras(published: Frontier) -> None:
    Sampler().tick({})
    assert right(Sample.objects.get().at)
    renew(published, lambda: None)
    assert right(Era.objects.get().opened_at)


def test_nothing_new_is_pruned_and_all_that_is_old(orm: str) -> None:
    user = User.objects.create_user("ada")

    def fill(at: datetime) -> None:
        Action.objects.create(verb="submit", at=at)
        Sample.objects.create(at=at, **NUMBERS)
        Generation.objects.create(node="n", machine="m", pid=1, started_at=at)
        Submission.objects.create(user=user, key=str(at), digest="", tasks=[], created_at=at)

    now = datetime.now(UTC)
    fill(now - timedelta(days=1000))
    fill(now)
    pruner = Pruner(lambda: ())
    for _ in range(20):
        pruner.tick()
    for rows in (
        Action.objects.values_list("at", flat=True),
        Sample.objects.values_list("at", flat=True),
        Generation.objects.values_list("started_at", flat=True),
        Submission.objects.values_list("created_at", flat=True),
    ):
        assert [*rows] == [now]


def test_prune_deletes_what_is_as_old_as_it_says(published: Frontier) -> None:
    ended = datetime.now(UTC) - timedelta(days=10)
    Task.objects.create(spider="shop", seeds=b"", state="finished", finished_at=ended)
    for days, left in ((11, 1), (9, 0)):
        call_command("task", "prune", f"--tasks-older-than={days}", "--yes", stdout=StringIO())
        assert Task.objects.count() == left


def test_a_key_holds_for_a_day(published: Frontier) -> None:
    user = User.objects.create_user("ada")

    wanted = WantedTask("shop", {"city": "Ulm"})
    assert [submit_once("key", [wanted], user, lambda task: None)[1] for _ in range(2)] == [
        True,
        False,
    ]


def test_tokens_and_links(orm: str) -> None:
    token, secret = tokens.make(User.objects.create_user("ada"), "t", Token.Scope.READ, days=1)
    assert token.expires_at is not None
    assert right(token.expires_at - timedelta(days=1))
    assert tokens.find(secret) == token
    tokens.revoke(Token.objects.all())
    assert right(Token.objects.get().revoked_at)
    link = setup_link.make()
    assert setup_link.works(link.split("/")[1])
    assert right(SetupLink.objects.get().expires_at - setup_link.LIFE)
    assert not Event.objects.exists()
