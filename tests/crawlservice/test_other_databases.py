"""Model items with tables in another database: stored with their pages, delivered afterwards."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.db import connections, models, transaction
from django.db.models import F
from django.utils import timezone

from crawlframe import Upsert
from crawlframe.base import faults
from crawlframe.run.collector import Collector
from crawlframe.run.ledger import LedgerRefused
from crawlframe.run.link_filters import LinkPage
from crawlframe.run.outcome import Outcome
from crawlservice.connections import routing
from crawlservice.connections.database_url import other_database_config
from crawlservice.databases import delivery
from crawlservice.databases.delivery import RowStream, databases, send_again
from crawlservice.ledger.model_items import outgoing_rows
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Item, Page, RowDelivery, Task
from crawlservice.outbox import outbox
from crawlservice.outbox.sender import IDLE_SECONDS

pytestmark = pytest.mark.databases("sqlite", "postgres")

WAREHOUSE = "warehouse"


class Maker(models.Model):
    name = models.CharField(max_length=20, unique=True)

    upsert = Upsert(on="name")

    class Meta:
        app_label = "stock"


class Part(models.Model):
    code = models.CharField(max_length=20, unique=True)
    price = models.DecimalField(max_digits=8, decimal_places=2)
    weight = models.FloatField(default=0)
    maker = models.ForeignKey(Maker, models.CASCADE, null=True)
    facts = models.JSONField(default=dict)
    raw = models.BinaryField(default=b"")
    seen_at = models.DateTimeField(null=True)
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        app_label = "stock"

    def __str__(self) -> str:
        return self.code


class Local(models.Model):
    part = models.ForeignKey(Part, models.CASCADE)

    class Meta:
        app_label = "estate"


parts = Part._default_manager.using(WAREHOUSE)
NOON = dt.datetime(2026, 5, 1, 12, 0, 0, 123456, tzinfo=dt.UTC)


@pytest.fixture(autouse=True)
def warehouse(
    orm: str,
    database: str,
    new_database: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    settings_with: Callable[..., None],
) -> Iterator[str]:
    """Another database of the same kind, with the tables of the models above."""
    url = new_database("sqlite" if "sqlite" in database else "postgres", empty=True)
    config = other_database_config("test", url, "crawlframe tests")
    settings_with(APP_DATABASES={"stock": WAREHOUSE})
    monkeypatch.setattr(routing, "routed_apps", lambda: {"stock": WAREHOUSE})
    monkeypatch.setattr(outbox, "JITTER", 0)
    outgoing_rows.other_database.cache_clear()
    known = connections.configure_settings({"default": config})["default"]
    monkeypatch.setitem(connections.settings, WAREHOUSE, known)
    with connections[WAREHOUSE].schema_editor() as editor:
        editor.create_model(Maker)
        editor.create_model(Part)
    yield url
    connections[WAREHOUSE].close()
    del connections[WAREHOUSE]
    outgoing_rows.other_database.cache_clear()


@pytest.fixture
def task() -> Task:
    return Task.objects.create(spider="s", seeds=b"")


def commit(task: Task, name: str, *items: Any) -> None:
    rid = name.encode().ljust(16, b".")
    page = Outcome(rid, task.pk, "h", b"r", 1, 1, url=f"http://h/{name}", version="v1")
    collector = Collector(LinkPage(page))
    for item in items:
        collector.take(item)
    DjangoLedger().commit([page])


def part(code: str, price: Any = 1, **values: Any) -> Upsert:
    return Upsert(Part(code=code, price=price, **values), on="code")


def prices() -> dict[str, Decimal]:
    return dict(parts.values_list("code", "price"))


def test_rows_are_stored_with_their_page_and_delivered_afterwards(task: Task) -> None:
    maker = Maker(name="Ann")
    facts = {"size": [1, None], "at": "x"}
    values = {"facts": facts, "raw": b"\0\xff", "seen_at": NOON, "weight": float("inf")}
    if connections[WAREHOUSE].vendor == "sqlite":
        values["weight"] = 2.5
    commit(task, "a", part("p", "1.50", maker=maker, **values), maker, {"plain": 1})
    assert not parts.exists()
    assert Item.objects.count() == 3
    assert databases() == [WAREHOUSE]

    assert RowStream(WAREHOUSE).step() == IDLE_SECONDS
    row = parts.get()
    assert (row.price, row.maker.name, row.facts) == (Decimal("1.50"), "Ann", facts)
    assert (bytes(row.raw), row.seen_at, row.weight) == (b"\0\xff", NOON, values["weight"])
    assert timezone.now() - row.changed_at < dt.timedelta(minutes=1)
    assert databases() == []
    assert not RowDelivery.objects.exists()


def test_the_last_committed_wins_and_a_second_delivery_changes_nothing(task: Task) -> None:
    commit(task, "a", part("p", 1), part("q", 1))
    commit(task, "b", part("p", 2))
    kept = [*RowDelivery.objects.order_by("pk")]
    RowStream(WAREHOUSE).step()
    assert prices() == {"p": 2, "q": 1}
    ids = {*parts.values_list("pk", flat=True)}
    RowDelivery.objects.bulk_create(kept)  # as if they had not been deleted
    RowStream(WAREHOUSE).step()
    assert prices() == {"p": 2, "q": 1}
    assert {*parts.values_list("pk", flat=True)} == ids


def test_newest_is_the_greater_value_of_a_field(task: Task) -> None:
    late, early = NOON, NOON - dt.timedelta(hours=1)
    for name, price, at in (("a", 1, late), ("b", 2, early)):
        item = Part(code="p", price=price, seen_at=at)
        commit(task, name, Upsert(item, on="code", newest="seen_at"))
        RowStream(WAREHOUSE).step()
    assert prices() == {"p": 1}


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (lambda: Part(code="p", price=1), "a row may arrive twice"),
        (lambda: Upsert(Part(code="p", price=1), on="code", history=True), "history"),
        (
            lambda: Upsert(Part(code="p", price=1), on="code", newest=lambda a, b: True),
            "a function as newest",
        ),
        (lambda: part("p", "cheap"), "stock.Part.price: “cheap” value must be a decimal"),
        (lambda: part("p", None), "stock.Part.price: it has no value"),
        (lambda: part("p" * 21), "stock.Part.code: it has 21 characters"),
        (lambda: part("p", 10**7), "stock.Part.price: 10000000 is beyond the range of its column"),
        (lambda: part("p", F("weight")), "stock.Part.price: an expression is not possible"),
        (lambda: part("p", maker=Maker(name="Bob")), "stock.Part.maker: the stock.Maker"),
        (lambda: part(None), "stock.Part.code: it has no value"),  # type: ignore[arg-type]
        (lambda: Local(part_id=1), "estate.Local.part refers to a model in"),
    ],
)
def test_what_cannot_be_delivered_ends_the_page(
    task: Task, item: Callable[[], Any], reason: str
) -> None:
    with pytest.raises(LedgerRefused, match=reason):
        commit(task, "a", item())
    assert not Page.objects.exists()
    assert not RowDelivery.objects.exists()


def test_what_that_database_refuses_is_kept_and_its_neighbours_arrive(task: Task) -> None:
    parts.create(pk=77, code="other", price=1)
    commit(task, "a", part("p"))
    commit(task, "b", part("q", id=77))
    commit(task, "c", part("r"))
    RowStream(WAREHOUSE).step()
    assert prices().keys() == {"other", "p", "r"}
    kept = RowDelivery.objects.get()
    assert kept.refused
    assert kept.problem.startswith("stock.Part")
    assert databases() == []

    send_again(kept)
    RowStream(WAREHOUSE).step()
    assert RowDelivery.objects.get().refused
    assert RowDelivery.objects.get().attempts == 1


def _is_postgres() -> bool:
    return bool(connections[WAREHOUSE].vendor == "postgresql")


def test_rows_wait_for_a_table_that_is_not_migrated(task: Task) -> None:
    with connections[WAREHOUSE].schema_editor() as editor:
        editor.remove_field(Part, Part._meta.get_field("weight"))
    commit(task, "a", part("p"))
    stream = RowStream(WAREHOUSE)
    assert [stream.step(), stream.step(), stream.step()] == [1, 2, 5]
    waiting = RowDelivery.objects.get()
    assert (waiting.refused, waiting.attempts) == (False, 3)
    assert "lacks weight" in waiting.problem

    with connections[WAREHOUSE].schema_editor() as editor:
        editor.add_field(Part, Part._meta.get_field("weight"))
    assert stream.step() == IDLE_SECONDS
    assert prices().keys() == {"p"}


def test_rows_wait_while_their_database_is_away(
    task: Task, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commit(task, "a", part("p"))
    away = other_database_config("test", f"sqlite:///{tmp_path}/none/x.sqlite3", "t")
    known = connections.configure_settings({"default": away})["default"]
    with monkeypatch.context() as patch:
        connections[WAREHOUSE].close()
        del connections[WAREHOUSE]
        patch.setitem(connections.settings, WAREHOUSE, known)
        stream = RowStream(WAREHOUSE)
        assert stream.step() == 1
        assert "unable to open database file" in RowDelivery.objects.get().problem
        del connections[WAREHOUSE]
    assert stream.step() == IDLE_SECONDS
    assert prices().keys() == {"p"}


def test_a_leader_that_does_not_know_the_database_says_so(task: Task) -> None:
    RowDelivery.objects.create(
        database="attic", rows=[], size=0, task=task.pk, page="0" * 32, version="v1"
    )
    assert RowStream("attic").step() == 1
    assert "knows no database attic" in RowDelivery.objects.get().problem


def test_a_sender_that_was_held_up_does_not_put_old_rows_over_new_ones(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(task, "a", part("p", 1))
    late, save_batch = RowStream(WAREHOUSE), RowStream._save_batch

    def overtake() -> None:
        RowStream(WAREHOUSE).step()
        commit(task, "b", part("p", 2))
        RowStream(WAREHOUSE).step()
        connections.close_all()

    def held_up(stream: RowStream) -> Any:
        if stream is late:
            other = threading.Thread(target=overtake)
            other.start()
            other.join()
        return save_batch(stream)

    monkeypatch.setattr(RowStream, "_save_batch", held_up)
    late.step()
    assert prices() == {"p": 2}


def test_a_kill_after_the_save_repeats_it(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(task, "a", part("p", 1))

    def die(point: str, *_: Any) -> None:
        if point == "rows.delivery.after":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(faults, "at", die)
        with pytest.raises(KeyboardInterrupt):
            RowStream(WAREHOUSE).step()
    assert prices() == {"p": 1}
    assert RowDelivery.objects.count() == 1
    RowStream(WAREHOUSE).step()
    assert prices() == {"p": 1}
    assert not RowDelivery.objects.exists()


def test_a_page_that_fails_again_and_again_does_not_hold_up_the_others(task: Task) -> None:
    with connections[WAREHOUSE].cursor() as cursor:
        for statement in POSTGRES_TRIGGER if _is_postgres() else SQLITE_TRIGGER:
            cursor.execute(statement)
    for name in "abcde":
        commit(task, name, part(name))
    stream = RowStream(WAREHOUSE)
    steps = [stream.step() for _ in range(4)]
    assert steps[:3] == ([1, 2, 5] if _is_postgres() else [IDLE_SECONDS] * 3)
    assert prices().keys() == set("abde")
    kept = RowDelivery.objects.get()
    assert kept.refused
    assert "no cs" in kept.problem


POSTGRES_TRIGGER = (
    """CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN IF new.code = 'c' THEN RAISE EXCEPTION 'no cs'; END IF; RETURN new; END $$""",
    "CREATE TRIGGER refuse BEFORE INSERT ON stock_part FOR EACH ROW EXECUTE FUNCTION refuse()",
)
SQLITE_TRIGGER = (
    """CREATE TRIGGER refuse BEFORE INSERT ON stock_part WHEN new.code = 'c'
    BEGIN SELECT RAISE(ABORT, 'no cs'); END""",
)


def test_a_value_that_a_changed_field_does_not_take_is_refused(task: Task) -> None:
    commit(task, "a", part("p"))
    waiting = RowDelivery.objects.get()
    waiting.rows[0]["values"]["price"] = "cheap"  # as if it had been a text
    waiting.save()
    RowStream(WAREHOUSE).step()
    assert "stock.Part.price: “cheap” value must be a decimal" in RowDelivery.objects.get().problem


def test_a_batch_has_so_many_bytes(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        commit(task, name, part(name))
    size = RowDelivery.objects.values_list("size", flat=True)[0]
    assert size > 10
    monkeypatch.setattr(delivery, "BYTES", 2 * size)
    stream = RowStream(WAREHOUSE)
    assert stream.step() == 0
    assert prices().keys() == {"a", "b"}
    monkeypatch.setattr(delivery, "BYTES", 1)  # a page that is too large goes alone
    assert stream.step() == IDLE_SECONDS
    assert prices().keys() == {"a", "b", "c"}


def test_a_sender_does_not_wait_for_one_that_was_stopped(task: Task, warehouse: str) -> None:
    if not _is_postgres():
        pytest.skip("SQLite has one writer")
    commit(task, "a", part("p"))
    stream = RowStream(WAREHOUSE)
    found: list[float | None] = []

    def step() -> None:
        found.append(stream.step())
        connections.close_all()

    with transaction.atomic(using=WAREHOUSE):
        stream._lock()
        other = threading.Thread(target=step)
        other.start()
        other.join()
    assert found == [1]
    assert "another node saves rows there" in RowDelivery.objects.get().problem
