"""config show, and the settings of a spider and of a task on their pages."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from crawlframe.base.ranks import EVERYDAY, TUNING
from crawlframe.base.secret import MASK
from crawlframe.frontier import Frontier
from crawlservice.config import effective
from crawlservice.tasks.limits import change_limits
from crawlservice.tasks.submit import submit
from tests.crawlservice.test_settings import python
from tests.crawlservice.web import log_in_as

ULM = {"city": "Ulm"}
SHOP = {"delay": 1.5, "concurrency": 3, "page_limit": 100}  # settings of the spider
pytestmark = pytest.mark.usefixtures("published")


def shown(*words: str) -> dict[str, tuple[Any, str]]:
    out = StringIO()
    call_command("config", "show", *words, "--json", stdout=out)
    return {
        one["name"]: (one["value"], one["source"]) for one in json.loads(out.getvalue())["settings"]
    }


def test_what_a_process_was_started_with(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("CRAWLFRAME_WORKERS=3\nCRAWLFRAME_CONTACT=a@b.example\n")
    env = {
        "CRAWLFRAME_ENV_FILE": str(tmp_path / "env"), "CRAWLFRAME_SECRET_KEY": "k" * 50,
        "DATABASE_URL": f"sqlite:///{tmp_path}/d", "REDIS_URL": "redis://ann:hush@r.example:1/0",
        "CRAWLFRAME_CONTACT": "c@d.example",
    }  # fmt: skip
    words = ("manage.py", "config", "show", "--json")
    found = {
        one["name"]: one for one in json.loads(python(tmp_path, *words, **env).stdout)["settings"]
    }
    told = {name: (one["value"], one["source"]) for name, one in found.items()}
    assert told["CRAWLFRAME_WORKERS"] == (3, ".env")
    assert told["CRAWLFRAME_CONTACT"] == ("c@d.example", "environment")
    assert told["CRAWLFRAME_SECRET_KEY"] == (MASK, "environment")
    assert told["REDIS_URL"] == (f"redis://{MASK}@r.example:1/0", "environment")
    assert told["CRAWLFRAME_KEEP_RUNS"] == ("90", "default")
    assert found["CRAWLFRAME_COMMIT_BATCH"]["rank"] == TUNING
    assert next(one["rank"] for one in found.values()) == EVERYDAY


def test_what_a_spider_and_a_task_have(published: Frontier) -> None:
    task = submit("shop", ULM, settings={"retries": 0, "ip": {"delay": 1}, "page_limit": 9})
    own = {one.name: (one.value, one.source) for one in effective.changed(of_shop(published))}
    assert own == {
        "delay": (1.5, "spider"),
        "concurrency": (3, "spider"),
        "page_limit": (100, "spider"),
    }
    again = submit("shop", ULM, settings={"reuse": {"max_age": 9}})
    for info in (published.spiders.find("shop"), None):
        told = {one.name: one[1:3] for one in effective.of_task(again, info)}
        assert told["keep"] == ("all", "reuse")  # nobody set it
    change_limits(task.pk, {"command": True}, concurrency=2, page_limit=5)
    task.refresh_from_db()
    found = effective.of_task(task, published.spiders.find("shop"))
    assert {one.name: (one.value, one.source) for one in effective.changed(found)} == {
        "delay": (1.5, "spider"), "concurrency": (2, "operator"), "page_limit": (5, "operator"),
        "retries": (0, "task"), "ip.delay": (1, "task"),
    }  # fmt: skip
    assert [one.rank for one in found] == sorted(
        (one.rank for one in found), key=["everyday", "needed", "tuning"].index
    )
    gone = effective.changed(effective.of_task(task, None))
    assert ("retries", 0, "task") in [one[:3] for one in gone]


def of_shop(frontier: Frontier) -> list[effective.Effective]:
    info = frontier.spiders.find("shop")
    assert info is not None
    return effective.of_spider(info)


def test_the_pages_show_what_differs(published: Frontier) -> None:
    task = submit("shop", ULM, settings={"retries": 0})
    client = log_in_as("operator")
    for place in (f"crawlservice/task/{task.pk}/settings/", "spiders/shop"):
        page = client.get(f"/admin/{place}").content.decode()
        assert "concurrency" in page
        assert "max_redirects" not in page


def test_a_task_without_its_spider_and_none_at_all(published: Frontier) -> None:
    """The code of this checkout has no spider of that name."""
    task = submit("shop", ULM, settings={"retries": 0})
    assert shown("--task", str(task.pk))["retries"] == (0, "task")
    with pytest.raises(CommandError, match="there is no task 7"):
        call_command("config", "show", "--task", "7")
    out = StringIO()
    call_command("config", "show", "--changed", stdout=out)
    assert out.getvalue().startswith("Settings of this process, as a node ")
