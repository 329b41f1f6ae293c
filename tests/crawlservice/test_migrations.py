"""Migrations: they are those of the models, and databases of the pilot keep their rows."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder

from crawlframe.errors import ConfigError
from crawlservice.connections.database import is_behind
from crawlservice.models import Installation, Task
from tests.conftest import NewDatabase, django_on

KINDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
PILOT = ("0002_version", "0051_key_order_worker", "0052_task_idle")  # some of its names


def models_of(name: str) -> Any:
    """Returns the models as they were at this migration, by name."""
    state = MigrationExecutor(connection).loader.project_state(("crawlservice", name))
    return lambda model: state.apps.get_model("crawlservice", model).objects


@pytest.fixture(params=KINDS)
def pilot(request: pytest.FixtureRequest, new_database: NewDatabase) -> Iterator[Any]:
    """A database as the last code with the migrations 0001 to 0052 left it, and its models."""
    with django_on(new_database(request.param, empty=True)):
        call_command("migrate", "auth", verbosity=0)
        call_command("migrate", "crawlservice", "0001", verbosity=0)
        for name in PILOT:
            MigrationRecorder(connection).record_applied("crawlservice", name)
        yield models_of("0001_initial")


def test_a_database_of_the_pilot_keeps_its_rows(pilot: Any) -> None:
    task = pilot("Task").create(spider="shop", arguments={"city": "Ulm"}, seeds=b"")
    installation = pilot("Installation").get()
    assert is_behind()
    call_command("migrate", verbosity=0)
    assert (Task.objects.get().pk, Task.objects.get().arguments) == (task.pk, {"city": "Ulm"})
    assert Installation.objects.get().uuid == installation.uuid
    names = MigrationRecorder(connection).migration_qs.filter(app="crawlservice")
    assert not {*names.values_list("name", flat=True)} & {*PILOT}
    assert not is_behind()


def test_an_older_database_is_refused(pilot: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE crawlservice_task DROP COLUMN idle")
    with pytest.raises(ConfigError, match=r"python manage\.py migrate with the code of commit"):
        call_command("migrate", verbosity=0)
    names = MigrationRecorder(connection).migration_qs.values_list("name", flat=True)
    assert {*PILOT} <= {*names}


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_models_and_migrations_agree(orm: str) -> None:
    out = StringIO()
    call_command("makemigrations", check=True, dry_run=True, stdout=out)
    assert "No changes" in out.getvalue()
