"""Migrations from 0010 on: forward and back with rows, and beside processes with older code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations import Migration
from django.db.migrations.executor import MigrationExecutor
from django.utils.module_loading import import_string

from crawlservice.models import Delivery, Event, Generation, Schedule, Task, Webhook
from crawlservice.security.sealing import unseal
from crawlservice.tasks.outcomes import arguments_hash
from tests.conftest import NewDatabase, django_on, new_databases

pytestmark = pytest.mark.slow

BEFORE, WITH_SECRETS = "0009_words", "0014_webhook_secret"
ULM = {"city": "Ulm"}


def migrate(*name: str) -> None:
    """Migrates to this migration of ours; without one, to the latest."""
    call_command("migrate", "crawlservice", *name, verbosity=0)


def models_of(name: str) -> Any:
    """Returns the models as they were at this migration, by name."""
    state = MigrationExecutor(connection).loader.project_state(("crawlservice", name))
    return lambda model: state.apps.get_model("crawlservice", model).objects


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


@pytest.fixture(
    scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
)
def migrated(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str, dict[str, int]]]:
    """A database that was filled before 0010 and migrated since: its kind, its URL, and ``fill``'s
    numbers of tasks. Only copies of it are changed."""
    kind = request.param
    with new_databases(request, tmp_path_factory.mktemp("migrated")) as make:
        url = make(kind, empty=True)
        with django_on(url), pytest.MonkeyPatch.context() as patch:
            patch.setattr(f"{step('0015_ended_tasks').__module__}.BATCH", 2)
            call_command("migrate", "auth", verbosity=0)
            migrate(BEFORE)
            tasks = fill(models_of(BEFORE))
            migrate()
        yield kind, url, tasks


@pytest.fixture
def tasks(
    migrated: tuple[str, str, dict[str, int]], new_database: NewDatabase
) -> Iterator[dict[str, int]]:
    """Makes Django's models use a copy of the migrated database; returns the numbers of tasks."""
    kind, url, numbers = migrated
    with django_on(new_database(kind, like=url)):
        yield numbers


def step(name: str) -> type[Migration]:
    found: type[Migration] = import_string(f"crawlservice.migrations.{name}.Migration")
    return found


def test_forward_with_rows(tasks: dict[str, int]) -> None:
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
    first, second = Webhook.objects.order_by("name")
    assert first.url == "https://***@a.example/"
    assert (unseal(first.sealed_secret), unseal(first.sealed_login)) == ("whsec_1", "ann:x")
    assert first.kinds == ["finished", "failed", "cancelled"], "its receiver knows no others"
    assert (unseal(second.sealed_secret), second.kinds) == ("s", ["failed"])


def test_the_data_step_that_was_broken_off_goes_on(tasks: dict[str, int]) -> None:
    """It is run once more, as by the executor, for which it has not happened."""
    Task.objects.filter(pk=tasks["failed"]).update(outcome="", arguments_hash=None)
    Task.objects.filter(pk=tasks["finished"]).update(outcome="finished_with_errors")
    Event.objects.update(outcome="")
    state = MigrationExecutor(connection).loader.project_state(("crawlservice", WITH_SECRETS))
    again = step("0015_ended_tasks")
    with connection.schema_editor(atomic=again.atomic) as editor:
        again("0015_ended_tasks", "crawlservice").apply(state, editor)
    found = Task.objects.in_bulk()
    assert found[tasks["failed"]].outcome == Event.objects.get().outcome == "failed"
    assert found[tasks["failed"]].arguments_hash == arguments_hash("shop", ULM)
    assert found[tasks["finished"]].outcome == "finished_with_errors", "as it was decided"


def test_back_with_events_that_have_no_task(tasks: dict[str, int]) -> None:
    life = Generation.objects.get()
    webhook = Webhook.objects.get(name="all")
    schedule = Schedule.objects.create(name="s", spider="shop", cron="0 6 * * *")
    for fields in ({"kind": "node_offline", "node": life.node}, {"schedule": schedule}):
        event = Event.objects.create(**{"kind": "schedule_failed", **fields})
        Delivery.objects.create(webhook=webhook, event=event)
    migrate(BEFORE)
    old = models_of(BEFORE)
    assert [event.kind for event in old("Event").all()] == ["failed"]
    assert not old("Delivery").exists()
    row = old("Webhook").get(name="all")
    assert (row.url, row.secret) == ("https://ann:x@a.example/", "whsec_1")
    migrate(WITH_SECRETS)
    row = models_of(WITH_SECRETS)("Webhook").get(name="all")
    assert (unseal(row.sealed_secret), unseal(row.sealed_login)) == ("whsec_1", "ann:x")


def test_older_code_reads_and_writes_all_tables(tasks: dict[str, int]) -> None:
    """As older nodes and webs do until they are restarted."""
    old = models_of(BEFORE)
    for model in ("Task", "Page", "Item", "Event", "Webhook", "Delivery", "Generation", "Sample"):
        assert len(old(model).all()) >= 0
    Webhook.objects.filter(name="all").update(name="one")
    Webhook.objects.filter(name="some").update(name="two")
    fill(old)
    assert old("Webhook").count() == Webhook.objects.count() == 4


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_models_and_migrations_agree(orm: str) -> None:
    out = StringIO()
    call_command("makemigrations", check=True, dry_run=True, stdout=out)
    assert "No changes" in out.getvalue()
