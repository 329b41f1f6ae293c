"""robots.txt in the admin and on the pages of tasks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from crawlframe.frontier import Frontier
from crawlservice.cli.task.report import report
from crawlservice.models import Action, RobotsFile, Task
from crawlservice.tasks.stored_limits import limits_of
from tests.crawlservice.conftest import redis_at
from tests.crawlservice.programs import person, program
from tests.crawlservice.test_not_errors import shown

PLACE = "/admin/crawlservice/robotsfile/"


@pytest.fixture
def files(published: Frontier) -> list[RobotsFile]:
    now = timezone.now()
    rows = [
        RobotsFile(
            origin="https://shop.example", status="rules", http_status=200, read_at=now,
            body="User-agent: *\nDisallow: /<b>\n", known_until=now + timedelta(hours=1),
            crawl_delay=86400, note="it asks for 86,400 s between two requests; 60 s are kept",
        ),
        RobotsFile(
            origin="http://down.example:8080", status="unreachable", http_status=503,
            unreachable_since=now, next_try=now + timedelta(minutes=1), reason="http_503",
        ),
        RobotsFile(
            origin="http://old.example", status="no_rules", unreachable_since=now,
            next_try=now + timedelta(minutes=1), reason="timeout",
        ),
        RobotsFile(origin="http://new.example"),
    ]  # fmt: skip
    return RobotsFile.objects.bulk_create(rows)


def listed(client: Client, **query: Any) -> str:
    answer = client.get(PLACE, query)
    assert answer.status_code == 200
    return answer.content.decode()


def test_the_list(files: list[RobotsFile], as_role: Callable[[str], Client]) -> None:
    client = as_role("viewer")
    page = listed(client)
    for row in files:
        assert row.origin in page
    assert "60 s are kept" in page
    assert "an old copy" in page
    with CaptureQueriesContext(connection) as queries:
        found = listed(client, status__exact="unreachable")
    assert ("down.example" in found, "shop.example" in found) == (True, False)
    asked = [q["sql"] for q in queries if "crawlservice_robotsfile" in q["sql"]]
    assert not [sql for sql in asked if '"body"' in sql], "a list does not read the files"
    found = listed(client, q="shop.ex")
    assert ("down.example" in found, "shop.example" in found) == (False, True)
    answer = client.get(PLACE, {"body__contains": "x"}, follow=True)
    assert "no such filter" in answer.content.decode()


def test_one_file(files: list[RobotsFile], as_role: Callable[[str], Client]) -> None:
    page = as_role("viewer").get(f"{PLACE}{files[0].pk}/change/").content.decode()
    assert "Disallow: /&lt;b&gt;" in page
    assert "86400 s" in page


@pytest.mark.parametrize(("role", "may"), [("submitter", False), ("operator", True)])
def test_rights_to_forget_a_robots_txt(
    files: list[RobotsFile],
    published: Frontier,
    as_role: Callable[[str], Client],
    role: str,
    may: bool,
) -> None:
    client = as_role(role)
    assert ("Forget selected files" in listed(client)) == may
    before = published.hosts.robots_forgotten()
    published.hosts.robots("down.example:8080", wait=60.0)
    chosen = [files[0].pk, files[1].pk]
    client.post(PLACE, {"action": "forget", "_selected_action": chosen})
    assert RobotsFile.objects.count() == (2 if may else 4)
    assert (published.hosts.robots_forgotten() > before) == may
    gate = published.hosts.states(["down.example:8080"])["down.example:8080"]
    assert (gate.robots_wait == 0) == may
    written = [*Action.objects.exclude(verb="login").values_list("verb", "name", "detail")]
    origins = [files[1].origin, files[0].origin]
    assert written == ([("forget robots", role, {"origins": origins})] if may else [])


def test_nothing_is_forgotten_without_redis(
    files: list[RobotsFile], as_role: Callable[[str], Client]
) -> None:
    client = as_role("operator")
    with redis_at("redis://127.0.0.1:1"):
        chosen = {"action": "forget", "_selected_action": [files[0].pk]}
        answer = client.post(PLACE, chosen, follow=True)
    assert "Redis" in answer.content.decode()
    assert RobotsFile.objects.count() == 4
    assert not Action.objects.filter(verb="forget robots").exists()


@pytest.mark.parametrize("robots", [True, False, None])
def test_a_task_that_ignores_it_says_so(
    ended_task: Task, as_role: Callable[[str], Client], robots: bool | None
) -> None:
    ended_task.settings.pop("robots", None)
    if robots is not None:
        ended_task.settings["robots"] = robots
    ended_task.save()
    ignores = robots is False
    page = as_role("viewer").get(f"/admin/crawlservice/task/{ended_task.pk}/change/")
    assert ("It ignores robots.txt." in page.content.decode()) == ignores
    told = program(person("operator"), "read").get(f"tasks/{ended_task.pk}").json()
    assert told["robots"] == (not ignores)
    rows = [line.split() for line in shown(report(ended_task)).splitlines()]
    assert (["robots.txt", "ignored"] in rows) == ignores
    assert limits_of(ended_task).robots == (not ignores)
