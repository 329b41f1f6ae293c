"""Row deliveries in the admin: rows refused by another database are seen, sent again or dropped."""

from __future__ import annotations

from uuid import UUID

import pytest
from django.test import Client

from crawlservice.models import Action, RowDelivery, Task
from tests.crawlservice.web import log_in_as

LIST = "/admin/crawlservice/rowdelivery/"
REASON = "stock.Part.code: duplicate key"


@pytest.fixture
def refused(ended_task: Task) -> RowDelivery:
    return _add(ended_task, refused=True, problem=REASON, attempts=1)


def _add(task: Task, **fields: object) -> RowDelivery:
    rows = [{"model": "stock.Part"}, {"model": "stock.Maker"}, {"model": "stock.Part"}]
    row = RowDelivery(
        database="warehouse",
        rows=rows,
        size=99,
        task=task.pk,
        page=UUID(int=5),
        version="v1",
        **fields,
    )
    row.save()
    return row


def _act(client: Client, name: str, *rows: RowDelivery) -> int:
    form = {"action": name, "_selected_action": [row.pk for row in rows]}
    return client.post(LIST, form, follow=True).status_code


def test_the_list_says_what_waits_and_what_was_refused(
    refused: RowDelivery, ended_task: Task
) -> None:
    _add(ended_task)
    client = log_in_as("operator")
    shown = client.get(LIST).content.decode()
    assert REASON in shown
    assert "2 stock.Part, 1 stock.Maker" in shown
    assert REASON not in client.get(LIST, {"state": "waiting"}).content.decode()
    page = client.get(f"{LIST}{refused.pk}/change/").content.decode()
    assert str(refused.page) in page


def test_a_refused_page_is_sent_again_or_dropped(refused: RowDelivery, ended_task: Task) -> None:
    waiting = _add(ended_task)
    client = log_in_as("operator")
    _act(client, "send_again", refused, waiting)
    refused.refresh_from_db()
    assert (refused.refused, refused.problem, refused.attempts) == (False, "", 0)
    _act(client, "drop", refused)
    assert [*RowDelivery.objects.all()] == [waiting]
    assert [*Action.objects.values_list("verb", flat=True)][:2] == ["drop rows", "send rows again"]
