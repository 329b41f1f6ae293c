"""Migrations: they agree with the models, and databases of the pilot keep their rows."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from io import StringIO
from typing import Any

import pytest
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks.registry import registry
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder

from crawlframe.base.zstd import ZstdCompressor
from crawlframe.errors import ConfigError, PageDamaged
from crawlframe.pages.stored import Packer, digest_of
from crawlframe.spider.settings import SpiderSettings
from crawlframe.spider.task_settings import overridden
from crawlservice.connections.database import is_behind
from crawlservice.models import Installation, PageBody, Recipe, Task
from crawlservice.pages.bodies import read
from tests.conftest import NewDatabase, django_on

from_pilot = import_module("crawlservice.migrations.0002_from_pilot")
zstd = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
KINDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
PILOT = ("0002_version", "0051_key_order_worker", "0052_task_idle")  # some of its names


@pytest.fixture(params=KINDS)
def pilot(request: pytest.FixtureRequest, new_database: NewDatabase) -> Iterator[Any]:
    """A database as the last code with the migrations 0001 to 0052 left it, and its models by
    name."""
    with django_on(new_database(request.param, empty=True)):
        call_command("migrate", "auth", verbosity=0)
        call_command("migrate", "crawlservice", "0001", verbosity=0)
        for name in PILOT:
            MigrationRecorder(connection).record_applied("crawlservice", name)
        state = MigrationExecutor(connection).loader.project_state(("crawlservice", "0001_initial"))
        for operation in from_pilot.OF_PILOT:
            before = state.clone()
            operation.state_forwards("crawlservice", state)
            with connection.schema_editor() as editor:
                operation.database_forwards("crawlservice", editor, before, state)
        yield lambda model: state.apps.get_model("crawlservice", model).objects


def applied() -> set[str]:
    names = MigrationRecorder(connection).migration_qs.filter(app="crawlservice")
    return {*names.values_list("name", flat=True)}


def test_a_database_of_the_pilot_keeps_its_rows_and_pages(
    pilot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also pages that were compressed with a dictionary, more of them than one transaction takes;
    one of them is damaged."""
    former = {"delay": 1, "max_age": 60, "near_duplicates": "drop", "near_within": "books"}
    more = {"overrides": former, "seeds": b""}
    task = pilot("Task").create(spider="shop", arguments={"city": "Ulm"}, **more)
    pilot("Recipe").create(name="shop", text='{"name": "shop", "settings": {"ip_delay": 2}}')
    installation = pilot("Installation").get()
    monkeypatch.setattr(f"{from_pilot.__name__}.BATCH", 2)
    given = [f"<nav>{'menu ' * 90}</nav>{n}".encode() for n in range(5)]
    content = zstd.train_dict(given * 20, 4096)
    dictionary = pilot("PageDictionary").create(content=content.dict_content)
    numbers = []
    for body in given:
        packed = ZstdCompressor(zstd_dict=content).compress(body, ZstdCompressor.FLUSH_FRAME)
        fields = {"digest": digest_of(body), "size": len(body), "stored": len(packed)}
        row = pilot("PageBody").create(**fields, data=packed, dictionary=dictionary)
        numbers.append(row.pk)
    plain = pilot("PageBody").create(
        digest=digest_of(b"x"), size=1, data=Packer().pack(b"x"), stored=10
    )
    pilot("PageBody").filter(pk=numbers[3]).update(data=b"damaged")
    call_command("sqlmigrate", "crawlservice", "0002", stdout=StringIO())
    assert {*PILOT} <= applied()  # the SQL is only shown
    assert is_behind()
    call_command("migrate", verbosity=0)
    assert (Task.objects.get().pk, Task.objects.get().arguments) == (task.pk, {"city": "Ulm"})
    near = {"action": "drop", "within": "books"}
    new = {"delay": 1, "reuse": {"max_age": 60}, "near_duplicates": near}
    assert Task.objects.get().overrides == new
    overridden(SpiderSettings(), new)
    assert json.loads(Recipe.objects.get().text)["settings"] == {"ip": {"delay": 2}}
    assert Installation.objects.get().uuid == installation.uuid
    assert not applied() & {*PILOT}
    assert not is_behind()
    assert from_pilot.DICTIONARIES not in connection.introspection.table_names()
    expected = {**dict(zip(numbers, given, strict=True)), plain.pk: b"x"}
    del expected[numbers[3]]
    assert read(expected) == expected
    with pytest.raises(PageDamaged):
        read([numbers[3]])
    stored = PageBody.objects.get(pk=numbers[0])
    assert stored.data is not None
    assert stored.stored == len(stored.data)


@pytest.mark.parametrize("pilot", ["sqlite"], indirect=True)  # names of migrations decide
def test_an_older_database_is_refused(pilot: Any) -> None:
    for names in (PILOT[:-1], ()):  # its last but one, its first alone
        MigrationRecorder(connection).migration_qs.filter(name__in={*PILOT} - {*names}).delete()
        if not names:
            with connection.cursor() as cursor:
                cursor.execute(f"DROP TABLE {from_pilot.ALERTS}")
        with pytest.raises(ConfigError, match=r"python manage\.py migrate with the code of commit"):
            call_command("migrate", verbosity=0)
        assert applied() == {from_pilot.FIRST, *names}


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_models_and_migrations_agree(orm: str) -> None:
    out = StringIO()
    call_command("makemigrations", check=True, dry_run=True, stdout=out)
    assert "No changes" in out.getvalue()


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_migrate_checks_models_and_not_urls(orm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """URLs are the whole API, which takes longer to import than the tables to make."""

    def wrong(**options: Any) -> list[CheckMessage]:
        return [Error("wrong")]

    monkeypatch.setattr(registry, "registered_checks", set())
    register(wrong, Tags.urls)
    call_command("migrate", skip_checks=False, verbosity=0)
    register(wrong, Tags.models)
    with pytest.raises(SystemCheckError, match="wrong"):
        call_command("migrate", skip_checks=False, verbosity=0)
