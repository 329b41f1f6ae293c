"""Kept pages in WARC segments: every named record can be read, whatever fails in between."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.db import OperationalError

from crawlframe.errors import ArchiveError, RecordGone
from crawlframe.run.ledger import LedgerAway
from crawlframe.run.outcome import Verdict
from crawlframe.warc import Archive, DirectoryArchive, S3Archive, open_archive, records_in
from crawlservice.ledger import store
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import KeptPage, PageBody, PageSegment, Task
from crawlservice.pages import archived, segments
from crawlservice.pages.archived import ArchivedPageRows
from crawlservice.pages.bodies import read
from crawlservice.pages.retention import PageRetention
from crawlservice.pages.segments import NodeSegments, SegmentRetention
from tests.crawlservice.test_kept_pages import bodies, kept
from tests.files.s3_server import S3Server
from tests.outcomes import participant
from tests.warc.captures import judged

pytestmark = pytest.mark.usefixtures("orm")
BOTH = pytest.mark.databases("sqlite", "postgres")  # SQL that differs, or locks rows


@pytest.fixture
def task() -> Task:
    return Task.objects.create(spider="s", seeds=b"")


def use(pages: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    configured = replace(settings.CRAWLFRAME, pages=pages, var_dir=tmp_path / "var", node="n-1")
    monkeypatch.setattr(settings, "CRAWLFRAME", configured)
    opened = archived.archive()
    assert opened is not None
    return opened


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "pages"


@pytest.fixture
def archive(directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    return use(str(directory), tmp_path, monkeypatch)


def kinds(archive: Archive) -> list[str]:
    """The types of the records of all segments, without records about the files themselves."""
    found = []
    for name in sorted(PageSegment.objects.values_list("name", flat=True)):
        found += [record.kind for record in records_in(archive, name)]
    return [kind for kind in found if kind != "warcinfo"]


@BOTH
def test_a_body_is_in_a_segment_before_its_row(task: Task, archive: Archive) -> None:
    ledger = DjangoLedger()
    ledger.commit([kept(task, "a", b"<p>hello"), kept(task, "b", b"")])
    body = KeptPage.objects.get(url="http://h/a").body
    assert (body.data, body.size, body.stored) == (None, 8, body.length)
    assert body.segment is not None
    assert (body.segment.node, body.segment.state) == ("n-1", "open")
    assert bodies() == {"a": b"<p>hello", "b": b""}
    ledger.close()
    assert bodies() == {"a": b"<p>hello", "b": b""}
    [response, request, *_] = judged(archive.directory / body.segment.name)[1:]
    assert response.rec_headers.get_header("WARC-Target-URI") == "http://h/a"
    assert response.http_headers.get_header("Server") == "nginx"
    assert request.http_headers.get_header("Accept") == "*/*"


@BOTH
def test_a_sample_stays_in_the_database(task: Task, archive: Archive) -> None:
    DjangoLedger().commit([kept(task, "a", b"1", sample="parse"), kept(task, "b", b"2")])
    rows = KeptPage.objects.order_by("url").values_list("body__segment", flat=True)
    assert [row is None for row in rows] == [True, False]
    assert bodies() == {"a": b"1", "b": b"2"}
    assert kinds(archive) == ["response", "request"]


def test_the_time_of_a_row_is_that_of_its_record(task: Task, archive: Archive) -> None:
    ledger = DjangoLedger()
    ledger.commit([kept(task, "a"), kept(task, "b", b"2", fetched_at=1_000_000_000.25)])
    ledger.close()
    [path] = archive.directory.iterdir()
    dates = [
        record.rec_headers.get_header("WARC-Date")
        for record in judged(path)
        if record.rec_type == "response"
    ]
    rows = KeptPage.objects.order_by("url").values_list("fetched_at", flat=True)
    assert dates == [f"{at:%Y-%m-%dT%H:%M:%S.%f}Z" for at in rows]
    assert dates[1] == "2001-09-09T01:46:40.250000Z"


@BOTH
def test_equal_bytes_are_written_once_and_referred_to(task: Task, archive: Archive) -> None:
    ledger = DjangoLedger()
    ledger.commit([kept(task, "a"), kept(task, "b"), kept(task, "c", b"<p>2")])
    DjangoLedger().commit([kept(task, "d"), kept(task, "e", b"<p>2")])
    assert PageBody.objects.count() == 2
    assert bodies() == {"a": b"<p>1", "b": b"<p>1", "c": b"<p>2", "d": b"<p>1", "e": b"<p>2"}
    found = kinds(archive)
    assert (found.count("response"), found.count("revisit"), found.count("request")) == (2, 3, 5)
    originals = {}
    for name in PageSegment.objects.order_by("pk").values_list("name", flat=True):
        for record in records_in(archive, name):
            if record.kind == "response":
                originals[record.fields["warc-payload-digest"]] = record.url, record.date
            if record.kind == "revisit":
                where = (
                    record.fields["warc-refers-to-target-uri"],
                    record.fields["warc-refers-to-date"],
                )
                assert where == originals[record.fields["warc-payload-digest"]]


def test_a_page_from_the_store_has_no_record_of_its_own(task: Task, archive: Archive) -> None:
    ledger = DjangoLedger()
    ledger.commit([kept(task, "a")])
    fetched_at = KeptPage.objects.get().fetched_at.timestamp()
    ledger.commit([kept(task, "b", fetched_at=fetched_at)])
    assert bodies() == {"a": b"<p>1", "b": b"<p>1"}
    assert kinds(archive) == ["response", "request"]


@BOTH
def test_a_body_of_the_database_stays_there(task: Task, archive: Archive) -> None:
    configured = settings.CRAWLFRAME
    settings.CRAWLFRAME = replace(configured, pages="")
    DjangoLedger().commit([kept(task, "a")])
    settings.CRAWLFRAME = configured
    DjangoLedger().commit([kept(task, "b"), kept(task, "c", b"<p>2")])
    assert PageBody.objects.filter(segment=None).count() == 1
    assert bodies() == {"a": b"<p>1", "b": b"<p>1", "c": b"<p>2"}
    settings.CRAWLFRAME = replace(configured, pages="")
    with pytest.raises(ArchiveError, match="set CRAWLFRAME_PAGES to where that is"):
        bodies()
    settings.CRAWLFRAME = configured


def test_no_row_is_written_while_the_archive_fails(
    task: Task, archive: Archive, directory: Path
) -> None:
    directory.write_bytes(b"not a directory")
    ledger, batch = DjangoLedger(), [kept(task, "a"), kept(task, "b")]
    for _ in range(2):
        with pytest.raises(LedgerAway, match="the archive of pages"):
            ledger.commit(batch)
    assert KeptPage.objects.count() == PageSegment.objects.count() == 0
    directory.unlink()
    ledger.commit(batch)
    assert bodies() == {"a": b"<p>1", "b": b"<p>1"}


def test_a_commit_that_is_repeated_writes_no_body_twice(
    task: Task, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, batch = DjangoLedger(), [kept(task, "a"), kept(task, "b", b"<p>2")]
    with monkeypatch.context() as patched:
        patched.setattr(store, "insert", _fail)
        with pytest.raises(LedgerAway):
            ledger.commit(batch)
    assert KeptPage.objects.count() == 0
    assert [o.results.page.body for o in batch if o.results.page] == [
        b"",
        b"",
    ]  # they are in the segment
    ledger.commit(batch)
    assert bodies() == {"a": b"<p>1", "b": b"<p>2"}
    assert kinds(archive).count("response") == 2


def _fail(_: object) -> None:
    raise OperationalError("the database is away")


@BOTH
def test_a_body_that_is_deleted_meanwhile_is_named_by_its_place(
    task: Task, archive: Archive
) -> None:
    """Between the look for it and the transaction, retention may delete the row of a body."""
    first, second = DjangoLedger(), DjangoLedger()
    first.commit([kept(task, "a")])
    late = kept(task, "b")
    assert late.results.page is not None
    participant(second, ArchivedPageRows).prepare([late])
    KeptPage.objects.all().delete()
    PageBody.objects.all().delete()
    second.commit([late])
    assert bodies() == {"b": b"<p>1"}
    assert kinds(archive).count("response") == 1


def test_a_page_that_the_database_refuses_is_kept(task: Task, archive: Archive) -> None:
    ledger, refused = DjangoLedger(), kept(task, "a", tentative=True)
    ledger.commit([kept(task, "b", b"<p>2", tentative=True)])
    assert PageSegment.objects.count() == 0
    refused.end(Verdict.ERROR, "refused", "too long")
    ledger.commit([refused])
    assert bodies() == {"a": b"<p>1"}


def test_segments_of_dead_workers_are_finished(task: Task, archive: Archive) -> None:
    ledger, living = DjangoLedger(), DjangoLedger()
    ledger.commit([kept(task, "a")])
    living.commit([kept(task, "b", b"<p>2")])
    os.close(participant(ledger, ArchivedPageRows)._writer._file)
    chores = NodeSegments(archive, "n-1")
    chores.tick()
    states = PageSegment.objects.order_by("pk").values_list("state", flat=True)
    assert [*states] == ["finished", "open"]
    first = PageSegment.objects.earliest("pk")
    assert first.size == (archive.directory / first.name).stat().st_size
    living.close()
    NodeSegments(archive, "n-2").tick()
    assert PageSegment.objects.filter(state="open").count() == 1
    chores.tick()
    assert not PageSegment.objects.filter(state="open").exists()
    assert bodies() == {"a": b"<p>1", "b": b"<p>2"}


def test_a_segment_that_its_dead_worker_made_no_row_of_is_deleted(
    task: Task, archive: Archive
) -> None:
    """It died between the record and the row, or the database did not get the row."""
    for name in ("a", "b"):
        ledger = DjangoLedger()
        ledger.commit([kept(task, name, name.encode())])
        os.close(participant(ledger, ArchivedPageRows)._writer._file)
        if name == "a":
            KeptPage.objects.all().delete()
            PageBody.objects.all().delete()
            PageSegment.objects.all().delete()
    NodeSegments(archive, "n-2").tick()
    assert PageSegment.objects.count() == 1
    chores = NodeSegments(archive, "n-1")
    chores.tick()
    chores.tick()
    assert [*PageSegment.objects.values_list("state", flat=True)] == ["finished"] * 2
    clock = [0.0]
    retention = SegmentRetention(archive, lambda: clock[0])
    retention.step()
    clock[0] += segments.EMPTY_FOR + 1
    retention.step()
    [left] = PageSegment.objects.all()
    assert [path.name for path in archive.directory.iterdir()] == [left.name]
    assert bodies() == {"b": b"b"}


@BOTH
def test_segments_without_bodies_are_deleted(
    task: Task, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, clock = DjangoLedger(), [0.0]
    for name in ("a", "b"):
        ledger.commit([kept(task, name, name.encode())])
        ledger.close()
    retention = SegmentRetention(archive, lambda: clock[0])
    KeptPage.objects.filter(url="http://h/a").delete()
    PageRetention(unused=timedelta()).step()
    clock[0] += segments.EMPTY_FOR + 1
    retention.step()
    assert PageSegment.objects.count() == 2  # they are open
    NodeSegments(archive, "n-1").tick()
    retention.step()
    assert PageSegment.objects.count() == 2  # not for long enough
    clock[0] += segments.EMPTY_FOR + 1
    with monkeypatch.context() as patched:
        patched.setattr(archive, "delete", _refuse)
        retention.step()
    assert PageSegment.objects.count() == 2
    retention.step()
    [left] = PageSegment.objects.all()
    assert [path.name for path in archive.directory.iterdir()] == [left.name]
    assert bodies() == {"b": b"b"}


def _refuse(segment: str) -> None:
    raise ArchiveError(f"{segment} cannot be deleted")


def test_a_segment_in_a_bucket_is_uploaded(
    task: Task, tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("s3fs")
    archive = use("s3://bucket/kept", tmp_path, monkeypatch)
    assert isinstance(archive, S3Archive)
    ledger = DjangoLedger()
    assert ledger.left() is None
    ledger.commit([kept(task, "a")])
    assert 0 < (ledger.left() or 0) <= archive.max_age
    chores = NodeSegments(archive, "n-1")
    chores.tick()
    assert PageSegment.objects.get().state == "open"
    ledger.close()
    chores.tick()
    row = PageSegment.objects.get()
    assert (row.state, row.size) == ("uploaded", len(s3.objects[f"bucket/kept/{row.name}"]))
    assert [*archive.directory.iterdir()] == []
    assert bodies() == {"a": b"<p>1"}
    DjangoLedger().commit([kept(task, "b")])  # refers to it without reading it
    assert bodies() == {"a": b"<p>1", "b": b"<p>1"}


def test_where_pages_are(tmp_path: Path) -> None:
    base = replace(settings.CRAWLFRAME, var_dir=tmp_path, node="n")
    assert open_archive(base) is None
    archive = open_archive(replace(base, pages=str(tmp_path / "x")))
    assert isinstance(archive, DirectoryArchive)
    assert archive.directory == tmp_path / "x"
    archive = open_archive(replace(base, pages="s3://bucket/x"))
    assert archive is not None
    assert (archive.address, archive.directory) == (
        "s3://bucket/x",
        tmp_path / "pages/spool/node-n",
    )


def test_a_damaged_body_is_not_given_out(
    task: Task, archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A place that names another record is noticed by the digest."""
    DjangoLedger().commit([kept(task, "a"), kept(task, "b", b"<p>2")])
    one, other = PageBody.objects.order_by("pk")
    PageBody.objects.filter(pk=one.pk).update(offset=other.offset, length=other.length)
    with pytest.raises(Exception, match="differs from the stored one"):
        read({one.pk})
    for path in archive.directory.iterdir():
        path.unlink()
    use(str(archive.directory), tmp_path / "another", monkeypatch)  # it has no file open
    with pytest.raises(RecordGone, match="was deleted from"):
        read({one.pk})
    shutil.rmtree(archive.directory)
    with pytest.raises(ArchiveError, match="there is no such directory on this machine"):
        read({one.pk})
