"""The quality of runs in the database: profiles, findings, outcomes, events and actions."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import F
from django.test import Client
from django.utils import timezone

from crawlframe import Expect
from crawlframe.errors import FrontierError
from crawlframe.frontier import Counts, Frontier
from crawlframe.spider.spider import SpiderInfo
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Event, Finding, Item, Page, Profile, Task
from crawlservice.quality import deviation, evaluation
from crawlservice.quality.evaluation import after_end, while_it_runs
from crawlservice.quality.norms import Totals, history_of
from crawlservice.quality.reader import Bounds, read
from crawlservice.quality.run import decode
from crawlservice.quality.version_trial import VersionTrial
from crawlservice.quality.watch import QualityWatch
from crawlservice.quality.wording import words_of
from crawlservice.rollouts.canary import CanaryTrial
from crawlservice.rollouts.status import take_back
from crawlservice.tasks.retry import retry
from crawlservice.tasks.submit import submit
from tests.crawlservice.web import log_in_as, login, texts

both = pytest.mark.databases("sqlite", "postgres")

ULM = {"city": "Ulm"}
LATER = time.monotonic() + 10**6


def all_rows() -> Bounds:
    last = [
        model.objects.order_by("-pk").values_list("pk", flat=True)[:1] for model in (Item, Page)
    ]
    return Bounds(*(next(iter(rows), 0) for rows in last))


def no_refusal(task: Task, bad: str, good: str) -> None:
    """The record of a watch that refuses no version."""


def items(count: int, first: int = 0, **fields: Any) -> list[dict[str, Any]]:
    return [
        {"sku": f"s{n}", "name": f"a chair of wood {n}", "price": 10 + n % 7, **fields}
        for n in range(first, first + count)
    ]


@pytest.fixture
def start(published: Frontier, shop: SpiderInfo, add_page: Callable[..., Page]) -> Any:
    """A task with a page of items: ``start([...], expect=Expect(...))``."""
    from msgspec.structs import replace

    def begin(found: list[dict[str, Any]], expect: Expect | None = None, **fields: Any) -> Task:
        task = submit("shop", ULM, info=replace(shop, expect=expect))
        add_page(task, b"start", follow_ups=[b"a"], url="start:", callback="start")
        add(task, found, **fields)
        return task

    def add(task: Task, found: list[dict[str, Any]], **fields: Any) -> None:
        for place in range(0, len(found), 10):
            name = f"p{Page.objects.count()}".encode()
            add_page(task, name, items=found[place : place + 10], version="1f00", **fields)

    begin.add = add  # type: ignore[attr-defined]
    return begin


def end(task: Task) -> Task:
    rows = Page.objects.filter(task=task)
    done, failed = (rows.filter(state=state).count() for state in ("done", "error"))
    stored = Item.objects.filter(task=task).count()
    counts = Counts("running", done + failed, done, failed, 0, 0, 0, 0, 0, items=stored)
    assert DjangoLedger().tasks.finish({task.pk: counts}) == {task.pk}
    return Task.objects.get(pk=task.pk)


def good_runs(start: Any, count: int = 3) -> None:
    for _ in range(count):
        assert end(start(items(60))).outcome == "finished"


def found_in(task: Task) -> list[tuple[str, str, str]]:
    return [(f.source, f.monitor, f.field) for f in deviation.of_task(task.pk)]


def test_waits_are_no_part_of_how_long_a_task_has_worked() -> None:
    task = Task(created_at=timezone.now())
    later = task.created_at + timedelta(seconds=90)
    assert evaluation.seconds_of(task, later) == 90
    assert evaluation.seconds_of(task, None) is None
    task.paused_at = later - timedelta(seconds=20)
    assert evaluation.seconds_of(task, later) == 70
    task.retries = 1
    assert evaluation.seconds_of(task, later) is None  # an older release did not record the wait
    task.idle, task.paused_at = 30, None
    assert evaluation.seconds_of(task, later) == 60


def test_a_run_that_was_mended_is_not_judged_by_the_wait_for_it(
    start: Any, published: Frontier
) -> None:
    task = start(items(60), Expect(within=60))
    ended = end(task)
    assert ended.outcome == "finished"
    hour = timedelta(hours=1)
    Task.objects.filter(pk=task.pk).update(
        created_at=F("created_at") - hour, finished_at=F("finished_at") - hour
    )
    Page.objects.filter(pk=Page.objects.filter(task=task)[0].pk).update(state="error")
    published.store.redis.flushdb()  # its requests have ended only in the database
    assert retry(task.pk) == 1
    assert 3600 <= Task.objects.get(pk=task.pk).idle < 3660
    assert end(Task.objects.get(pk=task.pk)).outcome == "finished"
    assert (Profile.objects.get().seconds or 3600) < 60


def test_a_good_run_is_told_of_by_nobody(start: Any) -> None:
    good_runs(start, 4)
    assert not Finding.objects.exists()
    assert {event.kind for event in Event.objects.all()} == {"finished"}
    profile = Profile.objects.order_by("-pk")[0]
    assert (profile.judged, profile.good) == (True, True)
    assert profile.coverage == {"sku": 1, "name": 1, "price": 1}


def test_a_field_that_is_gone(start: Any) -> None:
    good_runs(start)
    task = end(start(items(60, price=None)))
    assert found_in(task) == [("monitor", "filled", "price")]
    assert task.outcome == "finished_with_errors"
    assert task.reason.startswith("quality: price has a value in 0 % of the items; expected: at")
    finding = Finding.objects.get()
    assert (finding.low, finding.seen, finding.usual, finding.runs) == (0.95, 0.0, 1.0, 3)
    assert finding.last_good == task.pk - 1
    assert finding.version == finding.good_version == "1f00"
    assert [one["value"] for one in finding.examples] == [None] * 3
    assert finding.examples[0]["url"].startswith("http://shop.example/p")
    told = Event.objects.get(kind="quality_failed")
    assert told.task == task
    assert told.outcome == "finished_with_errors"
    assert told.detail is not None
    assert told.detail["findings"][0]["field"] == "price"
    assert told.detail["findings"][0]["pages"]
    assert Event.objects.filter(task=task).order_by("pk")[0].outcome == "finished_with_errors"


@pytest.mark.parametrize(
    ("expect", "found", "monitor"),
    [
        (Expect(items=100), items(60), "items"),
        (Expect(fields={"price": 0.98}), items(58) + items(2, 58, price=""), "filled"),
        (Expect(fields={"colour": 0.5}), items(60), "filled"),
        (Expect(unique="sku"), [*items(60), *items(1)], "unique"),
        (Expect(within=1e-9), items(60), "duration"),
    ],
)
def test_what_its_author_does_not_expect(
    start: Any, expect: Expect, found: list[Any], monitor: str
) -> None:
    task = end(start(found, expect))
    assert [key[:2] for key in found_in(task)] == [("expectation", monitor)]
    assert task.outcome == "failed"
    assert task.reason.startswith("quality: ")
    assert Event.objects.filter(task=task, kind="failed").exists()


def test_errors_that_its_author_does_not_expect(start: Any) -> None:
    task = start(items(60), Expect(errors=0.05))
    start.add(task, items(10), state=Page.State.ERROR, reason="http_500", status=500)
    task = end(task)
    assert found_in(task) == [("expectation", "errors", "")]
    (example,) = Finding.objects.get().examples
    assert example["value"] == "http_500"


def test_what_is_expected_and_met(start: Any) -> None:
    expect = Expect(items=60, fields={"price": 1}, errors=0, unique=("sku", "name"), within=1000)
    assert end(start(items(60), expect)).outcome == "finished"


def test_monitors_can_be_left_out(start: Any) -> None:
    good_runs(start)
    assert end(start(items(60, price=None), Expect(monitors=False))).outcome == "finished"


def advance(task: Task) -> None:
    stored = Item.objects.filter(task=task).count()
    while_it_runs(task, history_of(task), Totals(stored, 0, 1.0), all_rows(), LATER, 500)


def test_a_fault_is_found_while_the_task_runs_and_told_once(start: Any) -> None:
    good_runs(start)
    task = start(items(30))
    advance(task)
    assert not Finding.objects.exists()
    since = timezone.now()
    start.add(task, items(40, 30, price=None))
    advance(task)
    finding = Finding.objects.get()
    assert (finding.monitor, finding.field) == ("filled", "price")
    assert finding.since is not None
    assert abs((finding.since - since).total_seconds()) < 60
    assert Event.objects.get(kind="quality_failed").outcome == ""
    advance(task)
    assert end(task).outcome == "finished_with_errors"
    assert Event.objects.filter(kind="quality_failed").count() == 1


@both
def test_no_item_counts_twice_whoever_reads(start: Any) -> None:
    task = start(items(30))
    advance(task)
    stale = read(task, all_rows(), LATER, 500, 30)
    start.add(task, items(20, 30))
    other = read(task, all_rows(), LATER, 500, 50)
    with transaction.atomic():
        assert other.save()
    start.add(task, items(20, 50))
    late = read(task, all_rows(), LATER, 500, 70)
    with transaction.atomic():
        assert late.save()
        assert not other.save()  # another reader has continued
        assert not stale.save()
    with transaction.atomic():  # a leader dies
        start.add(task, items(5, 70))
        assert read(task, all_rows(), LATER, 500, 75).save()
        transaction.set_rollback(True)
    advance(task)
    content = decode(Profile.objects.get().content).content()
    assert (content.items, content.pages) == (70, 7)


@both
def test_what_is_left_to_read_at_the_end_is_judged_later(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    good_runs(start)
    monkeypatch.setattr(evaluation, "AT_END", 0)
    task = end(start(items(60, price=None)))
    assert task.outcome == "finished"
    assert not Profile.objects.get(task=task).judged
    watch = QualityWatch(all_rows, no_refusal)
    watch.tick({})
    task = Task.objects.get(pk=task.pk)
    assert task.outcome == "finished_with_errors"
    assert Event.objects.get(kind="quality_failed").outcome == "finished_with_errors"
    assert Profile.objects.get(task=task).judged


@both
def test_a_judge_that_fails_keeps_no_task_from_ending(
    start: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*given: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(evaluation, "history_of", fail)
    assert end(start(items(60))).outcome == "finished"
    assert "could not be judged" in caplog.text
    watch = QualityWatch(all_rows, no_refusal)
    watch.tick({})  # it continues, too
    monkeypatch.undo()
    assert not Profile.objects.get().judged
    QualityWatch(all_rows, no_refusal).tick({})
    assert Profile.objects.get().judged


@pytest.mark.parametrize(
    ("action", "state"), [("alert", "running"), ("pause", "paused"), ("cancel", "cancelling")]
)
def test_actions(start: Any, action: Any, state: str) -> None:
    task = start(items(40), Expect(fields={"colour": 0.9}, action=action))
    watch = QualityWatch(all_rows, no_refusal)
    counts = {task.pk: Counts("running", 6, 5, 0, 0, 0, 0, 0, 0, items=40)}
    watch.tick(counts)
    watch.tick(counts)
    assert Task.objects.get(pk=task.pk).state == state
    assert not Profile.objects.exclude(action_due="").exists()


def test_a_version_is_refused(start: Any) -> None:
    good_runs(start)
    Page.objects.all().update(version="2f00")
    Item.objects.all().update(version="2f00")
    Profile.objects.all().delete()
    for task in Task.objects.all():
        after_end(task, LATER, 500)
    taken: list[tuple[int, str, str]] = []
    away = [True]

    def refuse(task: Task, bad: str, good: str) -> None:
        if away[0]:
            raise FrontierError("Redis is unreachable")
        taken.append((task.pk, bad, good))

    watch = QualityWatch(all_rows, refuse)
    task = start(items(60, price=None), Expect(action="refuse"))
    Item.objects.filter(task=task).update(version="3f00")
    counts = {task.pk: Counts("running", 8, 7, 0, 0, 0, 0, 0, 0, items=60)}
    watch.tick(counts)
    watch.tick(counts)
    assert Profile.objects.filter(action_due="refuse").exists()
    away[0] = False
    watch.tick(counts)
    watch.tick(counts)
    assert taken == [(task.pk, "3f00", "2f00")]
    assert Task.objects.get(pk=task.pk).state == "paused"


def test_a_retry_that_puts_it_right(start: Any) -> None:
    task = start(items(60), Expect(items=100))
    assert end(task).outcome == "failed"
    Task.objects.filter(pk=task.pk).update(state="running", outcome="", reason="", retries=1)
    task = Task.objects.get(pk=task.pk)
    start.add(task, items(60, 60))
    advance(task)
    assert not Profile.objects.get().judged
    assert end(task).outcome == "finished"
    assert not Finding.objects.exists()
    assert Profile.objects.get().good


def test_cancelled_tasks_are_not_compared(start: Any) -> None:
    good_runs(start)
    task = start(items(60, price=None), Expect(items=1000))
    Task.objects.filter(pk=task.pk).update(state="cancelling")
    assert end(task).outcome == "cancelled"
    assert not Finding.objects.exists()
    assert not Profile.objects.get(task=task).good


@both
def test_open_findings_end_with_a_good_run_or_when_they_are_accepted(start: Any) -> None:
    good_runs(start)
    bad = end(start(items(60, price=None)))
    assert [one.task for one in deviation.open_findings()] == [bad]
    assert deviation.counts_of([bad.pk]) == {bad.pk: 1}
    end(start(items(60)))
    assert not deviation.open_findings().exists()
    worse = end(start(items(60, name=None)))
    assert [one.task for one in deviation.open_findings()] == [worse]
    assert deviation.accept(worse.pk) == 1
    assert not deviation.open_findings().exists()
    with pytest.raises(deviation.NothingFound):
        deviation.accept(worse.pk)
    for _ in range(2):
        assert end(start(items(60, name=None))).outcome == "finished"  # nothing to compare with
    assert end(start(items(60))).outcome == "finished"  # that it is there again is no fault


def test_runs_with_other_arguments_tell_only_what_does_not_depend_on_them(
    published: Frontier, start: Any
) -> None:
    good_runs(start)
    Task.objects.all().update(arguments_hash=1)
    Profile.objects.all().update(arguments_hash=1)
    assert end(start(items(12, name="Stuhl"))).outcome == "finished_with_errors"
    assert {found.monitor for found in Finding.objects.all()} == {"top", "distinct"}


@both
def test_large_tasks_are_sampled(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawlservice.quality.reader.BACKLOG", 100)
    task = start(items(400))
    reading = read(task, None, LATER, 1000, 400)
    assert reading.is_complete
    assert reading.run.stride == 2
    assert 150 < reading.run.content().items < 250


@both
def test_large_items_are_passed_over(start: Any) -> None:
    task = start([*items(3), {"sku": "x" * 300_000}])
    assert read(task, None, LATER, 1000, 4).run.content().items == 3


@pytest.fixture
def bad_run(start: Any) -> Task:
    good_runs(start)
    return end(start(items(60, price=None)))


def test_the_page_of_a_task(bad_run: Task) -> None:
    client = login(is_superuser=True)
    page = client.get(f"/admin/crawlservice/task/{bad_run.pk}/change/").content.decode()
    assert texts(page, "#cf-quality .cf-note") == ["price has a value in 0 % of the items."]
    facts = " ".join(texts(page, "#cf-quality dd"))
    assert "at least 95 %, usually 100 % (by the last 3 good runs)" in " ".join(facts.split())
    assert f"/admin/crawlservice/task/{bad_run.pk - 1}/change/" in page
    assert "http://shop.example/p" in facts
    good = f"As many as in the last good run, task {bad_run.pk - 1}"
    assert good in texts(page, "#cf-numbers p")
    part = client.get(f"/admin/crawlservice/task/{bad_run.pk}/change/now/")
    assert part.status_code == 286
    answer = client.post(f"/admin/crawlservice/task/{bad_run.pk}/accept/")
    assert answer.status_code == 302
    assert not deviation.open_findings().exists()


def test_a_viewer_may_not_accept_findings(bad_run: Task) -> None:
    answer = log_in_as("viewer").post(f"/admin/crawlservice/task/{bad_run.pk}/accept/")
    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("monitor", "seen", "unit", "text"),
    [
        ("pages", 1, "count", "The run has 1 page."),
        ("pages", 12, "count", "The run has 12 pages."),
        ("items", 1, "count", "The run has 1 item."),
        ("items", 0, "count", "The run has 0 items."),
        ("yield", 1.0, "count", "A page has 1 item on average."),
        ("yield", 1.2, "count", "A page has 1.2 items on average."),
        ("length", 1.2, "chars", "The median length of a is 1 character."),
    ],
)
def test_counts_in_words(monitor: str, seen: float, unit: str, text: str) -> None:
    found = Finding(source="monitor", monitor=monitor, field="a", unit=unit, seen=seen)
    assert words_of(found).what == text


def test_the_api(bad_run: Task) -> None:
    from tests.crawlservice.test_api_schema import known

    client = Client(headers=known(), SERVER_NAME="localhost")
    address = f"/api/v1/tasks/{bad_run.pk}/quality"
    answer = client.get(address).json()
    assert (answer["outcome"], answer["judged"], answer["good"]) == (
        "finished_with_errors",
        True,
        False,
    )
    (finding,) = answer["findings"]
    assert (finding["monitor"], finding["field"], finding["seen"]) == ("filled", "price", 0.0)
    assert len(finding["examples"]) == 3
    accepted = client.post(f"{address}/accept", content_type="application/json")
    assert accepted.json().get("good"), accepted.content
    again = client.post(f"{address}/accept", content_type="application/json")
    assert again.status_code == 409
    assert client.get("/api/v1/tasks/999/quality").status_code == 404


def test_the_command(bad_run: Task, capsys: pytest.CaptureFixture[str]) -> None:
    from django.core.management import call_command

    call_command("task", "show", bad_run.pk)
    assert "price has a value in 0 % of the items; expected" in " ".join(
        capsys.readouterr().out.split()
    )


@both
def test_the_judge_takes_no_lock_that_commits_wait_for(start: Any) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer")
    from django.test.utils import CaptureQueriesContext

    good_runs(start)
    task = start(items(60, price=None))
    with CaptureQueriesContext(connection) as queries:
        advance(task)
    locks = [query["sql"] for query in queries if "FOR " in query["sql"].upper().split("WHERE")[-1]]
    assert all("FOR NO KEY UPDATE" in sql for sql in locks)


def test_a_canary_whose_items_are_worse_fails(start: Any) -> None:
    good_runs(start)
    task = start(items(20))
    trial = CanaryTrial("3f00")
    assert trial.check_quality() == ""
    last = Item.objects.order_by("-pk")[0].pk
    start.add(task, items(40, 20))
    Item.objects.filter(pk__gt=last).update(version="3f00")
    assert trial.check_quality() == ""
    last = Item.objects.order_by("-pk")[0].pk
    start.add(task, items(40, 60, price=None))
    Item.objects.filter(pk__gt=last).update(version="3f00")
    found = [trial.check_quality() for _ in range(3)][-1]
    assert found.startswith(f"task {task.pk} of spider shop: price has a value in ")


def test_a_task_that_is_removed_meanwhile_ends_no_trial(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    good_runs(start)
    trial = CanaryTrial("3f00")
    gone, kept = start(items(20)), start(items(60, price=None))
    Item.objects.filter(task__in=(gone, kept)).update(version="3f00")
    real = VersionTrial._part

    def part(self: VersionTrial, number: int) -> Any:
        if number == gone.pk:  # its rows have been read
            for model in (Item, Page):
                model.objects.filter(task=number).delete()
            Task.objects.filter(pk=number).delete()
        return real(self, number)

    monkeypatch.setattr(VersionTrial, "_part", part)
    found = [trial.check_quality() for _ in range(3)][-1]
    assert found.startswith(f"task {kept.pk} of spider shop: price has a value in ")
    assert not Task.objects.filter(pk=gone.pk).exists()


@both
def test_old_profiles_are_emptied(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawlservice.quality.norms.RUNS", 3)
    good_runs(start, 8)
    kept = Profile.objects.exclude(content=b"").order_by("task_id").values_list("task", flat=True)
    assert [*kept] == [3, 4, 5, 6, 7, 8]
    assert history_of(Task(pk=99, spider="shop", arguments_hash=0)).last_good == 8


def test_tasks_that_cannot_be_judged_keep_none_waiting(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "AT_END", 0)
    bad = [end(start(items(20))) for _ in range(10)]
    Profile.objects.all().update(content=b"\xff")
    fine = end(start(items(20)))
    watch = QualityWatch(all_rows, no_refusal)
    for _ in range(12):  # on a busy machine, one task in each
        watch.tick({})
    judged = Profile.objects.filter(judged=True)
    assert [*judged.values_list("task", flat=True)] == [fine.pk]
    assert len(bad) == 10


def test_nodes_that_follow_a_branch_are_taken_back(
    published: Frontier, join: Callable[..., int], caplog: pytest.LogCaptureFixture
) -> None:
    task = submit("shop", ULM)
    good, bad = "1f00c0ffee00", "2f00c0ffee00"
    take_back(task, bad, good)
    assert "no node that follows a branch runs 2f00c0ffee00" in caplog.text
    join("alpha", version=bad, follows="origin/main")
    join("beta", version=good, follows="origin/main")
    join("gamma", version="3f00c0ffee00", follows="origin/other")
    take_back(task, bad, f"{good}+ab12")
    take_back(task, f"{good}+ab12", good)
    assert caplog.text.count("is no commit") == 2
    assert published.rollouts.current() is None
    take_back(task, bad, good)
    told = published.rollouts.current()
    assert told is not None
    assert (told.revision, told.branch, told.nodes, told.back) == (good, "main", (), True)
    assert published.rollouts.of("gamma", "other") is None


def test_nodes_with_newer_code_than_what_was_bad_keep_it(
    published: Frontier, join: Callable[..., int]
) -> None:
    task = submit("shop", ULM)
    join("alpha", version="2f00c0ffee00", follows="origin/main")
    join("beta", version="3f00c0ffee00", follows="origin/main")
    take_back(task, "2f00c0ffee00", "1f00c0ffee00")
    told = published.rollouts.of("alpha", "main")
    assert told is not None
    assert (told.revision, told.nodes) == ("1f00c0ffee00", ("alpha",))
    assert published.rollouts.of("beta", "main") is None
