"""Items as a table, and the comparison of two runs."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from selectolax.lexbor import LexborHTMLParser

from crawlframe.frontier import Frontier
from crawlservice.accounts import tokens
from crawlservice.models import Action, Item, Page, Task
from crawlservice.tasks.results import comparison, item_table
from crawlservice.tasks.results.comparison import (
    BadComparison,
    Change,
    Counts,
    compare,
    possible_keys,
    previous,
    whole,
)
from crawlservice.tasks.results.item_filter import BadItemFilter, ItemFilter
from crawlservice.tasks.results.item_table import Column, ItemRow, arranged, columns, latest
from tests.crawlservice.web import log_in_as, login, rows, texts

both = pytest.mark.databases("sqlite", "postgres")

THINGS: list[dict[str, Any]] = [
    {"url": "/1", "name": "Chair", "price": 20, "tags": ["a", "b"]},
    {"url": "/2", "name": "=table", "price": 3.5, "tags": []},
    {"url": "/3", "name": "", "price": "n/a", "sold": False},
]


def _rows(items: list[dict[str, Any]]) -> list[ItemRow]:
    return [ItemRow(n, data) for n, data in enumerate(items)]


def test_a_column_says_its_types_and_how_full_it_is() -> None:
    assert columns(_rows(THINGS)) == [
        Column("url", ["text"], 0, 3),
        Column("name", ["text"], 1, 2),
        Column("price", ["integer", "number", "text"], 0, 3),
        Column("tags", ["list"], 2, 1),
        Column("sold", ["boolean"], 2, 1),
    ]
    assert columns(_rows([{"a": 1}, {"a": True}, {"a": "1"}]))[0].distinct == 3


@pytest.mark.parametrize(
    ("field", "operator", "value", "meant"),
    [
        ("name", "is", "Chair", [0]),
        ("name", "contains", "CHA", [0]),
        ("tags", "contains", '"b"', [0]),
        ("name", "empty", "", [2]),
        ("name", "is", "", [2]),
        ("tags", "filled", "", [0]),
        ("sold", "is", "false", [2]),
        ("price", "is", "3.5", [1]),
        ("price", "min", "3.5", [0, 1]),
        ("price", "max", " 4 ", [1]),
        ("missing", "contains", "x", []),
    ],
)
def test_a_filter_means_items_by_a_field(
    field: str, operator: str, value: str, meant: list[int]
) -> None:
    found = arranged(_rows(THINGS), [ItemFilter.make(field, operator, value)])
    assert [row.number for row in found] == meant


@pytest.mark.parametrize(("operator", "value"), [("like", "x"), ("min", "x"), ("max", "")])
def test_a_filter_that_cannot_be_applied_is_refused(operator: str, value: str) -> None:
    with pytest.raises(BadItemFilter):
        ItemFilter.make("price", operator, value)


def test_rows_are_sorted_numbers_first_and_empty_ones_last() -> None:
    items = _rows([{"a": "x"}, {}, {"a": 10}, {"a": 9}, {"a": ""}, {"a": [1]}])
    assert [row.number for row in arranged(items, sort="a")] == [3, 2, 0, 5, 1, 4]
    assert [row.number for row in arranged(items, sort="-a")] == [5, 0, 2, 3, 1, 4]


def _changes(old: list[Any], new: list[Any], key: str = "id") -> tuple[list[Change], Counts]:
    counts = Counts()
    return [*compare(old, new, key, counts)], counts


def test_a_comparison_tells_what_was_added_gone_and_changed() -> None:
    old = [{"id": 1, "p": 1}, {"id": 2, "p": 2, "q": 0}, {"id": 3}, {"id": 3}, {"p": 7}]
    new = [{"id": 4, "p": 4}, {"id": 2, "p": 3}, {"id": 3}, {"id": "1", "p": 1}]
    changes, counts = _changes(old, new)
    assert changes == [
        Change("added", 4, {"id": (None, 4), "p": (None, 4)}),
        Change("changed", 2, {"p": (2, 3), "q": (0, None)}),
        Change("added", "1", {"id": (None, "1"), "p": (None, 1)}),
        Change("gone", 1, {"id": (1, None), "p": (1, None)}),
    ]
    assert counts == Counts(added=2, gone=1, changed=1, same=1, repeated=1, unkeyed=1)


def test_the_key_is_a_field_that_identifies_items() -> None:
    known = [
        Column("name", ["text"], 0, 3),
        Column("price", ["number"], 0, 3),
        Column("sku", ["text"], 0, 3),
        Column("id", ["integer"], 1, 3),
        Column("kind", ["text"], 0, 2),
    ]
    assert possible_keys(known, 3) == ["sku", "name"]


# -- with a database ------------------------------------------------------------------------------


@pytest.fixture
def runs(published: Frontier, add_page: Callable[..., Page]) -> tuple[Task, Task]:
    """Two runs: in the second, /1 costs more, /2 is gone and /4 is new."""
    made = []
    changed = [{**THINGS[0], "price": 25}, THINGS[2], {"url": "/4", "name": "Lamp", "price": 7}]
    for items in (THINGS, changed):
        given = {"spider": "shop", "seeds": b"", "arguments_hash": 7}
        task = Task.objects.create(state="finished", outcome="finished", **given)
        add_page(task, b"a", items=items)
        made.append(task)
    return made[0], made[1]


@both
def test_windows_pass_all_items_once(
    runs: tuple[Task, Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = runs[0].pk
    everything = [*Item.objects.filter(task=task).order_by("-pk").values_list("pk", flat=True)]
    assert latest(task).is_all
    for looked, step in ((3, 2), (3, 3), (5000, 1)):
        monkeypatch.setattr(item_table, "MAX_ITEMS", looked)
        monkeypatch.setattr(item_table, "STEP", step)
        window = latest(task)
        assert [row.number for row in window.rows] == everything
        assert (window.is_all, window.older) == (True, False)
    monkeypatch.setattr(item_table, "MAX_ITEMS", 2)
    first = latest(task)
    assert (first.is_all, first.older) == (False, True)
    second = latest(task, first.rows[-1].number)
    assert (second.is_all, second.older) == (False, False)
    assert [row.number for row in first.rows + second.rows] == everything
    monkeypatch.setattr(item_table, "LOOKED_BYTES", 1)
    monkeypatch.setattr(item_table, "STEP", 1)
    assert len(latest(task).rows) == 1


def test_the_run_before_is_of_equal_arguments_and_has_ended(runs: tuple[Task, Task]) -> None:
    assert previous(runs[1]) == runs[0]
    assert previous(runs[0]) is None
    Task.objects.filter(pk=runs[0].pk).update(state="running")
    assert previous(runs[1]) is None


def _page(client: Client, task: Task, rest: str) -> str:
    answer = client.get(f"/admin/crawlservice/task/{task.pk}/{rest}")
    assert answer.status_code == 200
    return str(answer.content.decode())


def test_the_page_shows_columns_and_applies_the_url(runs: tuple[Task, Task]) -> None:
    client = login(is_superuser=True)
    page = _page(client, runs[0], "items/")
    heads = texts(page, "#cf-items th")
    assert "price integer, number, text 0 % empty 3 distinct" in heads
    assert "all 3 items of the task" in texts(page, "#cf-looked")[0]
    assert [row[1] for row in rows(page, "#cf-items tbody tr")] == ["/3", "/2", "/1"]
    page = _page(client, runs[0], "items/?column=url&column=price&sort=price")
    assert [row[1:] for row in rows(page, "#cf-items tbody tr")] == [
        ["/2", "3.5"], ["/1", "20"], ["/3", "n/a"],
    ]  # fmt: skip
    links = [a.attributes["href"] for a in LexborHTMLParser(page).css("#cf-items th a")]
    assert links == [
        "?column=url&column=price&sort=url", "?column=url&column=price&sort=-price",
    ]  # fmt: skip
    page = _page(
        client, runs[0], "items/?field=price&operator=min&value=4&field=&operator=is&value="
    )
    assert [row[1] for row in rows(page, "#cf-items tbody tr")] == ["/1"]
    page = _page(client, runs[0], "items/?field=price&operator=min&value=x")
    assert "enter a number" in page
    assert "/items/" in _page(client, runs[0], "change/")


def test_a_large_task_says_what_was_looked_at(
    runs: tuple[Task, Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_table, "MAX_ITEMS", 2)
    client = login(is_superuser=True)
    page = _page(client, runs[0], "items/?sort=price")
    looked = texts(page, "#cf-looked")[0]
    assert "the latest 2 items of the task" in looked
    assert "A download has these items, sorted" in looked
    links = {a.text(): a.attributes["href"] for a in LexborHTMLParser(page).css(".cf-pages a")}
    page = _page(client, runs[0], f"items/{links['Older items']}")
    assert [row[1] for row in rows(page, "#cf-items tbody tr")] == ["/1"]
    monkeypatch.setattr(comparison, "MAX_ITEMS", 2)
    page = _page(client, runs[1], f"compare/?with={runs[0].pk}")
    assert "download the comparison, which has no limit" in page


def test_a_download_is_what_the_page_shows(runs: tuple[Task, Task]) -> None:
    client = login(is_superuser=True)
    place = f"/admin/crawlservice/task/{runs[0].pk}/items"

    def written(query: str) -> list[list[str]]:
        answer = client.get(f"{place}/csv/?{query}")
        return [*csv.reader(io.StringIO(answer.getvalue().decode()))]

    assert written("column=name&column=price") == [
        ["name", "price"], ["Chair", "20"], ["'=table", "3.5"], ["", "n/a"],
    ]  # fmt: skip
    assert written("column=url&sort=-price") == [["url"], ["/3"], ["/1"], ["/2"]]
    assert written("column=url&field=tags&operator=filled&value=") == [["url"], ["/1"]]
    assert client.get(f"{place}/csv/?field=price&operator=min&value=x").status_code == 302
    assert client.get(f"{place}/exe/").status_code == 404
    assert Action.objects.filter(verb="export", task=runs[0]).count() == 3


def test_the_page_compares_with_the_run_before(runs: tuple[Task, Task]) -> None:
    client = login(is_superuser=True)
    page = _page(client, runs[1], "compare/")
    assert texts(page, "#cf-tab .cf-tiles dd") == ["1", "1", "1", "1"]
    assert rows(page, "#cf-changed tbody tr") == [["/1", "price: 20 → 25"]]
    assert rows(page, "#cf-added tbody tr")[0][0] == "/4"
    assert rows(page, "#cf-gone tbody tr")[0][0] == "/2"
    assert "choose a task to compare with" in _page(client, runs[0], "compare/")
    page = _page(client, runs[0], f"compare/?with={runs[1].pk}&key=url")
    assert rows(page, "#cf-added tbody tr")[0][0] == "/2"
    assert "is no other task of the spider" in _page(client, runs[0], "compare/?with=x")


def test_the_whole_comparison_is_downloaded(
    runs: tuple[Task, Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_table, "MAX_ITEMS", 2)
    client = login(is_superuser=True)
    answer = client.get(f"/admin/crawlservice/task/{runs[1].pk}/compare/csv/?key=url")
    found = [*csv.reader(io.StringIO(answer.getvalue().decode()))]
    assert found[:2] == [
        ["change", "key", "field", "old", "new"], ["changed", "/1", "price", "20", "25"],
    ]  # fmt: skip
    assert {row[0] for row in found[1:]} == {"added", "gone", "changed"}
    assert ["gone", "/2", "name", "'=table", ""] in found
    with pytest.raises(BadComparison):
        whole(runs[0], None, "")


def test_items_are_for_those_who_may_see_them(runs: tuple[Task, Task]) -> None:
    viewer = log_in_as("viewer")
    user = User.objects.get(username="viewer")
    for rest in ("items/", "items/csv/", "compare/", "compare/csv/"):
        place = f"/admin/crawlservice/task/{runs[1].pk}/{rest}"
        assert viewer.get(place).status_code == 200
        assert viewer.get(f"/admin/crawlservice/task/9999/{rest}").status_code == 404
    user.groups.clear()
    for rest in ("items/", "items/csv/", "compare/", "compare/csv/"):
        assert viewer.get(f"/admin/crawlservice/task/{runs[1].pk}/{rest}").status_code == 403


def test_the_api_has_columns_and_comparison(runs: tuple[Task, Task]) -> None:
    user = User.objects.create(username="root", is_superuser=True)
    headers = {"Authorization": f"Bearer {tokens.make(user, 't', 'read')[1]}", "Host": "localhost"}
    client = Client(headers=headers)
    found = client.get(f"/api/v1/tasks/{runs[0].pk}/columns").json()
    assert (found["looked"], found["all"]) == (3, True)
    url = {"name": "url", "types": ["text"], "empty": 0, "distinct": 3}
    assert url in found["columns"]
    place = f"/api/v1/tasks/{runs[1].pk}/comparison"
    found = client.get(place).json()
    assert (found["other"], found["key"], found["added"], found["gone"]) == (
        runs[0].pk,
        "url",
        1,
        1,
    )
    change = {"kind": "changed", "key": "/1", "fields": {"price": {"old": 20, "new": 25}}}
    assert change in found["changes"]
    assert client.get(f"{place}?other={runs[1].pk}").status_code == 422
    assert client.get("/api/v1/tasks/9999/columns").status_code == 404
