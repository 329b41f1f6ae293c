"""Items that are Django models: stored with their pages, once, on SQLite and PostgreSQL."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from django.core.validators import MinValueValidator
from django.db import connection, models, transaction

from crawlframe import Upsert
from crawlframe.errors import SpiderError
from crawlframe.items.pipelines import Pipelines
from crawlframe.run.collector import Collector
from crawlframe.run.ledger import LedgerRefused, TablesChanged
from crawlframe.run.link_filters import LinkPage
from crawlframe.run.outcome import Outcome
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Item, Page, RowChange, Task
from tests.crawlservice.chores import at_once

pytestmark = pytest.mark.databases("sqlite", "postgres")

LATE, EARLY = dt.datetime(2026, 5, 2, tzinfo=dt.UTC), dt.datetime(2026, 5, 1, tzinfo=dt.UTC)


class Agent(models.Model):
    name = models.CharField(max_length=20, unique=True)

    upsert = Upsert(on="name")

    class Meta:
        app_label = "estate"


class House(models.Model):
    url = models.CharField(max_length=200, unique=True)
    price = models.IntegerField(validators=[MinValueValidator(0)])
    size = models.DecimalField(max_digits=8, decimal_places=2, default=Decimal(0))
    title = models.CharField(max_length=10, default="")
    agent = models.ForeignKey(Agent, models.CASCADE, null=True)
    facts = models.JSONField(default=dict)
    seen_at = models.DateTimeField(null=True)
    added_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        app_label = "estate"

    def __str__(self) -> str:
        return self.url


class Shed(models.Model):
    code = models.CharField(max_length=20, unique=True, null=True)
    size = models.IntegerField(default=0)
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        app_label = "estate"

    def __str__(self) -> str:
        return str(self.code)


class Barn(models.Model):
    url = models.CharField(max_length=500, primary_key=True)
    size = models.IntegerField()

    class Meta:
        app_label = "estate"

    def __str__(self) -> str:
        return self.url


houses, agents = House._default_manager, Agent._default_manager


@pytest.fixture
def task(orm: str) -> Iterator[Task]:
    """A task in a database that has the tables."""
    with connection.schema_editor() as editor:
        for model in (Agent, House, Shed, Barn):
            editor.create_model(model)
    yield Task.objects.create(spider="s", seeds=b"")
    connection.close()


def page(task: Task, name: str, *items: Any, pipelines: Pipelines | None = None) -> Outcome:
    ident = name.encode().ljust(16, b".")
    url = f"http://h/{name}"
    outcome = Outcome(ident, task.pk, "h", b"r", 1, 1, url=url, version="v1")
    collector = Collector(LinkPage(outcome), pipelines=pipelines)
    for item in items:
        collector.take(item)
    return outcome


def commit(*pages: Outcome) -> None:
    DjangoLedger().commit([*pages])


def prices() -> dict[str, int]:
    return dict(houses.values_list("url", "price"))


def test_an_instance_is_stored_as_a_row_and_as_an_item(task: Task) -> None:
    commit(page(task, "a", House(url="u", price=5, size=Decimal("1.5")), {"plain": 1}))
    assert prices() == {"u": 5}
    stored = Item.objects.order_by("ordinal").values_list("model", "data__price", "data__plain")
    assert [*stored] == [("estate.House", 5, None), ("", None, 1)]
    assert Item.objects.get(ordinal=0).data["size"] == "1.5"
    assert Page.objects.get().items == 2


def test_only_the_run_that_wins_stores_its_rows(task: Task) -> None:
    commit(page(task, "a", House(url="u", price=5)))
    commit(page(task, "a", House(url="u", price=7)), page(task, "b", House(url="v", price=1)))
    assert prices() == {"u": 5, "v": 1}


def test_a_failed_transaction_leaves_nothing_and_can_be_repeated(task: Task) -> None:
    agent = Agent(name="Ann")
    outcome = page(task, "a", House(url="u", price=5, agent=agent), agent)
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        _store_and_fail(outcome)
    assert not houses.exists()
    assert not Page.objects.exists()
    commit(outcome)
    assert houses.get().agent.name == "Ann"


def _store_and_fail(outcome: Outcome) -> None:
    from crawlservice.ledger.model_items import model_rows
    from crawlservice.ledger.rows import insert

    insert([outcome])
    model_rows.save([outcome])
    raise ZeroDivisionError


def test_items_refer_to_each_other_in_any_order(task: Task) -> None:
    ann, bob = Agent(name="Ann"), Agent(name="Bob")
    house = House(url="u", price=1, agent=ann)
    commit(page(task, "a", house, ann, bob), page(task, "b", House(url="v", price=2, agent=bob)))
    found = houses.values_list("url", "agent__name").order_by("url")
    assert [*found] == [("u", "Ann"), ("v", "Bob")]
    assert Item.objects.get(data__url="u").data["agent"] == {"name": "Ann"}


def test_equal_parents_of_several_pages_are_one_row(task: Task) -> None:
    pages = []
    for n in range(3):
        agent = Agent(name="Ann")
        pages.append(page(task, f"p{n}", agent, House(url=f"u{n}", price=n, agent=agent)))
    commit(*pages)
    assert agents.count() == 1
    assert {*houses.values_list("agent", flat=True)} == {agents.get().pk}


def test_a_parent_that_is_not_an_item_is_refused_by_name(task: Task) -> None:
    outcome = page(task, "a", House(url="u", price=1, agent=Agent(name="Ann")))
    with pytest.raises(LedgerRefused, match=r"estate.House.agent: the estate.Agent .* not stored"):
        commit(outcome)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"price": "cheap"}, "estate.House.*'price' expected a number"),
        ({"price": None}, "estate.House.price"),
        ({"title": "much too long for it"}, "estate.House.title"),
        ({"agent_id": 77}, "agent_id|FOREIGN KEY"),
    ],
)
def test_what_the_database_refuses_is_named(
    task: Task, values: dict[str, Any], message: str
) -> None:
    if connection.vendor == "sqlite" and "title" in values:
        pytest.skip("SQLite stores longer texts")
    with pytest.raises(LedgerRefused, match=message):
        commit(page(task, "a", House(**{"url": "u", "price": 1} | values)))
    assert not Page.objects.exists()


def test_a_second_row_with_a_unique_value_is_refused(task: Task) -> None:
    commit(page(task, "a", House(url="u", price=1)))
    with pytest.raises(LedgerRefused, match=r"estate.House.*url"):
        commit(page(task, "b", House(url="u", price=2)))


def test_texts_that_databases_refuse_are_cleaned(task: Task) -> None:
    commit(page(task, "a", House(url="u\0\ud800", price=1)))
    assert prices() == {"u?": 1}


# -- upserts --------------------------------------------------------------------------------------


def test_an_upsert_updates_the_row_that_exists(task: Task) -> None:
    commit(page(task, "a", Upsert(House(url="u", price=1), on="url")))
    added = houses.get().added_at
    commit(page(task, "b", Upsert(House(url="u", price=2), on="url")))
    assert prices() == {"u": 2}
    assert houses.get().added_at == added
    assert not RowChange.objects.exists()


def test_of_equal_keys_in_one_batch_the_last_wins(task: Task) -> None:
    pages = [
        page(task, name, Upsert(House(url="u", price=price), on="url"))
        for name, price in (("z", 1), ("a", 2), ("m", 3))
    ]
    commit(*pages)
    assert prices() == {"u": 3}


def test_only_named_fields_are_updated(task: Task) -> None:
    commit(page(task, "a", House(url="u", price=1, title="old")))
    new = House(url="u", price=2, title="new")
    commit(page(task, "b", Upsert(new, on="url", update="price")))
    assert houses.values_list("price", "title").get() == (2, "old")


@pytest.mark.parametrize("newest", ["seen_at", lambda old, new: new.seen_at >= old.seen_at])
def test_the_newest_wins_by_the_rule(task: Task, newest: Any) -> None:
    def one(name: str, price: int, at: dt.datetime) -> Outcome:
        house = House(url="u", price=price, seen_at=at)
        return page(task, name, Upsert(house, on="url", newest=newest))

    commit(one("a", 1, LATE))
    commit(one("b", 2, EARLY))
    assert prices() == {"u": 1}
    commit(one("c", 3, LATE), one("d", 4, EARLY))
    assert prices() == {"u": 3}


def test_history_keeps_what_changed(task: Task) -> None:
    def one(name: str, price: int) -> Outcome:
        house = House(url="u", price=price, size=Decimal("1.005"), facts={"rooms": 2})
        return page(task, name, Upsert(house, on="url", history=True))

    for name, price in (("a", 1), ("b", 1), ("c", 2)):
        commit(one(name, price))
    change = RowChange.objects.get()
    assert change.changes == {"price": [1, 2]}
    assert (change.model, change.row) == ("estate.house", str(houses.get().pk))
    assert (change.task, change.version) == (task.pk, "v1")


def test_history_is_not_kept_of_the_time_alone(task: Task) -> None:
    for name, at in (("a", EARLY), ("b", LATE)):
        house = House(url="u", price=1, seen_at=at)
        commit(page(task, name, Upsert(house, on="url", newest="seen_at", history=True)))
    assert houses.get().seen_at == LATE
    assert not RowChange.objects.exists()


def test_parallel_upserts_of_the_same_rows_all_succeed(task: Task) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer")

    def work(number: int) -> None:
        for n in range(10):
            urls = [f"u{(k * (number + 1)) % 7}" for k in range(7)]
            rows = [
                Upsert(House(url=url, price=n), on="url", history=bool(number % 2)) for url in urls
            ]
            commit(page(task, f"{number}/{n}", *rows))

    at_once(*(partial(work, number) for number in range(4)))
    assert houses.count() == 7
    assert Page.objects.count() == 40


# -- odd values -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "field"),
    [({"size": "1,5"}, "size"), ({"seen_at": "yesterday"}, "seen_at"), ({"price": "x"}, "price")],
)
def test_a_text_that_is_no_value_of_its_field_is_refused_by_name(
    task: Task, values: dict[str, Any], field: str
) -> None:
    item = House(**{"url": "u", "price": 1, **values})
    with pytest.raises(LedgerRefused, match=rf"estate\.House\.{field}: .*(value|number)"):
        commit(page(task, "a", item))


def test_whatever_a_function_of_the_author_raises_ends_its_page(task: Task) -> None:
    def newest(old: Any, new: Any) -> bool:
        raise AttributeError("no such thing")

    commit(page(task, "a", House(url="u", price=1)))
    item = Upsert(House(url="u", price=2), on="url", newest=newest)
    with pytest.raises(LedgerRefused, match=r"estate\.House.*no such thing"):
        commit(page(task, "b", item))


def test_a_key_that_is_too_long_for_an_index_is_refused(task: Task) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has no such limit")
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE estate_house ALTER COLUMN url TYPE text")
    noise = "".join(chr(0x4E00 + n * 7919 % 20_000) for n in range(9000))
    with pytest.raises(LedgerRefused, match=r"estate\.House.*index row"):
        commit(page(task, "a", House(url=noise, price=1)))


def test_a_request_that_is_twice_in_a_batch_stores_its_rows_once(task: Task) -> None:
    commit(page(task, "a", House(url="u", price=1)), page(task, "a", House(url="v", price=2)))
    assert prices() == {"v": 2}
    assert Item.objects.get().data["url"] == "v"


def test_rows_whose_key_has_no_value_are_inserted(task: Task) -> None:
    history: dict[str, Any] = {"on": "code", "history": True}
    sheds = (Shed(), Shed(), Shed(code="c"))
    commit(page(task, "a", *(Upsert(shed, on="code") for shed in sheds)))
    commit(page(task, "b", Upsert(Shed(), **history), Upsert(Shed(code="c"), **history)))
    codes = Shed._default_manager.order_by("pk").values_list("code", flat=True)
    assert sorted(codes, key=str) == [None, None, None, "c"]


def test_a_time_that_is_set_by_itself_is_no_change(task: Task) -> None:
    def one(name: str, size: int) -> None:
        commit(page(task, name, Upsert(Shed(code="c", size=size), on="code", history=True)))

    one("a", 1)
    first = Shed._default_manager.get().changed_at
    one("b", 1)
    assert Shed._default_manager.get().changed_at == first
    assert not RowChange.objects.exists()
    one("c", 2)
    assert Shed._default_manager.get().changed_at > first
    assert RowChange.objects.get().changes == {"size": [1, 2]}


def test_the_history_of_rows_with_long_keys(task: Task) -> None:
    key = "k" * 300
    for name, size in (("a", 1), ("b", 2)):
        commit(page(task, name, Upsert(Barn(pk=key, size=size), on="url", history=True)))
    assert RowChange.objects.get().row == key


# -- mistakes in the code -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"on": "link"}, "names 'link'; its fields are added_at, agent"),
        ({"on": "price"}, "needs fields that are unique together"),
        ({"on": "url", "newest": 3}, "newest of Upsert must be"),
    ],
)
def test_a_wrong_upsert_is_refused_when_it_is_yielded(rule: dict[str, Any], message: str) -> None:
    with pytest.raises(SpiderError, match=message):
        page(Task(pk=1), "a", Upsert(House(url="u", price=1), **rule))


def test_only_model_instances_are_upserted() -> None:
    with pytest.raises(SpiderError, match="it is for instances of Django models"):
        page(Task(pk=1), "a", Upsert({"url": "u"}, on="url"))


def test_an_instance_is_yielded_once() -> None:
    house = House(url="u", price=1)
    with pytest.raises(SpiderError, match=r"estate.House 'u' was yielded twice"):
        page(Task(pk=1), "a", house, house)


def test_an_upsert_must_name_a_field() -> None:
    with pytest.raises(ValueError, match="on names no field"):
        Upsert(House(url="u", price=1), on=())


def test_pipelines_see_the_instance(task: Task) -> None:
    from itemadapter import ItemAdapter

    def double(item: Any, response: Any) -> Any:
        adapter = ItemAdapter(item)
        adapter["price"] = adapter["price"] * 2
        return item

    pipelines = Pipelines([double])
    commit(page(task, "a", Upsert(House(url="u", price=4), on="url"), pipelines=pipelines))
    assert prices() == {"u": 8}


# -- tables that other code has migrated ----------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("ALTER TABLE estate_house DROP COLUMN title", "lacks title"),
        ("ALTER TABLE estate_house ADD COLUMN rooms integer NOT NULL", "requires rooms"),
        ("DROP TABLE estate_house", "lacks added_at, agent_id"),
    ],
)
def test_rows_wait_for_the_code_of_a_migrated_table(task: Task, change: str, message: str) -> None:
    if connection.vendor == "sqlite" and "NOT NULL" in change:
        change += " DEFAULT NULL"  # as SQLite allows it: no row can be inserted without a value
    with connection.cursor() as cursor:
        cursor.execute(change)
    with pytest.raises(TablesChanged, match=message):
        commit(page(task, "a", House(url="u", price=1)))
    assert not Page.objects.exists()
