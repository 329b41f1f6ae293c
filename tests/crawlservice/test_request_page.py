"""The page of a request: its exchange with the site, and its retry."""

from __future__ import annotations

from collections.abc import Callable

from django.utils import timezone

from crawlframe.frontier import Frontier
from crawlframe.request.request import make_rid
from crawlframe.run.outcome import Outcome, Verdict
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Action, ErrorGroup, Page, Task
from crawlservice.tasks.submit import submit
from tests.crawlservice.web import log_in_as, texts

URL = "https://shop.example/a?q='1'"
EXCHANGE = {
    "method": "GET",
    "url": URL,
    "sent": [["Accept", "*/*"], ["Cookie", "sid=********"]],
    "status": 403,
    "received": [["Server", "<nginx>"]],
}


def failed(exchange: dict[str, object] | None) -> Page:
    """An error of an ended task, recorded as a node does."""
    task = submit("shop", {"city": "Ulm"})
    outcome = Outcome(make_rid(task.pk, b"a"), task.pk, "h", b"record", 0, 0, url=URL)
    outcome.end(Verdict.ERROR, "http_403", "answered 403")
    outcome.fetch.exchange = exchange
    DjangoLedger().commit([outcome])
    Task.objects.filter(pk=task.pk).update(
        state=Task.State.FINISHED,
        outcome=Task.Outcome.FAILED,
        finished_at=timezone.now(),
        na=1,
        ne=1,
    )
    return Page.objects.get()


def test_it_shows_what_was_sent_and_received(published: Frontier) -> None:
    page = failed(EXCHANGE)
    assert page.exchange == EXCHANGE
    shown = log_in_as("viewer").get(f"/admin/crawlservice/page/{page.pk}/change/").content.decode()
    assert texts(shown, "#cf-sent dt") == ["Accept", "Cookie"]
    assert texts(shown, "#cf-received dd") == ["<nginx>"]
    assert "fetch --shell" in texts(shown, "#cf-shell")[0]
    assert texts(shown, "#cf-shell")[0].endswith(
        """fetch --shell 'https://shop.example/a?q='"'"'1'"'"'' --spider shop"""
    )
    assert f"/admin/errors/{ErrorGroup.objects.get().pk}/" in shown
    assert "Retry this request" not in shown


def test_an_error_without_an_answer_and_an_old_one(published: Frontier) -> None:
    page = failed({"method": "GET", "url": URL, "sent": []})
    place = f"/admin/crawlservice/page/{page.pk}/change/"
    client = log_in_as("viewer")
    assert "No complete answer" in client.get(place).content.decode()
    Page.objects.update(exchange=None)
    assert "No headers are stored" in client.get(place).content.decode()


def test_a_good_page_has_no_headers(ended_task: Task) -> None:
    page = Page.objects.get(url__endswith="/a")
    shown = log_in_as("viewer").get(f"/admin/crawlservice/page/{page.pk}/change/").content.decode()
    assert "No headers are stored" not in shown
    assert "Its items" in shown


def test_one_request_is_retried_from_there(published: Frontier) -> None:
    page = failed(None)
    published.close_tasks([page.task_id])
    for keys in published.store.keys:
        published.store.redis.delete(keys("TASK", page.task_id))
    client, place = log_in_as("operator"), f"/admin/crawlservice/page/{page.pk}/"
    assert "Retry this request" in client.get(f"{place}change/").content.decode()
    assert log_in_as("viewer").post(f"{place}retry/").status_code == 403
    sent = client.post(f"{place}retry/")
    assert sent["Location"] == f"/admin/crawlservice/task/{page.task_id}/change/"
    assert not Page.objects.exists()
    assert Task.objects.get().state == Task.State.RUNNING
    assert Action.objects.filter(verb="retry", task=page.task_id).exists()
    assert client.get(f"{place}change/").status_code == 404


def test_a_task_that_runs_says_when_it_can_be_retried(
    published: Frontier, add_page: Callable[..., Page]
) -> None:
    page = failed(None)
    Task.objects.update(state=Task.State.RUNNING)
    client = log_in_as("operator")
    shown = client.get(f"/admin/crawlservice/page/{page.pk}/change/").content.decode()
    assert "when its task has ended" in shown
    told = client.post(f"/admin/crawlservice/page/{page.pk}/retry/", follow=True).content.decode()
    assert "cannot be retried" in told
