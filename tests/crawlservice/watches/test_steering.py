"""Watches through the API, commands and the admin: rights and output."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.core.management import CommandError, call_command

from crawlframe.frontier import Frontier
from crawlframe.revisit import Revisit
from crawlservice.models import Action, Task, Watch, WatchedPage
from crawlservice.watches.clock import NOW
from tests.crawlservice.programs import person, program
from tests.crawlservice.watches.conftest import Site
from tests.crawlservice.watches.test_rounds import like
from tests.crawlservice.web import log_in_as, texts


@pytest.fixture
def watch(site: Site) -> Watch:
    """A watch with pages /a to /c, all visited, and /d, which is gone."""
    site.use(like(Revisit(budget=5000)))
    site.links = {"start": ["a", "b", "c", "d"]}
    watch = site.begin()
    site.all_rounds(watch)
    WatchedPage.objects.filter(url__endswith="/d").update(state="gone", next_at=None)
    return watch


def command(*words: Any, **options: Any) -> str:
    out = StringIO()
    call_command(*map(str, words), stdout=out, **options)
    return out.getvalue()


def test_the_api_shows_and_changes(watch: Watch) -> None:
    operator = program(person("operator"))
    (shown,) = operator.get("watches").json()["watches"]
    assert (shown["pages"], shown["gone"], shown["visits"]) == (4, 1, 4)
    told = operator.get(f"watches/{watch.pk}/pages?q=/d").json()
    assert [page["state"] for page in told["pages"]] == ["gone"]
    assert operator.get(f"watches/{watch.pk}/pages?state=live").json()["next"] is None
    assert operator.get(f"watches/{watch.pk}/items").json() == {"items": [], "next": None}
    done = operator.patch(f"watches/{watch.pk}", {"budget": 7})
    assert (done.status_code, done.json()["budget"]) == (200, 7)
    assert operator.patch(f"watches/{watch.pk}", {"budget": -1}).status_code == 422
    now = operator.post(f"watches/{watch.pk}/visit-now", {"urls": ["http://news.example/d"]})
    assert now.json() == {"pages": 1}
    assert WatchedPage.objects.get(url__endswith="/d").next_at == NOW
    missing = operator.post(f"watches/{watch.pk}/visit-now", {"urls": ["http://x.example/"]})
    assert missing.status_code == 422
    for verb, state in (("pause", "paused"), ("resume", "running"), ("end", "ended")):
        assert operator.post(f"watches/{watch.pk}/{verb}").json()["state"] == state
    assert operator.post(f"watches/{watch.pk}/pause").status_code == 409
    assert operator.get("watches/99").status_code == 404
    verbs = [*Action.objects.order_by("pk").values_list("verb", flat=True)]
    assert verbs == ["change watch", "visit now", "pause watch", "resume watch", "end watch"]
    assert operator.get("tasks").json()["tasks"] == []
    assert len(operator.get(f"tasks?watch={watch.pk}").json()["tasks"]) == Task.objects.count()


def test_submitters_steer_their_own(watch: Watch) -> None:
    submitter = program(person("submitter"))
    assert submitter.post(f"watches/{watch.pk}/pause").status_code == 403
    made = submitter.post("watches", {"spider": "news", "arguments": {"city": "Ulm"}})
    assert made.status_code == 201
    assert submitter.post(f"watches/{made.json()['id']}/pause").json()["state"] == "paused"
    assert submitter.post("watches", {"spider": "none"}).status_code in (404, 422)
    viewer = program(person("viewer"), scope="read")
    assert viewer.get("watches").status_code == 200
    assert viewer.post("watches", {"spider": "news"}).status_code == 403


def test_commands(watch: Watch, service: Frontier) -> None:
    listed = command("watch", "list")
    assert "news" in listed
    assert "running" in listed
    assert "http://news.example/a" in command("watch", "show", watch.pk, search="/a")
    assert "new budget" in command("watch", "set", watch.pk, "--budget", 50)
    assert "paused" in command("watch", "pause", watch.pk)
    assert "watch 2 begins" in command("watch", "start", "news", "-a", "city=Ulm", "--budget", "9")
    assert Watch.objects.get(pk=2).budget == 9
    assert "1 pages are visited" in command("watch", "visit", 2 - 1, "http://news.example/a")
    for words, problem in (
        (("watch", "set", watch.pk), "give --budget"),
        (("watch", "set", watch.pk, "--budget", "many"), "give a number"),
        (("watch", "set", watch.pk, "--budget", "-3"), "requests per day"),
        (("watch", "show", 99), "no watch 99"),
    ):
        with pytest.raises(CommandError, match=problem):
            command(*words)


def test_pages_of_the_admin(watch: Watch) -> None:
    address = f"/admin/crawlservice/watch/{watch.pk}"
    viewer = log_in_as("viewer")
    page = viewer.get(f"{address}/change/?q=/a").content.decode()
    assert "http://news.example/a" in page
    assert "http://news.example/b" not in page
    assert "/visit/" not in page
    assert viewer.post(f"{address}/pause/").status_code == 403
    assert viewer.post(f"{address}/visit/", {"page": 1}).status_code == 403
    operator = log_in_as("operator")
    page = operator.get(f"{address}/change/").content.decode()
    assert texts(page, "#cf-pause") == ["pause Pause"]
    assert operator.get(f"{address}/now/").status_code == 200
    assert operator.get(f"{address}/chart/").json()["points"]["visited"] == [4]
    first = WatchedPage.objects.get(url__endswith="/a")
    assert operator.post(f"{address}/visit/?q=a", {"page": first.pk}).status_code == 302
    first.refresh_from_db()
    assert first.next_at == NOW
    for verb in ("budget", "pause", "resume", "start", "end"):
        assert operator.get(f"{address}/{verb}/").status_code == 200
        assert operator.post(f"{address}/{verb}/", {"budget": "12"}).status_code == 302
    watch.refresh_from_db()
    assert (watch.budget, watch.state) == (12, "ended")
    wrong = operator.post(f"{address}/pause/")
    assert "cannot be paused" in wrong.content.decode()
    listed = operator.get("/admin/crawlservice/watch/").content.decode()
    assert f"news (watch {watch.pk})" in listed
    assert "begin" in operator.get("/admin/crawlservice/watch/add/").content.decode().lower()
    begun = operator.post(
        "/admin/crawlservice/watch/add/", {"spider": "news", "arguments": '{"city": "Ulm"}'}
    )
    assert begun.status_code == 302
    assert Watch.objects.latest("pk").arguments == {"city": "Ulm"}
    refused = operator.post("/admin/crawlservice/watch/add/", {"spider": "news", "arguments": "["})
    assert refused.status_code == 200


def test_lists_of_tasks_leave_rounds_out(watch: Watch) -> None:
    operator = log_in_as("operator")
    rounds = Task.objects.filter(watch=watch).count()
    assert rounds > 0
    for query, number in (("", 0), ("?watch=all", rounds), (f"?watch={watch.pk}", rounds)):
        page = operator.get(f"/admin/crawlservice/task/{query}").content.decode()
        assert len(texts(page, "#result_list .field-shown_state")) == number
    assert "no tasks" in command("task", "list")
    assert "news" in command("task", "list", watch=watch.pk)


def test_numbers_that_no_page_has(watch: Watch) -> None:
    operator = program(person("operator", "ann"))
    wrong = operator.post(f"watches/{watch.pk}/visit-now", {"pages": [10**30]})
    assert wrong.status_code == 422
    address = f"/admin/crawlservice/watch/{watch.pk}/visit/"
    assert log_in_as("operator").post(address, {"page": "9" * 5000}).status_code == 403


def test_items_are_for_those_who_may_see_items(watch: Watch) -> None:
    user = person("operator")
    user.groups.clear()
    user.user_permissions.add(Permission.objects.get(codename="view_watch"))
    reader = program(user, scope="read")
    assert reader.get(f"watches/{watch.pk}/pages").status_code == 200
    assert reader.get(f"watches/{watch.pk}/items").status_code == 403
