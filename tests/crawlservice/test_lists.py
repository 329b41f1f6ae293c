"""Lists: paged by key, filtered and searched, with bounded cost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from selectolax.lexbor import LexborHTMLParser

from crawlservice.admin.parts import keyset
from crawlservice.admin.parts.read_only import ReadOnly
from crawlservice.models import Item, Page, Task
from crawlservice.tasks.results.task_rows import DISORDER, all_before, none_before
from tests.crawlservice.web import cells, login


@pytest.fixture
def admin(ended_task: Task) -> Client:
    return login(is_superuser=True)


def look(client: Client, address: str) -> str:
    answer = client.get(f"/admin/crawlservice/{address}")
    assert answer.status_code == 200
    return str(answer.content.decode())


def turned(page: str) -> dict[str, str]:
    """The links to the other pages of a list."""
    return {a.text(): str(a.attributes["href"]) for a in LexborHTMLParser(page).css(".cf-pages a")}


@pytest.fixture
def many(admin: Client, add_page: Callable[..., Page], monkeypatch: pytest.MonkeyPatch) -> Client:
    """Seven pages of one task, shown three at a time."""
    monkeypatch.setattr(ReadOnly, "list_per_page", 3)
    task = Task.objects.create(spider="many", seeds=b"")
    for n in range(7):
        add_page(task, b"%d" % n, url=f"/{n}", items=[{"n": n, "name": f"Item {n}"}])
    return admin


def test_pages_are_turned_by_key(many: Client) -> None:
    task = Task.objects.get(spider="many").pk
    place = f"page/?task={task}"

    def urls(page: str) -> list[str]:
        return cells(page, "short_url")

    first = look(many, place)
    assert urls(first) == ["/6", "/5", "/4"]
    assert [*turned(first)] == ["Older"]
    second = look(many, "page/" + turned(first)["Older"])
    assert urls(second) == ["/3", "/2", "/1"]
    assert [*turned(second)] == ["Newest", "Newer", "Older"]
    third = look(many, "page/" + turned(second)["Older"])
    assert urls(third) == ["/0"]
    assert [*turned(third)] == ["Newest", "Newer"]
    assert urls(look(many, "page/" + turned(third)["Newer"])) == ["/3", "/2", "/1"]
    back = look(many, "page/" + turned(second)["Newer"])
    assert urls(back) == ["/6", "/5", "/4"]
    assert [*turned(back)] == ["Older"]
    assert urls(look(many, "page/" + turned(third)["Newest"])) == ["/6", "/5", "/4"]
    # Another filter starts with its newest rows.
    filters = LexborHTMLParser(second).css("#changelist-filter a")
    assert filters
    assert not any("before=" in str(a.attributes["href"]) for a in filters)
    assert urls(look(many, f"page/?task={task}&before=x")) == ["/6", "/5", "/4"]


def test_nothing_is_counted_and_nothing_skipped(many: Client) -> None:
    for name in ("page", "item", "task", "event", "era", "generation"):
        with CaptureQueriesContext(connection) as queries:
            look(many, f"{name}/")
        sql = " ".join(query["sql"] for query in queries)
        assert "COUNT(" not in sql
        assert "OFFSET" not in sql


def test_items_are_searched_anywhere_or_in_a_field(many: Client) -> None:
    def found(query: str) -> list[str]:
        return cells(look(many, f"item/?q={query}"), "short")

    assert list(found("item 3")) == ["n 3 · name Item 3"]
    assert len(found("name:ITEM")) == 3  # a page of them
    assert found("name:nothing") == found("city:Ulm") == []
    assert len(found("n:5")) == 1
    assert "searched: the latest 100,000" in look(many, "item/?q=x")


def test_a_search_goes_through_the_latest_rows_only(
    many: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyset, "SEARCHED_ROWS", 2)
    assert len(cells(look(many, "item/?q=Item"), "short")) == 2
    assert len(cells(look(many, "page/?q=/"), "short_url")) == 2
    task = Task.objects.get(spider="shop").pk
    assert len(cells(look(many, f"page/?q=/&task={task}"), "short_url")) == 2


def test_where_there_is_no_index_the_latest_rows_are_looked_at(
    many: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    Page.objects.update(version="1f00")
    monkeypatch.setattr(keyset, "FILTERED_ROWS", 2)
    page = look(many, "page/?version=1f00")
    assert len(cells(page, "short_url")) == 2
    assert "searched: the latest 2" in page
    task = Task.objects.get(spider="many").pk
    assert len(cells(look(many, f"page/?version=1f00&task={task}"), "short_url")) == 3


def test_filters_by_spider_user_and_time(many: Client) -> None:
    user = User.objects.create(username="else")
    Task.objects.filter(spider="many").update(user=user)
    assert cells(look(many, "task/?spider=many"), "spider") == ["many"]
    assert cells(look(many, f"task/?user={user.pk}"), "spider") == ["many"]
    assert cells(look(many, "task/?user=x"), "spider") == []
    assert cells(look(many, "task/?q=sho"), "spider") == ["shop"]
    page = look(many, "task/?status=finished_with_errors")
    state = LexborHTMLParser(page).css_first("#result_list .field-shown_state")
    assert state is not None
    assert [part.text() for part in state.css("span")] == [
        "finished with errors", "1 of 2 pages ended in error, all http_404",
    ]  # fmt: skip
    assert cells(look(many, "task/?status=running"), "spider") == ["many"]
    assert cells(look(many, "task/?status=failed"), "spider") == []
    assert cells(look(many, "event/"), "shown_kind") == ["finished with errors"]
    assert len(cells(look(many, "item/?spider=shop"), "short")) == 2
    assert len(cells(look(many, "page/?spider=shop"), "short_url")) == 3
    old = timezone.now() - timedelta(days=3)
    Item.objects.filter(task__spider="shop").update(created_at=old)
    day = f"{old + timedelta(days=1):%Y-%m-%dT%H:%M}"
    assert len(cells(look(many, f"item/?until={day}"), "short")) == 2
    assert len(cells(look(many, f"item/?spider=shop&since={day}"), "short")) == 0
    assert len(cells(look(many, f"item/?since={day}"), "short")) == 3
    assert len(cells(look(many, "item/?since=nonsense"), "short")) == 3


def test_the_row_of_a_time_is_found_in_few_steps(
    ended_task: Task, add_page: Callable[..., Page]
) -> None:
    start = timezone.now() - timedelta(days=1)
    numbers = []
    for n in range(40):
        page = add_page(ended_task, b"n%d" % n)
        Page.objects.filter(pk=page.pk).update(created_at=start + timedelta(minutes=n))
        numbers.append(page.pk)
    Page.objects.filter(pk__lt=numbers[0]).delete()
    Page.objects.filter(pk__in=numbers[10:20]).delete()
    with CaptureQueriesContext(connection) as queries:
        assert all_before(Page, start + DISORDER + timedelta(minutes=30)) == numbers[29]
    assert len(queries) < 12
    assert all_before(Page, start + DISORDER + timedelta(minutes=15)) == numbers[9]
    assert all_before(Page, start) < numbers[0]
    assert all_before(Page, timezone.now()) == numbers[-1]
    assert none_before(Page, start - DISORDER) < numbers[0]
    assert none_before(Page, start - DISORDER + timedelta(minutes=5)) == numbers[4]
    assert none_before(Page, start + timedelta(minutes=39)) == numbers[-1]


def test_an_item_leads_to_its_page_and_a_page_to_its_items(many: Client) -> None:
    page = Page.objects.get(url="/3")
    item = Item.objects.get(rid=page.rid)
    shown = look(many, f"item/{item.pk}/change/")
    assert f'/page/{page.pk}/change/">/3</a>' in shown
    assert "&quot;name&quot;: &quot;Item 3&quot;" in shown
    link = f"item/?rid={page.rid}"
    assert link in look(many, f"page/{page.pk}/change/")
    assert len(cells(look(many, link), "short")) == 1
    assert cells(look(many, "item/?rid=x"), "short") == []


def test_links_to_crawled_urls_tell_nobody_from_where(
    admin: Client, ended_task: Task, add_page: Callable[..., Page]
) -> None:
    good = add_page(ended_task, b"good", url="http://x.example/?<b>")
    bad = add_page(ended_task, b"bad", url="javascript:alert(1)")
    shown = look(admin, f"page/{good.pk}/change/")
    link = LexborHTMLParser(shown).css_first('a[href^="http://x.example/"]')
    assert link is not None
    assert link.attributes["rel"] == "noreferrer noopener"
    assert 'href="javascript:' not in look(admin, f"page/{bad.pk}/change/")
