"""Retry: a site whose pages fail first and work later, with a whole node."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from crawlservice.ledger.audit import audit
from crawlservice.models import Item, Page
from tests.conftest import Running
from tests.process.conftest import Look, OddWeb, Submit

pytestmark = pytest.mark.process


@pytest.mark.databases("postgres")
def test_pages_that_failed_are_run_again_and_others_are_not(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    manage: Callable[..., subprocess.CompletedProcess[str]],
    submit: Submit,
    look: Look,
    web: OddWeb,
) -> None:
    good = [f"/good/{n}" for n in range(30)]
    bad = [f"/bad/{n}" for n in range(5)]
    web.pages["/"] = good + bad
    web.pages["/bad/0"] = ["/behind"]
    web.statuses = dict.fromkeys(bad, 404)
    start_manage("runcrawler", "--workers", 1)
    pk = submit("odd", url=web.url)
    task = look.wait(pk)
    assert (task.ne, task.retries) == (5, 0)
    assert Item.objects.filter(data__reason="http_404").count() == 5  # of the errback
    web.statuses.clear()
    done = manage("task", "retry", pk)
    assert done.returncode == 0, done.stderr
    assert f"task {pk} runs again, with 5 failed requests" in done.stdout
    task = look.wait(pk)
    assert (task.state, task.ne, task.retries) == ("finished", 0, 1)
    assert task.na == 1 + 1 + 30 + 5 + 1
    assert audit(task) == []
    assert not Page.objects.filter(state=Page.State.ERROR).exists()
    assert not Item.objects.filter(data__reason="http_404").exists()
    assert look.finishes(pk) == 2
    assert {web.hits[path] for path in good} == {web.hits["/"], web.hits["/behind"]} == {1}
    assert {web.hits[path] for path in bad} == {2}
    again = manage("task", "retry", pk)
    assert again.returncode != 0
    assert "nothing to retry" in again.stderr
