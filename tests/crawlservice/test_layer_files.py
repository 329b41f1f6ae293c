"""The files of a task by layer and domain: their pages and links, and files of earlier runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from crawlframe.frontier import Frontier
from crawlframe.request.request import make_rid, pack_admissions
from crawlservice.models import Page
from crawlservice.pages import bodies, layer_files
from crawlservice.pages.layer_files import UNFINISHED, export, part_of
from crawlservice.tasks.results.export import ExportError
from crawlservice.tasks.submit import get_task
from tests.crawlservice.test_kept_pages_admin import keep
from tests.crawlservice.test_layers import LINKS, A, B, C, Crawl, D

pytestmark = pytest.mark.usefixtures("service")
DEEP = "http://c.example/2"


@pytest.fixture
def crawl(published: Frontier) -> Crawl:
    return Crawl(published)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A directory that is not there yet; the other one may have the database."""
    return tmp_path / "out"


def to_layer_1(crawl: Crawl, failed: tuple[str, ...] = ()) -> None:
    """Runs start, layer 0 and layer 1."""
    crawl.run(LINKS)
    crawl.run(LINKS)
    crawl.steward.tick()
    crawl.run(LINKS, failed=failed)


def rows_in(directory: Path, kind: str) -> list[dict[str, Any]]:
    texts = [path.read_text() for path in directory.glob(f"*.{kind}.jsonl")]
    return [json.loads(line) for text in texts for line in text.splitlines()]


def links_in(directory: Path) -> list[tuple[str, str]]:
    return sorted((one["from"], one["to"]) for one in rows_in(directory, "links"))


