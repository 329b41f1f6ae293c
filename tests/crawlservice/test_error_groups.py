"""Errors of all tasks, grouped by their cause."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from crawlframe.frontier import Frontier
from crawlframe.request.request import make_rid
from crawlframe.run.outcome import Outcome, Verdict
from crawlservice.connections.lookup import NotFound
from crawlservice.ledger.error_causes import Cause, cause_of
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import ErrorGroup, Page, Task
from crawlservice.steward import pruning
from crawlservice.tasks.results import error_groups
from crawlservice.tasks.results.error_groups import ErrorText
from crawlservice.tasks.submit import submit
from tests.crawlservice.web import log_in_as, rows

both = pytest.mark.databases("sqlite", "postgres")

BROKEN = """Traceback (most recent call last):
  File "/srv/project/spiders/shop.py", line {line}, in parse
    price = int(box["price"])
  File "/usr/lib/python3.11/json/decoder.py", line 355, in raw_decode
    raise StopIteration
{error}
"""


def broken(line: int = 42, error: str = "json.decoder.JSONDecodeError: Expecting value") -> str:
    return BROKEN.format(line=line, error=error).removeprefix(
        "Traceback (most recent call last):\n"
    )


def test_a_text_has_its_message_and_the_line_of_its_author() -> None:
    error = "json.decoder.JSONDecodeError: Expecting value"
    source = 'price = int(box["price"])'
    text = ErrorText.of(broken())
    assert text == (error, True, "/srv/project/spiders/shop.py:42", source)
    assert ErrorText.of("http://x/: answered 404", "http://x/") == ("answered 404", False, "", "")


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        ("http://a.example/ answered 404", ("", "")),
        (broken(), ("JSONDecodeError", "spiders/shop.py, parse")),
        (broken(error="KeyError"), ("KeyError", "spiders/shop.py, parse")),
        (broken(error="shop.errors.Bad: first\nsecond: line"), ("Bad", "spiders/shop.py, parse")),
        (broken(error="   "), ("", "spiders/shop.py, parse")),
        (
            "middleware Proxy:\n" + broken(error="ValueError: x"),
            ("ValueError", "spiders/shop.py, parse"),
        ),
        (
            '  File "/v/lib/python3.11/site-packages/parsel/s.py", line 3, in css\nTypeError: y',
            ("TypeError", "parsel/s.py, css"),
        ),
    ],
)
def test_the_cause_is_type_file_and_function(detail: str, expected: tuple[str, str]) -> None:
    assert cause_of("shop", "callback", detail) == Cause("shop", "callback", *expected)


def test_lines_and_messages_make_no_other_cause() -> None:
    one, other = (
        cause_of("shop", "callback", broken(line, f"ValueError: {line}")) for line in (1, 99)
    )
    assert one.number == other.number < 2**53
    assert cause_of("other", "callback", broken()).number != one.number
    assert len(cause_of("s", "r" * 99, broken(error="E" * 300)).exception) == 100


Fail = Callable[..., Task]


@pytest.fixture
def fail(published: Frontier) -> Fail:
    """Records errors of a new task, as a node does."""
    ledger = DjangoLedger()

    def fail(*errors: tuple[str, str], version: str = "1f00", **fields: Any) -> Task:
        task = submit("shop", {"city": "Ulm"})
        outcomes = []
        for n, (reason, detail) in enumerate(errors):
            rid = make_rid(task.pk, str(n).encode())
            outcome = Outcome(rid, task.pk, "h", b"record", 0, 0, url=f"http://a.example/{n}")
            outcome.version = version
            if reason:
                outcome.end(Verdict.ERROR, reason, detail)
            outcomes.append(outcome)
        ledger.commit(outcomes)
        Task.objects.filter(pk=task.pk).update(spider=fields.get("spider", "shop"))
        return task

    return fail


@both
def test_errors_are_grouped_over_tasks(fail: Fail) -> None:
    fail(("http_404", "gone"), ("callback", broken()), ("", ""))
    fail(("callback", broken(50)), ("cancelled", ""), ("robots", ""), version="2f00")
    found = error_groups.latest()
    assert [(group.row.reason, group.errors) for group in found.groups] == [
        ("callback", 2),
        ("http_404", 1),
    ]
    first = found.groups[0]
    assert (first.row.exception, first.row.first_version) == ("JSONDecodeError", "1f00")
    assert first.example.version == "2f00"
    assert error_groups.versions(first.row.pk) == [("2f00", 1), ("1f00", 1)]
    assert Page.objects.filter(error_group=None).count() == 3
    assert not found.more
    assert not found.partial
    assert error_groups.reasons() == ["callback", "http_404"]


@both
def test_they_are_found_by_spider_reason_and_time(fail: Fail) -> None:
    fail(("timeout", ""), ("http_404", ""))
    old = timezone.now() - timedelta(days=2)
    Page.objects.update(created_at=old)
    fail(("http_404", ""))
    day = timezone.now() - timedelta(days=1)

    def found(**given: Any) -> list[tuple[str, int]]:
        groups = error_groups.latest(**given).groups
        return [(group.row.reason, group.errors) for group in groups]

    assert found(since=day) == [("http_404", 1)]
    # Numbers are given out before times are: a row may be younger than those after it.
    first, second = Page.objects.order_by("pk")[:2]
    minute = timedelta(minutes=1)
    Page.objects.filter(pk=first.pk).update(created_at=old + minute)
    Page.objects.filter(pk=second.pk).update(created_at=old - minute)
    assert sorted(found(since=old)) == [("http_404", 1), ("timeout", 1)]
    assert found(reason="http_404") == [("http_404", 2)]
    assert found(spider="other") == []
    assert error_groups.latest(count=1).more


def test_of_many_only_some_are_counted(fail: Fail, monkeypatch: pytest.MonkeyPatch) -> None:
    fail(*[("http_404", "")] * 4)
    monkeypatch.setattr(error_groups, "MAX_COUNT", 3)
    (group,) = error_groups.latest().groups
    assert group.shown_count == "3+"
    assert error_groups.one(group.row.pk).shown_count == "4"


@both
def test_what_is_gone_is_no_longer_shown_and_its_group_pruned_later(fail: Fail) -> None:
    fail(("http_404", ""))
    Page.objects.all().delete()
    assert error_groups.latest().groups == []
    with pytest.raises(NotFound, match="all its errors were retried"):
        error_groups.one(ErrorGroup.objects.get().pk)
    assert not pruning.old_groups()
    ErrorGroup.objects.update(created_at=timezone.now() - timedelta(days=31))
    assert pruning.delete(pruning.old_groups()) == 1
    fail(("http_404", ""))
    assert ErrorGroup.objects.count() == 1


def test_good_pages_cost_no_query_more(published: Frontier) -> None:
    task = submit("shop", {"city": "Ulm"})
    ledger = DjangoLedger()
    with CaptureQueriesContext(
        connection,
    ) as queries:
        ledger.commit([Outcome(make_rid(task.pk, b"a"), task.pk, "h", b"", 0, 0, url="http://a/")])
    text = " ".join(query["sql"] for query in queries)
    assert "errorgroup" not in text
    assert "error_group" not in text
    assert "exchange" not in text


def test_the_page_links_to_pages_and_to_the_retry(fail: Fail) -> None:
    fail(("callback", broken()), ("http_404", "gone"))
    client = log_in_as("operator")
    page = client.get("/admin/errors/").content.decode()
    assert [row[0] for row in rows(page)] == [
        "gonehttp_404http://a.example/1",
        "json.decoder.JSONDecodeError: Expecting value"
        "callback · JSONDecodeError · spiders/shop.py, parsehttp://a.example/0",
    ]
    group = ErrorGroup.objects.get(reason="callback")
    one = client.get(f"/admin/errors/{group.pk}/").content.decode()
    assert "price = int(box" in one
    assert f"/admin/errors/retry/?spider=shop&amp;group={group.pk}" in one
    listed = client.get(f"/admin/crawlservice/page/?group={group.pk}").content.decode()
    assert "http://a.example/0" in listed
    assert "http://a.example/1" not in listed
    assert client.get("/admin/errors/?reason=http_404&spider=shop&span=hour").status_code == 200
    gone = client.get("/admin/errors/17/", follow=True).content.decode()
    assert "there is no group 17" in gone


def test_pages_of_a_group_are_paged(fail: Fail, monkeypatch: pytest.MonkeyPatch) -> None:
    from crawlservice.admin.parts.read_only import ReadOnly

    monkeypatch.setattr(ReadOnly, "list_per_page", 2)
    fail(*[("http_404", "")] * 3, ("timeout", ""), *[("http_404", "")] * 2)
    group = ErrorGroup.objects.get(reason="http_404").pk
    client = log_in_as("viewer")
    seen = []
    query = f"?group={group}"
    while query:
        changes = client.get(f"/admin/crawlservice/page/{query}").context_data["cl"]  # type: ignore[index]
        seen.append([page.pk for page in changes.result_list])
        query = changes.older
    pks = [*Page.objects.filter(error_group=group).order_by("-pk").values_list("pk", flat=True)]
    assert seen == [pks[:2], pks[2:4], pks[4:]]
    back = client.get(f"/admin/crawlservice/page/?group={group}&after={pks[4]}").context_data["cl"]  # type: ignore[index]
    assert [page.pk for page in back.result_list] == pks[2:4]
