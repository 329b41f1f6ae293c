"""Migrations from 0010 on: forward and back with rows, and beside processes with older code."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from crawlservice import migrations
from crawlservice.models import Generation
from crawlservice.models import Schedule as LatestSchedule
from crawlservice.models import Webhook as LatestWebhook
from crawlservice.security.sealing import unseal
from crawlservice.tasks.outcomes import arguments_hash

BEFORE = "0009_words"
LATEST = max(path.stem for path in Path(migrations.__file__).parent.glob("0*.py"))
ULM = {"city": "Ulm"}


def migrate(*name: str) -> None:
    """Migrates to this migration; without one, to the latest."""
    call_command("migrate", "crawlservice", *name, verbosity=0)


def models_of(name: str) -> Any:
    """Returns the models as they were at this migration, by name."""
    state = MigrationExecutor(connection).loader.project_state(("crawlservice", name))
    return lambda model: state.apps.get_model("crawlservice", model).objects


@pytest.fixture
def old(orm: str) -> Any:
    """The models before 0010, on a database of that version."""
    migrate(BEFORE)
    return models_of(BEFORE)


def fill(old: Callable[[str], Any]) -> dict[str, int]:
    """Returns numbers of tasks by how they end."""
    numbers = {
        "finished": {"state": "finished", "na": 5, "nf": 5, "ne": 0},
        "failed": {"state": "finished", "na": 5, "nf": 2, "ne": 3},
        "cancelled": {"state": "cancelled", "na": 5, "nf": 3, "ne": 2},
        "running": {"state": "running", "na": 5, "nf": 1, "ne": 1},
        # Cancelled, then partly run again.
        "retried": {"state": "finished", "na": 6, "nf": 3, "ne": 3},
        "retried with errors": {"state": "finished", "na": 6, "nf": 4, "ne": 2},
        "retried and failed": {"state": "finished", "na": 6, "nf": 2, "ne": 4},
    }
    rows = {
        "cancelled": ("cancelled", "http_404"),
        "retried": ("cancelled",) * 3,
        "retried with errors": ("cancelled", "http_404"),
        "retried and failed": ("cancelled", "http_404", "http_404", "http_404"),
    }
    tasks = {
        name: old("Task").create(spider="shop", arguments=ULM, seeds=b"", **fields)
        for name, fields in numbers.items()
    }
    page = {"url": "u", "callback": "parse", "depth": 0, "attempts": 0, "deliveries": 0, "size": 0}
    for name, reasons in rows.items():
        for reason in reasons:
            row = page | {"fetch_ms": 0, "items": 0, "state": "error", "reason": reason}
            old("Page").create(task=tasks[name], rid=uuid4(), **row)
    old("Event").create(task=tasks["failed"], kind="failed")
    old("Webhook").create(name="all", url="https://ann:x@a.example/", secret="whsec_1")
    old("Webhook").create(name="some", url="https://b.example/", secret="s", kinds=["failed"])
    old("Generation").create(node="alpha", machine="m", pid=1)
    return {name: task.pk for name, task in tasks.items()}


def test_forward_with_rows(old: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from django.utils.module_loading import import_string

    from crawlservice.models import Event, Task

    module = import_string("crawlservice.migrations.0015_ended_tasks.Migration").__module__
    monkeypatch.setattr(f"{module}.BATCH", 2)
    tasks = fill(old)
    migrate()
    outcomes = Task.objects.in_bulk()
    assert {name: outcomes[pk].outcome for name, pk in tasks.items()} == {
        "finished": "finished", "failed": "failed", "cancelled": "cancelled", "running": "",
        "retried": "finished", "retried with errors": "finished_with_errors",
        "retried and failed": "failed",
    }  # fmt: skip
    assert {task.arguments_hash for task in outcomes.values()} == {arguments_hash("shop", ULM)}
    assert {name: outcomes[pk].cancelled for name, pk in tasks.items()} == {
        "finished": 0, "failed": 0, "cancelled": 1, "running": 0,
        "retried": 3, "retried with errors": 1, "retried and failed": 1,
    }  # fmt: skip
    assert Event.objects.get().outcome == "failed"
    first, second = LatestWebhook.objects.order_by("name")
    assert first.url == "https://***@a.example/"
    assert (unseal(first.sealed_secret), unseal(first.sealed_login)) == ("whsec_1", "ann:x")
    assert first.kinds == ["finished", "failed", "cancelled"], "its receiver knows no others"
    assert (unseal(second.sealed_secret), second.kinds) == ("s", ["failed"])


def test_the_data_step_that_was_broken_off_goes_on(old: Callable[[str], Any]) -> None:
    from crawlservice.models import Event, Task

    tasks = fill(old)
    migrate()
    Task.objects.filter(pk=tasks["failed"]).update(outcome="", arguments_hash=None)
    Task.objects.filter(pk=tasks["finished"]).update(outcome="finished_with_errors")
    Event.objects.update(outcome="")
    migrate("0014_webhook_secret")
    migrate()
    found = Task.objects.in_bulk()
    assert found[tasks["failed"]].outcome == Event.objects.get().outcome == "failed"
    assert found[tasks["failed"]].arguments_hash == arguments_hash("shop", ULM)
    assert found[tasks["finished"]].outcome == "finished_with_errors", "as it was decided"


def test_back_with_events_that_have_no_task(old: Callable[[str], Any]) -> None:
    from crawlservice.models import Delivery, Event

    fill(old)
    migrate()
    life = Generation.objects.get()
    webhook = LatestWebhook.objects.get(name="all")
    schedule = LatestSchedule.objects.create(name="s", spider="shop", cron="0 6 * * *")
    for fields in ({"kind": "node_offline", "node": life.node}, {"schedule": schedule}):
        event = Event.objects.create(**{"kind": "schedule_failed", **fields})
        Delivery.objects.create(webhook=webhook, event=event)
    migrate(BEFORE)
    assert [event.kind for event in old("Event").all()] == ["failed"]
    assert not old("Delivery").exists()
    row = old("Webhook").get(name="all")
    assert (row.url, row.secret) == ("https://ann:x@a.example/", "whsec_1")
    migrate()
    assert unseal(LatestWebhook.objects.get(name="all").sealed_secret) == "whsec_1"


def test_older_code_reads_and_writes_all_tables(old: Callable[[str], Any]) -> None:
    """As older nodes and webs do until they are restarted."""
    fill(old)
    migrate()
    for model in ("Task", "Page", "Item", "Event", "Webhook", "Delivery", "Generation", "Sample"):
        assert len(old(model).all()) >= 0
    LatestWebhook.objects.filter(name="all").update(name="one")
    LatestWebhook.objects.filter(name="some").update(name="two")
    fill(old)
    assert old("Webhook").count() == LatestWebhook.objects.count() == 4


def test_models_and_migrations_agree(orm: str) -> None:
    out = StringIO()
    call_command("makemigrations", check=True, dry_run=True, stdout=out)
    assert "No changes" in out.getvalue()
