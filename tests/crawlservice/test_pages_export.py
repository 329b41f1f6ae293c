"""Kept pages as WARC and WACZ files, wherever their bodies are: by command, API and admin."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError

from crawlframe.errors import ArchiveError
from crawlframe.request.record import Hop
from crawlframe.request.record import write as write_record
from crawlframe.run.outcome import Outcome
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Action, KeptPage, Task
from crawlservice.pages import archived, bodies, export
from crawlservice.pages.export import PagesExport, suffix_of, write
from crawlservice.tasks.results.export import STDOUT, ExportError
from tests.crawlservice.programs import person, program
from tests.crawlservice.test_api_tasks import error
from tests.crawlservice.test_kept_pages import kept
from tests.crawlservice.web import login, login_as
from tests.warc.captures import judged

pytestmark = pytest.mark.usefixtures("orm")


STORES = pytest.mark.parametrize("ledger", ["database", "segments"], indirect=True)


@pytest.fixture
def ledger(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> DjangoLedger:
    """``param``: where bodies are, by default in the database."""
    in_segments = getattr(request, "param", "") == "segments"
    pages = str(tmp_path / "pages") if in_segments else ""
    monkeypatch.setattr(settings, "CRAWLFRAME", replace(settings.CRAWLFRAME, pages=pages))
    return DjangoLedger()


@pytest.fixture
def task(ledger: DjangoLedger) -> Task:
    """A task with a redirect, two pages with equal bytes, a failed page, the DOM of a browser."""
    task = Task.objects.create(spider="shop", seeds=b"")
    ledger.commit([kept(Task.objects.create(spider="other", seeds=b""), "elsewhere")])
    ledger.commit([redirected(task), kept(task, "b", b"<p>same"), kept(task, "c", b"<p>same")])
    dom = kept(task, "dom", b"<p>same")
    assert dom.results.page is not None
    dom.results.page.headers["rendered"] = True
    ledger.commit([kept(task, "bad", b"<p>bad", "callback"), dom])
    return task


def redirected(task: Task) -> Outcome:
    made = kept(task, "a", b"<p>first")
    assert made.results.page is not None
    made.results.page.record = write_record("http://h/old", "parse", 0, {})
    hops = [Hop(301, "http://h/middle"), Hop(302, "http://h/a")]
    made.results.page.headers["redirects"] = [[hop.status, hop.url] for hop in hops]
    return made


def summary(records: list[Any]) -> list[tuple[str, str, str]]:
    """Type, URL and body of the records that are replayed."""
    replayed = [r for r in records if r.rec_type in ("response", "revisit", "resource")]
    return [
        (r.rec_type, r.rec_headers.get_header("WARC-Target-URI"), r.body.decode()) for r in replayed
    ]


EXPECTED = [
    ("response", "http://h/a", "<p>first"),
    ("response", "http://h/old", ""),
    ("response", "http://h/middle", ""),
    ("response", "http://h/b", "<p>same"),
    ("revisit", "http://h/c", ""),
    ("response", "http://h/bad", "<p>bad"),
    ("resource", "http://h/dom", "<p>same"),
]


@STORES
def test_all_pages_of_a_task_are_in_a_warc(task: Task, tmp_path: Path) -> None:
    path = tmp_path / "out.warc.gz"
    call_command("page", "export", str(task.pk), "-o", str(path))
    records = judged(path)
    assert summary(records) == EXPECTED
    by_url = {r.rec_headers.get_header("WARC-Target-URI"): r for r in records if r.http_headers}
    old, middle = (by_url[f"http://h/{name}"].http_headers for name in ("old", "middle"))
    assert (old.get_statuscode(), old.get_header("Location")) == ("301", "http://h/middle")
    assert (middle.get_statuscode(), middle.get_header("Location")) == ("302", "http://h/a")
    revisit = next(r.rec_headers for r in records if r.rec_type == "revisit")
    assert revisit.get_header("WARC-Refers-To-Target-URI") == "http://h/b"
    same = next(
        r.rec_headers
        for r in records
        if r.rec_type == "response" and r.rec_headers.get_header("WARC-Target-URI") == "http://h/b"
    )
    assert revisit.get_header("WARC-Refers-To-Date") == same.get_header("WARC-Date")
    assert [*Action.objects.values_list("verb", "task_id")] == [("export pages", task.pk)]


@STORES
def test_small_chunks_change_nothing(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rows, size in ((1, 1 << 20), (200, 1), (2, 10)):
        monkeypatch.setattr(export, "ROWS", rows)
        monkeypatch.setattr(bodies, "MOST_BYTES", size)
        path = tmp_path / f"{rows}-{size}.warc.gz"
        found = PagesExport(KeptPage.objects.filter(task=task))
        write(found, path, ".warc.gz", "x")
        assert found.given == 5
        assert summary(judged(path)) == EXPECTED


def test_pages_of_all_tasks_of_a_spider(task: Task, ledger: DjangoLedger, tmp_path: Path) -> None:
    second = Task.objects.create(spider="shop", seeds=b"")
    at = KeptPage.objects.get(url="http://h/bad").fetched_at.timestamp()
    taken, later = kept(second, "bad", b"<p>bad", fetched_at=at), kept(second, "b", b"<p>same")
    taken.rid, later.rid = b"1" * 16, b"2" * 16
    ledger.commit([taken, later])
    assert KeptPage.objects.filter(task=second).count() == 2
    path = tmp_path / "out.wacz"
    call_command("page", "export", "--spider", "shop", "-o", str(path))
    with zipfile.ZipFile(path) as archive:
        warc = tmp_path / "data.warc.gz"
        warc.write_bytes(archive.read("archive/data.warc.gz"))
        assert json.loads(archive.read("datapackage.json"))["title"] == "shop"
    # The page that was taken from the store is not there twice.
    assert summary(judged(warc)) == [*EXPECTED, ("revisit", "http://h/b", "")]


def test_pages_that_come_meanwhile_are_left_out(task: Task, ledger: DjangoLedger) -> None:
    found = PagesExport(KeptPage.objects.filter(task=task))
    ledger.commit([kept(task, "late", b"late")])
    b"".join(found.stream(".warc.gz", "x"))
    assert found.given == 5


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["-o", "x.warc.gz"], "give either the number of a task or --spider NAME"),
        (["1", "--spider", "shop", "-o", "x.wacz"], "give either"),
        (["99", "-o", "x.wacz"], "99"),
        (["--spider", "nobody", "-o", "x.wacz"], "no task of a spider 'nobody'"),
        (["1", "-o", "x.zip"], r"x.zip: the suffix decides the format; give .warc.gz or .wacz"),
        (["1", "-o", "missing/x.wacz"], "there is no directory missing"),
    ],
)
def test_what_cannot_be_written_is_named(
    task: Task, arguments: list[str], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CommandError, match=problem):
        call_command("page", "export", *arguments)
    assert [*tmp_path.glob("x*")] == []


def test_samples_are_left_out(task: Task) -> None:
    pages = KeptPage.objects.filter(task=task)
    pages.update(sample="parse")
    found = PagesExport(pages)
    assert b"".join(found.stream(".warc.gz", "x"))
    assert found.given == 0


def test_the_standard_output_needs_a_format(task: Task, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="or --format"):
        suffix_of(STDOUT)
    out = BytesIO()
    write(PagesExport(KeptPage.objects.filter(task=task)), STDOUT, ".warc.gz", "x", out)
    path = tmp_path / "x.warc.gz"
    path.write_bytes(out.getvalue())
    assert summary(judged(path)) == EXPECTED


@pytest.mark.usefixtures("service")
def test_the_api_streams_them(task: Task) -> None:
    api = program(person("operator"), "read")
    for name, kind in (("wacz", "application/wacz"), ("warc", "application/warc")):
        answer = api.get(f"tasks/{task.pk}/kept-pages/export", format=name)
        assert answer.streaming
        assert (answer.status_code, answer["Content-Type"]) == (200, kind)
        assert len(answer.getvalue()) > 1000
    error(api.get(f"tasks/{task.pk}/kept-pages/export", format="zip"), 422, "invalid")
    assert Action.objects.filter(verb="export pages", task=task).count() == 2


def test_the_admin_offers_them(task: Task, tmp_path: Path) -> None:
    Task.objects.filter(pk=task.pk).update(state=Task.State.FINISHED)
    client, _ = login_as("operator")
    assert (
        f'{task.pk}/pages.wacz"'
        in client.get(f"/admin/crawlservice/task/{task.pk}/pages/").content.decode()
    )
    place = f"/admin/crawlservice/task/{task.pk}"
    answer = client.get(f"{place}/pages.warc")
    assert answer["Content-Disposition"] == f'attachment; filename="task-{task.pk}.warc.gz"'
    path = tmp_path / "x.warc.gz"
    path.write_bytes(answer.getvalue())
    assert summary(judged(path)) == EXPECTED
    assert client.get(f"{place}/pages.zip").status_code == 404


def test_they_are_for_those_who_see_pages(task: Task) -> None:
    client = login()  # has no role
    answer = client.get(f"/admin/crawlservice/task/{task.pk}/pages.warc")
    assert answer.status_code in (302, 403)


@pytest.mark.usefixtures("service")
@pytest.mark.parametrize("ledger", ["segments"], indirect=True)
def test_a_segment_that_cannot_be_read_is_named_before_anything_is_sent(task: Task) -> None:
    opened = archived.archive()
    assert opened is not None
    for path in opened.directory.iterdir():
        path.unlink()
    with pytest.raises(ArchiveError, match="was deleted from"):
        PagesExport(KeptPage.objects.filter(task=task))
    api = program(person("operator"), "read")
    error(api.get(f"tasks/{task.pk}/kept-pages/export"), 503, "store_away")