def names_in(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def add(crawl: Crawl, url: str, depth: int, *to: str, **fields: Any) -> Page:
    """The row of a page of the task that led to these, whatever became of them."""
    found = [crawl.admission(one, depth + 1) for one in to]
    values = {
        "state": "done", "callback": "parse", "attempts": 0, "deliveries": 0, "size": 1,
        "fetch_ms": 1, "items": 0, "follow_ups": pack_admissions(found) if found else None,
    }  # fmt: skip
    rid = UUID(bytes=make_rid(crawl.task, url.encode()))
    return Page.objects.create(
        rid=rid, task_id=crawl.task, url=url, depth=depth, **{**values, **fields}
    )


def test_files_with_the_text_of_kept_pages(orm: str, out: Path) -> None:
    page = keep("<p>Grüße</p>".encode("latin-1"), "text/html; charset=latin-1")
    keep_binary = keep(b"\x00\x01\x02", "application/octet-stream")
    for kept, text in ((page, "<p>Grüße</p>"), (keep_binary, None)):
        directory = out / str(kept.task_id)
        assert export(get_task(kept.task_id), directory, 1, html=True).pages == 1
        (row,) = (directory / "layer-0-part-0.pages.jsonl").read_text().splitlines()
        assert json.loads(row).get("html") == text


def test_large_texts_are_not_in_memory_together(
    orm: str, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = keep(b"<p>" + b"a" * 1000, "text/html")
    (row,) = Page.objects.filter(task=page.task_id)
    rows = [(row, size) for size in (40, 30, 31, 200, 1, 1, 1)]
    monkeypatch.setattr(bodies, "MOST_BYTES", 100)
    assert [len(some) for some in bodies.batches(rows, 3)] == [2, 1, 1, 3]
    seen: list[int] = []

    def noted(rows: list[tuple[Page, int]], most: int) -> Iterator[list[Page]]:
        seen.extend(size for _, size in rows)
        return bodies.batches(rows, most)

    monkeypatch.setattr(layer_files, "batches", noted)
    assert export(get_task(page.task_id), out, 1, html=True).pages == 1
    assert seen == [1003]


def test_files_by_layer_and_domain(crawl: Crawl, out: Path) -> None:
    to_layer_1(crawl, failed=(D,))
    written = export(crawl.row, out, 3)
    rows: dict[str, list[Any]] = {}
    for path in (out).iterdir():
        rows[path.name] = [json.loads(line) for line in path.read_text().splitlines()]
    pages = {one["url"]: one for name in rows if "pages" in name for one in rows[name]}
    assert {url: one["layer"] for url, one in pages.items()} == {A: 0, B: 0, C: 1, D: 1}
    assert pages[D]["state"] == "error"
    assert links_in(out) == [(A, C), (B, D)]
    assert written == (4, 2, len(rows), 0)
    for name, some in rows.items():
        _, layer, _, part = name.split(".")[0].split("-")
        for one in some:
            assert part_of(one.get("url") or one["from"], 3) == int(part)
            assert one.get("layer", int(layer)) == int(layer)
    before = {path: path.read_bytes() for path in (out).iterdir()}
    export(crawl.row, out, 3)
    assert {path: path.read_bytes() for path in (out).iterdir()} == before


def test_few_files_are_open_at_a_time(
    crawl: Crawl, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawlservice.pages.layer_files.FILES", 1)
    to_layer_1(crawl)
    assert export(crawl.row, out, 1).pages == 4
    assert links_in(out) == [(A, C), (B, D)]


def test_files_that_cannot_be_written(crawl: Crawl, out: Path) -> None:
    with pytest.raises(ExportError, match="from 1 to"):
        export(crawl.row, out, 0)
    out.mkdir()
    (out / "file").write_text("")
    with pytest.raises(ExportError, match="cannot be written"):
        export(crawl.row, out / "file", 1)


def test_links_that_became_no_request_of_the_task_are_left_out(crawl: Crawl, out: Path) -> None:
    add(crawl, A, 0, C, D, DEEP)
    add(crawl, D, 1, state="error", reason="http_404")
    of_another = Crawl(crawl.frontier)
    add(of_another, C, 1)
    assert export(crawl.row, out, 1).links == 1
    assert links_in(out) == [(A, D)]


def test_a_link_is_at_the_page_that_led_to_it(crawl: Crawl, out: Path) -> None:
    """Of several pages that yielded it: the first row of the layer before its own."""
    add(crawl, D, 1, C, DEEP)
    add(crawl, A, 0, B, C, DEEP)
    add(crawl, B, 0, C, DEEP, "http://e.example/")
    add(crawl, C, 1, B)
    add(crawl, DEEP, 2)
    add(crawl, "http://e.example/", 1)
    assert export(crawl.row, out, 3).links == 3
    assert links_in(out) == [(A, C), (B, "http://e.example/"), (D, DEEP)]


def test_many_links_are_looked_up_in_batches(
    crawl: Crawl, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages and links that are more than a batch, and queries that are fewer than pages."""
    monkeypatch.setattr(layer_files, "ROWS", 40)
    targets = [f"http://c.example/{n}" for n in range(100)]
    for n in range(50):
        add(crawl, f"http://a.example/{n}", 0, *targets[n : n + 10])
    for url in targets[:55]:
        add(crawl, url, 1)
    with CaptureQueriesContext(connection) as queries:
        assert export(crawl.row, out, 4).links == 55
    first = [("http://a.example/0", one) for one in targets[:10]]
    later = [(f"http://a.example/{n - 9}", targets[n]) for n in range(10, 55)]
    assert links_in(out) == sorted(first + later)
    asked = [one["sql"] for one in queries if "rid" in one["sql"].partition("WHERE")[2]]
    assert 500 / 40 <= len(asked) <= 20


def test_excluded_and_cancelled_pages_are_no_errors(crawl: Crawl, out: Path) -> None:
    reasons = {A: "robots", B: "usage", C: "cancelled", D: "timeout"}
    for url, reason in reasons.items():
        add(crawl, url, 0, state="error", reason=reason)
    add(crawl, DEEP, 1)
    export(crawl.row, out, 1)
    rows = {one["url"]: (one["state"], one.get("reason")) for one in rows_in(out, "pages")}
    assert rows == {
        A: ("excluded", "robots"), B: ("excluded", "usage"), C: ("cancelled", "cancelled"),
        D: ("error", "timeout"), DEEP: ("done", None),
    }  # fmt: skip


def test_files_of_an_earlier_run_are_removed(crawl: Crawl, out: Path) -> None:
    to_layer_1(crawl)
    export(crawl.row, out, 16)
    others = {
        "layer-0-part-3.pages.jsonl.gz", "my-layer-0-part-3.pages.jsonl", "layer-0-part-3.jsonl",
        "layer-0-part-3.items.jsonl", "layer-x-part-3.pages.jsonl", "notes.txt",
    }  # fmt: skip
    for name in {*others, ".layer-9-part-7.links.jsonl.part"}:
        (out / name).write_text("")
    before = names_in(out)
    told = StringIO()
    call_command("task", "layers", str(crawl.task), "--dir", str(out), "--parts", "2", stdout=told)
    fresh = out / "fresh"
    written = export(crawl.row, fresh, 2)
    assert names_in(out) == names_in(fresh) | others | {"fresh"}
    assert len(rows_in(out, "pages")) == written.pages == 4
    gone = len({name for name in before if name[0] == "l"} - others - names_in(fresh))
    assert f"removed there: {gone}" in told.getvalue()


def test_files_of_another_task_are_removed(crawl: Crawl, out: Path) -> None:
    to_layer_1(crawl)
    files = export(crawl.row, out, 2).files
    other = Crawl(crawl.frontier)
    add(other, A, 5)
    assert export(other.row, out, 1)[2:] == (1, files)
    assert names_in(out) == {"layer-5-part-0.pages.jsonl"}


def test_a_run_that_fails_leaves_the_earlier_files(
    crawl: Crawl, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to_layer_1(crawl)
    export(crawl.row, out, 16)
    before = {path: path.read_bytes() for path in out.iterdir()}

    def fail(row: Page) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(layer_files, "_state", fail)
    with pytest.raises(ExportError, match="No space left"):
        export(crawl.row, out, 1)
    assert {path: path.read_bytes() for path in out.iterdir()} == before


def test_files_of_two_runs_are_told(crawl: Crawl, out: Path) -> None:
    """A file cannot be removed when others are replaced already."""
    to_layer_1(crawl)
    export(crawl.row, out, 1)
    stuck = out / "layer-7-part-0.pages.jsonl"
    (stuck / "mine").mkdir(parents=True)
    with pytest.raises(ExportError, match=r"of an earlier one: .*layer-7-part-0.* run the command"):
        export(crawl.row, out, 1)
    assert "run it again" in (out / UNFINISHED).read_text()
    assert not [name for name in names_in(out) if name.endswith(".part")]
    stuck.rename(out / "mine")
    export(crawl.row, out, 1)
    assert UNFINISHED not in names_in(out)


def test_no_room_for_what_was_written(
    crawl: Crawl, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to_layer_1(crawl)

    class Full(layer_files._Targets):
        def __init__(self) -> None:
            super().__init__()
            self._database.execute("PRAGMA max_page_count = 1")
            self._database.execute("DROP TABLE target")
            self._database.execute("CREATE TABLE target (number PRIMARY KEY)")

    monkeypatch.setattr(layer_files, "_Targets", Full)
    with pytest.raises(ExportError, match=r"is full; .* SQLITE_TMPDIR"):
        export(crawl.row, out, 1)
    assert names_in(out) == set()
