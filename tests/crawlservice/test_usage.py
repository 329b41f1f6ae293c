"""What pages say about their use: in their rows, in the API, in the admin, and in exports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from crawlframe.outcome import Outcome
from crawlframe.request import Request, make_rid
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Page, Task
from tests.crawlservice.programs import person, program
from tests.crawlservice.web import login

DENIED: dict[str, Any] = {"ai-train": "no", "index": "no", "said": [["X-Robots-Tag", "noai"]]}


def outcome(task: Task, name: str, usage: dict[str, Any] | None = None) -> Outcome:
    rid = make_rid(task.pk, name.encode())
    record = Request("http://h/").encode()
    return Outcome(rid, task.pk, "h", record, 0, 0, url=f"http://h/{name}", usage=usage)


@pytest.mark.usefixtures("orm")
def test_rows_have_the_usage_of_their_pages() -> None:
    task = Task.objects.create(spider="s", seeds=b"")
    denied, plain = outcome(task, "denied", DENIED), outcome(task, "plain")
    DjangoLedger().commit([denied, plain])
    DjangoLedger().commit([outcome(task, "none")])
    rows = {UUID(bytes=one.rid): one for one in (denied, plain)}
    assert {
        row.rid: row.usage for row in Page.objects.filter(rid__in=rows)
    } == {rid: one.usage for rid, one in rows.items()}  # fmt: skip
    assert Page.objects.filter(usage__isnull=True).count() == 2


@pytest.mark.usefixtures("service")
def test_the_api_tells_it(ended_task: Task, add_page: Callable[..., Page]) -> None:
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
