"""Labels of tasks, and searches by label."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from crawlframe.frontier import Frontier
from crawlservice.accounts import tokens
from crawlservice.api import events
from crawlservice.connections.lookup import NotFound
from crawlservice.models import Action, Event, Item, Label, Page, Run, Schedule, Task
from crawlservice.scheduling.schedules import run_now
from crawlservice.tasks import label_rows
from crawlservice.tasks.label_rows import Place, rows_of
from crawlservice.tasks.labels import BadLabel, change_labels, check, of_task, parse_all, write
from crawlservice.tasks.removal import remove
from crawlservice.tasks.submit import submit
from crawlservice.webhooks.deliveries import body
from tests.crawlservice.web import cells, log_in_as, login, login_as, rows, texts

NEWS = {"domain": "news"}


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ({"a b": "x"}, "label 'a b': a name has 1 to 40 letters"),
        ({"n" * 41: "x"}, "a name has 1 to 40"),
        ({"": "x"}, "a name has"),
        ({"é": "x"}, "a name has"),
        ({"a": ""}, "label a: the value must be text without blanks around it, such as a=news"),
        ({"a": " x"}, "without blanks around it"),
        ({"a": 7}, "label a: the value must be text, such as a=news"),
        ({"a": "x" * 101}, "label a: the value has 101 characters; 100 at most"),
        ({"a": "x\ny"}, "label a: the value has characters that cannot be printed"),
        ({f"n{n}": "x" for n in range(21)}, "21 labels; a task can have 20 at most"),
    ],
)
def test_a_label_that_a_task_cannot_have_is_refused(labels: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadLabel) as caught:
        check(labels)
    assert problem in str(caught.value)


def test_labels_are_sorted_and_as_long_as_they_may_be() -> None:
    labels = {"n" * 40: "x" * 100, "A.b_c-9": "新闻, a=b"}
    assert [*check(labels).items()] == sorted(labels.items())


def test_labels_are_read_from_pairs() -> None:
    assert parse_all(["b=1=2", " a = x y "]) == {"a": "x y", "b": "1=2"}
    with pytest.raises(BadLabel, match="label 'news' is not of the form NAME=VALUE"):
        parse_all(["news"])
    with pytest.raises(BadLabel, match="label a is given twice"):
        parse_all(["a=1", "a=2"])


def test_a_task_is_submitted_with_labels_or_not_at_all(published: Frontier) -> None:
    assert of_task(submit("shop", {"city": "Ulm"}, labels=NEWS).pk) == NEWS
    with pytest.raises(BadLabel):
        submit("shop", {"city": "Ulm"}, labels={"a b": "x"})
    assert Task.objects.count() == 1


def test_a_change_replaces_them_and_is_recorded(ended_task: Task) -> None:
    change_labels(ended_task.pk, NEWS | {"topic": "tax"}, {"command": True})
    change_labels(ended_task.pk, {"topic": "law"}, {"command": True})
    change_labels(ended_task.pk, {"topic": "law"}, {"command": True})
    assert of_task(ended_task.pk) == {"topic": "law"}
    latest, first = Action.objects.filter(verb="change labels").order_by("-pk")
    assert first.detail["before"] == {}
    assert latest.detail == {
        "command": True, "labels": {"topic": "law"}, "before": NEWS | {"topic": "tax"},
    }  # fmt: skip
    with pytest.raises(NotFound):
        change_labels(999, NEWS, {})


def test_a_removed_task_leaves_no_labels(published: Frontier) -> None:
    task = Task.objects.create(spider="shop", seeds=b"", state=Task.State.FINISHED)
    write(task.pk, NEWS)
    [*remove(Task.objects.filter(pk=task.pk))]
    assert not Label.objects.exists()


def test_the_tasks_of_a_schedule_have_its_labels(published: Frontier) -> None:
    given = {"arguments": {"city": "Ulm"}, "labels": NEWS}
    schedule = Schedule.objects.create(name="night", spider="shop", every=60, **given)
    run = run_now(schedule)
    assert run.task is not None
    assert of_task(run.task.pk) == NEWS


def test_commands_submit_and_find_by_label(
    published: Frontier, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("submit", "shop", "-a", "city=Ulm", "--label", "domain=news")
    call_command("submit", "shop", "-a", "city=Bonn")
    first = Task.objects.order_by("pk").first()
    assert first is not None
    assert of_task(first.pk) == NEWS
    assert Action.objects.get(task_id=first.pk).detail["labels"] == NEWS
    capsys.readouterr()
    call_command("task", "list", "--label", "domain=news")
    assert f"{first.pk}  shop" in " ".join(capsys.readouterr().out.split()).replace(
        " shop", "  shop"
    )
    call_command("task", "list", "--label", "domain=sport")
    assert "no task has the label domain=sport" in capsys.readouterr().out
    call_command("task", "show", str(first.pk))
    assert "domain=news" in capsys.readouterr().out


def test_a_webhook_and_the_stream_of_events_tell_them(ended_task: Task) -> None:
    write(ended_task.pk, NEWS)
    event = Event.objects.create(task=ended_task, kind="finished", outcome="finished")
    assert orjson.loads(body(event))["task"]["labels"] == NEWS
    frame = events.Stream(0, {})._frame(event).decode()
    assert json.loads(frame.split("data: ")[1])["labels"] == NEWS
    other = Event.objects.create(node="alpha", kind="node_back")
    frame = events.Stream(0, {})._frame(other).decode()
    assert json.loads(frame.split("data: ")[1])["labels"] == {}


# -- rows of all tasks ----------------------------------------------------------------------------


@pytest.fixture
def labelled_tasks(published: Frontier, add_page: Callable[..., Page]) -> list[Task]:
    """Four tasks whose pages were stored in turns; all but the second have the label."""
    tasks = [Task.objects.create(spider="shop", seeds=b"") for _ in range(4)]
    for n in range(3):
        for task in tasks:
            add_page(task, b"%d-%d" % (n, task.pk), url=f"/{n}", items=[{"n": n}])
    for task in (tasks[0], tasks[2], tasks[3]):
        write(task.pk, NEWS | {"team": "a"})
    write(tasks[1].pk, {"domain": "sport"})
    return tasks


def _turned(newest: bool, count: int) -> list[tuple[int, int]]:
    found: list[Item] = []
    beyond = None
    while True:
        page, reached = rows_of(Item.objects.all(), "domain=news", beyond, count, newest=newest)
        found += page
        if page:
            beyond = Place(page[-1].task_id, page[-1].pk)
        if reached is not None:
            beyond = reached
        elif not page:
            return [(item.task_id, item.pk) for item in found]


def test_rows_of_labelled_tasks_are_all_found_once(
    labelled_tasks: list[Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    meant = [labelled_tasks[n].pk for n in (0, 2, 3)]
    all_rows = sorted(Item.objects.filter(task__in=meant).values_list("task", "pk"))
    assert len(all_rows) == 9
    for group, most in ((500, 10_000), (1, 1), (1, 2), (2, 2)):
        monkeypatch.setattr(label_rows, "GROUP", group)
        monkeypatch.setattr(label_rows, "TASKS", most)
        for count in (1, 2, 100):
            assert _turned(False, count) == all_rows
            assert _turned(True, count) == all_rows[::-1]


def test_a_search_that_ends_early_says_where(
    labelled_tasks: list[Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(label_rows, "GROUP", 2)
    monkeypatch.setattr(label_rows, "TASKS", 2)
    wanted = Item.objects.filter(task=labelled_tasks[0])
    page, reached = rows_of(wanted, "domain=news", None, 10, newest=True)
    assert page == []
    assert reached is not None
    page, reached = rows_of(wanted, "domain=news", reached, 10, newest=True)
    assert len(page) == 3
    assert reached is None


def test_a_place_is_read_as_it_is_written() -> None:
    for text in ("", "7", "7-", "-7", "a-1", "9" * 19 + "-1", None):
        assert Place.read(text) is None
    assert Place.read(str(Place(7, 12))) == Place(7, 12)


# -- the admin ------------------------------------------------------------------------------------


def _look(client: Client, address: str) -> str:
    answer = client.get(f"/admin/crawlservice/{address}")
    assert answer.status_code == 200
    return str(answer.content.decode())


def test_lists_are_filtered_by_a_click_on_a_label(labelled_tasks: list[Task]) -> None:
    schedule = Schedule.objects.create(name="night", spider="shop", every=60)
    for n, task in enumerate(labelled_tasks):
        Run.objects.create(
            schedule=schedule, task=task, outcome="submitted", due_at=f"2026-01-01T00:00:0{n}Z"
        )
    client = login(is_superuser=True)
    for place, each in (("task/", 1), ("item/", 3), ("page/", 3), ("run/", 1)):
        page = _look(client, place)
        assert len(rows(page, "#result_list tbody tr")) == 4 * each
        assert {"domain news", "team a", "domain sport"} == {*texts(page, ".cf-chip")}
        assert '?label=domain%3Dnews"' in page
        page = _look(client, f"{place}?label=domain%3Dnews")
        assert len(rows(page, "#result_list tbody tr")) == 3 * each
        assert "domain sport" not in texts(page, ".cf-chip")
        assert not rows(_look(client, f"{place}?label=domain%3Dother"), "#result_list tbody tr")
        answer = client.get(f"/admin/crawlservice/{place}?label=nonsense")
        assert answer.status_code == 302


def test_a_labelled_list_is_turned_both_ways(
    labelled_tasks: list[Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawlservice.admin.parts.read_only.ReadOnly.list_per_page", 4)
    client = login(is_superuser=True)

    def turned(page: str, name: str) -> str:
        links = dict(zip(texts(page, ".cf-pages a"), _hrefs(page), strict=True))
        return _look(client, "item/" + links[name])

    def numbers(page: str) -> list[str]:
        return cells(page, "id") or [row[1] for row in rows(page, "#result_list tbody tr")]

    first = _look(client, "item/?label=domain%3Dnews")
    second = turned(first, "Older")
    third = turned(second, "Older")
    seen = [*numbers(first), *numbers(second), *numbers(third)]
    assert len(seen) == len({*seen}) == 9
    assert numbers(turned(third, "Newer")) == numbers(second)
    assert numbers(turned(third, "Newest")) == numbers(first)
    task = labelled_tasks[2].pk
    assert len(numbers(_look(client, f"item/?label=domain%3Dnews&task={task}"))) == 3
    other = labelled_tasks[1].pk
    assert not rows(
        _look(client, f"item/?label=domain%3Dnews&task={other}"), "#result_list tbody tr"
    )


def _hrefs(page: str) -> list[str]:
    from selectolax.lexbor import LexborHTMLParser

    return [str(a.attributes["href"]) for a in LexborHTMLParser(page).css(".cf-pages a")]


def test_labels_are_changed_on_a_page_of_their_own(ended_task: Task) -> None:
    client = login(is_superuser=True)
    place = f"/admin/crawlservice/task/{ended_task.pk}/"
    answer = client.post(f"{place}labels/", {"labels": "domain=news\n\ntopic = tax law"})
    assert answer.status_code == 302
    assert of_task(ended_task.pk) == {"domain": "news", "topic": "tax law"}
    page = client.get(f"{place}settings/").content.decode()
    assert texts(page, ".cf-chip") == ["domain news", "topic tax law"]
    page = client.get(f"{place}labels/").content.decode()
    assert "domain=news\ntopic=tax law" in page
    page = client.post(f"{place}labels/", {"labels": "a b=1"}).content.decode()
    assert "a name has 1 to 40 letters" in page
    assert of_task(ended_task.pk) == {"domain": "news", "topic": "tax law"}


def test_only_who_steers_a_task_changes_its_labels(ended_task: Task) -> None:
    submitter, user = login_as("submitter")
    place = f"/admin/crawlservice/task/{ended_task.pk}/labels/"
    assert submitter.post(place, {"labels": "a=1"}).status_code == 403
    Task.objects.filter(pk=ended_task.pk).update(user=user)
    assert submitter.post(place, {"labels": "a=1"}).status_code == 302
    assert of_task(ended_task.pk) == {"a": "1"}


def test_the_form_submits_labels_and_a_clone_keeps_them(published: Frontier) -> None:
    client = login(is_superuser=True)
    place = "/admin/submit/?spider=shop"
    given = {"argument-city": "Ulm", "priority": "0", "labels": "domain=news"}
    answer = client.post(place, given)
    assert answer.status_code == 302, texts(answer.content.decode(), ".errorlist, .text-red-600")
    task = Task.objects.get()
    assert of_task(task.pk) == NEWS
    assert "domain=news" in client.get(f"{place}&clone={task.pk}").content.decode()
    page = client.post(place, {**given, "labels": "news"}).content.decode()
    assert "is not of the form NAME=VALUE" in page


def test_the_form_of_a_schedule_takes_labels(published: Frontier) -> None:
    client = login(is_superuser=True)
    given = {
        "name": "night", "spider": "shop", "priority": "0", "argument-city": "Ulm", "every": "60",
        "timezone": "UTC", "overlap": "skip", "missed": "once", "labels": "domain=news",
    }  # fmt: skip
    place = "/admin/crawlservice/schedule/"
    answer = client.post(f"{place}add/?spider=shop", given)
    assert answer.status_code == 302
    schedule = Schedule.objects.get()
    assert schedule.labels == NEWS
    assert "domain=news" in client.get(f"{place}{schedule.pk}/change/").content.decode()
    answer = client.post(f"{place}{schedule.pk}/change/", {**given, "labels": "domain"})
    assert "is not of the form NAME=VALUE" in answer.content.decode()


# -- the API --------------------------------------------------------------------------------------


class Api:
    def __init__(self, scope: str = "operate", role: str = "operator") -> None:
        log_in_as(role)
        user = User.objects.get(username=role)
        _, secret = tokens.make(user, "t", scope)
        headers = {"Authorization": f"Bearer {secret}", "Host": "localhost"}
        self._client = Client(headers=headers)

    def __call__(self, method: str, path: str, data: Any = None) -> tuple[int, Any]:
        send = getattr(self._client, method)
        given = {} if data is None else {"data": data, "content_type": "application/json"}
        answer = send(f"/api/v1{path}", **given)
        return answer.status_code, answer.json()


def test_the_api_submits_shows_and_finds(published: Frontier) -> None:
    api = Api()
    one = {"spider": "shop", "arguments": {"city": "Ulm"}}
    assert api("post", "/tasks", {**one, "labels": NEWS})[1]["labels"] == NEWS
    status, many = api("post", "/tasks", [{**one, "labels": NEWS}, one])
    assert status == 201
    assert [task["labels"] for task in many["tasks"]] == [NEWS, {}]
    found = api("get", "/tasks?label=domain=news")[1]["tasks"]
    assert [task["labels"] for task in found] == [NEWS, NEWS]
    status, wrong = api("post", "/tasks", {**one, "labels": {"a b": "x"}})
    assert (status, Task.objects.count()) == (422, 3)
    assert "labels" in wrong["error"]["field"]
    assert api("get", "/tasks?label=news")[0] == 422


def test_the_api_changes_labels_with_the_rights_to_steer(ended_task: Task) -> None:
    place = f"/tasks/{ended_task.pk}/labels"
    operator = Api()
    assert operator("put", place, NEWS)[1]["labels"] == NEWS
    assert operator("put", place, {"a": " "})[0] == 422
    assert Api("submit", "submitter")("put", place, {})[0] == 403
    assert of_task(ended_task.pk) == NEWS
    assert Action.objects.get(verb="change labels").token is not None


@pytest.mark.parametrize("kind", ["items", "pages"])
def test_the_api_lists_rows_of_all_tasks_with_a_label(
    labelled_tasks: list[Task], kind: str
) -> None:
    api, found, after = Api(), [], ""
    while True:
        status, page = api("get", f"/{kind}?label=domain=news&limit=4{after}")
        assert status == 200
        found += page[kind]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    meant = [labelled_tasks[n].pk for n in (0, 2, 3)]
    assert [row["task"] for row in found] == [task for task in meant for _ in range(3)]
    assert len({row["id"] for row in found}) == 9
    assert api("get", f"/{kind}")[0] == 422
    assert api("get", f"/{kind}?label=domain=news&after=7")[0] == 422
    assert api("get", f"/{kind}?label=domain=none")[1] == {kind: [], "next": None}


def test_who_may_only_look_sees_labels_and_cannot_change_them(ended_task: Task) -> None:
    write(ended_task.pk, NEWS)
    client = log_in_as("viewer")
    page = client.get(f"/admin/crawlservice/task/{ended_task.pk}/settings/").content.decode()
    assert texts(page, ".cf-chip") == ["domain news"]
    assert "/labels/" not in page
