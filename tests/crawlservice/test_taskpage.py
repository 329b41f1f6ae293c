"""The page of a task: its numbers, its summary, its buttons, its files."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable

import pytest
from django.test import Client

from crawlframe.frontier import Frontier
from crawlservice.models import Action, Item, Page, Task
from crawlservice.monitoring import charts
from crawlservice.tasks.progress import summary
from crawlservice.tasks.submit import submit
from tests.crawlservice.conftest import redis_at
from tests.crawlservice.web import counted, login, login_as, texts, tiles


@pytest.fixture
def admin(ended_task: Task) -> Client:
    return login(is_superuser=True)


def place(task: Task, part: str = "change") -> str:
    return f"/admin/crawlservice/task/{task.pk}/{part}/"


def look(client: Client, task: Task, part: str = "change", status: int = 200) -> str:
    answer = client.get(place(task, part))
    assert answer.status_code == status
    return str(answer.content.decode())


def buttons(page: str) -> list[str]:
    return [text.split()[-1] for text in texts(page, ".cf-head .cf-button")]


def test_a_task_that_has_ended(admin: Client, ended_task: Task) -> None:
    page = look(admin, ended_task)
    found = tiles(page)
    numbers = [found[name] for name in ("All", "Done", "Errors", "Left")]
    assert numbers == ["3", "2", "1", "0"]
    assert texts(page, "#cf-now .cf-badge") == ["finished with errors"]
    assert texts(page, "#cf-now strong") == [ended_task.reason]
    assert "%" not in "".join(texts(page, "#cf-now"))
    assert texts(page, "#cf-tab .cf-note") == ["1 × http_404: answered 404"]
    assert texts(page, ".cf-big")[0] == "2"
    assert buttons(page) == ["failed", "Clone", "Delete"]
    tabs = ["Overview", "Items 2", "Pages 3", "Errors 1", "Log", "Timeline", "Settings"]
    assert texts(page, ".cf-tabs a") == tabs
    shown = look(admin, ended_task, "settings")
    assert "cityUlm" in texts(shown, "#cf-tab dd")[1]
    assert texts(shown, "#cf-tab tbody td")[:3] == ["delay", "1.5", "spider"]
    failed = Task.objects.create(
        spider="shop", seeds=b"", state="finished", outcome="failed", reason="start failed"
    )
    assert texts(look(admin, failed), "#cf-tab .cf-note") == ["start failed"]
    # A polling page is asked to stop.
    for part in ("now", "change/now", "pages/now", "errors/now"):
        look(admin, ended_task, part, 286)
    chart = admin.get(place(ended_task, "chart")).json()
    assert chart["ended"]
    page = look(admin, ended_task, "timeline")
    drawn = {name for names in re.findall('data-series="(.+?)"', page) for name in names.split("|")}
    assert drawn == drawn & chart["points"].keys() != set()
    assert chart["points"]["errors_total"][-1] == 1
    assert len(chart["points"]["at"]) == charts.PARTS, "though no sample was taken"
    rows = texts(page, "noscript tbody tr")  # without JavaScript
    assert len(rows) == charts.PARTS
    assert texts(page, "noscript tbody tr:first-child td")[1:4] == ["2", "1", "0"]


def test_a_running_task_is_polled(admin: Client, published: Frontier) -> None:
    task = submit("shop", {"city": "Ulm"})
    page = look(admin, task)
    found = tiles(page)
    assert (found["All"], found["Left"], found["Ready"]) == ("1", "1", "1")
    assert texts(page, ".cf-progress") == ["about 0 % · 0 done of about 3 as last time"]
    new = look(admin, submit("shop", {"city": "Bonn"}), "now")
    assert texts(new, ".cf-progress") == ["0 done, 1 known to remain"]
    assert "rect" not in new
    assert "Time left" not in look(admin, task)
    assert not admin.get(place(task, "chart")).json()["ended"]
    assert buttons(page) == ["Pause", "Cancel", "Clone"]
    assert "Its ready requests wait for a free worker." in page
    with redis_at("redis://127.0.0.1:1/0"):
        assert "not in Redis yet" in look(admin, task, "now")


def test_errors_are_grouped_within_the_latest(
    admin: Client, ended_task: Task, add_page: Callable[..., Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary, "MAX_ROWS", 5)
    for n in range(4):
        add_page(
            ended_task, b"e%d" % n, state="error", reason="timeout", status=None,
            url=f"http://x/{n}", detail=f"Traceback number {n}",
        )  # fmt: skip
    add_page(ended_task, b"later", state="error", reason="dns", status=None)
    found = summary.causes_of(ended_task)
    assert [(cause.reason, cause.errors) for cause in found] == [("timeout", 4), ("dns", 1)]
    assert (found[0].example.url, found[0].text.message) == ("http://x/3", "Traceback number 3")
    assert summary.statuses_of(ended_task) == [(None, 5)]


def test_it_costs_the_same_however_much_there_is(
    admin: Client, ended_task: Task, add_page: Callable[..., Page]
) -> None:
    def costs() -> list[int]:
        parts = ("change", "items", "pages", "errors", "log", "timeline", "settings")
        return [counted(admin, place(ended_task, part))[1] for part in parts]

    costs()  # fills caches of the process
    before = costs()
    for n in range(5):
        add_page(ended_task, b"e%d" % n, items=[{"n": n}], state="error", reason=f"reason{n}")
    assert costs() == before
    assert max(before) < 20


def test_buttons_do_what_they_say_and_the_journal_tells(
    admin: Client, published: Frontier, ended_task: Task
) -> None:
    task = submit("shop", {"city": "Ulm"})
    for verb, state in (("pause", "paused"), ("resume", "running"), ("cancel", "cancelling")):
        answer = admin.post(place(task, verb), follow=True)
        assert f"Tasks {verb}" in answer.content.decode().replace("resumed", "resume")
        assert Task.objects.get(pk=task.pk).state == state
    refused = admin.post(place(ended_task, "pause"), follow=True).content.decode()
    assert "is finished and cannot be paused" in refused
    verbs = (
        Action.objects.exclude(verb="login")
        .order_by("pk")
        .values_list("verb", "user__username", "address")
    )
    assert [*verbs] == [(verb, "someone", "127.0.0.1") for verb in ("pause", "resume", "cancel")]
    assert "resume" in texts(look(admin, task, "timeline"), "td")
    assert admin.get(place(task, "pause")).status_code == 405


def test_what_failed_is_retried_from_the_page_and_from_the_dead_letters(
    admin: Client, published: Frontier, ended_task: Task
) -> None:
    published.store.redis.delete(published.store.keys[0]("TASK", ended_task.pk))
    rows = [str(pk) for pk in Page.objects.values_list("pk", flat=True)]
    form = {"action": "retry", "_selected_action": rows}
    page = admin.post("/admin/crawlservice/page/", form, follow=True).content.decode()
    assert f"Task {ended_task.pk} runs again, with 1 failed request" in page
    assert Task.objects.get().retries == 1
    page = admin.post(place(ended_task, "retry"), follow=True).content.decode()
    assert "is running and cannot be retried" in page
    assert [*Action.objects.exclude(verb="login").values_list("verb", "detail")] == [
        ("retry", {"requests": 1})
    ]


@pytest.mark.parametrize(
    ("role", "own", "may"),
    [
        ("viewer", True, False),
        ("submitter", False, False),
        ("submitter", True, True),
        ("operator", False, True),
    ],
)
def test_rights_to_steer_a_task(published: Frontier, role: str, own: bool, may: bool) -> None:
    client, user = login_as(role)
    task = submit("shop", {"city": "Ulm"}, user=user if own else None)
    assert ("Pause" in buttons(look(client, task))) == may
    answer = client.post(place(task, "pause"))
    assert answer.status_code == (302 if may else 403)
    assert (Task.objects.get().state == "paused") == may


def test_all_items_are_exported(admin: Client, ended_task: Task) -> None:
    lines = admin.get(place(ended_task, "items/jsonl")).getvalue().splitlines()
    assert [json.loads(line) for line in lines] == [{"n": 1}, {"n": 2}]
    answer = admin.get(place(ended_task, "items/csv"))
    assert answer["Content-Disposition"] == f'attachment; filename="task-{ended_task.pk}.csv"'
    answer.close()
    assert admin.get(place(ended_task, "items/xlsx")).status_code == 404


def test_a_format_that_is_not_installed_is_explained(
    admin: Client, ended_task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as if it were not installed
    answer = admin.get(place(ended_task, "items/parquet"), follow=True)
    assert "crawlframe[parquet]" in answer.content.decode()
    assert not Action.objects.filter(verb="export").exists()


def test_crawled_text_is_inert(admin: Client, ended_task: Task) -> None:
    evil = "<script>alert(1)</script>"
    Page.objects.filter(state="error").update(
        url=f"javascript:{evil}", reason=evil[:60], detail=evil
    )
    Item.objects.update(data={evil: [evil]})
    item = f"/admin/crawlservice/item/{Item.objects.latest('pk').pk}/change/"
    shown = [look(admin, ended_task, part) for part in ("change", "items", "pages", "errors")]
    for page in (*shown, admin.get(item).content.decode()):
        assert evil not in page
        assert 'href="javascript:' not in page
        assert "&lt;script&gt;" in page


def test_tasks_that_are_not(admin: Client) -> None:
    for number in ("4711", "x", "9" * 30):
        assert admin.get(f"/admin/crawlservice/task/{number}/change/").status_code == 404
