"""The pages and rows of the programs that benchmarks/browser compares; nothing is run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.browser import peers
from benchmarks.browser.__main__ import good_pages
from benchmarks.browser.contenders import words as theirs
from benchmarks.browser.contenders.words import Rows, Words
from benchmarks.browser.site import CARDS, EVILS
from benchmarks.browser.spiders.cards import EVIL_RETRIES, RETRIES, TIMEOUT, Cards

SITE = "http://127.0.0.1:8000/"


class Seen:
    cpu, memory = 1.0, [(1, 1)]


def words(rows: Path, evil: bool) -> Words:
    return Words(SITE, 40, list(EVILS) if evil else [], str(rows), "chromium", 8, root=True)


@pytest.mark.parametrize("evil", [False, True])
def test_all_programs_get_the_same_pages(tmp_path: Path, evil: bool) -> None:
    urls = words(tmp_path / "rows", evil).urls()
    ours = [*Cards().start(SITE, 40, evil=evil)]
    assert [url for url, _ in urls] == [request.url for request in ours]
    assert {request.options.retries for request in ours} <= {EVIL_RETRIES, RETRIES}
    assert sum(not bad for _, bad in urls) == (good_pages(40) if evil else 40)
    assert (*(TIMEOUT, EVIL_RETRIES, RETRIES),) == (
        theirs.EVIL_TIMEOUT,
        theirs.EVIL_RETRIES,
        theirs.RETRIES,
    )


def test_pages_count_once_and_only_with_all_cards(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    rows = Rows(words(path, evil=False))
    whole = '<article class="card">' * CARDS
    rows.page(f"{SITE}cards/1", whole)
    rows.page(f"{SITE}cards/1", whole)
    rows.page(f"{SITE}cards/2", whole[:-30])
    rows.failed(f"{SITE}loop/3", TimeoutError())
    assert [json.loads(line)[1] for line in path.read_text().splitlines()] == [300, 300, 298, 0]
    done = peers._counted(path, 4, 2.0, 3.0, Seen(), 0, hung=True)  # type: ignore[arg-type]
    assert (done.rows, done.urls, done.whole, done.hung) == (4, 3, 1, True)
    assert done.reasons == {"cards: done": 3, "loop: TimeoutError": 1}
