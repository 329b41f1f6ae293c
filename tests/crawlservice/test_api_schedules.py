"""Schedules through the API: created, changed, run, switched and deleted, as in the admin."""

from __future__ import annotations

from typing import Any

import pytest

from crawlframe.base.secret import MASK, Secret
from crawlframe.frontier import Frontier
from crawlframe.spider.spider import Spider, describe
from crawlservice.models import Action, Run, Schedule, Task
from crawlservice.tasks.arguments.secrets import has_secrets, revealed
from crawlservice.tasks.spider_switch import disable
from tests.crawlservice.conftest import redis_at
from tests.crawlservice.programs import Program, person, program
from tests.crawlservice.test_api_tasks import error

NIGHT = {"name": "night", "spider": "shop", "arguments": {"city": "Ulm"}, "cron": "0 6 * * *"}


class Locked(Spider):
    """A spider with a secret."""

    name = "locked"

    def start(self, word: Secret, city: str = "Ulm") -> Any: ...


@pytest.fixture
def caller(published: Frontier) -> Program:
    published.spiders.publish([describe(Locked)])
    return program(person("operator"))


def verbs() -> list[tuple[str, Any]]:
    return [*Action.objects.order_by("pk").values_list("verb", "detail__schedule")]


def test_one_is_created_and_planned(caller: Program) -> None:
    more = {"settings": {"delay": 3}, "labels": {"domain": "news"}, "timezone": "Asia/Shanghai"}
    told = caller.post("schedules", {**NIGHT, **more, "overlap": "queue"})
    assert told.status_code == 201
    made = told.json()
    assert (made["name"], made["enabled"], made["overlap"]) == ("night", True, "queue")
    assert made["next_at"].endswith("T22:00:00Z")  # 6 in Shanghai
    assert (made["settings"], made["labels"]) == ({"delay": 3}, {"domain": "news"})
    assert caller.get(f"schedules/{made['id']}").json() == {**made, "runs": []}
    row = Schedule.objects.get()
    assert row.user is not None
    assert row.user.get_username() == "operator"
    assert verbs() == [("add schedule", "night")]


def test_a_mistake_in_a_schedule_is_named(caller: Program) -> None:
    Schedule.objects.create(name="taken", spider="shop", every=60)
    night = Schedule.objects.create(**NIGHT)
    for change, code, field in (
        ({"cron": "61 * * * *"}, "invalid", "cron"),
        ({"cron": "", "every": 9}, "invalid", "every"),
        ({"timezone": "Nowhere"}, "invalid", "timezone"),
        ({"spider": "shp"}, "unknown_spider", None),
        ({"arguments": {"city": "Ulm", "size": 3}}, "argument", None),
        ({"settings": {"delya": 3}}, "invalid", "settings"),
        ({"labels": {"a b": "c"}}, "invalid", None),
        ({"overlap": "no"}, "invalid", "overlap"),
        ({"name": " "}, "invalid", "name"),
        ({"name": "taken"}, "invalid", "name"),
        ({"colour": "red"}, "invalid", "colour"),
    ):
        told = error(caller.post("schedules", {**NIGHT, "name": "new", **change}), 422, code)
        assert field is None or told["field"].endswith(field)
        error(caller.patch(f"schedules/{night.pk}", change), 422, code)
    assert Schedule.objects.count() == 2
    assert Schedule.objects.filter(**NIGHT, every=None).exists()
    assert not Action.objects.exists()


def test_given_fields_change_and_others_stay(caller: Program) -> None:
    made = caller.post("schedules", {**NIGHT, "labels": {"a": "b"}}).json()
    place = f"schedules/{made['id']}"
    Schedule.objects.update(problem="it could not start")
    told = caller.patch(place, {"priority": 5, "arguments": {"city": "Bonn"}}).json()
    assert (told["priority"], told["arguments"]) == (5, {"city": "Bonn"})
    assert (told["labels"], told["cron"], told["problem"]) == ({"a": "b"}, "0 6 * * *", "")
    assert told["next_at"] == made["next_at"]
    told = caller.patch(place, {"cron": "", "every": 60}).json()
    assert told["next_at"] < made["next_at"]
    assert caller.patch(place, {}).json() == told
    assert verbs() == [("add schedule", "night"), *[("change schedule", "night")] * 2]
    error(caller.patch("schedules/99", {"priority": 1}), 404, "unknown_schedule")


def test_secrets_are_sealed_shown_masked_and_kept_by_their_mask(caller: Program) -> None:
    night = {**NIGHT, "spider": "locked", "arguments": {"word": "sesame"}}
    made = caller.post("schedules", night).json()
    assert made["arguments"] == {"word": MASK}
    place = f"schedules/{made['id']}"
    caller.patch(place, {"arguments": {"word": MASK, "city": "Bonn"}})
    stored = Schedule.objects.get().arguments
    assert has_secrets(stored)
    assert revealed(stored)["word"].reveal() == "sesame"
    assert stored["city"] == "Bonn"
    caller.patch(place, {"priority": 1})
    assert revealed(Schedule.objects.get().arguments)["word"].reveal() == "sesame"
    other = {**night, "name": "other", "arguments": {"word": MASK}}
    error(caller.post("schedules", other), 422, "argument")


def test_it_is_switched_run_and_deleted(caller: Program) -> None:
    place = f"schedules/{caller.post('schedules', NIGHT).json()['id']}"
    told = caller.post(f"{place}/disable").json()
    assert (told["enabled"], told["next_at"]) == (False, None)
    assert caller.post(f"{place}/disable").json() == told
    run = caller.post(f"{place}/run").json()
    task = Task.objects.get()
    assert (run["outcome"], run["task"]) == ("submitted", task.pk)
    assert task.user is not None
    assert task.user.get_username() == "operator"
    run = caller.post(f"{place}/run").json()
    assert (run["outcome"], run["task"]) == ("skipped", None)
    assert caller.post(f"{place}/enable").json()["next_at"] is not None
    assert caller.delete(place).status_code == 204
    assert not Run.objects.exists()
    assert Task.objects.exists()
    error(caller.delete(place), 404, "unknown_schedule")
    assert [verb for verb, _ in verbs()] == [
        "add schedule",
        "disable schedule",
        "run schedule",
        "run schedule",
        "enable schedule",
        "delete schedule",
    ]


def test_a_disabled_spider_is_not_run(caller: Program) -> None:
    place = f"schedules/{caller.post('schedules', NIGHT).json()['id']}"
    disable("shop", "broken", {"command": True})
    told = error(caller.post(f"{place}/run"), 409, "spider_disabled")
    assert "broken" in told["message"]
    error(
        caller.post("tasks", {"spider": "shop", "arguments": {"city": "a"}}), 409, "spider_disabled"
    )


def test_without_redis_nothing_is_created(caller: Program) -> None:
    with redis_at("redis://127.0.0.1:1/0"):
        error(caller.post("schedules", NIGHT), 503, "redis_away")
    assert not Schedule.objects.exists()
