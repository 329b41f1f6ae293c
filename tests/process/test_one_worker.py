"""``workers = 1``: all requests of a task run in one worker, and then in the next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from crawlservice.ledger.audit import audit
from crawlservice.models import Item
from tests.conftest import Running
from tests.process.conftest import Look, Submit, wait_for

pytestmark = pytest.mark.process

PAGES = 500
IN_FLIGHT = 8


def counts(look: Look, pk: int) -> dict[int, list[int]]:
    """The counts, by worker, in the order of the numbers."""
    found: dict[int, list[int]] = defaultdict(list)
    for item in look.items(pk):
        if "count" in item:
            found[item["pid"]].append(item["count"])
    return {pid: sorted(numbers) for pid, numbers in found.items()}


def worker(look: Look, pk: int) -> int:
    """The pid of the worker that has stored the latest item."""
    data: Any = Item.objects.filter(task=pk).order_by("-id").values_list("data", flat=True)[0]
    pid: int = data["pid"]
    return pid


def check(look: Look, pk: int, pages: int = PAGES) -> None:
    task = look.wait(pk)
    assert (task.state, task.ne) == ("finished", 0)
    assert task.na == task.nf == len(look.pages(pk)) == pages + 2
    assert look.frontier.audit() == audit(task) == []


def begun_anew(found: dict[int, list[int]]) -> None:
    """Each worker has counted from 1; some results of a killed worker were not stored."""
    for numbers in found.values():
        assert numbers[0] <= IN_FLIGHT
        assert numbers[-1] <= len(numbers) + 2 * IN_FLIGHT
        assert len({*numbers}) == len(numbers)
    assert sum(map(len, found.values())) == PAGES


@pytest.mark.databases("postgres")
def test_the_next_worker_and_then_the_other_node_takes_over(
    odd_env: dict[str, str], start_manage: Callable[..., Running], submit: Submit, look: Look
) -> None:
    """Tasks are spread, and requests of others run everywhere."""
    options = ("--workers", 2, "--concurrency", IN_FLIGHT)
    nodes = [start_manage("runcrawler", "--node", name, *options) for name in ("one", "two")]
    some = [submit("counting", pages=200) for _ in range(6)]
    other = submit("flood", pages=400)
    for pk in some:
        check(look, pk, 200)
        assert [*counts(look, pk).values()] == [[*range(1, 201)]]
        assert [item["closed"] for item in look.items(pk) if "closed" in item] == [200]
    assert look.wait(other).nf == 401

    pk = submit("counting", pages=PAGES)
    wait_for(lambda: len(look.items(pk)) > PAGES // 4)
    psutil.Process(worker(look, pk)).kill()
    wait_for(lambda: len(look.items(pk)) > PAGES // 2)
    master = psutil.Process(worker(look, pk)).ppid()
    (node,) = [node for node in nodes if node.process.pid == master]
    node.process.kill()
    check(look, pk)
    found = counts(look, pk)
    assert 2 <= len(found) <= 3
    begun_anew(found)
