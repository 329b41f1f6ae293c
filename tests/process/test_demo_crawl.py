"""The demo crawl on one, two and three nodes: exactly the generator's items, each once."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from examples.demo_site import DemoServer
from tests.conftest import Running
from tests.process.conftest import Look, Submit, each_on

# 5,000 is the size of Zhao and Liu's experiment (docs/sources.md); the suite runs a smaller one.
LISTINGS = int(os.environ.get("LISTINGS", "200"))

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("nodes", "database"),
    [
        *each_on("postgres", 3),
        pytest.param(1, "sqlite", marks=pytest.mark.long),
        pytest.param(2, "postgres", marks=[pytest.mark.postgres, pytest.mark.long]),
    ],
    indirect=["database"],
)
def test_nodes_finish_a_task_together(
    nodes: int, start_manage: Callable[..., Running], submit: Submit, look: Look
) -> None:
    running = [
        start_manage("runcrawler", "--node", f"n{number}", "--workers", 1 if nodes > 1 else 2)
        for number in range(nodes)
    ]
    with DemoServer(listings=LISTINGS, error_rate=0.02) as demo:
        pk = submit("listings", site=demo.url)
        task = look.wait(pk)
        expected = list(demo.site.expected_items())
        pages = demo.site.crawl_pages()
    assert task.state == "finished"
    assert sorted(look.items(pk), key=lambda item: item["id"]) == expected
    ledger = look.pages(pk)
    assert len(ledger) == task.na == task.nf == pages + 1  # the start request is one too
    assert task.ne == 0
    assert task.items == len(expected)
    assert look.finishes(pk) == 1
    assert any(page.attempts > 0 for page in ledger.values())  # the errors of the site were met
    assert [node.stop() for node in running] == [0] * nodes
    if nodes > 1:
        assert all("worker" in node.output for node in running)


def test_a_node_joins_and_another_leaves(
    start_manage: Callable[..., Running], submit: Submit, look: Look
) -> None:
    first = start_manage("runcrawler", "--node", "first", "--workers", 1)
    with DemoServer(listings=LISTINGS, latency=20) as demo:
        pk = submit("listings", site=demo.url)
        look.wait(pk, lambda task: len(look.items(pk)) > LISTINGS // 8)
        second = start_manage("runcrawler", "--node", "second", "--workers", 1)
        second.wait_for("generation")
        look.wait(pk, lambda task: len(look.items(pk)) > LISTINGS // 4)
        assert first.stop() == 0
        task = look.wait(pk)
        expected = list(demo.site.expected_items())
        hits = demo.stats()["requests"]
    assert sorted(look.items(pk), key=lambda item: item["id"]) == expected
    assert task.ne == 0
    # A node that stops gracefully finishes its fetches, so no page was fetched twice.
    assert hits == task.na - 1
