"""Declared uses of pages: in their rows, in the API, in the admin, and in exports."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command

from crawlframe.request.request import Request, make_rid
from crawlframe.run.outcome import Outcome
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Action, Page, Task
from crawlservice.tasks.results.item_filter import BadUsageFilter, read_filters
from tests.crawlservice.programs import person, program
from tests.crawlservice.web import login

DENIED: dict[str, Any] = {"ai-train": "no", "index": "no", "said": [["X-Robots-Tag", "noai"]]}


def outcome(task: Task, name: str, usage: dict[str, Any] | None = None) -> Outcome:
    rid = make_rid(task.pk, name.encode())
    record = Request("http://h/").encode()
    made = Outcome(rid, task.pk, "h", record, 0, 0, url=f"http://h/{name}")
    made.fetch.usage = usage
    return made


@pytest.mark.usefixtures("orm")
def test_rows_have_the_usage_of_their_pages() -> None:
    task = Task.objects.create(spider="s", seeds=b"")
    denied, plain = outcome(task, "denied", DENIED), outcome(task, "plain")
    DjangoLedger().commit([denied, plain])
    DjangoLedger().commit([outcome(task, "none")])
    rows = {UUID(bytes=one.rid): one for one in (denied, plain)}
    assert {
        row.rid: row.usage for row in Page.objects.filter(rid__in=rows)
    } == {rid: one.fetch.usage for rid, one in rows.items()}  # fmt: skip
    assert Page.objects.filter(usage__isnull=True).count() == 2


@pytest.mark.usefixtures("service")
def test_the_api_shows_the_declared_use(ended_task: Task, add_page: Callable[..., Page]) -> None:
    add_page(ended_task, b"denied", usage=DENIED)
    api = program(person("viewer"), "read")
    rows = api.get(f"tasks/{ended_task.pk}/pages").json()["pages"]
    assert [row["usage"] for row in rows[-2:]] == [None, DENIED]


def test_the_admin_shows_it_as_text(ended_task: Task, add_page: Callable[..., Page]) -> None:
    admin = login(is_superuser=True)
    said = [["tdm-policy", "<script>alert(1)</script>"], ["X-Robots-Tag", "noai"]]
    denied = add_page(ended_task, b"denied", usage=DENIED | {"said": said})
    shown = admin.get(f"/admin/crawlservice/page/{denied.pk}/change/").content.decode()
    assert "X-Robots-Tag: noai" in shown
    assert "&lt;script&gt;alert" in shown
    assert "<script>alert" not in shown


# -- filters ---------------------------------------------------------------------------------------

PAGES: dict[str, dict[str, Any] | None] = {
    "silent": None,
    "other": {"index": "yes", "said": []},
    "granted": {"ai-train": "yes", "index": "no", "said": []},
    "denied": {"ai-train": "no", "said": [["meta robots", "noai"]]},
}


@pytest.fixture
def task(published: object, add_page: Callable[..., Page]) -> Task:
    task = Task.objects.create(spider="shop", seeds=b"")
    for name, usage in PAGES.items():
        add_page(task, name.encode(), items=[{"page": name}, {"page": name}], usage=usage)
    return task


FILTERS: tuple[tuple[list[str], list[str]], ...] = (
    ([], [*PAGES]),
    (["ai-train!=no"], ["silent", "other", "granted"]),
    (["ai-train=no"], ["denied"]),
    (["ai-train=yes"], ["granted"]),
    (["AI-Train != yes"], ["silent", "other", "denied"]),
    (["ai-train!=no", "index!=no"], ["silent", "other"]),
    (["ai-train=no", "ai-train=yes"], []),
    (["tdm!=no"], [*PAGES]),
)


def test_items_are_exported_by_what_their_pages_say(task: Task, tmp_path: Path) -> None:
    for n, (filters, expected) in enumerate(FILTERS):
        path = tmp_path / f"items{n}.jsonl"
        options = ["--usage", ",".join(filters)] if filters else []
        call_command("task", "export", str(task.pk), "-o", str(path), *options)
        lines = [json.loads(line)["page"] for line in path.read_text().splitlines()]
        assert lines == [name for name in expected for _ in "ab"]
        assert Action.objects.latest("pk").detail.get("usage", "") == ",".join(filters)


@pytest.mark.usefixtures("service")
def test_the_api_selects_by_what_pages_say(task: Task) -> None:
    api = program(person("operator"), "read")
    for filters, expected in FILTERS:
        query = urlencode({"usage": ",".join(filters)} if filters else {})
        twice = [name for name in expected for _ in "ab"]
        found = api.get(f"tasks/{task.pk}/items?{query}").json()["items"]
        assert [item["data"]["page"] for item in found] == twice
        found = api.get(f"tasks/{task.pk}/pages?{query}").json()["pages"]
        assert [page["url"].rpartition("/")[2] for page in found] == expected
        pieces = api.get(f"tasks/{task.pk}/export?{query}").streaming_content
        lines = b"".join(pieces).splitlines()
        assert [json.loads(line)["page"] for line in lines] == twice


@pytest.mark.usefixtures("service")
def test_a_filter_that_is_none_is_refused(task: Task) -> None:
    api = program(person("operator"), "read")
    for text, problem in (
        ("ai-train", "is not of the form NAME=yes"),
        ("ai-train=maybe", "is not of the form"),
        ("ai-train=no,", "usage '' is not of the form"),
        ("train!=no", "'train' is none of search, ai-input, ai-train"),
        ("ai-trian=no", "did you mean 'ai-train'?"),
    ):
        with pytest.raises(BadUsageFilter, match=re.escape(problem)):
            read_filters(text)
        answer = api.get(f"tasks/{task.pk}/export?{urlencode({'usage': text})}")
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (422, "invalid")
        assert problem in error["message"]
        with pytest.raises(CommandError, match=re.escape(problem)):
            call_command("task", "export", str(task.pk), "-o", "-", "--usage", text)
