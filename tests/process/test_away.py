"""Spiders that could take down a worker or hold up its end, and a task that is deleted."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from crawlservice.models import Page, Task
from crawlservice.tasks.submit import cancel
from tests.conftest import Running
from tests.crawlservice.conftest import redis_at
from tests.process.conftest import Look, OddWeb, Submit
from tests.process.reload_project import Gate

pytestmark = pytest.mark.process

Start = Callable[..., Running]


@pytest.mark.databases("postgres")
def test_rude_callbacks_and_a_deleted_task_end_alone(
    odd_env: dict[str, str],
    start_manage: Start,
    submit: Submit,
    look: Look,
    web: OddWeb,
    redis_url: str,
) -> None:
    node = start_manage("runcrawler", "--workers", 1)
    for what in ("cancelled", "interrupted", "far_future", "too_much"):
        web.hits.clear()
        pk = submit("rude", url=web.url, what=what)
        task = look.wait(pk)
        assert (task.nf, task.ne) == (2, 1), what
        page = look.pages(pk)[web.url + "rude"]
        assert (page.reason, page.deliveries, page.items) == ("callback", 0, 0), what
        assert web.hits == {"/fine": 1, "/rude": 1}, what

    # A spider that quits when it is made.
    pk = submit("quitter", url="http://127.0.0.1:1/", what="parse")
    look.wait(pk, lambda task: look.counts(pk).parked == 1)
    (reason,) = look.frontier.parked(pk).values()
    assert reason == "spider 'quitter' cannot be created: SystemExit: 4"

    # Names that no column takes end in the ledger.
    pk = submit("rude", url=web.url, what="\u0001" + "x" * 200)
    look.wait(pk, lambda task: look.counts(pk).parked == 1)
    with redis_at(redis_url):
        cancel(pk)
    task = look.wait(pk)
    assert (task.state, task.ne) == ("cancelled", 1)
    assert look.pages(pk)[web.url + "rude"].callback == "\u0001" + "x" * 99

    # Deletion of a task from the database stops no node.
    web.pages["/"] = [f"/held/{n}" for n in range(20)]
    web.delays = gate = Gate()
    gone = submit("odd", url=web.url)
    look.wait(gone, lambda task: look.counts(gone).nf == 2)
    Page.objects.filter(task_id=gone).delete()
    Task.objects.filter(pk=gone).delete()
    gate.open()
    kept = submit("odd", url=web.url + "other")
    assert look.wait(kept).state == "finished"
    assert Page.objects.filter(task_id=gone).count() == 0
    assert "the database refuses" in node.output
    assert "died" not in node.output


def test_an_import_without_end_does_not_hold_up_the_stop(
    odd_env: dict[str, str], start_manage: Start, tmp_path: Any
) -> None:
    package = tmp_path / "endless_spiders"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "endless.py").write_text(
        "import time\nprint('importing', flush=True)\ntime.sleep(1000)\n"
    )
    odd_env["CRAWLFRAME_SPIDERS"] = package.name
    odd_env["PYTHONPATH"] = str(tmp_path)
    odd_env["CRAWLFRAME_GRACE"] = "1000"
    node = start_manage("runcrawler", "--workers", 1)
    node.wait_for("importing")
    time.sleep(0.1)
    assert node.stop() == 0
