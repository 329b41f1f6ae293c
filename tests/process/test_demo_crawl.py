"""The demo crawl on three nodes: exactly the generator's items, each once."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from examples.demo_site import DemoServer
from tests.conftest import Running
from tests.process.conftest import Look, Submit

LISTINGS = int(
    os.environ.get("LISTINGS", "5000")
)  # as in Zhao and Liu's experiment (docs/sources.md)

NODES = 3

pytestmark = [pytest.mark.process, pytest.mark.long]


@pytest.mark.databases("postgres")
def test_nodes_finish_a_task_together(
    start_manage: Callable[..., Running], submit: Submit, look: Look
) -> None:
    running = [
        start_manage("runcrawler", "--node", f"n{number}", "--workers", 1)
        for number in range(NODES)
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
    assert [node.stop() for node in running] == [0] * NODES
