"""Outcomes: how a task ended, decided when it ends and not again until it is retried."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from crawlframe.frontier import Counts, Frontier
from crawlframe.request.request import ROOT_URL
from crawlframe.run.reasons import EXCLUDED
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Event, Page, Task
from crawlservice.tasks.progress import outcomes
from crawlservice.tasks.progress.outcomes import Unsuccessful
from crawlservice.tasks.retry import retry
from crawlservice.tasks.submit import submit

ULM = {"city": "Ulm"}
BONN = {"city": "Bonn"}


@pytest.fixture
def crawl(published: Frontier, add_page: Callable[..., Page]) -> Callable[..., Task]:
    """A task that has ended: ``crawl(start=None, pages=[(depth, error, items), ...])``."""

    def run(
        pages: list[tuple[int, str, int]],
        start: tuple[str, str] | None = None,
        arguments: dict[str, Any] = ULM,
        state: str = "running",
        limited: int = 0,
        **settings: Any,
    ) -> Task:
        task = submit("shop", arguments)
        task.settings |= settings
        task.state = Task.State(state)
        task.save(update_fields=["settings", "state"])
        reason, detail = start or ("", "")
        add_page(
            task, b"start", url=ROOT_URL, callback="start", reason=reason, detail=detail,
            state="error" if start else "done",
        )  # fmt: skip
        for n, (depth, error, items) in enumerate(pages):
            add_page(
                task, b"%d" % n, [{"n": n}] * items, depth=depth, reason=error,
                state="error" if error else "done",
                detail="Traceback\n  line 3\nKeyError: 'price'" if error == "callback" else "",
            )  # fmt: skip
        ne = bool(start) + sum(bool(error) for _, error, _ in pages)
        na = 1 + len(pages)
        ledger = DjangoLedger()
        excluded = sum(error in EXCLUDED for _, error, _ in pages)
        counts = Counts("running", na, na - ne, ne, 0, limited, 0, 0, 0, excluded=excluded)
        assert ledger.tasks.finish({task.pk: counts}) == {task.pk}
        task.refresh_from_db()
        return task

    return run


OK, ITEM = (1, "", 0), (1, "", 1)
SEED = (0, "", 0)


# Pages of a task, its other fields, and its outcome and reason.
ENDS: tuple[tuple[list[tuple[int, str, int]], dict[str, Any], str, str], ...] = (
    ([SEED, ITEM, ITEM], {}, "finished", ""),
    ([(0, "", 1)], {}, "finished", ""),  # one page with an item is a whole crawl
    ([SEED, OK], {}, "finished", ""),  # a crawl for something else than items
    (
        [SEED, ITEM, (1, "http_404", 0)], {},
        "finished_with_errors", "1 of 3 pages ended in error, all http_404",
    ),
    ([], {"start": ("callback", "Traceback\nValueError: no such city")},
     "failed", "start failed: ValueError: no such city"),
    ([], {"start": ("poison", "")}, "failed", "start failed: poison"),
    ([], {}, "failed", "start led to no request; check that its URLs are in allowed_domains"),
    (
        [(0, "http_429", 0)] * 3, {},
        "failed", "3 of 3 pages ended in error, all http_429",
    ),
    (
        [SEED, ITEM] + [(1, "callback", 0)] * 10, {},
        "failed", "10 of 12 pages ended in error, all callback (KeyError: 'price')",
    ),
    (
        [SEED, SEED, SEED, (1, "timeout", 0), (1, "dns", 0), (1, "dns", 0)], {},
        "failed",
        "nothing beyond the start pages was fetched, and there are no items; "
        "3 of 6 pages ended in error, mostly dns",
    ),
    ([SEED], {}, "failed",
     "nothing beyond the start pages was fetched, and there are no items"),
    ([SEED], {"limited": 5}, "finished", ""),  # its page limit kept it from more
    ([SEED, ITEM, (1, "dns", 0)], {"failed_share": 0.3}, "failed",
     "1 of 3 pages ended in error, all dns"),
    ([(0, "dns", 0), (0, "dns", 0), (0, "", 1)], {"failed_share": 0.7},
     "finished_with_errors", "2 of 3 pages ended in error, all dns"),
    ([(0, "dns", 0)], {"failed_share": 1}, "failed", "1 of 1 pages ended in error, all dns"),
    ([SEED, (1, "cancelled", 0)], {"state": "cancelling"}, "cancelled", ""),
    # Pages that were excluded are neither pages nor errors.
    ([SEED, ITEM] + [(1, "robots", 0)] * 9, {}, "finished", ""),
    ([SEED, ITEM, (1, "dns", 0)] + [(1, "usage", 0)] * 9, {"failed_share": 0.3}, "failed",
     "1 of 3 pages ended in error, all dns"),
    ([(0, "robots", 0), (0, "robots", 0), (0, "usage", 0)], {}, "failed",
     "every page was excluded, mostly robots"),
    ([SEED, (1, "robots", 0)], {}, "failed",
     "nothing beyond the start pages was fetched, and there are no items; 1 page was excluded, "
     "all robots"),
)  # fmt: skip


def test_how_a_task_ended(crawl: Callable[..., Task]) -> None:
    for pages, more, outcome, reason in ENDS:
        task = crawl(pages, **more)
        assert (task.outcome, task.reason) == (outcome, reason)
        assert task.status == outcome
        event = Event.objects.get()
        assert (event.outcome, event.reason) == (outcome, reason)
        assert event.kind == outcome.removesuffix("_with_errors")
        task.delete()  # the next one is compared with none


def test_no_items_are_compared_with_earlier_runs(crawl: Callable[..., Task]) -> None:
    first = crawl([SEED, OK])
    assert first.outcome == "finished"  # nothing to compare it with
    good = crawl([SEED, (1, "", 340)])
    bad = crawl([SEED, OK])
    assert (bad.outcome, bad.reason) == ("failed", f"0 items; task {good.pk} had 340")
    # The next run is not compared with one that failed.
    assert crawl([SEED, OK]).outcome == "failed"


def test_like_is_compared_with_like(crawl: Callable[..., Task]) -> None:
    good = crawl([SEED, ITEM])
    new = crawl([SEED, OK], arguments=BONN)
    assert new.reason == f"0 items; task {good.pk} had 1"  # the only one there is
    Task.objects.filter(pk=new.pk).update(outcome="finished")  # this is how Bonn is
    assert crawl([SEED, OK], arguments=BONN).outcome == "finished"
    assert crawl([SEED, OK]).outcome == "failed"


def test_equal_arguments_have_one_hash() -> None:
    hash_ = outcomes.arguments_hash("shop", {"city": "Ulm", "pages": 3})
    assert hash_ == outcomes.arguments_hash("shop", {"pages": 3, "city": "Ulm"})
    assert hash_ != outcomes.arguments_hash("shops", {"city": "Ulm", "pages": 3})
    assert hash_ != outcomes.arguments_hash("shop", {"city": "Ulm", "pages": 4})
    assert -(2**63) <= hash_ < 2**63


def test_a_good_end_costs_no_query_more(crawl: Callable[..., Task]) -> None:
    with CaptureQueriesContext(connection) as queries:
        crawl([SEED, ITEM])
    looks = [q["sql"] for q in queries if q["sql"].startswith("SELECT")]
    good = len(looks)
    with CaptureQueriesContext(connection) as queries:
        crawl([SEED, OK])
    looks = [q["sql"] for q in queries if q["sql"].startswith("SELECT")]
    # Its proxies, the runs with the same arguments, and the requests of the last run.
    assert len(looks) == good + 3


def test_a_retry_takes_the_outcome_back(crawl: Callable[..., Task], published: Frontier) -> None:
    task = crawl([SEED, ITEM, (1, "dns", 0)])
    published.store.redis.delete(published.store.keys[0]("TASK", task.pk))
    retry(task.pk)
    task.refresh_from_db()
    assert (task.outcome, task.reason, task.status) == ("", "", "running")
    assert Event.objects.get().outcome == "finished_with_errors"  # the event as it was


def test_a_reason_is_short(crawl: Callable[..., Task]) -> None:
    task = crawl([], start=("callback", "Traceback\nValueError: " + "x" * 500))
    assert len(task.reason) == 200
    assert task.reason.endswith("x…")


@pytest.mark.parametrize(
    ("outcome", "reason", "code", "text"),
    [
        ("failed", "0 items; task 3 had 9", 1, "has failed: 0 items; task 3 had 9"),
        ("cancelled", "", 3, "was cancelled"),
    ],
)
def test_commands_report_failures(outcome: str, reason: str, code: int, text: str) -> None:
    with pytest.raises(Unsuccessful, match=f"task 7 {text}$") as found:
        outcomes.check(Task(pk=7, outcome=outcome, reason=reason))
    assert found.value.exit_code == code


@pytest.mark.parametrize("outcome", ["finished", "finished_with_errors", ""])
def test_commands_are_content(outcome: str) -> None:
    outcomes.check(Task(pk=7, outcome=outcome))


def test_a_start_that_failed_after_some_requests(crawl: Callable[..., Task]) -> None:
    task = crawl([(1, "", 1)] * 20, start=("callback", "Traceback\n  line 3\nOSError: no file"))
    assert (task.outcome, task.reason) == ("failed", "start failed: OSError: no file")
